//! What the references share: instruction types as numbers.

use std::fmt;

use warpfold_conformance::instructions::Kind;

/// An integer instruction type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ty {
    pub(crate) bits: u32,
    pub(crate) signed: bool,
}

pub(crate) const U16: Ty = Ty { bits: 16, signed: false };
pub(crate) const S16: Ty = Ty { bits: 16, signed: true };
pub(crate) const U32: Ty = Ty { bits: 32, signed: false };
pub(crate) const S32: Ty = Ty { bits: 32, signed: true };
pub(crate) const U64: Ty = Ty { bits: 64, signed: false };
pub(crate) const S64: Ty = Ty { bits: 64, signed: true };

pub(crate) const ALL: [Ty; 6] = [U16, S16, U32, S32, U64, S64];
pub(crate) const SIGNED: [Ty; 3] = [S16, S32, S64];
pub(crate) const FROM_32: [Ty; 4] = [U32, S32, U64, S64];

impl Ty {
    pub(crate) const fn kind(self) -> Kind {
        Kind::Int(self.bits)
    }

    /// The number that raw bits mean.
    pub(crate) fn value(self, raw: u64) -> i128 {
        part(raw, 0, self.bits, self.signed)
    }

    /// The least and the greatest number.
    pub(crate) fn range(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    /// The nearest number that the type has.
    pub(crate) fn saturate(self, value: i128) -> u64 {
        let (low, high) = self.range();
        raw(value.clamp(low, high))
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.signed { 's' } else { 'u' }, self.bits)
    }
}

/// The lower 64 bits.
pub(crate) fn raw(value: i128) -> u64 {
    u64::try_from(value & i128::from(u64::MAX)).expect("64 bits")
}

/// `width` bits from `offset` on, as a number.
pub(crate) fn part(word: u64, offset: u32, width: u32, signed: bool) -> i128 {
    let field = i128::from(word >> offset) & ((1 << width) - 1);
    if signed && field >> (width - 1) != 0 { field - (1 << width) } else { field }
}

/// Bit `i`.
pub(crate) fn bit(word: u64, i: u32) -> bool {
    word >> i & 1 != 0
}

/// The word with the bits for which `f` holds.
pub(crate) fn word(width: u32, f: impl Fn(u32) -> bool) -> u64 {
    (0..width).fold(0, |word, i| word | u64::from(f(i)) << i)
}

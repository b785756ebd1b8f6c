//! Kinds of registers in a proof: width, edge values, random values.

use super::Random;

/// Kind of an input or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A predicate, as 0 or 1.
    Pred,
    /// An integer or plain bits of this width: 8, 16, 32 or 64.
    Int(u32),
    /// A shift amount, bit position or bit count, in 32 bits.
    Amount,
    /// Two 16-bit integers.
    Int16x2,
    /// Four bytes.
    Int8x4,
    /// IEEE half precision.
    F16,
    /// Two of them.
    F16x2,
    /// The upper half of a single-precision number.
    Bf16,
    /// Two of them.
    Bf16x2,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

/// An 8-bit integer.
pub const B8: Kind = Kind::Int(8);
/// A 16-bit integer.
pub const B16: Kind = Kind::Int(16);
/// A 32-bit integer.
pub const B32: Kind = Kind::Int(32);
/// A 64-bit integer.
pub const B64: Kind = Kind::Int(64);

/// A binary floating-point format.
#[derive(Debug, Clone, Copy)]
struct Format {
    bits: u32,
    fraction: u32,
}

const HALF: Format = Format { bits: 16, fraction: 10 };
const BFLOAT: Format = Format { bits: 16, fraction: 7 };
const SINGLE: Format = Format { bits: 32, fraction: 23 };
const DOUBLE: Format = Format { bits: 64, fraction: 52 };

impl Kind {
    /// Its width; a predicate has 1 bit.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::Int(bits) => bits,
            Self::F16 | Self::Bf16 => 16,
            Self::Amount | Self::Int16x2 | Self::Int8x4 | Self::F16x2 | Self::Bf16x2 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    /// Ones in its width.
    #[must_use]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Values at which an implementation is likely to be wrong.
    #[must_use]
    pub fn edges(self) -> Vec<u64> {
        match self {
            Self::Pred => vec![0, 1],
            Self::Int(bits) => integer_edges(bits),
            Self::Amount => {
                vec![0, 1, 2, 7, 8, 15, 16, 17, 23, 31, 32, 33, 63, 64, 65, 255, 256, 264, 0x8000_0000, 0xffff_ffff]
            }
            Self::Int16x2 => packed_edges(&integer_edges(16), 16),
            Self::Int8x4 => packed_edges(&integer_edges(8), 8),
            Self::F16 => HALF.edges(),
            Self::F16x2 => packed_edges(&HALF.edges(), 16),
            Self::Bf16 => BFLOAT.edges(),
            Self::Bf16x2 => packed_edges(&BFLOAT.edges(), 16),
            Self::F32 => SINGLE.edges(),
            Self::F64 => DOUBLE.edges(),
        }
    }

    /// A random value: of its bits, or one that meets the others' magnitudes often.
    pub fn random(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        match self {
            Self::Pred => bits & 1,
            Self::Amount if bits & 1 == 0 => (bits >> 8) % 80,
            Self::Int(_) if bits & 3 == 0 => random.bits() & (self.mask() >> ((bits >> 8) % u64::from(self.bits()))),
            Self::Amount | Self::Int(_) | Self::Int16x2 | Self::Int8x4 => random.bits() & self.mask(),
            Self::F16 => HALF.random(random),
            Self::F16x2 => HALF.random(random) | HALF.random(random) << 16,
            Self::Bf16 => BFLOAT.random(random),
            Self::Bf16x2 => BFLOAT.random(random) | BFLOAT.random(random) << 16,
            Self::F32 => SINGLE.random(random),
            Self::F64 => DOUBLE.random(random),
        }
    }
}

/// Zero, one, the ends of both signed and unsigned ranges, and patterns.
fn integer_edges(bits: u32) -> Vec<u64> {
    let mask = u64::MAX >> (64 - bits);
    let top = 1 << (bits - 1);
    let half = mask >> (bits / 2);
    let mut edges = vec![
        0,
        1,
        2,
        3,
        7,
        top - 1,
        top,
        top + 1,
        mask - 1,
        mask,
        half,
        half + 1,
        mask ^ half,
        0x5555_5555_5555_5555 & mask,
    ];
    if bits >= 32 {
        edges.extend([31, 0x7f_ffff, 0x80_0000, 0xff_ffff, 0x100_0000, 0x0f1e_2d3c_4b5a_6978 & mask]);
    }
    edges
}

/// Words whose parts run through `edges` at different speeds, so that neighbours differ.
fn packed_edges(edges: &[u64], bits: u32) -> Vec<u64> {
    (0..edges.len() + 4)
        .map(|n| {
            let part = |i: usize| edges[(n * (2 * i + 1) + 3 * i) % edges.len()];
            (0..32 / bits).fold(0, |word, i| word | part(i as usize) << (i * bits))
        })
        .collect()
}

impl Format {
    /// Zeros, subnormals, ones and their neighbours, ties, powers of two that matter, infinities,
    /// NaNs; both signs.
    fn edges(self) -> Vec<u64> {
        let one_exponent: u64 = (1 << (self.bits - self.fraction - 2)) - 1;
        let infinity = (2 * one_exponent + 1) << self.fraction;
        let power = |n: i64| (one_exponent.wrapping_add_signed(n)) << self.fraction;
        let quarter = 1 << (self.fraction - 2);
        let positive = [
            0,
            1,
            (1 << self.fraction) - 1,
            1 << self.fraction,
            power(-1),
            power(0) - 1,
            power(0),
            power(0) + 1,
            power(0) + 2 * quarter,
            power(1),
            power(1) + quarter,
            power(i64::from(self.fraction)) + 1,
            power(i64::from(self.fraction) + 1),
            infinity - 1,
            infinity,
            infinity | 1,
            infinity | (2 * quarter),
            infinity | (2 * quarter) | 5,
        ];
        let sign = 1 << (self.bits - 1);
        positive.iter().flat_map(|&v: &u64| [v, v | sign]).collect()
    }

    /// Any bits, or a number near one.
    fn random(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        if bits >> 63 == 0 {
            return random.bits() & u64::MAX >> (64 - self.bits);
        }
        let one_exponent = (1u64 << (self.bits - self.fraction - 2)) - 1;
        let exponent = one_exponent - 3 + (bits >> 58 & 7).min(5);
        let sign = bits >> 57 & 1;
        sign << (self.bits - 1) | exponent << self.fraction | bits & ((1 << self.fraction) - 1)
    }
}

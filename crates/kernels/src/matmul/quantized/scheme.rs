//! How weights of few bits are stored: a few numbers that describe every format.

use std::fmt;

use half::f16;

use super::super::problem::refused;
use super::layout::DEPTH;
use super::pack::Piece;
use crate::Error;

/// A format of weights: codes of a few bits, and what groups of them along K share.
///
/// A weight is `scale · (code - zero) + offset`; with a table the code is a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scheme {
    /// Bits of a code: 2 to 6, or 8.
    pub bits: u32,
    /// Neighbours along K that share a scale: 16, 32, 64 or 128.
    pub group: u32,
    /// What is subtracted from codes.
    pub zero: u8,
    /// The scale of a group.
    pub scale: Scale,
    /// What is added to a group.
    pub offset: Offset,
    /// What codes of 4 bits stand for, if not for themselves.
    pub table: Option<[i8; 16]>,
}

/// The scale of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scale {
    /// An `f16`.
    Half,
    /// A byte times an `f16` that 128 neighbours share.
    Byte,
    /// The same of a byte with a sign.
    SignedByte,
    /// `2^(byte - 128)`: half of what e8m0 says, beside a table of doubled values.
    Exponent,
}

/// What is added to the weights of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offset {
    /// Nothing.
    None,
    /// An `f16`.
    Half,
    /// A byte times an `f16` that 128 neighbours share, which is subtracted.
    Byte,
    /// A zero point: a byte that is subtracted from the codes of the group, before they are scaled.
    Zero,
}

/// Twice the values of e2m1.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl Scheme {
    /// MXFP4: values of e2m1 with a power of two for each 32.
    pub const MXFP4: Self = Self { zero: 0, scale: Scale::Exponent, table: Some(E2M1), ..Self::symmetric(4, 8) };

    /// Codes with an `f16` scale for each 32, and nothing added.
    #[must_use]
    pub const fn symmetric(bits: u32, zero: u8) -> Self {
        Self { bits, group: 32, zero, scale: Scale::Half, offset: Offset::None, table: None }
    }

    /// Groups of 128 neighbours.
    pub(super) const fn groups(self) -> u32 {
        DEPTH / self.group
    }

    /// The bits of the planes that codes are cut into, the lowest first.
    pub(super) const fn planes(self) -> &'static [u32] {
        match self.bits {
            2 => &[2],
            3 => &[2, 1],
            4 => &[4],
            5 => &[4, 1],
            6 => &[4, 2],
            _ => &[8],
        }
    }

    /// Whether 128 neighbours share halves that bytes are multiplied by.
    pub(super) const fn has_shared(self) -> bool {
        matches!(self.scale, Scale::Byte | Scale::SignedByte) || matches!(self.offset, Offset::Byte)
    }

    pub(super) fn validate(self) -> Result<(), Error> {
        let rules = [
            (matches!(self.bits, 2..=6 | 8), "codes have 2 to 6 bits, or 8"),
            (matches!(self.group, 16 | 32 | 64 | 128), "16, 32, 64 or 128 weights share a scale"),
            (
                self.table.is_none() || self.bits == 4 && self.zero == 0 && self.offset == Offset::None,
                "places of a table have 4 bits, and nothing is added to its values",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(refused(format!("{self}: {rule}"))),
            None => Ok(()),
        }
    }

    /// The weights of a piece, on the host.
    #[must_use]
    pub fn weights(self, piece: &Piece) -> [f32; Piece::LEN] {
        let half = |bits: u16| f16::from_bits(bits).to_f32();
        let [of_scales, of_offsets] = piece.shared.map(half);
        let mut weights = [0.0; Piece::LEN];
        let groups = weights.chunks_exact_mut(self.group as usize).zip(piece.codes.chunks_exact(self.group as usize));
        for (i, (weights, codes)) in groups.enumerate() {
            let scale = match (self.scale, piece.scales[i]) {
                (Scale::Half, bits) => half(bits),
                (Scale::Byte, byte) => of_scales * f32::from(byte as u8),
                (Scale::SignedByte, byte) => of_scales * f32::from(byte as i8),
                (Scale::Exponent, byte @ 0..2) => f32::from_bits(0x0020_0000 << byte),
                (Scale::Exponent, byte) => f32::from_bits(u32::from(byte - 1) << 23),
            };
            let numbers = weights.iter_mut().zip(codes);
            let number = |code: u8| f32::from(code) - f32::from(self.zero);
            match (self.table, self.offset, piece.offsets[i]) {
                (Some(table), ..) => numbers.for_each(|(x, code)| *x = scale * f32::from(table[usize::from(*code)])),
                (None, Offset::None, _) => numbers.for_each(|(x, code)| *x = scale * number(*code)),
                (None, Offset::Half, bits) => {
                    let offset = half(bits);
                    numbers.for_each(|(x, code)| *x = scale * number(*code) + offset);
                }
                (None, Offset::Byte, byte) => {
                    let offset = of_offsets * f32::from(byte as u8);
                    numbers.for_each(|(x, code)| *x = scale * number(*code) - offset);
                }
                (None, Offset::Zero, byte) => {
                    let zero = f32::from(byte as u8);
                    numbers.for_each(|(x, code)| *x = scale * (number(*code) - zero));
                }
            }
        }
        weights
    }

    /// As part of a kernel's name.
    pub(super) fn key(self) -> String {
        let scale = match self.scale {
            Scale::Half => "h",
            Scale::Byte => "b",
            Scale::SignedByte => "i",
            Scale::Exponent => "e",
        };
        let offset = match self.offset {
            Offset::None => "",
            Offset::Half => "_oh",
            Offset::Byte => "_ob",
            Offset::Zero => "_oz",
        };
        // Tables differ in their ends, those that are known.
        let table = self.table.map_or_else(String::new, |table| format!("_t{:02x}{:02x}", table[0], table[15]));
        format!("q{}_g{}_z{}_{scale}{offset}{table}", self.bits, self.group, self.zero)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weights of {} bits with a scale for each {}", self.bits, self.group)
    }
}

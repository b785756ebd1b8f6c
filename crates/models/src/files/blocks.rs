//! The blocks of GGUF: codes of few bits, and what they share.
//!
//! They are those of `ggml-common.h` (llama.cpp): 32 or 256 elements with their scales. Each format
//! is a [`Scheme`], and how 128 elements of a row become a [`Piece`] of it; both ways to a device,
//! as they are stored and as floats, go over that.

use half::f16;
use warpfold_kernels::matmul::quantized::{Offset, Piece, Scale, Scheme};

/// A format of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocks {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

/// Values of the codes of the IQ4 formats: steps that are finer near zero.
const IQ4: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the values of e2m1.
const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl Blocks {
    /// Every one, with its `ggml_type` and its name.
    pub(crate) const ALL: [(u32, &str, Self); 13] = [
        (2, "Q4_0", Self::Q4_0),
        (3, "Q4_1", Self::Q4_1),
        (6, "Q5_0", Self::Q5_0),
        (7, "Q5_1", Self::Q5_1),
        (8, "Q8_0", Self::Q8_0),
        (10, "Q2_K", Self::Q2K),
        (11, "Q3_K", Self::Q3K),
        (12, "Q4_K", Self::Q4K),
        (13, "Q5_K", Self::Q5K),
        (14, "Q6_K", Self::Q6K),
        (20, "IQ4_NL", Self::Iq4Nl),
        (23, "IQ4_XS", Self::Iq4Xs),
        (39, "MXFP4", Self::Mxfp4),
    ];

    /// Elements of a block.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::Iq4Nl | Self::Mxfp4 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K | Self::Iq4Xs => 256,
        }
    }

    /// Bytes of a block.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Q4_0 | Self::Iq4Nl => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::Iq4Xs => 136,
            Self::Mxfp4 => 17,
        }
    }

    /// Returns the storage scheme on a device.
    pub(crate) const fn scheme(self) -> Scheme {
        let four = Scheme::symmetric(4, 8);
        let of_bytes = Scheme { zero: 0, scale: Scale::Byte, offset: Offset::Byte, ..four };
        let of_table = Scheme { zero: 0, table: Some(IQ4), ..four };
        match self {
            Self::Q4_0 => four,
            Self::Q4_1 => Scheme { zero: 0, offset: Offset::Half, ..four },
            Self::Q5_0 => Scheme::symmetric(5, 16),
            Self::Q5_1 => Scheme { bits: 5, zero: 0, offset: Offset::Half, ..four },
            Self::Q8_0 => Scheme::symmetric(8, 128),
            Self::Q2K => Scheme { bits: 2, group: 16, ..of_bytes },
            Self::Q3K => Scheme { bits: 3, group: 16, zero: 4, scale: Scale::SignedByte, ..four },
            Self::Q4K => of_bytes,
            Self::Q5K => Scheme { bits: 5, ..of_bytes },
            Self::Q6K => Scheme { bits: 6, group: 16, zero: 32, scale: Scale::SignedByte, ..four },
            Self::Iq4Nl => of_table,
            Self::Iq4Xs => Scheme { scale: Scale::SignedByte, ..of_table },
            Self::Mxfp4 => Scheme { scale: Scale::Exponent, table: Some(E2M1), ..of_table },
        }
    }

    /// Writes numbers as blocks of `Q8_0` or `Q4_0`, rounded as ggml's `quantize_row_q8_0_ref` and
    /// `quantize_row_q4_0_ref` do.
    pub(super) fn encode(self, numbers: &[f32], bytes: &mut [u8]) {
        for (numbers, to) in numbers.chunks_exact(self.len()).zip(bytes.chunks_exact_mut(self.bytes())) {
            let largest = numbers.iter().fold(0.0_f32, |most, x| if x.abs() > most.abs() { *x } else { most });
            let scale = if self == Self::Q8_0 { largest.abs() / 127.0 } else { largest / -8.0 };
            let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
            let (head, codes) = to.split_at_mut(2);
            head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
            if self == Self::Q8_0 {
                codes.iter_mut().zip(numbers).for_each(|(code, x)| *code = (x * inverse).round() as i8 as u8);
                continue;
            }
            let code = |x: f32| ((x * inverse + 8.5) as u8).min(15);
            for (i, to) in codes.iter_mut().enumerate() {
                *to = code(numbers[i]) | code(numbers[i + 16]) << 4;
            }
        }
    }

    /// The codes of blocks of MXFP4, two neighbours in a byte with the low half first, and their
    /// scales. A block has those of its first half in the low halves of bytes, the others in the
    /// high ones.
    pub(crate) fn codes_and_scales_of_mxfp4(bytes: &[u8]) -> [Vec<u8>; 2] {
        let (blocks, _) = bytes.as_chunks::<17>();
        let neighbours = |block: &[u8; 17]| {
            let (pairs, _) = block[1..].as_chunks::<2>();
            let low = pairs.iter().map(|[a, b]| a & 15 | b << 4);
            low.chain(pairs.iter().map(|[a, b]| a >> 4 | b & 0xf0)).collect::<Vec<_>>()
        };
        [blocks.iter().flat_map(neighbours).collect(), blocks.iter().map(|block| block[0]).collect()]
    }

    /// The piece with a number of a row of blocks; what is beyond the row stays as it is.
    pub(crate) fn piece(self, row: &[u8], number: usize, piece: &mut Piece) {
        let first = number * Piece::LEN / self.len() * self.bytes();
        if self.len() == 256 {
            return self.half_of_block(&row[first..][..self.bytes()], number % 2, piece);
        }
        for (i, block) in row[first..].chunks_exact(self.bytes()).take(Piece::LEN / 32).enumerate() {
            let codes = &mut piece.codes[32 * i..][..32];
            let (scale, offset) = self.block_of_32(block, codes);
            (piece.scales[i], piece.offsets[i]) = (scale, offset);
        }
    }

    /// The codes of a block of 32, its scale and its offset.
    fn block_of_32(self, block: &[u8], codes: &mut [u8]) -> (u16, u16) {
        let (scale, offset) = (half(block, 0), half(block, 2));
        let fifth = |codes: &mut [u8], at: usize| {
            let high = u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
            codes.iter_mut().enumerate().for_each(|(i, code)| *code |= ((high >> i & 1) << 4) as u8);
        };
        match self {
            Self::Q8_0 => {
                // Codes have no sign.
                codes.iter_mut().zip(&block[2..]).for_each(|(code, byte)| *code = byte ^ 0x80);
                (scale, 0)
            }
            Self::Q4_1 => {
                nibbles(&block[4..], codes);
                (scale, offset)
            }
            Self::Q5_0 => {
                nibbles(&block[6..], codes);
                fifth(codes, 2);
                (scale, 0)
            }
            Self::Q5_1 => {
                nibbles(&block[8..], codes);
                fifth(codes, 4);
                (scale, offset)
            }
            Self::Mxfp4 => {
                nibbles(&block[1..], codes);
                (block[0].into(), 0)
            }
            _ => {
                nibbles(&block[2..], codes);
                (scale, 0)
            }
        }
    }

    /// The first or the second half of a block of 256.
    fn half_of_block(self, block: &[u8], n: usize, piece: &mut Piece) {
        // Each 32 elements by their bits in a plane of bytes, and where those begin in a byte.
        let bits = |plane: &[u8], at: usize, shift: usize, mask: u8| -> [u8; 32] {
            let bytes: &[u8; 32] = plane[at..].first_chunk().expect("a plane has 32 bytes for each group");
            let mut codes = [0; 32];
            codes.iter_mut().zip(bytes).for_each(|(code, byte)| *code = byte >> shift & mask);
            codes
        };
        for (g, codes) in piece.codes.chunks_exact_mut(32).enumerate() {
            let low = match self {
                Self::Q2K => bits(&block[16..], 32 * n, 2 * g, 3),
                Self::Q3K => bits(&block[32..], 32 * n, 2 * g, 3),
                Self::Q4K => bits(&block[16..], 64 * n + 32 * (g / 2), 4 * (g % 2), 15),
                Self::Q5K => bits(&block[48..], 64 * n + 32 * (g / 2), 4 * (g % 2), 15),
                Self::Q6K => bits(block, 64 * n + 32 * (g % 2), 4 * (g / 2), 15),
                _ => {
                    let mut codes = [0; 32];
                    nibbles(&block[8 + 64 * n + 16 * g..][..16], &mut codes);
                    codes
                }
            };
            let (high, shift) = match self {
                Self::Q3K => (bits(block, 0, 4 * n + g, 1), 2),
                Self::Q5K => (bits(&block[16..], 0, 4 * n + g, 1), 4),
                Self::Q6K => (bits(&block[128..], 32 * n, 2 * g, 3), 4),
                _ => ([0; 32], 0),
            };
            codes.iter_mut().zip(low.iter().zip(&high)).for_each(|(code, (low, high))| *code = low | high << shift);
        }
        for i in 0..8 {
            let (scale, offset) = self.group(block, if self.scheme().group == 16 { 8 * n + i } else { 4 * n + i % 4 });
            (piece.scales[i], piece.offsets[i]) = (scale.into(), offset.into());
        }
        piece.shared = match self {
            Self::Q2K => [half(block, 80), half(block, 82)],
            Self::Q3K => [half(block, 108), 0],
            Self::Q6K => [half(block, 208), 0],
            Self::Q4K | Self::Q5K => [half(block, 0), half(block, 2)],
            _ => [half(block, 0), 0],
        };
    }

    /// The bytes of a group's scale and of its offset.
    fn group(self, block: &[u8], i: usize) -> (u8, u8) {
        match self {
            Self::Q2K => (block[i] & 15, block[i] >> 4),
            // 6 bits, less 32: the low four of two in a byte, the high two of four.
            Self::Q3K => {
                let packed = &block[96..108];
                let low = if i < 8 { packed[i] & 15 } else { packed[i - 8] >> 4 };
                let high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
                ((low | high << 4).wrapping_sub(32), 0)
            }
            Self::Q6K => (block[192 + i], 0),
            Self::Iq4Xs => {
                let low = block[4 + i / 2] >> (4 * (i % 2)) & 15;
                let high = half(block, 2) >> (2 * i) & 3;
                ((low | (high as u8) << 4).wrapping_sub(32), 0)
            }
            // 6 bits of eight scales and of eight offsets in 12 bytes.
            _ => {
                let packed = &block[4..16];
                match i {
                    0..4 => (packed[i] & 63, packed[i + 4] & 63),
                    _ => (packed[i + 4] & 15 | packed[i - 4] >> 6 << 4, packed[i + 4] >> 4 | packed[i] >> 6 << 4),
                }
            }
        }
    }

    /// Writes the values of whole blocks of a row.
    pub(super) fn decode(self, row: &[u8], values: &mut [f32]) {
        let scheme = self.scheme();
        let mut piece = Piece::default();
        for (number, values) in values.chunks_mut(Piece::LEN).enumerate() {
            self.piece(row, number, &mut piece);
            values.copy_from_slice(&scheme.weights(&piece)[..values.len()]);
        }
    }
}

/// Low half-bytes of all, then high ones.
fn nibbles(bytes: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(16);
    for (i, byte) in bytes[..16].iter().enumerate() {
        (low[i], high[i]) = (byte & 15, byte >> 4);
    }
}

/// The bits of an `f16`, or of any number of 16 bits.
fn half(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

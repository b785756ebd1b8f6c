//! How elements are stored: floats, and the blocks of GGUF.
//!
//! The blocks are those of `ggml-common.h` (llama.cpp): 32 or 256 elements with their scales in
//! front, low half-bytes first.

use half::{bf16, f16};
use warpfold::Dtype;
use warpfold::lang::F8E4M3;

/// An element format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    Bf16,
    /// Numbers whose scales are a tensor of their own.
    F8E4M3,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q4K,
    Q6K,
}

impl Format {
    /// Elements of a block.
    pub(crate) const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::F8E4M3 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 => 32,
            Self::Q4K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub(crate) const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::F8E4M3 => 1,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q4K => 144,
            Self::Q6K => 210,
        }
    }

    /// The element type, of floats.
    pub(crate) const fn dtype(self) -> Option<Dtype> {
        match self {
            Self::F32 => Some(Dtype::F32),
            Self::F16 => Some(Dtype::F16),
            Self::Bf16 => Some(Dtype::Bf16),
            _ => None,
        }
    }

    /// The values of whole blocks.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let mut values = Vec::with_capacity(bytes.len() / self.block_bytes() * self.block_len());
        for block in bytes.chunks_exact(self.block_bytes()) {
            match self {
                Self::F32 => values.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Self::F16 => values.push(half_at(block, 0)),
                Self::Bf16 => values.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Self::F8E4M3 => values.push(F8E4M3::from_bits(block[0]).to_f32()),
                Self::Q8_0 => {
                    let scale = half_at(block, 0);
                    values.extend(block[2..].iter().map(|q| scale * f32::from(*q as i8)));
                }
                Self::Q4_0 => {
                    let scale = half_at(block, 0);
                    values.extend(nibbles(&block[2..]).map(|q| scale * (f32::from(q) - 8.0)));
                }
                Self::Q4_1 => {
                    let (scale, least) = (half_at(block, 0), half_at(block, 2));
                    values.extend(nibbles(&block[4..]).map(|q| scale * f32::from(q) + least));
                }
                Self::Q5_0 => {
                    let scale = half_at(block, 0);
                    let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
                    let fifth = (0..32).map(|i| ((high >> i & 1) << 4) as u8);
                    values.extend(nibbles(&block[6..]).zip(fifth).map(|(q, h)| scale * (f32::from(q | h) - 16.0)));
                }
                Self::Q4K => q4_k(block, &mut values),
                Self::Q6K => q6_k(block, &mut values),
            }
        }
        values
    }
}

/// Low half-bytes of all, then high ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4))
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// 8 groups of 32 with scales and minima of 6 bits, packed in 12 bytes.
fn q4_k(block: &[u8], values: &mut Vec<f32>) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    let packed = &block[4..16];
    for (pair, bytes) in block[16..].chunks_exact(32).enumerate() {
        for (group, shift) in [(2 * pair, 0), (2 * pair + 1, 4)] {
            let (s, m) = match group {
                0..4 => (packed[group] & 63, packed[group + 4] & 63),
                _ => (
                    packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
                    packed[group + 4] >> 4 | packed[group] >> 6 << 4,
                ),
            };
            let (s, m) = (scale * f32::from(s), least * f32::from(m));
            values.extend(bytes.iter().map(|byte| s * f32::from(byte >> shift & 15) - m));
        }
    }
}

/// 16 groups of 16 with scales of 8 bits; low 4 bits, then high 2 bits, then scales, then the scale
/// of all.
fn q6_k(block: &[u8], values: &mut Vec<f32>) {
    let scale = half_at(block, 208);
    for half in 0..2 {
        let (low, high, scales) = (&block[64 * half..], &block[128 + 32 * half..], &block[192 + 8 * half..]);
        for quarter in 0..4 {
            values.extend((0..32).map(|i| {
                let low = low[i + 32 * (quarter % 2)] >> (4 * (quarter / 2)) & 15;
                let high = high[i] >> (2 * quarter) & 3;
                let group = f32::from(scales[2 * quarter + i / 16] as i8);
                scale * group * (f32::from(low | high << 4) - 32.0)
            }));
        }
    }
}

/// Values as little-endian bytes of a float type.
pub(crate) fn encode(values: &[f32], dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::Bf16 => values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks whose bytes count up, with 1 and 0.5 as scales where there are any.
    fn block(format: Format, halves: &[(usize, f32)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..format.block_bytes()).map(|i| (i * 37 % 256) as u8).collect();
        for (at, value) in halves {
            bytes[*at..at + 2].copy_from_slice(&f16::from_f32(*value).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn small_blocks_are_scale_times_integer() {
        let bytes = block(Format::Q8_0, &[(0, 0.5)]);
        assert_eq!(Format::Q8_0.decode(&bytes)[..2], [0.5 * 74.0, 0.5 * 111.0]);
        let bytes = block(Format::Q4_0, &[(0, 0.5)]);
        assert_eq!(Format::Q4_0.decode(&bytes)[0], 0.5 * (f32::from(bytes[2] & 15) - 8.0));
        assert_eq!(Format::Q4_0.decode(&bytes)[16], 0.5 * (f32::from(bytes[2] >> 4) - 8.0));
        let bytes = block(Format::Q4_1, &[(0, 0.5), (2, 1.0)]);
        assert_eq!(Format::Q4_1.decode(&bytes)[31], 0.5 * f32::from(bytes[19] >> 4) + 1.0);
        let bytes = block(Format::Q5_0, &[(0, 1.0)]);
        let fifth = f32::from(bytes[5] >> 7) * 16.0;
        assert_eq!(Format::Q5_0.decode(&bytes)[31], f32::from(bytes[21] >> 4) + fifth - 16.0);
    }

    #[test]
    fn every_format_gives_as_many_values_as_a_block_has() {
        use Format::{Bf16, F16, F32, Q4_0, Q4_1, Q4K, Q5_0, Q6K, Q8_0};
        for format in [F32, F16, Bf16, Q8_0, Q4_0, Q4_1, Q5_0, Q4K, Q6K] {
            let bytes = block(format, &[]).repeat(3);
            assert_eq!(format.decode(&bytes).len(), 3 * format.block_len(), "{format:?}");
        }
    }
}

//! Storage formats of elements: floats, and the blocks of GGUF.

use std::ops::Range;

use half::{bf16, f16};
use warpfold::Dtype;
use warpfold::lang::F8E4M3;

use super::blocks::Blocks;

/// An element format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    F32,
    F16,
    Bf16,
    /// Numbers whose scales are a tensor of their own.
    F8E4M3,
    /// Integers, which are weights with other tensors beside them alone.
    U8,
    I8,
    I32,
    I64,
    Blocks(Blocks),
    /// A matrix that several tensors make up.
    Quantized,
}

impl Format {
    /// Elements of a block.
    pub(crate) const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::F8E4M3 => 1,
            Self::U8 | Self::I8 | Self::I32 | Self::I64 | Self::Quantized => 1,
            Self::Blocks(blocks) => blocks.len(),
        }
    }

    /// Bytes of a block.
    pub(crate) const fn block_bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::F8E4M3 | Self::U8 | Self::I8 => 1,
            Self::I64 => 8,
            Self::Quantized => 0,
            Self::Blocks(blocks) => blocks.bytes(),
        }
    }

    /// The element type, of floats.
    pub(crate) const fn dtype(self) -> Option<Dtype> {
        match self {
            Self::F32 => Some(Dtype::F32),
            Self::F16 => Some(Dtype::F16),
            Self::Bf16 => Some(Dtype::Bf16),
            Self::F8E4M3 | Self::Blocks(_) | Self::Quantized => None,
            Self::U8 | Self::I8 | Self::I32 | Self::I64 => None,
        }
    }

    /// Returns whether values are plain integers without scales.
    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::U8 | Self::I8 | Self::I32 | Self::I64)
    }

    /// Values of whole blocks; none of integers and of what several tensors make up.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f32> {
        if self.is_integer() || self == Self::Quantized {
            return Vec::new();
        }
        let mut values = vec![0.0; bytes.len() / self.block_bytes() * self.block_len()];
        self.decode_into(bytes, &mut values);
        values
    }

    /// Writes the values of whole blocks.
    pub(super) fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        let words = values.iter_mut().zip(bytes.chunks_exact(self.block_bytes().max(1)));
        match self {
            Self::F32 => words.for_each(|(x, b)| *x = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Self::F16 => words.for_each(|(x, b)| *x = f16::from_le_bytes([b[0], b[1]]).to_f32()),
            Self::Bf16 => words.for_each(|(x, b)| *x = bf16::from_le_bytes([b[0], b[1]]).to_f32()),
            Self::F8E4M3 => words.for_each(|(x, b)| *x = F8E4M3::from_bits(b[0]).to_f32()),
            Self::Blocks(blocks) => blocks.decode(bytes, values),
            Self::U8 | Self::I8 | Self::I32 | Self::I64 | Self::Quantized => {}
        }
    }

    /// Returns the numbers of the blocks that hold these elements.
    pub(super) fn covering(self, elements: &Range<usize>) -> Range<usize> {
        elements.start / self.block_len()..elements.end.div_ceil(self.block_len())
    }
}

/// Elements that a thread converts at once.
pub(super) const UNIT: usize = 1 << 15;

/// Values as little-endian bytes of a float type.
pub(crate) fn encode(values: &[f32], dtype: Dtype) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * dtype.bytes() as usize];
    encode_into(values, dtype, &mut bytes);
    bytes
}

pub(super) fn encode_into(values: &[f32], dtype: Dtype, bytes: &mut [u8]) {
    match dtype {
        Dtype::F16 => put(values, bytes, |x| f16::from_f32(x).to_le_bytes()),
        Dtype::Bf16 => put(values, bytes, |x| bf16::from_f32(x).to_le_bytes()),
        _ => put(values, bytes, f32::to_le_bytes),
    }
}

fn put<const N: usize>(values: &[f32], bytes: &mut [u8], word: impl Fn(f32) -> [u8; N]) {
    let words = bytes.as_chunks_mut::<N>().0;
    words.iter_mut().zip(values).for_each(|(to, x)| *to = word(*x));
}

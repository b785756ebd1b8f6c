//! Storage formats of elements: floats, and the blocks of GGUF.

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

    /// The values of whole blocks; none of integers and of what several tensors make up.
    pub(crate) fn decode(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect(),
            Self::F16 => bytes.chunks_exact(2).map(|x| f16::from_le_bytes([x[0], x[1]]).to_f32()).collect(),
            Self::Bf16 => bytes.chunks_exact(2).map(|x| bf16::from_le_bytes([x[0], x[1]]).to_f32()).collect(),
            Self::F8E4M3 => bytes.iter().map(|x| F8E4M3::from_bits(*x).to_f32()).collect(),
            Self::U8 | Self::I8 | Self::I32 | Self::I64 | Self::Quantized => Vec::new(),
            Self::Blocks(blocks) => {
                let mut values = Vec::with_capacity(bytes.len() / blocks.bytes() * blocks.len());
                blocks.decode(bytes, &mut values);
                values
            }
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

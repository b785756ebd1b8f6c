//! Matrices as bulk tensor copies see them, or not at all: which dimension lies without gaps, and what strides are fine.

use warpfold_device::{MapSwizzle, TensorLayout};
use warpfold_lang::Major;

use crate::Dtype;
use crate::matmul::problem::{BATCH_RANK, MAX_BATCH_RANK, Matrix};

/// How a factor lies, as far as the kernel depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lying {
    /// Steps of the sums side by side.
    Steps,
    /// Lines side by side: rows of `a`, columns of `b`. 16-bit elements only.
    Lines,
}

impl Lying {
    /// As the language names it.
    pub(in crate::matmul) const fn major(self) -> Major {
        match self {
            Self::Steps => Major::K,
            Self::Lines => Major::Mn,
        }
    }

    /// How a matrix whose rows are lines lies, if copies can bring its tiles.
    #[must_use]
    pub fn of(matrix: &Matrix, lines: u64, k: u64, batch: [u64; MAX_BATCH_RANK]) -> Option<Self> {
        if is_fine(matrix, lines, k, batch) {
            Some(Self::Steps)
        } else if matrix.dtype.bytes() == 2 && is_fine(&matrix.transposed(), k, lines, batch) {
            Some(Self::Lines)
        } else {
            None
        }
    }

    /// As part of a kernel's name.
    pub(in crate::matmul) const fn key(self) -> &'static str {
        match self {
            Self::Steps => "k",
            Self::Lines => "mn",
        }
    }
}

/// Whether copies can bring, or store, tiles of a matrix with rows that lie without gaps (CUDA driver API,
/// `cuTensorMapEncodeTiled`).
pub(crate) fn is_fine(matrix: &Matrix, rows: u64, columns: u64, batch: [u64; MAX_BATCH_RANK]) -> bool {
    let bytes = matrix.dtype.bytes() as i64;
    let is_stride =
        |size: u64, stride: i64| size == 1 || (stride > 0 && (stride * bytes) % 16 == 0 && stride < (1 << 40) / bytes);
    // What does not repeat in a batch must go forwards; what repeats is dimension of one.
    let batch_is_fine =
        batch.iter().zip(matrix.batch_strides).all(|(size, stride)| stride == 0 || is_stride(*size, stride));
    matrix.alignment >= 16
        && (columns == 1 || matrix.column_stride == 1)
        && is_stride(rows, matrix.row_stride)
        && batch_is_fine
}

/// The map's layout of a matrix with rows that lie without gaps: boxes of `box_rows` rows and `box_bytes`, a swizzle long. With a
/// batch it has all its dimensions.
pub(crate) fn layout(
    matrix: &Matrix,
    [rows, columns]: [u64; 2],
    batch: Option<[u64; MAX_BATCH_RANK]>,
    [box_rows, box_bytes]: [u32; 2],
) -> TensorLayout {
    let bytes = matrix.dtype.bytes();
    // Where there is one row, any stride does that the rules allow.
    let stride = |size: u64, stride: i64| if size == 1 || stride == 0 { 16 / bytes } else { stride as u64 };
    let (mut dims, mut strides) = (vec![columns, rows], vec![stride(rows, matrix.row_stride)]);
    let mut boxes = vec![box_bytes / bytes as u32, box_rows];
    // Memory's order: the innermost dimension first.
    let walked = |batch: [u64; MAX_BATCH_RANK]| batch.into_iter().zip(matrix.batch_strides).rev().take(BATCH_RANK);
    for (size, step) in batch.into_iter().flat_map(walked) {
        dims.push(if step == 0 { 1 } else { size });
        strides.push(stride(size, step));
        boxes.push(1);
    }
    let swizzle = match box_bytes {
        32 => MapSwizzle::Bytes32,
        64 => MapSwizzle::Bytes64,
        _ => MapSwizzle::Bytes128,
    };
    TensorLayout::tiled(&dims, &strides, &boxes, swizzle)
}

/// Whether there is a kernel for elements of a type.
pub(crate) const fn has_kernel(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::I8 | Dtype::U8 | Dtype::F32)
}

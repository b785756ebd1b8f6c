//! The pieces in which `cp.async` copies a factor: along which dimension, and of how many bytes.

use crate::matmul::operand_major::OperandMajor;
use crate::matmul::problem::{MAX_BATCH_RANK, Matrix};

/// The pieces that threads copy of a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pieces {
    /// What is contiguous in them.
    pub major: OperandMajor,
    /// Their size: 16 bytes, or less where alignment asks for it.
    pub bytes: u32,
}

impl Pieces {
    /// The largest ones of a matrix whose rows are lines, if there are some: bytes that lie side by
    /// side and begin at multiples of their number.
    #[must_use]
    pub(crate) fn of(matrix: &Matrix, lines: u64, k: u64, batch: [u64; MAX_BATCH_RANK]) -> Option<Self> {
        let of = |major: OperandMajor, matrix: &Matrix, rows: u64, columns: u64| {
            let bytes = largest(matrix, rows, columns, batch)?;
            Some(Self { major, bytes })
        };
        let steps = of(OperandMajor::K, matrix, lines, k);
        // `ldmatrix` turns elements of 16 bits.
        let turned = || of(OperandMajor::Mn, &matrix.transposed(), k, lines);
        let lines = if matrix.dtype.bytes() == 2 { turned() } else { None };
        // The first one, unless the other has larger pieces.
        [lines, steps].into_iter().flatten().max_by_key(|pieces| pieces.bytes)
    }

    /// As part of a kernel's name.
    pub(super) fn key(self) -> String {
        format!("{}{}", self.major.key(), self.bytes)
    }
}

/// The largest piece of 16, 8 or 4 bytes, all of whose elements lie side by side in rows, wherever
/// a row begins.
fn largest(matrix: &Matrix, rows: u64, columns: u64, batch: [u64; MAX_BATCH_RANK]) -> Option<u32> {
    let bytes = matrix.dtype.bytes();
    let strides = batch.iter().zip(matrix.batch_strides).chain([(&rows, matrix.row_stride)]);
    // One row has no other after it.
    let strides: Vec<_> =
        strides.filter(|(size, _)| **size > 1).map(|(_, stride)| stride.unsigned_abs() * bytes).collect();
    let is_dense = columns == 1 || matrix.column_stride == 1;
    let fits = |piece: &u64| {
        is_dense && matrix.alignment >= *piece && strides.iter().all(|stride| stride.is_multiple_of(*piece))
    };
    [16, 8, 4].into_iter().find(fits).map(|piece| piece as u32)
}

//! Sizes and strides of a scan, and the parameters of its kernels.

use warpfold_lang::{Global, Val, params};

use crate::fold::geometry::MAX_INPUTS;
use crate::layout::Dim;
use crate::walk::{Walk, walk_of, walk_words};

/// Operands with strides: the inputs, and the results together.
pub(crate) const OPERANDS: usize = MAX_INPUTS + 1;
/// The results among the operands.
pub(crate) const RESULTS: usize = MAX_INPUTS;
/// Words of the kept dimensions.
pub(crate) const WORDS: usize = walk_words(OPERANDS);

/// The stride of an operand along the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrideKind {
    /// Zero: one element for all positions.
    Zero,
    /// One: contiguous.
    Unit,
    /// Any other.
    Any,
}

impl StrideKind {
    pub(crate) const fn of(stride: i64) -> Self {
        match stride {
            0 => Self::Zero,
            1 => Self::Unit,
            _ => Self::Any,
        }
    }
}

/// Rows, items a row, tiles a row, the stride of each operand along the axis, and the kept
/// dimensions. Strides are those of the inputs, then that of the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) rows: u64,
    pub(crate) len: u64,
    pub(crate) tiles: u64,
    pub(crate) axis: Vec<i64>,
    pub(crate) kept: Vec<Dim>,
}

/// Strides of all operands, given those of the inputs that there are and of the results.
fn of_operands(strides: &[i64]) -> [i64; OPERANDS] {
    let (results, inputs) = strides.split_last().expect("there are results");
    let mut all = [0; OPERANDS];
    all[..inputs.len()].copy_from_slice(inputs);
    all[RESULTS] = *results;
    all
}

impl Geometry {
    /// The kept dimensions as kernels take them.
    pub(crate) fn kept(&self) -> [u64; WORDS] {
        let dim = |dim: &Dim| Dim { size: dim.size, strides: of_operands(&dim.strides).to_vec() };
        walk_of(&self.kept.iter().map(dim).collect::<Vec<_>>())
    }

    /// Strides along the axis.
    pub(crate) fn axis(&self) -> [i64; OPERANDS] {
        of_operands(&self.axis)
    }

    /// The stride of each operand along the axis.
    pub(crate) fn stride_kinds(&self) -> [StrideKind; OPERANDS] {
        let mut kinds = self.axis().map(StrideKind::of);
        kinds[self.axis.len() - 1..RESULTS].fill(StrideKind::Any);
        kinds
    }
}

params! {
    /// Parameters of a scan.
    pub(crate) struct ScanArgs {
        inputs: [Global<u8>; 2], outputs: [Global<u8>; 2],
        /// By which blocks that share rows signal each other.
        marks: Option<Global<u64>>,
        /// Rows; items, and tiles, of a row.
        rows: u64, len: u64, tiles: u64,
        /// Stride of each operand along the axis.
        axis: [i64; OPERANDS],
        kept: [u64; WORDS],
    }
}

impl ScanArgs {
    /// The first `rank` kept dimensions.
    pub(crate) const fn kept(&self, rank: usize) -> Walk<WORDS> {
        Walk::new(self.kept, rank)
    }

    /// Address of a position along the axis, of an operand of elements of `bytes` that begins at
    /// `base`.
    pub(crate) fn along_axis(
        &self,
        base: Global<u8>,
        operand: usize,
        kind: StrideKind,
        bytes: u64,
        position: Val<u64>,
    ) -> Global<u8> {
        match kind {
            StrideKind::Zero => base,
            StrideKind::Unit => base.at(position * bytes),
            StrideKind::Any => base.at(position * self.axis.at(operand).bitcast::<u64>() * bytes),
        }
    }
}

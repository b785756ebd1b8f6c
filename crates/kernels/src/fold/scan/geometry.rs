//! Sizes and strides of a scan as a kernel takes them: one array parameter, of which each kernel
//! reads what it needs.

use warpfold_lang::{Array, Global, Val};

use crate::fold::geometry::{MAX_INPUTS, divide};
use crate::layout::{Dim, MAX_RANK};

/// Operands with strides: the inputs, and the results together.
pub(crate) const OPERANDS: usize = MAX_INPUTS + 1;
/// The results among the operands.
pub(crate) const RESULTS: usize = MAX_INPUTS;
/// Kept dimensions at most: all but the axis.
const KEPT: usize = MAX_RANK - 1;
const FIRST_SIZE: usize = 3 + OPERANDS;
/// Words of the array.
pub(crate) const WORDS: usize = FIRST_SIZE + KEPT * (1 + OPERANDS);

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

/// The index of each operand's stride, of `count` operands.
fn operands(count: usize) -> impl Iterator<Item = usize> {
    (0..count - 1).chain([RESULTS])
}

impl Geometry {
    /// As the kernel takes it.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[self.rows, self.len, self.tiles]);
        for (operand, stride) in operands(self.axis.len()).zip(&self.axis) {
            words[3 + operand] = stride.cast_unsigned();
        }
        for (i, dim) in self.kept.iter().enumerate() {
            words[FIRST_SIZE + i] = dim.size;
            for (operand, stride) in operands(dim.strides.len()).zip(&dim.strides) {
                words[FIRST_SIZE + KEPT * (1 + operand) + i] = stride.cast_unsigned();
            }
        }
        words
    }

    /// The stride of each operand along the axis.
    pub(crate) fn stride_kinds(&self) -> [StrideKind; OPERANDS] {
        let mut stride_kinds = [StrideKind::Any; OPERANDS];
        for (operand, stride) in operands(self.axis.len()).zip(&self.axis) {
            stride_kinds[operand] = StrideKind::of(*stride);
        }
        stride_kinds
    }
}

/// The array inside a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(pub(crate) Array<u64, WORDS>);

impl Words {
    pub(crate) fn rows(self) -> Val<u64> {
        self.0.at(0)
    }

    pub(crate) fn len(self) -> Val<u64> {
        self.0.at(1)
    }

    /// Tiles of a row.
    pub(crate) fn tiles(self) -> Val<u64> {
        self.0.at(2)
    }

    /// The stride of an operand along the axis.
    pub(crate) fn axis(self, operand: usize) -> Val<i64> {
        self.0.at(3 + operand).bitcast()
    }

    /// The size of a kept dimension.
    pub(crate) fn size(self, dim: usize) -> Val<u64> {
        self.0.at(FIRST_SIZE + dim)
    }

    /// The stride of a kept dimension.
    pub(crate) fn stride(self, dim: usize, operand: usize) -> Val<u64> {
        self.0.at(FIRST_SIZE + KEPT * (1 + operand) + dim)
    }

    /// The offset of the position `index` of the first `kept` kept dimensions, counted in C order,
    /// in each operand, in elements. `small` promises that it and every size have 32 bits.
    pub(crate) fn offsets(self, kept: usize, index: Val<u64>, small: bool) -> [Val<u64>; OPERANDS] {
        let mut offsets = [Val::constant(0_u64); OPERANDS];
        let mut rest = index;
        for dim in (0..kept).rev() {
            let position = if dim == 0 {
                rest
            } else {
                let (above, position) = divide(rest, self.size(dim), small);
                rest = above;
                position
            };
            for (operand, offset) in offsets.iter_mut().enumerate() {
                *offset = position.mul_add(self.stride(dim, operand), *offset);
            }
        }
        offsets
    }

    /// The address of a position along the axis, of an operand of elements of `bytes` that begins
    /// at `base`.
    pub(crate) fn along_axis(
        self,
        base: Global<u8>,
        operand: usize,
        kind: StrideKind,
        bytes: u64,
        position: Val<u64>,
    ) -> Global<u8> {
        match kind {
            StrideKind::Zero => base,
            StrideKind::Unit => base.at(position * bytes),
            StrideKind::Any => base.at(position * self.0.at(3 + operand) * bytes),
        }
    }
}

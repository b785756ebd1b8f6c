//! Kernels of reductions that represent all of them, for the lists of the tests.

use warpfold_device::Profile;

use super::{Options, Problem, Reduction, Reductions};
use crate::plan::TensorSpec;
use crate::{Dtype, Listed, Shipped};

/// Which fold.
#[derive(Clone, Copy)]
enum Shape {
    /// A thousand rows of a thousand elements, each folded by a block.
    Rows,
    /// The same, folded along the columns by blocks that share them.
    Columns,
    /// One long row, which blocks share.
    Long,
}

/// A kernel for each monoid, in the types whose code differs.
#[must_use]
pub fn kernels() -> Vec<Listed> {
    use {Dtype as D, Reduction as R, Shape as S};
    let all: &[(R, D, S)] = &[
        (R::Sum, D::F32, S::Rows),
        (R::Sum, D::Bf16, S::Rows),
        (R::Sum, D::I8, S::Rows),
        (R::Sum, D::Bool, S::Long),
        (R::Sum, D::I64, S::Columns),
        (R::Product, D::F64, S::Columns),
        (R::Mean, D::F16, S::Columns),
        (R::Max, D::F32, S::Rows),
        (R::Max, D::F64, S::Rows),
        (R::Max, D::I8, S::Rows),
        (R::MinMax, D::U32, S::Rows),
        (R::Any, D::F64, S::Rows),
        (R::CountNonzero, D::U8, S::Rows),
        (R::ArgMax, D::F32, S::Rows),
        (R::ArgMax, D::Bf16, S::Columns),
        (R::ArgMax, D::I8, S::Rows),
        (R::ArgMin, D::F64, S::Long),
        (R::ArgMin, D::U64, S::Columns),
        (R::L2, D::F32, S::Rows),
        (R::LogSumExp, D::F32, S::Rows),
        (R::LogSumExp, D::F32, S::Columns),
        (R::LogSumExp, D::F64, S::Long),
        (R::MaxSumExp, D::F32, S::Rows),
        (R::MeanVariance, D::F32, S::Rows),
        (R::MeanVariance, D::F64, S::Columns),
        (R::Variance, D::Bf16, S::Long),
        (R::Dot, D::F32, S::Long),
        (R::TopK, D::F32, S::Rows),
        (R::TopK, D::F64, S::Rows),
        (R::TopK, D::I64, S::Columns),
        (R::ReproducibleSum, D::F32, S::Long),
        (R::ReproducibleSum, D::Bf16, S::Rows),
        (R::ReproducibleSum, D::F64, S::Long),
        (R::ReproducibleSum, D::F64, S::Columns),
    ];
    all.iter()
        .map(|(reduction, dtype, shape)| Listed::shipped(kernel_of(*reduction, *dtype, *shape), "reductions"))
        .collect()
}

fn kernel_of(reduction: Reduction, dtype: Dtype, shape: Shape) -> Shipped {
    let longest = if dtype == Dtype::I64 { Options::MAX_K / 2 } else { Options::MAX_K };
    let k = (reduction == Reduction::TopK).then_some(longest);
    let (sizes, axis): (&[usize], _) = match shape {
        Shape::Rows => (&[1024, 1024], 1),
        Shape::Columns => (&[1024, 1024], 0),
        Shape::Long => (&[1 << 20], 0),
    };
    let inputs = reduction.inputs();
    let problem = Problem {
        reduction,
        options: Options { k, ..Options::default() },
        inputs: vec![TensorSpec::contiguous(dtype, sizes).expect("two dimensions"); inputs],
        axes: vec![axis],
    };
    Shipped::planned(&Reductions, &problem, Profile::H200)
}

//! RMS norm: `x / sqrt(mean of x² + eps) * scale + bias` of each row (Zhang, Sennrich: Root Mean
//! Square Layer Normalization, 2019).

use warpfold_lang::Val;

use super::float::RowFloat;
use super::layer_norm::scaled;
use crate::fold::{Monoid, Position, Sum};
use crate::rowwise::{Columns, OnChipRow, RowOperator};

/// RMS norm. Its columns are scale and bias, its statistic the reciprocal of the root; each result
/// comes with its item, for a sum with a residual that is a result, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RmsNorm<F> {
    /// What is added to the mean of the squares.
    pub eps: F,
    /// Whether there is a scale.
    pub has_scale: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
}

impl<F: RowFloat> RmsNorm<F> {
    fn result(self, item: Val<F>, rstd: Val<F>, columns: (Val<F>, Val<F>)) -> Val<F> {
        scaled(item * rstd, [self.has_scale, self.has_bias], columns)
    }
}

/// The reciprocal of the root of the mean of the squares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootMeanSquare<F> {
    eps: F,
}

impl<F: RowFloat> Monoid for RootMeanSquare<F> {
    type Item = Val<F>;
    type Acc = Val<F>;
    type Output = Val<F>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<F> {
        Val::constant(F::ZERO)
    }

    fn combine(self, left: Val<F>, right: Val<F>) -> Val<F> {
        left + right
    }

    fn lift(self, item: Val<F>, _: Position) -> Val<F> {
        item * item
    }

    fn push(self, acc: Val<F>, item: Val<F>, _: Position) -> Val<F> {
        item.mul_add(item, acc)
    }

    fn finish(self, acc: Val<F>, count: Val<u64>) -> Val<F> {
        (acc / count.cast::<F>() + Val::constant(self.eps)).sqrt().recip()
    }
}

impl<F: RowFloat> RowOperator for RmsNorm<F> {
    type Item = Val<F>;
    type Columns = (Val<F>, Val<F>);
    type Stats = Val<F>;
    type Out = (Val<F>, Val<F>);
    type Monoid = RootMeanSquare<F>;

    fn monoid(self) -> RootMeanSquare<F> {
        RootMeanSquare { eps: self.eps }
    }

    fn on_chip(self, row: &OnChipRow<Val<F>>, columns: &Columns<Self::Columns>) -> (OnChipRow<Self::Out>, Val<F>) {
        let mean = row.map(|x| x * x).fold(Sum::<F>::new()) / row.len().cast::<F>();
        let rstd = (mean + Val::constant(self.eps)).sqrt().recip();
        (row.map_with(columns, move |x, columns| (self.result(x, rstd, columns), x)), rstd)
    }

    fn apply(self, item: Val<F>, rstd: Val<F>, columns: Self::Columns) -> Self::Out {
        (self.result(item, rstd, columns), item)
    }
}

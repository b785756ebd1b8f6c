//! Layer norm: `(x - mean) / sqrt(variance + eps) * scale + bias` of each row (Ba, Kiros, Hinton:
//! Layer Normalization, 2016).
//!
//! A row on chip takes two passes, so that the variance is the mean of squared distances from the
//! mean (of a row that blocks share, [two passes in each thread](super::parts)). A longer row is
//! folded by Welford's method in double precision.

use warpfold_lang::Val;

use super::float::RowFloat;
use super::parts;
use crate::fold::{Monoid, Position, Sum, Variance};
use crate::rowwise::{Columns, Cost, OnChipRow, RowOperator};

/// Layer norm. Its columns are scale and bias, its statistics the mean and the reciprocal of the
/// standard deviation; each result comes with its item, for a sum with a residual that is a result,
/// too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNorm<F> {
    /// What is added to the variance.
    pub eps: F,
    /// Whether there is a scale.
    pub has_scale: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
}

/// The mean, and the reciprocal of the standard deviation.
type Stats<F> = (Val<F>, Val<F>);

impl<F: RowFloat> LayerNorm<F> {
    fn result(self, distance: Val<F>, rstd: Val<F>, columns: (Val<F>, Val<F>)) -> Val<F> {
        scaled(distance * rstd, [self.has_scale, self.has_bias], columns)
    }
}

/// A normal result with the scale and the bias of its column, those that there are.
pub(super) fn scaled<F: RowFloat>(normal: Val<F>, has: [bool; 2], (scale, bias): (Val<F>, Val<F>)) -> Val<F> {
    match has {
        [false, false] => normal,
        [true, false] => normal * scale,
        [false, true] => normal + bias,
        [true, true] => normal.mul_add(scale, bias),
    }
}

/// [`Variance`], finished as layer norm needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeanRstd<F> {
    eps: F,
}

impl<F: RowFloat> MeanRstd<F> {
    const fn variance() -> Variance {
        Variance { ddof: 0, is_single: F::DTYPE.bytes() <= 4 }
    }
}

impl<F: RowFloat> Monoid for MeanRstd<F> {
    type Item = Val<F>;
    type Acc = <Variance as Monoid>::Acc;
    type Output = Stats<F>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        Self::variance().identity()
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        Self::variance().combine(left, right)
    }

    fn lift(self, item: Val<F>, position: Position) -> Self::Acc {
        Self::variance().lift(item.cast(), position)
    }

    fn push(self, acc: Self::Acc, item: Val<F>, position: Position) -> Self::Acc {
        self.push_all(acc, &[item], position)
    }

    fn push_all(self, acc: Self::Acc, items: &[Val<F>], first: Position) -> Self::Acc {
        let items: Vec<_> = items.iter().map(|item| item.cast::<f64>()).collect();
        Self::variance().push_all(acc, &items, first)
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Stats<F> {
        let (mean, variance) = Self::variance().finish(acc, count);
        (mean.cast(), (variance.cast::<F>() + Val::constant(self.eps)).sqrt().recip())
    }
}

impl<F: RowFloat> RowOperator for LayerNorm<F> {
    type Item = Val<F>;
    type Columns = (Val<F>, Val<F>);
    type Stats = Stats<F>;
    type Out = (Val<F>, Val<F>);
    type Monoid = MeanRstd<F>;
    const COST: Cost = Cost::TwoFolds;

    fn monoid(self) -> MeanRstd<F> {
        MeanRstd { eps: self.eps }
    }

    fn on_chip(self, row: &OnChipRow<Val<F>>, columns: &Columns<Self::Columns>) -> (OnChipRow<Self::Out>, Stats<F>) {
        let (mean, variance) = if row.spans_blocks() {
            parts::mean_and_variance(row)
        } else {
            let len = row.len().cast::<F>();
            let mean = row.fold(Sum::<F>::new()) / len;
            (mean, row.map(move |x| (x - mean) * (x - mean)).fold(Sum::<F>::new()) / len)
        };
        let rstd = (variance + Val::constant(self.eps)).sqrt().recip();
        (row.map_with(columns, move |x, columns| (self.result(x - mean, rstd, columns), x)), (mean, rstd))
    }

    fn apply(self, item: Val<F>, (mean, rstd): Stats<F>, columns: Self::Columns) -> Self::Out {
        (self.result(item - mean, rstd, columns), item)
    }
}

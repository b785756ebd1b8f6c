//! Layer norm: `(x - mean) / sqrt(variance + eps) * scale + bias` of each row (Ba, Kiros, Hinton: Layer Normalization,
//! 2016).
//!
//! Computed in f32. A row on chip takes two passes over registers, so that the variance is that of the distances from
//! the mean; a longer one is folded by Welford's method. The variance is the mean of the squared distances.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position, Sum, Welford};
use crate::rowwise::{Held, RowOperator};

/// Layer norm. Its columns are scale and bias, its statistics the mean and the reciprocal of the standard deviation; each
/// result comes with the item that it was made of, for sums with a residual that are wanted as well.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm {
    /// What is added to the variance.
    pub eps: f32,
    /// Whether there is a scale.
    pub has_scale: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
}

/// The mean, and the reciprocal of the standard deviation.
type Stats = (Val<f32>, Val<f32>);

impl LayerNorm {
    fn result(self, distance: Val<f32>, rstd: Val<f32>, (scale, bias): (Val<f32>, Val<f32>)) -> Val<f32> {
        let normal = distance * rstd;
        match (self.has_scale, self.has_bias) {
            (false, false) => normal,
            (true, false) => normal * scale,
            (false, true) => normal + bias,
            (true, true) => normal.mul_add(scale, bias),
        }
    }
}

/// [`Welford`], finished as layer norm needs it.
#[derive(Debug, Clone, Copy)]
pub struct MeanRstd {
    eps: f32,
}

impl Monoid for MeanRstd {
    type Item = <Welford as Monoid>::Item;
    type Acc = <Welford as Monoid>::Acc;
    type Output = Stats;
    const COMMUTES: bool = Welford::COMMUTES;
    const USES_POSITION: bool = Welford::USES_POSITION;

    fn identity(self) -> Self::Acc {
        Welford.identity()
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        Welford.combine(left, right)
    }

    fn lift(self, item: Self::Item, position: Position) -> Self::Acc {
        Welford.lift(item, position)
    }

    fn push(self, acc: Self::Acc, item: Self::Item, position: Position) -> Self::Acc {
        Welford.push(acc, item, position)
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Stats {
        let (mean, variance) = Welford.finish(acc, count);
        (mean, (variance + self.eps).sqrt().recip())
    }
}

impl RowOperator for LayerNorm {
    type Item = Val<f32>;
    type Columns = (Val<f32>, Val<f32>);
    type Stats = Stats;
    type Out = (Val<f32>, Val<f32>);
    type Monoid = MeanRstd;

    fn monoid(self) -> MeanRstd {
        MeanRstd { eps: self.eps }
    }

    fn on_chip(self, row: &Held<Val<f32>>, columns: &[Self::Columns]) -> (Held<Self::Out>, Stats) {
        let len = row.len().cast::<f32>();
        let mean = row.fold(Sum::<f32>::new()) / len;
        let variance = row.each(|x| (x - mean) * (x - mean)).fold(Sum::<f32>::new()) / len;
        let rstd = (variance + self.eps).sqrt().recip();
        (row.map(columns, |x, columns| (self.result(x - mean, rstd, columns), x)), (mean, rstd))
    }

    fn apply(self, item: Val<f32>, (mean, rstd): Stats, columns: Self::Columns) -> Self::Out {
        (self.result(item - mean, rstd, columns), item)
    }
}

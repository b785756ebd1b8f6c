//! RMS norm: `x / sqrt(mean of x² + eps) * scale + bias` of each row (Zhang, Sennrich: Root Mean Square Layer
//! Normalization, 2019). Computed in f32.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position, Sum};
use crate::rowwise::{Held, RowOperator};

/// RMS norm. Its columns are scale and bias, its statistic the reciprocal of the root; each result comes with the item
/// that it was made of, for sums with a residual that are wanted as well.
#[derive(Debug, Clone, Copy)]
pub struct RmsNorm {
    /// What is added to the mean of the squares.
    pub eps: f32,
    /// Whether there is a scale.
    pub has_scale: bool,
    /// Whether there is a bias.
    pub has_bias: bool,
}

impl RmsNorm {
    fn result(self, item: Val<f32>, rstd: Val<f32>, (scale, bias): (Val<f32>, Val<f32>)) -> Val<f32> {
        let normal = item * rstd;
        match (self.has_scale, self.has_bias) {
            (false, false) => normal,
            (true, false) => normal * scale,
            (false, true) => normal + bias,
            (true, true) => normal.mul_add(scale, bias),
        }
    }
}

/// The reciprocal of the root of the mean of the squares.
#[derive(Debug, Clone, Copy)]
pub struct RootMeanSquare {
    eps: f32,
}

impl Monoid for RootMeanSquare {
    type Item = Val<f32>;
    type Acc = Val<f32>;
    type Output = Val<f32>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<f32> {
        Val::constant(0.0)
    }

    fn combine(self, left: Val<f32>, right: Val<f32>) -> Val<f32> {
        left + right
    }

    fn lift(self, item: Val<f32>, _: Position) -> Val<f32> {
        item * item
    }

    fn push(self, acc: Val<f32>, item: Val<f32>, _: Position) -> Val<f32> {
        item.mul_add(item, acc)
    }

    fn finish(self, acc: Val<f32>, count: Val<u64>) -> Val<f32> {
        (acc / count.cast::<f32>() + self.eps).sqrt().recip()
    }
}

impl RowOperator for RmsNorm {
    type Item = Val<f32>;
    type Columns = (Val<f32>, Val<f32>);
    type Stats = Val<f32>;
    type Out = (Val<f32>, Val<f32>);
    type Monoid = RootMeanSquare;

    fn monoid(self) -> RootMeanSquare {
        RootMeanSquare { eps: self.eps }
    }

    fn on_chip(self, row: &Held<Val<f32>>, columns: &[Self::Columns]) -> (Held<Self::Out>, Val<f32>) {
        let mean = row.each(|x| x * x).fold(Sum::<f32>::new()) / row.len().cast::<f32>();
        let rstd = (mean + self.eps).sqrt().recip();
        (row.map(columns, |x, columns| (self.result(x, rstd, columns), x)), rstd)
    }

    fn apply(self, item: Val<f32>, rstd: Val<f32>, columns: Self::Columns) -> Self::Out {
        (self.result(item, rstd, columns), item)
    }
}

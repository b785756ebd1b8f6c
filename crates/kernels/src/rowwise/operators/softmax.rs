//! Softmax and its logarithm: `e^x / Σ e^x` of each row.
//!
//! What is largest is taken away first, so that no exponential overflows. A NaN or +∞ in a row makes the row NaN, and so
//! does a row of nothing but −∞, as in PyTorch. Computed in f32; the error of a result is at most a few ulp of f32, plus
//! that of a tree sum of the row, plus the final rounding.

use warpfold_lang::Val;

use crate::fold::{Extreme, OnlineSoftmax, Sum};
use crate::rowwise::{Held, RowOperator};

type Stats = (Val<f32>, Val<f32>);

/// The largest element, the exponentials relative to it, and their sum.
fn exponentials(row: &Held<Val<f32>>) -> (Held<Val<f32>>, Stats) {
    let largest = row.fold(Extreme::<f32>::max());
    let shift = OnlineSoftmax::shift(largest);
    let exponentials = row.each(|x| (x - shift).exp());
    let sum = exponentials.fold(Sum::<f32>::new());
    (exponentials, (largest, sum))
}

/// `e^x / Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct Softmax;

impl RowOperator for Softmax {
    type Item = Val<f32>;
    type Columns = ();
    type Stats = Stats;
    type Out = Val<f32>;
    type Monoid = OnlineSoftmax;

    fn monoid(self) -> OnlineSoftmax {
        OnlineSoftmax
    }

    fn on_chip(self, row: &Held<Val<f32>>, _: &[()]) -> (Held<Val<f32>>, Stats) {
        let (exponentials, stats) = exponentials(row);
        let factor = stats.1.recip();
        (exponentials.each(|e| e * factor), stats)
    }

    fn apply(self, item: Val<f32>, (largest, sum): Stats, (): ()) -> Val<f32> {
        (item - OnlineSoftmax::shift(largest)).exp() * sum.recip()
    }
}

/// `x - ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax;

impl RowOperator for LogSoftmax {
    type Item = Val<f32>;
    type Columns = ();
    type Stats = Stats;
    type Out = Val<f32>;
    type Monoid = OnlineSoftmax;

    fn monoid(self) -> OnlineSoftmax {
        OnlineSoftmax
    }

    fn on_chip(self, row: &Held<Val<f32>>, _: &[()]) -> (Held<Val<f32>>, Stats) {
        let (_, stats) = exponentials(row);
        let (largest, log_sum) = (OnlineSoftmax::shift(stats.0), stats.1.ln());
        (row.each(|x| x - largest - log_sum), stats)
    }

    fn apply(self, item: Val<f32>, (largest, sum): Stats, (): ()) -> Val<f32> {
        item - OnlineSoftmax::shift(largest) - sum.ln()
    }
}

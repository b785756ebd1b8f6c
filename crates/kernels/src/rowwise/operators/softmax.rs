//! Softmax and its logarithm: `e^x / Σ e^x` of each row.
//!
//! What is largest is taken away first, so that no exponential overflows. A NaN or +∞ in a row makes the row NaN, and so
//! does a row of nothing but −∞, as in PyTorch. The error of a result is at most a few ulp of the type that is computed
//! in, plus that of a tree sum of the row, plus the final rounding; for 16-bit results exponentials have an error of
//! 2^-22 + |x| 2^-23, and are 0 below 2^-126.

use warpfold_lang::Val;

use super::float::{Exponentials, RowFloat};
use crate::fold::{Extreme, Sum};
use crate::rowwise::{Columns, Held, RowOperator};

/// `e^x / Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct Softmax<F>(pub Exponentials<F>);

/// `x - ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax<F>(pub Exponentials<F>);

type Stats<F> = (Val<F>, Val<F>);

/// The exponentials of a row in registers, relative to the largest element that their thread has; that element, and the row's
/// statistics. Threads meet once, not twice as they would to agree on the largest element first.
fn exponentials<F: RowFloat>(with: Exponentials<F>, row: &Held<Val<F>>) -> (Held<Val<F>>, Val<F>, Stats<F>) {
    let largest = row.fold_own(Extreme::<F>::max());
    let exponentials = relative_to(with, row, largest);
    let sum = exponentials.fold_own(Sum::<F>::new());
    (exponentials, largest, row.fold_together(with, (largest, sum)))
}

fn relative_to<F: RowFloat>(with: Exponentials<F>, row: &Held<Val<F>>, largest: Val<F>) -> Held<Val<F>> {
    let shift = with.shift(largest);
    row.each(move |x| with.exp(x - shift))
}

impl<F: RowFloat> RowOperator for Softmax<F> {
    type Item = Val<F>;
    type Columns = ();
    type Stats = Stats<F>;
    type Out = Val<F>;
    type Monoid = Exponentials<F>;

    fn monoid(self) -> Exponentials<F> {
        self.0
    }

    fn on_chip(self, row: &Held<Val<F>>, _: &Columns<()>) -> (Held<Val<F>>, Stats<F>) {
        let with = self.0;
        let (exponentials, factor, stats) = if row.is_kept() {
            let (exponentials, own, stats) = exponentials(with, row);
            (exponentials, with.exp(own - with.shift(stats.0)) * stats.1.recip(), stats)
        } else {
            // What is not in registers is read and made again by each fold: one tells both.
            let stats = row.fold(with);
            (relative_to(with, row, stats.0), stats.1.recip(), stats)
        };
        (exponentials.each(move |e| e * factor), stats)
    }

    fn apply(self, item: Val<F>, (largest, sum): Stats<F>, (): ()) -> Val<F> {
        self.0.exp(item - self.0.shift(largest)) * sum.recip()
    }
}

impl<F: RowFloat> RowOperator for LogSoftmax<F> {
    type Item = Val<F>;
    type Columns = ();
    type Stats = Stats<F>;
    type Out = Val<F>;
    type Monoid = Exponentials<F>;

    fn monoid(self) -> Exponentials<F> {
        self.0
    }

    fn on_chip(self, row: &Held<Val<F>>, _: &Columns<()>) -> (Held<Val<F>>, Stats<F>) {
        let stats = if row.is_kept() { exponentials(self.0, row).2 } else { row.fold(self.0) };
        let (shift, log_sum) = (self.0.shift(stats.0), stats.1.ln());
        (row.each(move |x| x - shift - log_sum), stats)
    }

    fn apply(self, item: Val<F>, (largest, sum): Stats<F>, (): ()) -> Val<F> {
        item - self.0.shift(largest) - sum.ln()
    }
}

//! Softmax and its logarithm: `e^x / Σ e^x` of each row.
//!
//! What is largest is taken away first, so that no exponential overflows. A NaN or +∞ in a row makes the row NaN, and so
//! does a row of nothing but −∞, as in PyTorch. The error of a result is at most a few ulp of the type that is computed
//! in, plus that of a tree sum of the row, plus the final rounding; for 16-bit results exponentials have an error of
//! 2^-22 + |x| 2^-23, and are 0 below 2^-126.

use warpfold_lang::Val;

use super::float::{Exponentials, RowFloat};
use crate::fold::{Extreme, Sum};
use crate::rowwise::{Columns, Cost, Held, RowOperator};

/// `e^x / Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct Softmax<F>(pub Exponentials<F>);

/// `x - ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct LogSoftmax<F>(pub Exponentials<F>);

type Stats<F> = (Val<F>, Val<F>);

/// The exponentials of a row in registers relative to its largest element; what a thread multiplies its own by first, if they are relative to
/// another; the row's statistics.
fn exponentials<F: RowFloat>(with: Exponentials<F>, row: &Held<Val<F>>) -> (Held<Val<F>>, Option<Val<F>>, Stats<F>) {
    let relative_to = |largest| {
        let shift = with.shift(largest);
        row.each(move |x| with.exp(x - shift))
    };
    let own = row.fold_own(Extreme::<F>::max());
    if row.is_of_warps() && with.for_halves {
        // Relative to the thread's own, so that warps wait for each other once, not once for either (16,384 bf16 4,164 GB/s in place
        // of 4,004). Exponentials that are exact to f32 take more than 64 registers then, so that of blocks of 512 threads but
        // one has room (16,384 f32 3,722 in place of 4,154; H200, 2026-11-21).
        let exponentials = relative_to(own);
        let sum = exponentials.fold_own(Sum::<F>::new());
        let stats = row.fold_together(with, (own, sum));
        return (exponentials, Some(with.exp(own - with.shift(stats.0))), stats);
    }
    let largest = row.fold_together(Extreme::<F>::max(), own);
    let exponentials = relative_to(largest);
    let sum = exponentials.fold(Sum::<F>::new());
    (exponentials, None, (largest, sum))
}

impl<F: RowFloat> RowOperator for Softmax<F> {
    type Item = Val<F>;
    type Columns = ();
    type Stats = Stats<F>;
    type Out = Val<F>;
    type Monoid = Exponentials<F>;
    const COST: Cost = Cost::Heavy;

    fn monoid(self) -> Exponentials<F> {
        self.0
    }

    fn on_chip(self, row: &Held<Val<F>>, _: &Columns<()>) -> (Held<Val<F>>, Stats<F>) {
        if !row.is_kept() {
            // One fold tells both, where each has to read the row and make the exponentials again.
            let stats = row.fold(self.0);
            let (shift, share) = (self.0.shift(stats.0), self.0.shares(stats.1));
            return (row.each(move |x| share(x - shift)), stats);
        }
        let (exponentials, first, stats) = exponentials(self.0, row);
        let factor = stats.1.recip();
        let factor = first.map_or(factor, |first| first * factor);
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
    const COST: Cost = Cost::Heavy;

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

//! Softmax and its logarithm: `e^x / Σ e^x` of each row.
//!
//! The row maximum is subtracted first, so that no exponential overflows. A NaN or +∞ in a row
//! makes the row NaN, and so does a row of nothing but −∞, as in PyTorch. The error of a result is
//! at most a few ulp of the type that is computed in, plus that of a tree sum of the row, plus the
//! final rounding; for 16-bit results exponentials have an error of 2^-22 + |x| 2^-23, and are 0
//! below 2^-126.

use warpfold_lang::Val;

use super::float::{Exponentials, RowFloat};
use crate::fold::{Extreme, Sum};
use crate::rowwise::{Columns, Cost, OnChipRow, RowOperator};

/// `e^x / Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub struct Softmax<F>(pub Exponentials<F>);

/// `x - ln Σ e^x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSoftmax<F>(pub Exponentials<F>);

type Stats<F> = (Val<F>, Val<F>);

/// The exponentials of a row in registers relative to its maximum, and the row's statistics; a
/// factor for the thread's exponentials where they are relative to the maximum of the thread.
fn exponentials<F: RowFloat>(
    with: Exponentials<F>,
    row: &OnChipRow<Val<F>>,
) -> (OnChipRow<Val<F>>, Option<Val<F>>, Stats<F>) {
    let relative_to = |largest| {
        let shift = with.shift(largest);
        row.map(move |x| with.exp(x - shift))
    };
    let own = row.fold_thread(Extreme::<F>::max());
    if row.spans_warps() && with.for_halves {
        // Relative to the thread's maximum, so that warps wait for each other once, not twice
        // (16,384 bf16 4,164 GB/s instead of 4,004). Exponentials accurate to f32 take more than 64
        // registers then, so that only one block of 512 threads fits on a SM (16,384 f32 3,722
        // instead of 4,154; H200, 2026-11-21).
        let exponentials = relative_to(own);
        let sum = exponentials.fold_thread(Sum::<F>::new());
        let stats = row.combine_threads(with, (own, sum));
        return (exponentials, Some(with.exp(own - with.shift(stats.0))), stats);
    }
    let largest = row.combine_threads(Extreme::<F>::max(), own);
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

    fn on_chip(self, row: &OnChipRow<Val<F>>, _: &Columns<()>) -> (OnChipRow<Val<F>>, Stats<F>) {
        if !row.is_materialized() {
            // One fold gives both, as each pass over shared memory computes the exponentials again.
            let stats = row.fold(self.0);
            let (shift, share) = (self.0.shift(stats.0), self.0.shares(stats.1));
            return (row.map(move |x| share(x - shift)), stats);
        }
        let (exponentials, first, stats) = exponentials(self.0, row);
        let factor = stats.1.recip();
        let factor = first.map_or(factor, |first| first * factor);
        (exponentials.map(move |e| e * factor), stats)
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

    fn on_chip(self, row: &OnChipRow<Val<F>>, _: &Columns<()>) -> (OnChipRow<Val<F>>, Stats<F>) {
        let stats = if row.is_materialized() { exponentials(self.0, row).2 } else { row.fold(self.0) };
        let (shift, log_sum) = (self.0.shift(stats.0), stats.1.ln());
        (row.map(move |x| x - shift - log_sum), stats)
    }

    fn apply(self, item: Val<F>, (largest, sum): Stats<F>, (): ()) -> Val<F> {
        item - self.0.shift(largest) - sum.ln()
    }
}

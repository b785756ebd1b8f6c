//! Scaling rows by their largest magnitude, and quantising them so.
//!
//! A NaN in a row makes its largest magnitude NaN. A row of zeros stays zero. Computed in f32.

use warpfold_lang::{Rounding, Val};

use crate::fold::{Monoid, Position};
use crate::rowwise::RowOperator;

/// The largest magnitude; NaN if there is a NaN, 0 of nothing.
#[derive(Debug, Clone, Copy)]
pub struct AbsMax;

impl Monoid for AbsMax {
    type Item = Val<f32>;
    type Acc = Val<f32>;
    type Output = Val<f32>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<f32> {
        Val::constant(0.0)
    }

    fn combine(self, left: Val<f32>, right: Val<f32>) -> Val<f32> {
        left.max_nan(right)
    }

    fn lift(self, item: Val<f32>, _: Position) -> Val<f32> {
        item.abs()
    }

    fn finish(self, acc: Val<f32>, _: Val<u64>) -> Val<f32> {
        acc
    }
}

/// Each row divided by its largest magnitude, which is its statistic.
#[derive(Debug, Clone, Copy)]
pub struct AbsMaxScale;

impl RowOperator for AbsMaxScale {
    type Item = Val<f32>;
    type Columns = ();
    type Stats = Val<f32>;
    type Out = Val<f32>;
    type Monoid = AbsMax;

    fn monoid(self) -> AbsMax {
        AbsMax
    }

    fn apply(self, item: Val<f32>, largest: Val<f32>, (): ()) -> Val<f32> {
        item / largest.eq(0.0).select::<f32>(1.0, largest)
    }
}

/// Each row divided by a scale that brings its largest magnitude to `top`: the statistic is the scale, with which the
/// results have to be multiplied to come back. The scale of a row of zeros is 1.
#[derive(Debug, Clone, Copy)]
pub struct Quantize {
    /// The largest magnitude of the results.
    pub top: f32,
    /// Whether results are whole numbers, ties to even.
    pub rounds: bool,
}

/// [`AbsMax`], finished as the scale.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    top: f32,
}

impl Monoid for Scale {
    type Item = Val<f32>;
    type Acc = Val<f32>;
    type Output = Val<f32>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<f32> {
        AbsMax.identity()
    }

    fn combine(self, left: Val<f32>, right: Val<f32>) -> Val<f32> {
        AbsMax.combine(left, right)
    }

    fn lift(self, item: Val<f32>, position: Position) -> Val<f32> {
        AbsMax.lift(item, position)
    }

    fn finish(self, acc: Val<f32>, _: Val<u64>) -> Val<f32> {
        let scale = acc / self.top;
        // Below the smallest normal number the quotients would not be what they should.
        scale.lt(f32::MIN_POSITIVE).select::<f32>(acc.eq(0.0).select::<f32>(1.0, f32::MIN_POSITIVE), scale)
    }
}

impl RowOperator for Quantize {
    type Item = Val<f32>;
    type Columns = ();
    type Stats = Val<f32>;
    type Out = Val<f32>;
    type Monoid = Scale;

    fn monoid(self) -> Scale {
        Scale { top: self.top }
    }

    fn apply(self, item: Val<f32>, scale: Val<f32>, (): ()) -> Val<f32> {
        let quotient = item / scale;
        if self.rounds { quotient.round(Rounding::NearestEven) } else { quotient }
    }
}

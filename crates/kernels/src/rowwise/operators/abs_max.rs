//! Rows divided by their largest magnitude, and quantisation by row.
//!
//! A NaN in a row makes its largest magnitude NaN. A row of zeros stays zero.

use std::marker::PhantomData;

use warpfold_lang::{Rounding, Val};

use super::float::RowFloat;
use crate::fold::{Extreme, Monoid, Position};
use crate::rowwise::RowOperator;

/// The largest magnitude divided by `top`; NaN if there is a NaN, 0 of nothing.
#[derive(Debug, Clone, Copy)]
pub struct AbsMax<F> {
    /// What the largest magnitude is divided by, for a scale.
    top: Option<f64>,
    float: PhantomData<fn() -> F>,
}

impl<F: RowFloat> Monoid for AbsMax<F> {
    type Item = Val<F>;
    type Acc = Val<F>;
    type Output = Val<F>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<F> {
        Val::constant(F::ZERO)
    }

    fn combine(self, left: Val<F>, right: Val<F>) -> Val<F> {
        Extreme::<F>::max().combine(left, right)
    }

    fn lift(self, item: Val<F>, _: Position) -> Val<F> {
        item.abs()
    }

    fn push_all(self, acc: Val<F>, items: &[Val<F>], first: Position) -> Val<F> {
        let magnitudes: Vec<_> = items.iter().map(|item| item.abs()).collect();
        Extreme::<F>::max().push_all(acc, &magnitudes, first)
    }

    fn finish(self, acc: Val<F>, _: Val<u64>) -> Val<F> {
        let Some(top) = self.top else { return acc };
        let scale = acc / Val::constant(F::from_f64(top));
        // Scales are stored as f32: below its smallest normal number quotients would be wrong.
        let least = Val::constant(F::from_f64(f32::MIN_POSITIVE.into()));
        let some = scale.lt(least).select::<F>(least, scale);
        acc.eq(Val::constant(F::ZERO)).select::<F>(Val::constant(F::ONE), some)
    }
}

/// Each row divided by its largest magnitude, which is its statistic.
#[derive(Debug, Clone, Copy)]
pub struct AbsMaxScale<F>(PhantomData<fn() -> F>);

impl<F> AbsMaxScale<F> {
    /// The operator.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F> Default for AbsMaxScale<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: RowFloat> RowOperator for AbsMaxScale<F> {
    type Item = Val<F>;
    type Columns = ();
    type Stats = Val<F>;
    type Out = Val<F>;
    type Monoid = AbsMax<F>;

    fn monoid(self) -> AbsMax<F> {
        AbsMax { top: None, float: PhantomData }
    }

    fn apply(self, item: Val<F>, largest: Val<F>, (): ()) -> Val<F> {
        item / largest.eq(Val::constant(F::ZERO)).select::<F>(Val::constant(F::ONE), largest)
    }
}

/// Each row divided by a scale that brings its largest magnitude to `top`: the statistic is the
/// scale, with which the results have to be multiplied to come back. The scale of a row of zeros is
/// 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantize<F> {
    /// The largest magnitude of the results.
    pub top: f64,
    /// Whether results are whole numbers, ties to even.
    pub rounds: bool,
    float: PhantomData<fn() -> F>,
}

impl<F> Quantize<F> {
    /// The operator.
    #[must_use]
    pub(crate) const fn new(top: f64, rounds: bool) -> Self {
        Self { top, rounds, float: PhantomData }
    }
}

impl<F: RowFloat> RowOperator for Quantize<F> {
    type Item = Val<F>;
    type Columns = ();
    type Stats = Val<F>;
    type Out = Val<F>;
    type Monoid = AbsMax<F>;

    fn monoid(self) -> AbsMax<F> {
        AbsMax { top: Some(self.top), float: PhantomData }
    }

    fn apply(self, item: Val<F>, scale: Val<F>, (): ()) -> Val<F> {
        let quotient = item / scale;
        if self.rounds { quotient.round(Rounding::NearestEven) } else { quotient }
    }
}

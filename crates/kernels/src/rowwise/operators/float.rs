//! The floats that rows are computed in, and how accurate their exponentials have to be.

use std::marker::PhantomData;

use warpfold_lang::{Val, WideFloat, doubling, shfl_down, shfl_xor};

use crate::elements::Compute;
use crate::fold::{Monoid, Position};

/// `f32` or `f64`.
pub trait RowFloat: Compute + WideFloat {
    /// `e^x` for results that are rounded to 16 bits: a multiplication and `ex2.approx`, where
    /// there is one.
    fn exp_for_halves(x: Val<Self>) -> Val<Self>;

    /// `e^x / sum` for such results, from the logarithm to base 2 of the sum: no more
    /// multiplications than `e^x`.
    fn share_for_halves(x: Val<Self>, log_sum: Val<Self>) -> Val<Self>;
}

impl RowFloat for f32 {
    fn exp_for_halves(x: Val<Self>) -> Val<Self> {
        x.exp_approx()
    }

    fn share_for_halves(x: Val<Self>, log_sum: Val<Self>) -> Val<Self> {
        x.mul_add(std::f32::consts::LOG2_E, -log_sum).exp2_flushed()
    }
}

impl RowFloat for f64 {
    fn exp_for_halves(x: Val<Self>) -> Val<Self> {
        x.exp()
    }

    fn share_for_halves(x: Val<Self>, log_sum: Val<Self>) -> Val<Self> {
        x.mul_add(std::f64::consts::LOG2_E, -log_sum).exp2()
    }
}

/// The largest item, and the sum of exponentials relative to it (Milakov, Gimelshein: Online
/// normalizer calculation for softmax, 2018). A NaN makes the sum NaN; of nothing but −∞ the sum is
/// 0.
#[derive(Debug)]
pub struct Exponentials<F> {
    /// Whether results are rounded to 16 bits: an error of 2^-22 + |x| 2^-23 does not show there.
    /// Exponentials below 2^-126 are 0 then.
    pub for_halves: bool,
    float: PhantomData<fn() -> F>,
}

impl<F> Clone for Exponentials<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Exponentials<F> {}

impl<F: RowFloat> Exponentials<F> {
    /// Exponentials that are accurate enough for results of 16 bits, or of the type that is
    /// computed in.
    #[must_use]
    pub const fn new(for_halves: bool) -> Self {
        Self { for_halves, float: PhantomData }
    }

    /// `e^x`.
    #[track_caller]
    #[must_use]
    pub fn exp(self, x: Val<F>) -> Val<F> {
        if self.for_halves { F::exp_for_halves(x) } else { x.exp() }
    }

    /// `e^x / sum`, of several `x`.
    #[track_caller]
    pub fn shares(self, sum: Val<F>) -> impl Fn(Val<F>) -> Val<F> + 'static {
        let factor = if self.for_halves { sum.log2() } else { sum.recip() };
        move |x| if self.for_halves { F::share_for_halves(x, factor) } else { x.exp() * factor }
    }

    /// What is subtracted from every item before its exponential: the largest, but 0 for −∞.
    #[track_caller]
    #[must_use]
    pub fn shift(self, largest: Val<F>) -> Val<F> {
        largest.eq(Val::constant(F::LOWEST)).select(F::ZERO, largest)
    }
}

impl<F: RowFloat> Monoid for Exponentials<F> {
    type Item = Val<F>;
    type Acc = (Val<F>, Val<F>);
    type Output = (Val<F>, Val<F>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(F::LOWEST), Val::constant(F::ZERO))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let largest = left.0.max(right.0);
        let shift = self.shift(largest);
        let relative = |(m, sum): Self::Acc| sum * self.exp(m - shift);
        (largest, relative(left) + relative(right))
    }

    fn lift(self, item: Val<F>, first: Position) -> Self::Acc {
        self.push_all(self.identity(), &[item], first)
    }

    fn push(self, acc: Self::Acc, item: Val<F>, first: Position) -> Self::Acc {
        self.push_all(acc, &[item], first)
    }

    /// One exponential more than there are items.
    fn push_all(self, acc: Self::Acc, items: &[Val<F>], _: Position) -> Self::Acc {
        let largest = items.iter().fold(acc.0, |largest, x| largest.max(*x));
        let shift = self.shift(largest);
        let sum = items.iter().map(|x| self.exp(*x - shift)).reduce(|a, b| a + b).expect("there is an item");
        (largest, acc.1.mul_add(self.exp(acc.0 - shift), sum))
    }

    /// The maximum of all lanes first, so that each lane computes one exponential, not two at each
    /// step.
    fn fold_lanes(self, (own, sum): Self::Acc) -> Option<Self::Acc> {
        let largest = doubling(32).fold(own, |largest, bits| largest.max(shfl_xor(largest, bits)));
        let sum = sum * self.exp(own - self.shift(largest));
        Some((largest, doubling(32).fold(sum, |sum, stride| sum + shfl_down(sum, stride))))
    }

    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Self::Output {
        acc
    }
}

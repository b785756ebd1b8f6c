//! Mean and spread in one pass, without the cancellation that sums of squares suffer.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position};

/// The number of elements, their mean, and the sum of squared distances from it (Welford, 1962;
/// combined as by Chan, Golub and LeVeque, 1979). The number is exact up to 2^24. The combination
/// commutes up to rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Welford;

/// What a thread carries.
pub(crate) type Moments = (Val<f32>, Val<f32>, Val<f32>);

impl Welford {
    /// The moments of what is in `acc`, then one element.
    #[track_caller]
    #[must_use]
    pub fn push_one((count, mean, squares): Moments, element: Val<f32>) -> Moments {
        let count = count + 1.0;
        let distance = element - mean;
        let mean = mean + distance.div_approx(count);
        (count, mean, distance.mul_add(element - mean, squares))
    }

    /// The mean, and the variance: the mean of the squared distances. Both are NaN of nothing.
    #[track_caller]
    #[must_use]
    pub fn mean_and_variance((count, mean, squares): Moments) -> (Val<f32>, Val<f32>) {
        (count.eq(0.0).select(f32::NAN, mean), squares / count)
    }

    /// The moments of so many of some elements, of which the others are 0, in two passes over
    /// registers. `has` says which they are.
    #[track_caller]
    #[must_use]
    pub fn lift_all(elements: &[Val<f32>], count: Val<u32>, has: impl Fn(usize) -> Val<bool>) -> Moments {
        let count = count.cast::<f32>();
        let sum = elements.iter().copied().reduce(|a, b| a + b).expect("there is an element");
        let mean = count.eq(0.0).select(0.0, sum / count);
        let squared = |(n, x): (usize, &Val<f32>)| {
            let distance = has(n).select(*x - mean, 0.0);
            distance * distance
        };
        let squares = elements.iter().enumerate().map(squared).reduce(|a, b| a + b).expect("there is an element");
        (count, mean, squares)
    }
}

impl Monoid for Welford {
    type Item = Val<f32>;
    type Acc = Moments;
    type Output = (Val<f32>, Val<f32>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(0.0), Val::constant(0.0), Val::constant(0.0))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let count = left.0 + right.0;
        let share = count.eq(0.0).select(0.0, right.0.div_approx(count));
        let distance = right.1 - left.1;
        let mean = distance.mul_add(share, left.1);
        let between = distance * distance * left.0 * share;
        (count, mean, left.2 + right.2 + between)
    }

    fn lift(self, element: Val<f32>, _: Position) -> Self::Acc {
        (Val::constant(1.0), element, Val::constant(0.0))
    }

    fn push(self, acc: Moments, element: Val<f32>, _: Position) -> Moments {
        Self::push_one(acc, element)
    }

    fn finish(self, acc: Moments, _: Val<u64>) -> Self::Output {
        Self::mean_and_variance(acc)
    }
}

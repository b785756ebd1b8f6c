//! The largest element and the sum of exponentials relative to it, in one pass.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position};

/// The largest element `m`, and the sum of `e^(x - m)` over all elements (Milakov, Gimelshein:
/// Online normalizer calculation for softmax, 2018).
///
/// Where there is no element but minus infinity, `m` is minus infinity, and nothing is taken away
/// from it: the sum is 0. A NaN or an infinity makes the sum NaN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OnlineSoftmax;

impl OnlineSoftmax {
    /// What is taken away from every element before its exponential, if the largest of them is this
    /// one: a number, even where the largest is minus infinity.
    #[track_caller]
    #[must_use]
    pub fn shift(largest: Val<f32>) -> Val<f32> {
        largest.eq(f32::NEG_INFINITY).select(0.0, largest)
    }

    /// The accumulator of what is in `acc`, then some elements, which costs one exponential more
    /// than they are.
    #[track_caller]
    #[must_use]
    pub fn push_all(acc: (Val<f32>, Val<f32>), elements: &[Val<f32>]) -> (Val<f32>, Val<f32>) {
        let largest = elements.iter().fold(acc.0, |largest, x| largest.max(*x));
        let shift = Self::shift(largest);
        let exponentials = elements.iter().map(|x| (*x - shift).exp());
        let sum = exponentials.reduce(|a, b| a + b).expect("there is an element");
        (largest, acc.1.mul_add((acc.0 - shift).exp(), sum))
    }

    /// The accumulator of some elements, and the exponential of each relative to the largest one:
    /// as many exponentials as elements, where a combination for each would take two.
    #[track_caller]
    #[must_use]
    pub fn lift_all(elements: &[Val<f32>]) -> ((Val<f32>, Val<f32>), Vec<Val<f32>>) {
        let largest = elements.iter().copied().reduce(|a, b| a.max(b)).expect("there is an element");
        let shift = Self::shift(largest);
        let exponentials: Vec<_> = elements.iter().map(|x| (*x - shift).exp()).collect();
        let sum = exponentials.iter().copied().reduce(|a, b| a + b).expect("there is an element");
        ((largest, sum), exponentials)
    }
}

impl Monoid for OnlineSoftmax {
    type Item = Val<f32>;
    type Acc = (Val<f32>, Val<f32>);
    type Output = (Val<f32>, Val<f32>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(f32::NEG_INFINITY), Val::constant(0.0))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let largest = left.0.max(right.0);
        let shift = Self::shift(largest);
        let relative = |(m, sum): Self::Acc| sum * (m - shift).exp();
        (largest, relative(left) + relative(right))
    }

    fn lift(self, element: Val<f32>, _: Position) -> Self::Acc {
        Self::lift_all(&[element]).0
    }

    fn push(self, acc: Self::Acc, element: Val<f32>, _: Position) -> Self::Acc {
        Self::push_all(acc, &[element])
    }

    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Self::Output {
        acc
    }
}

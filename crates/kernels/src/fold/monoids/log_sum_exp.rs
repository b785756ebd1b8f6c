//! The largest item and the sum of exponentials relative to it, for any infinities: the logarithm
//! of a sum of exponentials.

use std::marker::PhantomData;

use warpfold_lang::{Val, WideFloat};

use super::pairwise;
use crate::elements::Compute;
use crate::fold::{Monoid, Position};

/// `ln(Σ e^x)`, without overflow: the largest item `m` and `Σ e^(x - m)` are carried, as in
/// [`OnlineSoftmax`](super::OnlineSoftmax).
///
/// Nothing is taken away from the items while the largest is an infinity. So of nothing, and of
/// nothing but -∞, it is -∞; with a +∞ among numbers it is +∞; with a NaN it is NaN.
#[derive(Debug, Clone, Copy)]
pub struct LogSumExp<T>(PhantomData<fn() -> T>);

impl<T> LogSumExp<T> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for LogSumExp<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// What is taken away from every item if this one is the largest.
#[track_caller]
fn shift<T: Compute + WideFloat>(largest: Val<T>) -> Val<T> {
    largest.abs().lt(T::from_f64(f64::INFINITY)).select(largest, T::ZERO)
}

impl<T: Compute + WideFloat> Monoid for LogSumExp<T> {
    type Item = Val<T>;
    type Acc = (Val<T>, Val<T>);
    type Output = Val<T>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(T::LOWEST), Val::constant(T::ZERO))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let largest = left.0.max(right.0);
        let shift = shift(largest);
        let relative = |(m, sum): Self::Acc| sum * (m - shift).exp();
        (largest, relative(left) + relative(right))
    }

    fn lift(self, item: Val<T>, _: Position) -> Self::Acc {
        (item, (item - shift(item)).exp())
    }

    fn finish(self, (largest, sum): Self::Acc, _: Val<u64>) -> Val<T> {
        shift(largest) + sum.ln()
    }

    fn push(self, acc: Self::Acc, item: Val<T>, position: Position) -> Self::Acc {
        self.push_all(acc, &[item], position)
    }

    /// One exponential more than there are items.
    fn push_all(self, acc: Self::Acc, items: &[Val<T>], _: Position) -> Self::Acc {
        let largest = acc.0.max(pairwise(items, |a, b| a.max(b)));
        let shift = shift(largest);
        let exponentials: Vec<_> = items.iter().map(|item| (*item - shift).exp()).collect();
        (largest, acc.1.mul_add((acc.0 - shift).exp(), pairwise(&exponentials, |a, b| a + b)))
    }
}

/// What [`LogSumExp`] carries, as it is: the largest item and the sum of exponentials relative to
/// it, both NaN if an item is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxSumExp<T>(pub(crate) LogSumExp<T>);

impl<T: Compute + WideFloat> Monoid for MaxSumExp<T> {
    type Item = Val<T>;
    type Acc = (Val<T>, Val<T>);
    type Output = (Val<T>, Val<T>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        self.0.identity()
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        self.0.combine(left, right)
    }

    fn lift(self, item: Val<T>, position: Position) -> Self::Acc {
        self.0.lift(item, position)
    }

    fn finish(self, (largest, sum): Self::Acc, _: Val<u64>) -> Self::Output {
        (sum.is_nan().select(sum, largest), sum)
    }

    fn push(self, acc: Self::Acc, item: Val<T>, position: Position) -> Self::Acc {
        self.0.push(acc, item, position)
    }

    fn push_all(self, acc: Self::Acc, items: &[Val<T>], first: Position) -> Self::Acc {
        self.0.push_all(acc, items, first)
    }
}

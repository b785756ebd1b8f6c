//! The sum.

use std::marker::PhantomData;

use warpfold_lang::{Lanes, Number, Val};

use super::{pairwise, redux};
use crate::fold::{Monoid, Position};

/// The sum, in the type of the items.
///
/// Integers wrap. Floats round at each addition, at most `log2(n)` of them a term for as long as a
/// thread takes few items; infinities of both signs, and NaN, give NaN; of nothing it is +0, and so
/// is the sum of nothing but -0. A sum that does not depend on the order is
/// [`ReproducibleSum`](super::ReproducibleSum).
#[derive(Debug, Clone, Copy)]
pub struct Sum<T>(PhantomData<fn() -> T>);

impl<T> Sum<T> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Number> Monoid for Sum<T> {
    type Item = Val<T>;
    type Acc = Val<T>;
    type Output = Val<T>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<T> {
        Val::constant(T::ZERO)
    }

    #[track_caller]
    fn combine(self, left: Val<T>, right: Val<T>) -> Val<T> {
        left + right
    }

    fn lift(self, item: Val<T>, _: Position) -> Val<T> {
        item
    }

    fn finish(self, acc: Val<T>, _: Val<u64>) -> Val<T> {
        acc
    }

    fn push_all(self, acc: Val<T>, items: &[Val<T>], _: Position) -> Val<T> {
        acc + pairwise(items, |a, b| a + b)
    }

    fn fold_lanes(self, acc: Val<T>) -> Option<Val<T>> {
        let lanes = Lanes::all_lanes();
        redux(acc, |acc| lanes.redux_add(acc), |acc| lanes.redux_add(acc))
    }
}

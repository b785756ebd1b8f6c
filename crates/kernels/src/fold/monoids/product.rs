//! The product.

use std::marker::PhantomData;

use warpfold_lang::{Number, Val};

use super::pairwise;
use crate::fold::{Monoid, Position};

/// The product, in the type of the items; of nothing it is 1.
///
/// Integers wrap. Floats round at each multiplication, and may overflow or vanish on the way
/// although the product of all does not; zero times infinity, and NaN, give NaN.
#[derive(Debug, Clone, Copy)]
pub struct Product<T>(PhantomData<fn() -> T>);

impl<T> Product<T> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Product<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Number> Monoid for Product<T> {
    type Item = Val<T>;
    type Acc = Val<T>;
    type Output = Val<T>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<T> {
        Val::constant(T::ONE)
    }

    #[track_caller]
    fn combine(self, left: Val<T>, right: Val<T>) -> Val<T> {
        left * right
    }

    fn lift(self, item: Val<T>, _: Position) -> Val<T> {
        item
    }

    fn finish(self, acc: Val<T>, _: Val<u64>) -> Val<T> {
        acc
    }

    fn push_all(self, acc: Val<T>, items: &[Val<T>], _: Position) -> Val<T> {
        acc * pairwise(items, |a, b| a * b)
    }
}

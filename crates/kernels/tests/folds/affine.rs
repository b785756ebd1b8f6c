//! A monoid that feels what a fold does wrong, its fold by a loop, and items for it.

use warpfold_kernels::fold::{Monoid, Position};
use warpfold_lang::Val;

/// `x -> a * x + b`, composed: associative, and nothing else. Feels every change of order, position
/// and count.
#[derive(Clone, Copy)]
pub(crate) struct Affine;

impl Monoid for Affine {
    type Item = Val<u32>;
    type Acc = (Val<u32>, Val<u32>);
    type Output = Val<u32>;
    const COMMUTES: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(1), Val::constant(0))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        (left.0 * right.0, left.1.mul_add(right.0, right.1))
    }

    fn lift(self, item: Val<u32>, position: Position) -> Self::Acc {
        (item, position.index().cast())
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Val<u32> {
        acc.1 + count.cast::<u32>()
    }
}

/// The fold of all items by a loop.
pub(crate) fn affine(items: &[u32]) -> u32 {
    let end = items.iter().zip(0_u32..).fold(0_u32, |x, (a, i)| x.wrapping_mul(*a).wrapping_add(i));
    end.wrapping_add(items.len() as u32)
}

/// Odd numbers without a pattern: none makes the items before it count for nothing.
pub(crate) fn scattered(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761) >> 7 | 1
}

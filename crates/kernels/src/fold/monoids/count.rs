//! The sum of narrow integers, without overflow.

use warpfold_lang::Val;

use super::pairwise;
use crate::fold::{Monoid, Position};

/// The exact sum of integers of up to 24 bits, in 64: what is counted, and sums and means of narrow
/// integers.
///
/// A thread adds the items that it takes together, at most 128 of them, in 32 bits, so an item
/// costs one instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count;

impl Monoid for Count {
    type Item = Val<i32>;
    type Acc = Val<i64>;
    type Output = Val<i64>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<i64> {
        Val::constant(0)
    }

    #[track_caller]
    fn combine(self, left: Val<i64>, right: Val<i64>) -> Val<i64> {
        left + right
    }

    fn lift(self, item: Val<i32>, _: Position) -> Val<i64> {
        item.cast()
    }

    fn finish(self, acc: Val<i64>, _: Val<u64>) -> Val<i64> {
        acc
    }

    fn push_all(self, acc: Val<i64>, items: &[Val<i32>], _: Position) -> Val<i64> {
        assert!(items.len() <= 128, "{} items of 24 bits may not fit 32", items.len());
        acc + pairwise(items, |a, b| a + b).cast::<i64>()
    }
}

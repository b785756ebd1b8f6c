//! Two monoids over the same items, in one pass.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position};

/// What two monoids make of the same items: the smallest and the largest, say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Monoid, B: Monoid<Item = A::Item>> Monoid for Both<A, B> {
    type Item = A::Item;
    type Acc = (A::Acc, B::Acc);
    type Output = (A::Output, B::Output);
    const COMMUTES: bool = A::COMMUTES && B::COMMUTES;
    const USES_POSITION: bool = A::USES_POSITION || B::USES_POSITION;

    fn identity(self) -> Self::Acc {
        (self.0.identity(), self.1.identity())
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        (self.0.combine(left.0, right.0), self.1.combine(left.1, right.1))
    }

    fn lift(self, item: A::Item, position: Position) -> Self::Acc {
        (self.0.lift(item, position), self.1.lift(item, position))
    }

    fn finish(self, acc: Self::Acc, count: Val<u64>) -> Self::Output {
        (self.0.finish(acc.0, count), self.1.finish(acc.1, count))
    }

    fn push(self, acc: Self::Acc, item: A::Item, position: Position) -> Self::Acc {
        (self.0.push(acc.0, item, position), self.1.push(acc.1, item, position))
    }

    fn push_all(self, acc: Self::Acc, items: &[A::Item], first: Position) -> Self::Acc {
        (self.0.push_all(acc.0, items, first), self.1.push_all(acc.1, items, first))
    }

    fn fold_lanes(self, acc: Self::Acc) -> Option<Self::Acc> {
        Some((self.0.fold_lanes(acc.0)?, self.1.fold_lanes(acc.1)?))
    }
}

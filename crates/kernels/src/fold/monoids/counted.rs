//! A monoid whose result comes with the number of items.

use warpfold_lang::Val;

use crate::fold::{Monoid, Position};

/// What another monoid gives, and how many items that was made of: a sum, and so a mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted<M>(pub M);

impl<M: Monoid> Monoid for Counted<M> {
    type Item = M::Item;
    type Acc = M::Acc;
    type Output = (M::Output, Val<u64>);
    const COMMUTES: bool = M::COMMUTES;
    const USES_POSITION: bool = M::USES_POSITION;

    fn identity(self) -> M::Acc {
        self.0.identity()
    }

    #[track_caller]
    fn combine(self, left: M::Acc, right: M::Acc) -> M::Acc {
        self.0.combine(left, right)
    }

    fn lift(self, item: M::Item, position: Position) -> M::Acc {
        self.0.lift(item, position)
    }

    fn finish(self, acc: M::Acc, count: Val<u64>) -> Self::Output {
        (self.0.finish(acc, count), count)
    }

    fn push(self, acc: M::Acc, item: M::Item, position: Position) -> M::Acc {
        self.0.push(acc, item, position)
    }

    fn push_all(self, acc: M::Acc, items: &[M::Item], first: Position) -> M::Acc {
        self.0.push_all(acc, items, first)
    }

    fn fold_lanes(self, acc: M::Acc) -> Option<M::Acc> {
        self.0.fold_lanes(acc)
    }
}

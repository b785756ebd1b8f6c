//! A monoid without its types, so that what is generic over monoids is compiled once for many of them.

use std::fmt;

use warpfold_lang::{AnyRegisters, FixedRegisters, Val};

use super::{Monoid, Position};
use crate::elements::{Sink, Source};

/// Any monoid whose groups of registers are known to Rust. It records the same instructions as the monoid itself.
///
/// It lives for as long as the process, as monoids are values that kernels copy: made for a table of operations, not
/// for a single use.
#[derive(Clone, Copy)]
pub struct AnyMonoid<const USES_POSITION: bool> {
    monoid: &'static dyn Erased,
}

trait Erased: Send + Sync {
    fn identity(&self) -> AnyRegisters;
    fn combine(&self, left: AnyRegisters, right: AnyRegisters) -> AnyRegisters;
    fn lift(&self, item: AnyRegisters, position: Position) -> AnyRegisters;
    fn finish(&self, acc: AnyRegisters, count: Val<u64>) -> AnyRegisters;
    fn push(&self, acc: AnyRegisters, item: AnyRegisters, position: Position) -> AnyRegisters;
    fn push_all(&self, acc: AnyRegisters, items: &[AnyRegisters], first: Position) -> AnyRegisters;
    fn fold_lanes(&self, acc: AnyRegisters) -> Option<AnyRegisters>;
}

impl<M> Erased for M
where
    M: Monoid<Item: FixedRegisters, Acc: FixedRegisters, Output: FixedRegisters>,
{
    fn identity(&self) -> AnyRegisters {
        AnyRegisters::of(Monoid::identity(*self))
    }

    #[track_caller]
    fn combine(&self, left: AnyRegisters, right: AnyRegisters) -> AnyRegisters {
        AnyRegisters::of(Monoid::combine(*self, left.to(), right.to()))
    }

    fn lift(&self, item: AnyRegisters, position: Position) -> AnyRegisters {
        AnyRegisters::of(Monoid::lift(*self, item.to(), position))
    }

    fn finish(&self, acc: AnyRegisters, count: Val<u64>) -> AnyRegisters {
        AnyRegisters::of(Monoid::finish(*self, acc.to(), count))
    }

    fn push(&self, acc: AnyRegisters, item: AnyRegisters, position: Position) -> AnyRegisters {
        AnyRegisters::of(Monoid::push(*self, acc.to(), item.to(), position))
    }

    fn push_all(&self, acc: AnyRegisters, items: &[AnyRegisters], first: Position) -> AnyRegisters {
        let items: Vec<M::Item> = items.iter().map(|item| item.to()).collect();
        AnyRegisters::of(Monoid::push_all(*self, acc.to(), &items, first))
    }

    fn fold_lanes(&self, acc: AnyRegisters) -> Option<AnyRegisters> {
        Monoid::fold_lanes(*self, acc.to()).map(AnyRegisters::of)
    }
}

/// What [`AnyMonoid::erase`] gives: the monoid, and its way in and its way out.
pub type ErasedParts<const USES_POSITION: bool> = (AnyMonoid<USES_POSITION>, Source<AnyRegisters>, Sink<AnyRegisters>);

impl<const USES_POSITION: bool> AnyMonoid<USES_POSITION> {
    /// A monoid, its way in and its way out without their types.
    ///
    /// # Panics
    /// If the monoid does not commute, or looks at positions and that is not said.
    #[must_use]
    pub fn erase<M>(monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> ErasedParts<USES_POSITION>
    where
        M: Monoid<Item: FixedRegisters, Acc: FixedRegisters, Output: FixedRegisters>,
    {
        const { assert!(M::COMMUTES && M::USES_POSITION == USES_POSITION, "what is known of the monoid is kept") };
        let erased = Self { monoid: Box::leak(Box::new(monoid)) };
        (erased, source.map(AnyRegisters::of), sink.after(|output: AnyRegisters| output.to()))
    }
}

impl<const USES_POSITION: bool> Monoid for AnyMonoid<USES_POSITION> {
    type Item = AnyRegisters;
    type Acc = AnyRegisters;
    type Output = AnyRegisters;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = USES_POSITION;

    fn identity(self) -> AnyRegisters {
        self.monoid.identity()
    }

    #[track_caller]
    fn combine(self, left: AnyRegisters, right: AnyRegisters) -> AnyRegisters {
        self.monoid.combine(left, right)
    }

    fn lift(self, item: AnyRegisters, position: Position) -> AnyRegisters {
        self.monoid.lift(item, position)
    }

    fn finish(self, acc: AnyRegisters, count: Val<u64>) -> AnyRegisters {
        self.monoid.finish(acc, count)
    }

    fn push(self, acc: AnyRegisters, item: AnyRegisters, position: Position) -> AnyRegisters {
        self.monoid.push(acc, item, position)
    }

    fn push_all(self, acc: AnyRegisters, items: &[AnyRegisters], first: Position) -> AnyRegisters {
        self.monoid.push_all(acc, items, first)
    }

    fn fold_lanes(self, acc: AnyRegisters) -> Option<AnyRegisters> {
        self.monoid.fold_lanes(acc)
    }
}

impl<const USES_POSITION: bool> fmt::Debug for AnyMonoid<USES_POSITION> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyMonoid").field("identity", &self.monoid.identity()).finish()
    }
}

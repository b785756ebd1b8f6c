//! Prefixes that begin anew with each segment.

use warpfold_lang::Val;

use crate::elements::Compute;
use crate::fold::{Monoid, Position};

/// The scan of each segment by itself. An item comes with a word that is not 0 where a segment
/// begins; of all items since the last such place the fold is carried, with the last item and
/// without it, and whether there was such a place at all (Blelloch, "Prefix sums and their
/// applications", section 1.5).
#[derive(Debug, Clone, Copy)]
pub(crate) struct InSegments<M> {
    pub(crate) monoid: M,
    /// Whether results are without their own item.
    pub(crate) is_exclusive: bool,
}

impl<C: Compute, M> Monoid for InSegments<M>
where
    M: Monoid<Item = Val<C>, Acc = Val<C>, Output = Val<C>>,
{
    type Item = (Val<C>, Val<u32>);
    type Acc = (Val<u32>, Val<C>, Val<C>);
    type Output = Val<C>;
    const COMMUTES: bool = false;
    const USES_POSITION: bool = M::USES_POSITION;

    fn identity(self) -> Self::Acc {
        (Val::constant(0), self.monoid.identity(), self.monoid.identity())
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let begins = right.0.ne(0);
        let after = |right: Val<C>| begins.select(right, self.monoid.combine(left.2, right));
        (left.0 | right.0, after(right.1), after(right.2))
    }

    fn lift(self, (item, head): Self::Item, position: Position) -> Self::Acc {
        (head, self.monoid.identity(), self.monoid.lift(item, position))
    }

    fn finish(self, (_, without, with): Self::Acc, count: Val<u64>) -> Val<C> {
        self.monoid.finish(if self.is_exclusive { without } else { with }, count)
    }
}

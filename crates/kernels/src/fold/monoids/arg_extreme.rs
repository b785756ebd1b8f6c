//! The position of the largest or the smallest.

use std::marker::PhantomData;

use warpfold_lang::{Ordered, Registers, Val, vars, when};

use super::side::nan;
use super::{Extreme, Nan, Side, Ties, pairwise};
use crate::fold::{Monoid, Position};

/// The position of the largest or the smallest item, the first of equals unless
/// [`ArgExtreme::last`] is asked for.
///
/// A NaN is more extreme than any number, and equal to any other NaN, so that the first NaN is
/// found as in NumPy; [`ArgExtreme::ignoring_nan`] passes over NaN, but if there is nothing else,
/// it is found all the same. +0 and -0 are equal. Of nothing the position is 0: users expect an
/// error, see [`Reduction::check_len`](crate::reductions::Reduction::check_len).
///
/// In a thread positions increase, so an item costs comparisons of values only. Of many
/// neighbouring items only their extreme is compared with what was found before; which of them it
/// is matters where it replaces that, which is seldom.
#[derive(Debug, Clone, Copy)]
pub struct ArgExtreme<T> {
    side: Side,
    nan: Nan,
    ties: Ties,
    ty: PhantomData<fn() -> T>,
}

/// The position before there is one: every item so far was the limit of the type on the other side.
const NONE: u64 = u64::MAX;
/// The same among items that are taken together.
const NO_ITEM: u32 = u32::MAX;
// THRESHOLD: so many items are compared with one another first; tested by
// crates/kernels/tests/reductions/rules.rs::positions_of_extremes_are_right_wherever_they_stand_in_a_vector
/// From this many items on, their extreme is found first: elements of 16 bits and fewer, of which
/// memory brings the most.
const MANY: usize = 8;

impl<T> ArgExtreme<T> {
    /// The extreme on a side.
    #[must_use]
    pub const fn new(side: Side, nan: Nan, ties: Ties) -> Self {
        Self { side, nan, ties, ty: PhantomData }
    }

    /// The first of the largest.
    #[must_use]
    pub const fn max() -> Self {
        Self::new(Side::Largest, Nan::Propagates, Ties::First)
    }

    /// The first of the smallest.
    #[must_use]
    pub const fn min() -> Self {
        Self::new(Side::Smallest, Nan::Propagates, Ties::First)
    }

    /// The same, but the last of equals.
    #[must_use]
    pub const fn last(mut self) -> Self {
        self.ties = Ties::Last;
        self
    }

    /// The same, passing over NaN.
    #[must_use]
    pub const fn ignoring_nan(mut self) -> Self {
        self.nan = Nan::Ignored;
        self
    }
}

impl<T: Ordered> ArgExtreme<T> {
    /// Whether `a` is more extreme than `b`, NaN included.
    #[track_caller]
    fn beats(self, a: Val<T>, b: Val<T>) -> Val<bool> {
        if !T::TYPE.is_float() {
            return self.side.beyond(a, b);
        }
        // What is not "not beyond" is beyond, or one of them is NaN.
        let beyond_or_nan = !not_beyond(self.side, a, b);
        match self.nan {
            Nan::Propagates => beyond_or_nan & b.eq(b),
            Nan::Ignored => beyond_or_nan & a.eq(a),
        }
    }

    /// Whether an item replaces what was found before it.
    #[track_caller]
    fn replaces(self, item: Val<T>, found: Val<T>) -> Val<bool> {
        match self.ties {
            Ties::First => self.beats(item, found),
            Ties::Last => !self.beats(found, item),
        }
    }

    /// Finds the extreme of many items first, and its position only if it replaces what was found
    /// before them.
    fn push_many(self, acc: (Val<T>, Val<u64>), items: &[Val<T>], first: Position) -> (Val<T>, Val<u64>) {
        let extreme = Extreme::new(self.side, self.nan);
        let best = pairwise(items, |a, b| extreme.combine(a, b));
        let found = vars(acc);
        when(self.replaces(best, acc.0), || {
            let select = |i: Val<u32>, (number, item): (u32, &Val<T>)| self.beats(best, *item).select(i, number);
            let (numbered, none) = ((0_u32..).zip(items), Val::constant(0));
            let i = match self.ties {
                Ties::First => numbered.collect::<Vec<_>>().into_iter().rev().fold(none, select),
                Ties::Last => numbered.fold(none, select),
            };
            found.set((best, first.index() + i.cast::<u64>()));
        });
        found.get()
    }
}

/// Whether `a` is less extreme than `b` or equal to it; not if one is NaN.
#[track_caller]
fn not_beyond<T: Ordered>(side: Side, a: Val<T>, b: Val<T>) -> Val<bool> {
    match side {
        Side::Largest => a.le(b),
        Side::Smallest => a.ge(b),
    }
}

impl<T: Ordered> Monoid for ArgExtreme<T> {
    type Item = Val<T>;
    type Acc = (Val<T>, Val<u64>);
    type Output = Val<u64>;
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        let farthest = self.side.farthest();
        let value = match self.nan {
            Nan::Propagates => farthest,
            Nan::Ignored => nan().unwrap_or(farthest),
        };
        // So that every position wins against it.
        let position = match self.ties {
            Ties::First => NONE,
            Ties::Last => 0,
        };
        (Val::constant(value), Val::constant(position))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let right_is_nearer = match self.ties {
            Ties::First => right.1.lt(left.1),
            Ties::Last => right.1.gt(left.1),
        };
        let is_tie = !self.beats(left.0, right.0);
        Registers::select(self.beats(right.0, left.0) | (is_tie & right_is_nearer), right, left)
    }

    /// As [`Monoid::push`] to the identity, so that an item which is no better than none has no
    /// position in both.
    fn lift(self, item: Val<T>, position: Position) -> Self::Acc {
        self.push(self.identity(), item, position)
    }

    fn finish(self, (_, position): Self::Acc, _: Val<u64>) -> Val<u64> {
        match self.ties {
            // No item was better than none: all are equal, and the first is the first.
            Ties::First => position.eq(NONE).select(0_u64, position),
            Ties::Last => position,
        }
    }

    fn push(self, acc: Self::Acc, item: Val<T>, position: Position) -> Self::Acc {
        Registers::select(self.replaces(item, acc.0), (item, position.index()), acc)
    }

    fn push_all(self, acc: Self::Acc, items: &[Val<T>], first: Position) -> Self::Acc {
        if items.len() == 1 {
            return self.push(acc, items[0], first);
        }
        if items.len() >= MANY {
            return self.push_many(acc, items, first);
        }
        let nothing = (acc.0, Val::constant(NO_ITEM));
        let (value, i) = items.iter().zip(0_u32..).fold(nothing, |found, (item, i)| {
            Registers::select(self.replaces(*item, found.0), (*item, Val::constant(i)), found)
        });
        let position = first.index() + i.cast::<u64>();
        (value, i.eq(NO_ITEM).select(acc.1, position))
    }
}

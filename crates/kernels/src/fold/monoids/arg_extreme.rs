//! The position of the largest or the smallest.

use std::marker::PhantomData;

use warpfold_lang::{Ordered, Registers, Type, Val};

use super::side::nan;
use super::{Nan, Side, Ties, pairwise};
use crate::fold::{Monoid, Position};

/// The position of the largest or the smallest item, the first of equals unless [`ArgExtreme::last`] is asked for.
///
/// A NaN is more extreme than any number, and equal to any other NaN, so that the first NaN is found as in NumPy;
/// [`ArgExtreme::ignoring_nan`] passes over NaN, but if there is nothing else, it is found all the same. +0 and -0 are
/// equal. Of nothing the position is 0: users expect an error, see
/// [`reductions::check_len`](crate::reductions::check_len).
///
/// In a thread positions increase, so an item costs comparisons of values only; where items are known to have at most 16
/// bits ([`ArgExtreme::of_narrow`]), value and position share a register, and an item costs two instructions.
#[derive(Debug, Clone, Copy)]
pub struct ArgExtreme<T> {
    side: Side,
    nan: Nan,
    ties: Ties,
    is_narrow: bool,
    ty: PhantomData<fn() -> T>,
}

/// What stands for a position before there is one to speak of: every item so far was the farthest from the side.
const NONE: u64 = u64::MAX;
/// The same among items that are taken together.
const NO_ITEM: u32 = u32::MAX;

impl<T> ArgExtreme<T> {
    /// The extreme on a side.
    #[must_use]
    pub const fn new(side: Side, nan: Nan, ties: Ties) -> Self {
        Self { side, nan, ties, is_narrow: false, ty: PhantomData }
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

impl ArgExtreme<i32> {
    /// The same, for items that fit 17 bits with their sign: what the integers of 8 and 16 bits are.
    #[must_use]
    pub const fn of_narrow(mut self) -> Self {
        self.is_narrow = true;
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

    /// Finds the extreme among items that share a register with their numbers: as one comparison each.
    fn push_narrow(self, acc: (Val<T>, Val<u64>), items: &[Val<T>], first: Position) -> (Val<T>, Val<u64>) {
        let last = items.len() as i32 - 1;
        // Of equal values the number decides: the key's low bits go the way of the side.
        let counts_down = (self.side == Side::Largest) == (self.ties == Ties::First);
        let code = |i: i32| if counts_down { last - i } else { i };
        let keys: Vec<_> = items.iter().zip(0..).map(|(item, i)| item.cast::<i32>().mul_add(256, code(i))).collect();
        let best = pairwise(&keys, |a, b| match self.side {
            Side::Largest => a.max(b),
            Side::Smallest => a.min(b),
        });
        let (value, code) = ((best >> 8).cast::<T>(), best & 0xff);
        let i = if counts_down { Val::constant(last) - code } else { code };
        let position = first.index() + i.cast::<u32>().cast::<u64>();
        Registers::select(self.replaces(value, acc.0), (value, position), acc)
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

    /// As [`Monoid::push`] behind nothing, so that an item which is no better than none has no position in both.
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
        if self.is_narrow && T::TYPE == Type::I32 && items.len() <= 256 {
            return self.push_narrow(acc, items, first);
        }
        let nothing = (acc.0, Val::constant(NO_ITEM));
        let (value, i) = items.iter().zip(0_u32..).fold(nothing, |found, (item, i)| {
            Registers::select(self.replaces(*item, found.0), (*item, Val::constant(i)), found)
        });
        let position = first.index() + i.cast::<u64>();
        (value, i.eq(NO_ITEM).select(acc.1, position))
    }
}

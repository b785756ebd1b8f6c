//! The largest and the smallest.

use std::marker::PhantomData;

use warpfold_lang::{Lanes, Number, Val};

use super::side::nan;
use super::{Nan, Side, pairwise, redux};
use crate::fold::{Monoid, Position};

/// The largest or the smallest item.
///
/// A NaN is the result if there is one; [`Extreme::ignoring_nan`] passes over it, and gives NaN
/// only where there is nothing else. -0 is smaller than +0 (PTX ISA, "max"). Of nothing but -∞ the
/// largest is -∞. Of nothing at all the largest is -∞ or the smallest integer (NaN, if NaN is
/// ignored): users of NumPy expect an error, see
/// [`Reduction::check_len`](crate::reductions::Reduction::check_len).
///
/// Of truths, 0 and anything else, the largest says whether *any* holds, and the smallest whether
/// *all* do; of nothing, none and all.
#[derive(Debug, Clone, Copy)]
pub struct Extreme<T> {
    side: Side,
    nan: Nan,
    ty: PhantomData<fn() -> T>,
}

impl<T> Extreme<T> {
    /// The extreme on a side.
    #[must_use]
    pub const fn new(side: Side, nan: Nan) -> Self {
        Self { side, nan, ty: PhantomData }
    }

    /// The largest.
    #[must_use]
    pub const fn max() -> Self {
        Self::new(Side::Largest, Nan::Propagates)
    }

    /// The smallest.
    #[must_use]
    pub const fn min() -> Self {
        Self::new(Side::Smallest, Nan::Propagates)
    }

    /// The same, passing over NaN.
    #[must_use]
    pub const fn ignoring_nan(self) -> Self {
        Self::new(self.side, Nan::Ignored)
    }
}

impl<T: Number> Monoid for Extreme<T> {
    type Item = Val<T>;
    type Acc = Val<T>;
    type Output = Val<T>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<T> {
        let farthest = self.side.farthest();
        Val::constant(match self.nan {
            Nan::Propagates => farthest,
            Nan::Ignored => nan().unwrap_or(farthest),
        })
    }

    #[track_caller]
    fn combine(self, left: Val<T>, right: Val<T>) -> Val<T> {
        match (self.side, self.nan) {
            (Side::Largest, Nan::Propagates) => left.max_nan(right),
            (Side::Largest, Nan::Ignored) => left.max(right),
            (Side::Smallest, Nan::Propagates) => left.min_nan(right),
            (Side::Smallest, Nan::Ignored) => left.min(right),
        }
    }

    fn lift(self, item: Val<T>, _: Position) -> Val<T> {
        item
    }

    fn finish(self, acc: Val<T>, _: Val<u64>) -> Val<T> {
        acc
    }

    fn push_all(self, acc: Val<T>, items: &[Val<T>], _: Position) -> Val<T> {
        self.combine(acc, pairwise(items, |a, b| self.combine(a, b)))
    }

    fn fold_lanes(self, acc: Val<T>) -> Option<Val<T>> {
        let lanes = Lanes::all_lanes();
        match self.side {
            Side::Largest => redux(acc, |acc| lanes.redux_max(acc), |acc| lanes.redux_max(acc)),
            Side::Smallest => redux(acc, |acc| lanes.redux_min(acc), |acc| lanes.redux_min(acc)),
        }
    }
}

//! A sum of floats whose bits depend on nothing but the items: not on their order, nor on plan,
//! grid and device.
//!
//! **Method.** Reproducible summation by pre-rounding (Demmel, Nguyen: Parallel reproducible
//! summation, 2015; Ahrens, Demmel, Nguyen: Algorithms for efficient reproducible floating point
//! summation, 2020), with integers as accumulators. The exponents are cut at the multiples of
//! [`Binned::WIDTH`] = W into bins. The largest magnitude decides the *top*: the smallest T with
//! all |x| < 2^(W·T). Each item is rounded, to nearest even, to a multiple of the unit
//! u = 2^(W·(T-4)), and the rounded items are added exactly. The result is the sum of the rounded
//! items, rounded once to the type. So it is a function of the set of items alone.
//!
//! **How it is carried.** A rounded item is the sum of four slices, one a bin from the top down,
//! each found by adding and subtracting a large constant, and added to a 64-bit integer. While a
//! larger item is still to come, the top is too low and the bins reach deeper than they need; once
//! it comes they move up, and the lowest ones are dropped. What is kept of an item is the same as
//! if the top had been known from the start: the slices down to a unit sum to the item rounded to
//! that unit, wherever they begin, since each slice is a multiple of all units below by an even
//! number, which leaves ties as they are. The bins must not carry into one another before the end,
//! as a carry out of a bin that is dropped later would stay; they need not, as they hold 2^(63 - W)
//! slices.
//!
//! **Error.** At most `n/2 · 2^(-3W) · max|x|` from rounding the items, and half a unit in the last
//! place of the result: for `f32` (W = 22) 2^-67 · n · max|x|, for `f64` (W = 28) 2^-85 · n ·
//! max|x|. So below the last place of the result but where terms cancel down to 2^-40 of the
//! largest.
//!
//! **Limits.** 2^41 items of `f32`, 2^35 of `f64`. Infinities and NaN are added beside, as IEEE 754
//! does.

mod binned;
mod rounding;

pub use binned::Binned;

use std::marker::PhantomData;

use warpfold_lang::{Val, when_else};

use super::pairwise;
use crate::fold::{Monoid, Position};

/// Bins that are kept.
const NUM_BINS: usize = 4;

type Bins = [Val<i64>; NUM_BINS];

/// The top, what the bins hold from the top down, and the sum of what is not finite.
type Acc<T> = (Val<i32>, Bins, Val<T>);

/// The reproducible sum: see the head of its file for what it gives. Of nothing, and of nothing but
/// -0, it is +0.
#[derive(Debug, Clone, Copy)]
pub struct ReproducibleSum<T>(PhantomData<fn() -> T>);

impl<T> ReproducibleSum<T> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for ReproducibleSum<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The bins seen from a top that is so much higher.
fn lowered(bins: Bins, by: Val<i32>) -> Bins {
    let is: [Val<bool>; NUM_BINS] = std::array::from_fn(|i| by.eq(i as i32));
    std::array::from_fn(|k| {
        let moved = |value: Val<i64>, i: usize| is[i].select(bins[k - i], value);
        (0..=k).fold(Val::constant(0), moved)
    })
}

/// Adds items below the top, scaled so that the top is at 2^W.
fn deposit<T: Binned>(bins: Bins, scaled: &[Val<T>]) -> Bins {
    let mut rests = scaled.to_vec();
    std::array::from_fn(|k| {
        // Its last place is the unit of this bin: adding it rounds to that.
        let rounder = T::from_f64(T::ROUNDER * (-(f64::from(T::WIDTH) * k as f64)).exp2());
        let rounded: Vec<_> = rests.iter().map(|rest| *rest + Val::constant(rounder)).collect();
        if k + 1 < NUM_BINS {
            for (rest, rounded) in rests.iter_mut().zip(&rounded) {
                *rest -= *rounded - Val::constant(rounder);
            }
        }
        bins[k] + T::sum_of_places(&rounded, rounder)
    })
}

impl<T: Binned> ReproducibleSum<T> {
    /// Adds items of which some are above the top, or not finite.
    fn raise_and_deposit(self, (top, bins, special): Acc<T>, items: &[Val<T>]) -> Acc<T> {
        let is_finite = |item: Val<T>| item.abs().lt(T::from_f64(f64::INFINITY));
        let or_zero = |condition: Val<bool>, item: Val<T>| condition.select(item, Val::constant(T::ZERO));
        let special = items.iter().fold(special, |special, item| special + or_zero(!is_finite(*item), *item));
        let items: Vec<_> = items.iter().map(|item| or_zero(is_finite(*item), *item)).collect();
        let largest = pairwise(&items.iter().map(|item| item.abs()).collect::<Vec<_>>(), |a, b| a.max(b));
        let raised = T::top_of(largest).max(top);
        let scale = T::scale(raised);
        let scaled: Vec<_> = items.iter().map(|item| *item * scale).collect();
        (raised, deposit(lowered(bins, raised - top), &scaled), special)
    }
}

impl<T: Binned> Monoid for ReproducibleSum<T> {
    type Item = Val<T>;
    type Acc = Acc<T>;
    type Output = Val<T>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Acc<T> {
        (Val::constant(T::LOWEST_TOP), [Val::constant(0); NUM_BINS], Val::constant(T::ZERO))
    }

    #[track_caller]
    fn combine(self, left: Acc<T>, right: Acc<T>) -> Acc<T> {
        let top = left.0.max(right.0);
        let (ours, theirs) = (lowered(left.1, top - left.0), lowered(right.1, top - right.0));
        (top, std::array::from_fn(|k| ours[k] + theirs[k]), left.2 + right.2)
    }

    fn lift(self, item: Val<T>, _: Position) -> Acc<T> {
        self.raise_and_deposit(self.identity(), &[item])
    }

    fn finish(self, (top, bins, special): Acc<T>, _: Val<u64>) -> Val<T> {
        special.eq(T::ZERO).select(rounding::round::<T>(top, bins), special)
    }

    fn push(self, acc: Acc<T>, item: Val<T>, position: Position) -> Acc<T> {
        self.push_all(acc, &[item], position)
    }

    fn push_all(self, acc: Acc<T>, items: &[Val<T>], _: Position) -> Acc<T> {
        let scale = T::scale(acc.0);
        let scaled: Vec<_> = items.iter().map(|item| *item * scale).collect();
        let largest = pairwise(&scaled.iter().map(|item| item.abs()).collect::<Vec<_>>(), |a, b| a.max_nan(b));
        let is_below_top = largest.lt(T::from_f64(f64::from(T::WIDTH).exp2()));
        when_else(is_below_top, || (acc.0, deposit(acc.1, &scaled), acc.2), || self.raise_and_deposit(acc, items))
    }
}

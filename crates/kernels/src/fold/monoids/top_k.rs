//! The largest few, in order, and where they are.

use std::marker::PhantomData;

use warpfold_lang::{Ordered, Registers, Val, when_else};

use super::pairwise;
use crate::fold::{Monoid, Position};

/// The `N` largest items from the largest down, each with its position; of equals the first come
/// first. Where there are fewer items, what follows them is the smallest number at the position
/// 2^64 - 1. `N` is a power of two.
///
/// Items are integers: floats come as integers of the same order ([`ordered_key`] is one such map),
/// so that NaN has a place.
///
/// A thread keeps its list sorted; an item that is not larger than the smallest of the list costs
/// one comparison among those that are taken together. Two lists meet as in a bitonic sort
/// (Batcher, 1968): the larger ones of each and of the other one turned round are the larger half
/// of both, and are sorted in `log2(N)` steps.
///
/// [`ordered_key`]: crate::reductions
#[derive(Debug, Clone, Copy)]
pub struct TopK<T, const N: usize>(PhantomData<fn() -> T>);

type Entry<T> = (Val<T>, Val<u64>);

impl<T, const N: usize> TopK<T, N> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two(), "a list has a power of two of entries") };
        Self(PhantomData)
    }
}

impl<T, const N: usize> Default for TopK<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether `a` comes before `b`.
#[track_caller]
fn precedes<T: Ordered>(a: Entry<T>, b: Entry<T>) -> Val<bool> {
    a.0.gt(b.0) | (a.0.eq(b.0) & a.1.lt(b.1))
}

/// Puts an item where it belongs.
fn insert<T: Ordered, const N: usize>(list: [Entry<T>; N], item: Entry<T>) -> [Entry<T>; N] {
    let precedes: [Val<bool>; N] = list.map(|entry| precedes(item, entry));
    std::array::from_fn(|i| {
        let here = Registers::select(precedes[i], item, list[i]);
        if i == 0 { here } else { Registers::select(precedes[i - 1], list[i - 1], here) }
    })
}

impl<T: Ordered, const N: usize> Monoid for TopK<T, N> {
    type Item = Val<T>;
    type Acc = [Entry<T>; N];
    type Output = [Entry<T>; N];
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        // After every item, as positions are smaller.
        [(Val::constant(T::LOWEST), Val::constant(u64::MAX)); N]
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let first_of = |a, b| Registers::select(precedes(b, a), b, a);
        let mut list: Self::Acc = std::array::from_fn(|i| first_of(left[i], right[N - 1 - i]));
        for stride in warpfold_lang::halving(N as u32 / 2) {
            let stride = stride as usize;
            for i in (0..N).filter(|i| i & stride == 0) {
                let (a, b) = (list[i], list[i + stride]);
                let swaps = precedes(b, a);
                list[i] = Registers::select(swaps, b, a);
                list[i + stride] = Registers::select(swaps, a, b);
            }
        }
        list
    }

    fn lift(self, item: Val<T>, position: Position) -> Self::Acc {
        let mut list = self.identity();
        list[0] = (item, position.index());
        list
    }

    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Self::Output {
        acc
    }

    fn push(self, acc: Self::Acc, item: Val<T>, position: Position) -> Self::Acc {
        self.push_all(acc, &[item], position)
    }

    fn push_all(self, acc: Self::Acc, items: &[Val<T>], first: Position) -> Self::Acc {
        let largest = pairwise(items, |a, b| a.max(b));
        // An item equal to the last of the list comes after it, but for the items that the identity
        // has none of.
        let may_enter = largest.gt(acc[N - 1].0) | acc[N - 1].1.eq(u64::MAX);
        let insert_all = || {
            let items = items.iter().zip(0..).map(|(item, i)| (*item, first.plus(i).index()));
            items.fold(acc, insert)
        };
        when_else(may_enter, insert_all, || acc)
    }
}

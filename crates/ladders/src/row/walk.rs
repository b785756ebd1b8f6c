//! One row of a matrix, and ways along it.

use warpfold_lang::{Global, Val, range, when};

use super::{RowElement, Team};

/// A row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<T: RowElement> {
    pub(super) first: Global<T>,
    pub(super) len: Val<u32>,
}

impl<T: RowElement> Row<T> {
    /// The row of this number, in a matrix at a multiple of 16 bytes whose rows have `len`
    /// elements.
    #[track_caller]
    pub(crate) fn of(matrix: Global<T>, row: Val<u32>, len: Val<u32>) -> Self {
        Self { first: matrix.at(row * len), len }
    }

    /// A vector at a multiple of 16 bytes, as its only row.
    #[track_caller]
    pub(crate) fn only(vector: Global<T>, len: Val<u32>) -> Self {
        Self { first: vector, len }
    }

    /// Returns whether 16-byte accesses are possible from its first element to its last.
    #[track_caller]
    pub(super) fn is_wide(self) -> Val<bool> {
        (self.len & (T::WIDTH - 1)).eq(0)
    }

    /// The element at a position.
    #[track_caller]
    pub(crate) fn get(self, i: Val<u32>) -> Val<f32> {
        self.first.at(i).get().cast()
    }

    /// One element at a position, or [`RowElement::WIDTH`] of them from there on.
    #[track_caller]
    pub(crate) fn group(self, i: Val<u32>, num: usize) -> Vec<Val<f32>> {
        match num {
            1 => vec![self.get(i)],
            _ => T::load_wide(self.first.at(i), 0.0, Val::constant(true)),
        }
    }

    /// Stores one element at a position, or [`RowElement::WIDTH`] of them from there on.
    #[track_caller]
    pub(crate) fn set(self, i: Val<u32>, values: &[Val<f32>]) {
        match values {
            [value] => self.first.at(i).set(value.cast::<T>()),
            values => T::store_wide(self.first.at(i), values, Val::constant(true)),
        }
    }

    /// Walks over a row that starts at a multiple of 16 bytes: `threads` of them take groups of
    /// neighbours in turn, and what is left over at the end one by one. The body is recorded twice,
    /// for a group and for one.
    #[track_caller]
    pub(crate) fn each_group(self, thread: Val<u32>, threads: Val<u32>, body: impl Fn(Val<u32>, &[Val<f32>])) {
        let whole_len = self.len & !(T::WIDTH - 1);
        range(thread * T::WIDTH, whole_len, threads * T::WIDTH, |i| {
            body(i, &T::load_wide(self.first.at(i), 0.0, Val::constant(true)));
        });
        let i = whole_len + thread;
        when(i.lt(self.len), || body(i, &[self.get(i)]));
    }

    /// Walks over the elements behind the first `start` of them, which are a multiple of what the
    /// team takes at once. The body is recorded twice: for several neighbours at a position, loaded
    /// at once, and for one.
    #[track_caller]
    pub(crate) fn each_behind(self, start: u32, team: Team, body: impl Fn(Val<u32>, &[Val<f32>])) {
        let (threads, thread) = (team.threads(), team.thread());
        let is_wide = self.is_wide();
        when(is_wide & self.len.gt(start), || {
            range(thread * T::WIDTH + start, self.len, threads * T::WIDTH, |i| {
                body(i, &T::load_wide(self.first.at(i), 0.0, Val::constant(true)));
            });
        });
        when(!is_wide & self.len.gt(start), || {
            range(thread + start, self.len, threads, |i| body(i, &[self.get(i)]));
        });
    }
}

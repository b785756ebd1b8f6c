//! Threads go down columns, `x A`; the same loop adds the partial sums of several blocks.

use warpfold_lang::{
    Global, Kernel, Number, Val, Var, block_idx, halving, kernel, range, shared_named, sync_threads, thread_idx, var,
    when,
};

use super::element::stream;
use super::{BLOCK, Element, RESIDENT_BLOCKS};
use crate::overlap::overlap_launches;

/// What the kernel takes: matrix, vector, sums, rows, columns, rows of a block, the elements from
/// one row to the next.
pub(crate) type Columns<T, O> = Kernel<(Global<T>, Global<T>, Global<O>, u64, u64, u64, i64)>;

/// What the kernel takes: terms, sums, how many terms each sum has, how many sums there are.
pub(crate) type ReduceParts<O, T> = Kernel<(Global<O>, Global<T>, u64, u64)>;

/// The rows that a thread has in flight.
pub(super) const UNROLL: u32 = 4;

/// How columns are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Threads side by side, each with an access: a power of two. The other threads of the block
    /// take other rows.
    pub lanes: u32,
    /// Elements of an access; the number of columns is a multiple of it.
    pub width: u32,
}

impl Tile {
    /// Columns of a block.
    #[must_use]
    pub const fn columns(self) -> u32 {
        self.lanes * self.width
    }

    /// Threads that share a column.
    #[must_use]
    pub const fn threads_of_column(self) -> u32 {
        BLOCK / self.lanes
    }
}

/// Block `x, y` leaves the sums of the columns of tile `x` over the `y`-th part of the rows, each
/// element times that of the vector for its row, at element `y * columns + column`.
#[must_use]
pub(crate) fn columns<T: Element, O: Element<Acc = T::Acc>>(tile: Tile) -> Columns<T, O> {
    let Tile { lanes, width } = tile;
    let name = format!("gemv_columns_{}_to_{}_l{lanes}_w{width}", T::DTYPE, O::DTYPE);
    let body = move |matrix: Global<T>,
                     vector: Global<T>,
                     sums: Global<O>,
                     num_rows: Val<u64>,
                     num_columns: Val<u64>,
                     part: Val<u64>,
                     row_stride: Val<i64>| {
        overlap_launches();
        let first = block_idx().y.cast::<u64>() * part;
        let rows = (first, (first + part).min(num_rows));
        let weigh = |row: Val<u64>| {
            let weight = T::widen(vector.at(row).get());
            (matrix.at(row.cast::<i64>() * row_stride), Some(weight))
        };
        let to = sums.at(block_idx().y.cast::<u64>() * num_columns);
        sum_columns(tile, rows, num_columns, weigh, to);
    };
    kernel(name, body).required_block(BLOCK).min_blocks(RESIDENT_BLOCKS)
}

/// The sums of the columns of a matrix without gaps: what the parts of the rows or columns left, in
/// their order.
#[must_use]
pub(crate) fn reduce_parts<T: Element>(lanes: u32) -> ReduceParts<T::Acc, T> {
    let name = format!("gemv_reduce_{}_to_{}_l{lanes}", <T::Acc as Element>::DTYPE, T::DTYPE);
    let body = move |terms: Global<T::Acc>, sums: Global<T>, num_terms: Val<u64>, num_sums: Val<u64>| {
        overlap_launches();
        let rows = (Val::constant(0), num_terms);
        sum_columns(Tile { lanes, width: 1 }, rows, num_sums, |row| (terms.at(row * num_sums), None), sums);
    };
    kernel(name, body).required_block(BLOCK).min_blocks(RESIDENT_BLOCKS)
}

/// Sums the columns of this block's tile over the rows from the first up to, not including, the
/// second. A row comes with a factor, or with none.
#[track_caller]
fn sum_columns<T: Element, O: Element<Acc = T::Acc>>(
    tile: Tile,
    (first, end): (Val<u64>, Val<u64>),
    num_columns: Val<u64>,
    row: impl Fn(Val<u64>) -> (Global<T>, Option<Val<T::Acc>>),
    to: Global<O>,
) {
    // Contract
    let Tile { lanes, width } = tile;
    assert!(lanes.is_power_of_two() && lanes <= BLOCK, "a power of two of threads stands side by side, not {lanes}");
    // Shared-memory map
    let num_groups = tile.threads_of_column();
    // Rows of sums lie so far apart that threads which store them, `width` from each lane, meet in
    // no bank.
    let pitch = BLOCK + 128 / <T::Acc as warpfold_lang::Element>::BYTES / width;
    let partial = shared_named::<T::Acc>("partial", width * pitch);
    // Roles
    let thread = thread_idx().x;
    let (lane, group) = (thread % lanes, (thread / lanes).cast::<u64>());
    let first_column = block_idx().x.cast::<u64>() * u64::from(tile.columns());
    let column = first_column + (lane * width).cast::<u64>();
    let is_inside = column.lt(num_columns);
    // Load
    let sums: Vec<_> = (0..width).map(|_| var(<T::Acc as Number>::ZERO)).collect();
    let add = |first: Val<u64>, num: u32| {
        let rows = (0..num).map(|n| row(first + u64::from(n * num_groups)));
        let rows: Vec<_> = rows.map(|(row, factor)| (stream(row.at(column), width), factor)).collect();
        rows.into_iter().for_each(|(elements, factor)| accumulate::<T>(&sums, &elements, factor));
    };
    when(is_inside, || {
        let round = u64::from(num_groups * UNROLL);
        let in_rounds = first + ((end - first) & !(round - 1));
        range(first + group, in_rounds, round, |i| add(i, UNROLL));
        range(in_rounds + group, end, u64::from(num_groups), |i| add(i, 1));
    });
    // Fold: neighbours would need other columns' threads, so halves fold, in an order that the tile
    // fixes.
    let mine: Vec<_> = (0..width).map(|n| partial.at(n * pitch).at(thread)).collect();
    mine.iter().zip(&sums).for_each(|(mine, sum)| mine.set(sum.get()));
    sync_threads();
    for stride in halving(num_groups / 2) {
        when(thread.lt(stride * lanes), || {
            mine.iter().for_each(|mine| mine.add_assign(mine.at(stride * lanes).get()));
        });
        // With one sum a lane, a thread stores what it has added itself.
        if stride > 1 || width > 1 {
            sync_threads();
        }
    }
    // Epilogue: neighbouring threads store neighbouring columns.
    for start in (0..tile.columns()).step_by(BLOCK as usize) {
        let of_tile = thread + start;
        let column = first_column + of_tile.cast::<u64>();
        when(of_tile.lt(tile.columns()) & column.lt(num_columns), || {
            let sum = partial.at((thread % width) * pitch).at(thread / width).at(start / width).get();
            to.at(column).set(O::narrow(sum));
        });
    }
}

#[track_caller]
fn accumulate<T: Element>(sums: &[Var<T::Acc>], elements: &[Val<T::Acc>], factor: Option<Val<T::Acc>>) {
    for (sum, element) in sums.iter().zip(elements) {
        sum.update(|sum| match factor {
            Some(factor) => element.mul_add(factor, sum),
            None => sum + *element,
        });
    }
}

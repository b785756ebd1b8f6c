//! Sums down the columns: the product of the vector and the matrix, and the sum of what several blocks left.

use warpfold_lang::{
    Global, Kernel, Number, Shared, Val, Var, block_idx, halving, kernel, range, shared, sync_threads, thread_idx, var,
    when,
};

use super::{Access, BLOCK, Element, RESIDENT_BLOCKS};

/// What the kernel takes: matrix, vector, sums, rows, columns, rows of a block, the elements from one row to the next.
pub type Columns<T, O> = Kernel<(Global<T>, Global<T>, Global<O>, u64, u64, u64, i64)>;

/// What the kernel takes: terms, sums, how many terms each sum has, how many sums there are.
pub type Finish<O, T> = Kernel<(Global<O>, Global<T>, u64, u64)>;

/// The rows that a thread has under way.
pub(super) const UNROLL: u32 = 4;

/// How columns are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Lanes side by side, each with an access: 1, 2, 4, 8, 16 or 32. The other threads of the block take other rows.
    pub lanes: u32,
    /// How wide an access is. With vectors the number of columns is a multiple of theirs.
    pub access: Access,
}

impl Tile {
    /// Columns of a block.
    #[must_use]
    pub const fn columns<T: Element>(self) -> u32 {
        self.lanes * self.access.width::<T>()
    }

    /// Threads that share a column.
    #[must_use]
    pub const fn threads_of_column(self) -> u32 {
        BLOCK / self.lanes
    }
}

/// Block `x, y` leaves the sums of the columns of tile `x` over the `y`-th part of the rows, each element times that of
/// the vector for its row, at element `y * columns + column`.
#[must_use]
pub fn columns<T: Element, O: Element<Acc = T::Acc>>(tile: Tile) -> Columns<T, O> {
    let Tile { lanes, access } = tile;
    let name = format!("gemv_columns_{}_to_{}_l{lanes}_{}", T::DTYPE, O::DTYPE, access.name());
    let body = move |matrix: Global<T>,
                     vector: Global<T>,
                     sums: Global<O>,
                     num_rows: Val<u64>,
                     num_columns: Val<u64>,
                     part: Val<u64>,
                     row_stride: Val<i64>| {
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

/// The sums of the columns of a matrix without gaps: what the parts of the rows or columns left, in their order.
#[must_use]
pub fn finish<T: Element>() -> Finish<T::Acc, T> {
    let name = format!("gemv_finish_{}_to_{}", <T::Acc as Element>::DTYPE, T::DTYPE);
    let body = |terms: Global<T::Acc>, sums: Global<T>, num_terms: Val<u64>, num_sums: Val<u64>| {
        let rows = (Val::constant(0), num_terms);
        sum_columns(FINISH, rows, num_sums, |row| (terms.at(row * num_sums), None), sums);
    };
    kernel(name, body).required_block(BLOCK).min_blocks(RESIDENT_BLOCKS)
}

/// The tile of [`finish`].
pub const FINISH: Tile = Tile { lanes: 32, access: Access::Scalar };

/// Sums the columns of this block's tile over the rows from the first up to, not including, the second. A row comes with
/// a factor, or with none.
#[track_caller]
fn sum_columns<T: Element, O: Element<Acc = T::Acc>>(
    tile: Tile,
    (first, end): (Val<u64>, Val<u64>),
    num_columns: Val<u64>,
    row: impl Fn(Val<u64>) -> (Global<T>, Option<Val<T::Acc>>),
    to: Global<O>,
) {
    // Contract
    let (lanes, width) = (tile.lanes, tile.access.width::<T>());
    assert!(
        lanes.is_power_of_two() && lanes <= 32,
        "a power of two of lanes up to 32 stands side by side, not {lanes}"
    );
    // Shared-memory map
    let num_groups = tile.threads_of_column();
    let partial: Vec<Shared<T::Acc>> = (0..width).map(|_| shared(BLOCK)).collect();
    // Roles
    let thread = thread_idx().x;
    let (lane, group) = (thread % lanes, (thread / lanes).cast::<u64>());
    let column = block_idx().x.cast::<u64>() * u64::from(lanes * width) + (lane * width).cast::<u64>();
    let is_inside = column.lt(num_columns);
    // Load
    let sums: Vec<_> = (0..width).map(|_| var(<T::Acc as Number>::ZERO)).collect();
    let add = |first: Val<u64>, num: u32| {
        let rows = (0..num).map(|n| row(first + u64::from(n * num_groups)));
        let rows: Vec<_> = rows.map(|(row, factor)| (tile.access.stream(row.at(column)), factor)).collect();
        rows.into_iter().for_each(|(elements, factor)| accumulate::<T>(&sums, &elements, factor));
    };
    when(is_inside, || {
        let round = u64::from(num_groups * UNROLL);
        let in_rounds = first + ((end - first) & !(round - 1));
        range(first + group, in_rounds, round, |i| add(i, UNROLL));
        range(in_rounds + group, end, u64::from(num_groups), |i| add(i, 1));
    });
    // Fold: neighbours would need other columns' threads, so halves fold, in an order that the tile fixes.
    partial.iter().zip(&sums).for_each(|(partial, sum)| partial.at(thread).set(sum.get()));
    sync_threads();
    for stride in halving(num_groups / 2) {
        when(thread.lt(stride * lanes), || {
            partial.iter().for_each(|p| p.at(thread).add_assign(p.at(thread + stride * lanes).get()));
        });
        sync_threads();
    }
    // Epilogue
    when(is_inside & thread.lt(lanes), || {
        (0..).zip(&partial).for_each(|(n, p): (u32, _)| to.at(column).at(n).set(O::narrow(p.at(thread).get())));
    });
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

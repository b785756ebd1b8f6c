//! A block per row, or several blocks per row (split-K): for few long rows.

use warpfold_lang::{Global, Kernel, Val, block_idx, grid_dim, kernel, thread_idx, when};

use super::dot::{Share, dots};
use super::{BLOCK, Element, RESIDENT_BLOCKS};
use crate::fold::{Sum, fold_block};
use crate::overlap::overlap_launches;

/// What the kernel takes: matrix, vector, sums, columns, columns of a block, the elements from one
/// row to the next.
pub(crate) type Split<T, O> = Kernel<(Global<T>, Global<T>, Global<O>, u64, u32, i64)>;

/// The accesses of a row that a thread has in flight.
pub(super) const UNROLL: u32 = 4;

/// Block `x, y` leaves the product of row `x` and the vector over the `y`-th part of the columns,
/// at element `y * rows + x`: the results themselves if the columns are not parted, sums to be
/// added else.
#[must_use]
pub(crate) fn split<T: Element, O: Element<Acc = T::Acc>>(width: u32) -> Split<T, O> {
    let name = format!("gemv_split_{}_to_{}_w{width}", T::DTYPE, O::DTYPE);
    let body = move |matrix: Global<T>,
                     vector: Global<T>,
                     sums: Global<O>,
                     num_columns: Val<u64>,
                     part: Val<u32>,
                     row_stride: Val<i64>| {
        overlap_launches();
        // Roles
        let row = block_idx().x;
        let first = block_idx().y.mul_wide(part);
        let len = part.cast::<u64>().min(num_columns - first).cast::<u32>();
        // Load
        let columns = matrix.at(row.cast::<i64>() * row_stride).at(first);
        let share = Share { thread: thread_idx().x, threads: BLOCK };
        let products = dots(&[columns], vector.at(first), len, share, (width, UNROLL));
        // Fold
        let sum = fold_block(Sum::new(), products[0], BLOCK);
        // Epilogue
        let place = block_idx().y.mul_wide(grid_dim().x) + row.cast::<u64>();
        when(thread_idx().x.eq(0), || sums.at(place).set(O::narrow(sum)));
    };
    kernel(name, body).required_block(BLOCK).min_blocks(RESIDENT_BLOCKS)
}

//! Some lanes of a warp share a row, and take several rows each: for many rows, or short ones.
//!
//! A choice fixes lanes, rows, accesses in flight and their width; rows that a lane takes together
//! share loads of the vector. It is the last rung of the ladder `gemv`.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx, when};

use super::dot::{Share, dots};
use super::{BLOCK, Element, Shape};
use crate::fold::{Sum, fold_warp};
use crate::overlap::overlap_launches;

/// What the kernel takes: matrix, vector, result, rows, columns, the elements from one row to the
/// next.
pub(crate) type Rows<T> = Kernel<(Global<T>, Global<T>, Global<T>, u64, u32, i64)>;

/// Some lanes leave the products of some rows.
#[must_use]
pub fn rows<T: Element>(shape: Shape) -> Rows<T> {
    let Shape { lanes, rows, unroll, width } = shape;
    let name = format!("gemv_rows_{}_l{lanes}_r{rows}_u{unroll}_w{width}", T::DTYPE);
    let body = move |matrix: Global<T>,
                     vector: Global<T>,
                     result: Global<T>,
                     num_rows: Val<u64>,
                     num_columns: Val<u32>,
                     row_stride: Val<i64>| {
        overlap_launches();
        // Contract
        assert!(lanes.is_power_of_two() && lanes <= 32, "a power of two of lanes up to 32 shares a row, not {lanes}");
        // Roles
        let thread = thread_idx().x;
        let lane = thread % lanes;
        let first =
            block_idx().x.cast::<u64>() * u64::from(shape.rows_of_block()) + (thread / lanes * rows).cast::<u64>();
        // Load: lanes beyond the last row take it once more, as all of a warp fold together.
        let row = |n: u32| (first + u64::from(n)).min(num_rows - 1);
        let of_lanes: Vec<_> = (0..rows).map(|n| matrix.at(row(n).cast::<i64>() * row_stride)).collect();
        let sums = dots(&of_lanes, vector, num_columns, Share { thread: lane, threads: lanes }, (width, unroll));
        // Fold
        let sums: Vec<_> = sums.into_iter().map(|sum| fold_warp(Sum::new(), sum, lanes)).collect();
        // Epilogue
        for (n, sum) in (0..rows).zip(sums) {
            let row = first + u64::from(n);
            when(lane.eq(0) & row.lt(num_rows), || result.at(row).set(T::narrow(sum)));
        }
    };
    kernel(name, body).required_block(BLOCK)
}

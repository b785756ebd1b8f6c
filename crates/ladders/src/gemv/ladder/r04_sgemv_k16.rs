//! Rung 4: two rows per warp.
//! Changed: 16 lanes take a row; both halves of a warp read the same part of the vector, and fold at the same time.
//! Removes: half of the folds, and half of the vector's sectors.
//! Measured: see `LADDER` (generated).
//! Limit now: each load of the matrix comes with one of the vector; rows of fewer than 64 columns leave lanes idle.

use warpfold_kernels::fold::{Sum, fold_warp};
use warpfold_kernels::gemv::Element;
use warpfold_lang::{Global, Number, Val, block_idx, kernel, range, thread_idx, var, when};

use super::{BLOCK, Rows};

/// Half a warp leaves the product of a row.
#[must_use]
pub fn sgemv_k16<T: Element>() -> Rows<T> {
    let name = format!("gemv_k16_{}", T::DTYPE);
    let body = |matrix: Global<T>,
                vector: Global<T>,
                result: Global<T>,
                num_rows: Val<u64>,
                num_columns: Val<u32>,
                row_stride: Val<i64>| {
        // Roles: a half beyond the last row takes it once more, as both halves fold together.
        let (half, lane) = (thread_idx().x / 16, thread_idx().x % 16);
        let row = block_idx().x.cast::<u64>() * u64::from(BLOCK / 16) + half.cast::<u64>();
        // Load
        let row_of_matrix = matrix.at(row.min(num_rows - 1).cast::<i64>() * row_stride);
        let sum = var(<T::Acc as Number>::ZERO);
        let whole = num_columns & !(T::VECTOR - 1);
        range(lane * T::VECTOR, whole, 16 * T::VECTOR, |i| {
            let (a, x) = (T::load(row_of_matrix.at(i), T::VECTOR), T::load(vector.at(i), T::VECTOR));
            a.into_iter().zip(x).for_each(|(a, x)| sum.update(|sum| a.mul_add(x, sum)));
        });
        range(whole + lane, num_columns, 16, |i| {
            let (a, x) = (row_of_matrix.at(i).get(), vector.at(i).get());
            sum.update(|sum| T::widen(a).mul_add(T::widen(x), sum));
        });
        // Fold
        let sum = fold_warp(Sum::new(), sum.get(), 16);
        // Epilogue
        when(lane.eq(0) & row.lt(num_rows), || result.at(row).set(T::narrow(sum)));
    };
    kernel(name, body).required_block(BLOCK)
}

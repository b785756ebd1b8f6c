//! Rung 2: one warp a row.
//! Changed: the lanes of a warp take neighbouring columns, and fold their sums by shuffles.
//! Removes: most sectors: a load of a warp touches 4 of them, and uses all of each.
//! Measured: see `LADDER` (generated).
//! Limit now: each load moves 4 bytes per thread; rows of fewer than 32 columns leave lanes idle.

use warpfold_kernels::fold::{Sum, fold_warp};
use warpfold_kernels::gemv::Element;
use warpfold_lang::{Global, Number, Val, block_idx, kernel, lane_id, range, var, warp_id, when};

use super::{BLOCK, Rows};

/// A warp leaves the product of a row.
#[must_use]
pub fn sgemv_k32<T: Element>() -> Rows<T> {
    let name = format!("gemv_k32_{}", T::DTYPE);
    let body = |matrix: Global<T>,
                vector: Global<T>,
                result: Global<T>,
                num_rows: Val<u64>,
                num_columns: Val<u32>,
                row_stride: Val<i64>| {
        // Roles
        let row = block_idx().x.cast::<u64>() * u64::from(BLOCK / 32) + warp_id().cast::<u64>();
        when(row.lt(num_rows), || {
            // Load
            let row_of_matrix = matrix.at(row.cast::<i64>() * row_stride);
            let sum = var(<T::Acc as Number>::ZERO);
            range(lane_id(), num_columns, 32, |i| {
                let (a, x) = (row_of_matrix.at(i).get(), vector.at(i).get());
                sum.update(|sum| T::widen(a).mul_add(T::widen(x), sum));
            });
            // Fold
            let sum = fold_warp(Sum::new(), sum.get(), 32);
            // Epilogue
            when(lane_id().eq(0), || result.at(row).set(T::narrow(sum)));
        });
    };
    kernel(name, body).required_block(BLOCK)
}

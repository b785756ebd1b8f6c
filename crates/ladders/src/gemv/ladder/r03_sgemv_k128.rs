//! Rung 3: loads of 16 bytes.
//! Changed: a lane takes four neighbouring columns at once; up to three are left over for the first lanes.
//! Removes: three of four load instructions.
//! Measured: see `LADDER` (generated).
//! Limit now: rows of fewer than 128 columns leave lanes idle; each row costs a whole fold.

use warpfold_kernels::fold::{Sum, fold_warp};
use warpfold_kernels::gemv::Element;
use warpfold_lang::{Global, Number, Val, block_idx, kernel, lane_id, range, var, warp_id, when};

use super::{BLOCK, Rows};

/// A warp leaves the product of a row.
#[must_use]
pub fn sgemv_k128<T: Element>() -> Rows<T> {
    let name = format!("gemv_k128_{}", T::DTYPE);
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
            let whole = num_columns & !(T::VECTOR - 1);
            range(lane_id() * T::VECTOR, whole, 32 * T::VECTOR, |i| {
                let (a, x) = (T::load(row_of_matrix.at(i), T::VECTOR), T::load(vector.at(i), T::VECTOR));
                a.into_iter().zip(x).for_each(|(a, x)| sum.update(|sum| a.mul_add(x, sum)));
            });
            range(whole + lane_id(), num_columns, 32, |i| {
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

//! Rung 1: one thread per row.
//! Changed: the formula as it stands: a thread walks over its row and the vector.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: the threads of a warp stand in 32 rows, so that each load touches 32 sectors for 4 bytes of each.

use warpfold_kernels::gemv::Element;
use warpfold_lang::{Global, Number, Val, block_idx, kernel, range, thread_idx, var, when};

use super::{BLOCK, Rows};

/// A thread leaves the product of a row.
#[must_use]
pub fn one_thread_a_row<T: Element>() -> Rows<T> {
    let name = format!("gemv_one_thread_a_row_{}", T::DTYPE);
    let body = |matrix: Global<T>,
                vector: Global<T>,
                result: Global<T>,
                num_rows: Val<u64>,
                num_columns: Val<u32>,
                row_stride: Val<i64>| {
        // Roles
        let row = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        when(row.lt(num_rows), || {
            // Load
            let row_of_matrix = matrix.at(row.cast::<i64>() * row_stride);
            let sum = var(<T::Acc as Number>::ZERO);
            range(0, num_columns, 1, |i| {
                let (a, x) = (row_of_matrix.at(i).get(), vector.at(i).get());
                sum.update(|sum| T::widen(a).mul_add(T::widen(x), sum));
            });
            // Epilogue
            result.at(row).set(T::narrow(sum.get()));
        });
    };
    kernel(name, body).required_block(BLOCK)
}

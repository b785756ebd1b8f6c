//! The kernel of `O = softmax(S) V`.

use warpfold_lang::{
    Global, Shared, Val, Var, block_idx, kernel, lane_id, params, range, shared_named, shfl, sync_threads, thread_idx,
    var, vars, wait_for_dependencies, warp_id, when,
};

use super::ROWS;
use crate::elements::{load, store};
use crate::fold::{Monoid, Position, fold_warp};
use crate::rowwise::operators::{Exponentials, RowFloat};
use crate::{AnyKernel, Dtype};

/// Positions whose weights are in shared memory at once.
const RUN: u32 = 64;
const THREADS: u32 = 32 * ROWS;

fn element(dtype: Dtype, memory: Global<u8>, index: Val<u64>) -> Global<u8> {
    memory.at(index * dtype.bytes())
}

params! {
    /// Parameters of the kernel.
    pub(super) struct SoftmaxVArgs {
        scores: Global<u8>, values: Global<u8>, results: Global<u8>,
        /// Of a matrix.
        num_rows: u32, len: u32, width: u32,
    }
}

/// Threads are mapped to `columns` columns of the values, a power of two from 32 to 256.
pub(super) fn softmax_v<F: RowFloat>(dtype: Dtype, to: Dtype, columns: u32) -> AnyKernel {
    let with = Exponentials::<F>::new(to.bytes() <= 2);
    let body = move |args: SoftmaxVArgs| {
        let SoftmaxVArgs { scores, values, results, num_rows, len, width } = args;
        wait_for_dependencies();
        // Contract: a grid of a block for each ROWS rows of each product.
        let groups = THREADS / columns;
        // Shared-memory map
        let weights = shared_named::<F>("weights", RUN * ROWS);
        let stats = shared_named::<F>("stats", 2 * ROWS);
        let of_groups = shared_named::<F>("of_groups", if groups > 1 { THREADS * ROWS } else { 1 });
        let (thread, warp) = (thread_idx().x, warp_id());
        let blocks_a_product = (num_rows + (ROWS - 1)) / ROWS;
        let product = block_idx().x / blocks_a_product;
        let first_row = (block_idx().x - product * blocks_a_product) * ROWS;
        // Rows beyond the last one compute that one again.
        let row_of = |row: Val<u32>| product * num_rows + (first_row + row).min(num_rows - 1);
        let score = |row: Val<u32>, t: Val<u32>| {
            let index = row_of(row).cast::<u64>() * len.cast::<u64>() + t.cast::<u64>();
            load::<F, _>(dtype, element(dtype, scores, index), 1, false)[0]
        };
        // Statistics: a row a warp
        let acc = vars(with.identity());
        range(lane_id(), len, 32, |t| {
            acc.set(with.push(acc.get(), score(warp, t), Position::new(Val::constant(0), 0)))
        });
        let (largest, sum) = shfl(fold_warp(with, acc.get(), 32), 0);
        when(lane_id().eq(0), || {
            stats.at(warp * 2).set(with.shift(largest));
            stats.at(warp * 2 + 1).set(sum.recip());
        });
        sync_threads();
        // Main loop
        let (group, column_in_block) = (thread >> columns.ilog2(), thread & (columns - 1));
        range(0, width, columns, |first_column| {
            let column = first_column + column_in_block;
            // Columns beyond the last one compute that one again.
            let column_read = column.min(width - 1);
            let sums: Vec<Var<F>> = (0..ROWS).map(|_| var(Val::constant(F::ZERO))).collect();
            range(0, len, RUN, |first| {
                for i in (0..RUN * ROWS).step_by(THREADS as usize) {
                    let (row, t) = ((thread + i) & (ROWS - 1), first + ((thread + i) >> ROWS.ilog2()));
                    let x = score(row, t.min(len - 1));
                    let weight = with.exp(x - stats.at(row * 2).get()) * stats.at(row * 2 + 1).get();
                    weights.at(thread + i).set(t.lt(len).select::<F>(weight, F::ZERO));
                }
                sync_threads();
                range(group, (len - first).min(RUN), groups, |t| {
                    let at =
                        (product * len + first + t).cast::<u64>() * width.cast::<u64>() + column_read.cast::<u64>();
                    let value = load::<F, _>(dtype, element(dtype, values, at), 1, false)[0];
                    for pair in 0..ROWS / 2 {
                        let of_rows = weights.at(t * ROWS).at(pair * 2).get_vec::<2>();
                        for (sum, weight) in sums[pair as usize * 2..].iter().zip(of_rows) {
                            sum.set(weight.mul_add(value, sum.get()));
                        }
                    }
                });
                sync_threads();
            });
            if groups > 1 {
                add_groups(&sums, of_groups.at(thread), group, columns);
            }
            // Epilogue
            for (row, sum) in (0..ROWS).zip(&sums) {
                let is_there = group.eq(0) & column.lt(width) & (first_row + row).lt(num_rows);
                when(is_there, || {
                    let index = (product * num_rows + first_row + row).cast::<u64>() * width.cast::<u64>();
                    store(to, element(to, results, index + column.cast::<u64>()), &[sum.get()], false);
                });
            }
        });
    };
    kernel(format!("softmax_v_{dtype}_{columns}"), body).required_block(THREADS).into()
}

/// The first group adds the sums of the others, in their order, through shared memory.
fn add_groups<F: RowFloat>(sums: &[Var<F>], place: Shared<F>, group: Val<u32>, columns: u32) {
    for (row, sum) in (0..ROWS).zip(sums) {
        place.at(row * THREADS).set(sum.get());
    }
    sync_threads();
    when(group.eq(0), || {
        for (row, sum) in (0..ROWS).zip(sums) {
            for other in 1..THREADS / columns {
                sum.add_assign(place.at(row * THREADS + other * columns).get());
            }
        }
    });
    sync_threads();
}

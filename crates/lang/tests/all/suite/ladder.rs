//! First kernels: vector addition and rungs of the reduction.

use warpfold_lang::{
    Global, Kernel, Order, Val, ballot, block_dim, block_idx, fence, grid_dim, halving, kernel, lane_id, range, shared,
    shfl_down, sync_threads, sync_threads_or, thread_idx, var, warp_id, when,
};

use super::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(vector_add()),
        Case::new(vector_add_vec4()),
        Case::new(sequential(256)),
        Case::new(shuffle(256)),
        Case::new(grid_stride()),
        Case::new(single_pass(256)),
    ]
}

pub(crate) fn vector_add() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("vector_add", |a: Global<f32>, b: Global<f32>, sum: Global<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || sum.at(i).set(a.at(i).get() + b.at(i).get()));
    })
}

pub(crate) fn vector_add_vec4() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("vector_add_vec4", |a: Global<f32>, b: Global<f32>, sum: Global<f32>, len: Val<u32>| {
        let i = (block_idx().x * block_dim().x + thread_idx().x) * 4;
        when(i.lt(len), || {
            let (left, right) = (a.at(i).get_vec::<4>(), b.at(i).get_vec::<4>());
            sum.at(i).set_vec::<4>(std::array::from_fn(|k| left[k] + right[k]));
        });
    })
    .max_threads(256)
}

/// The sketch of the design, nearly to the letter.
pub(crate) fn sequential(block: u32) -> Kernel<(Global<i32>, Global<i32>, u32)> {
    kernel("reduce_sequential", move |input: Global<i32>, output: Global<i32>, len: Val<u32>| {
        let tile = shared::<i32>(block);
        let thread = thread_idx().x;
        let i = block_idx().x * block + thread;
        tile.at(thread).set(input.at(i).get_or(0, i.lt(len)));
        sync_threads();
        for stride in halving(block / 2) {
            when(thread.lt(stride), || tile.at(thread).add_assign(tile.at(thread + stride).get()));
            sync_threads();
        }
        when(thread.eq(0), || output.at(block_idx().x).set(tile.at(0).get()));
    })
}

fn warp_sum(mut sum: Val<i32>) -> Val<i32> {
    for stride in halving(16) {
        sum += shfl_down(sum, stride);
    }
    sum
}

pub(crate) fn shuffle(block: u32) -> Kernel<(Global<i32>, Global<i32>, u32)> {
    kernel("reduce_shuffle", move |input: Global<i32>, output: Global<i32>, len: Val<u32>| {
        let partials = shared::<i32>(block / 32);
        let i = block_idx().x * block + thread_idx().x;
        let sum = warp_sum(input.at(i).get_or(0, i.lt(len)));
        when(lane_id().eq(0), || partials.at(warp_id()).set(sum));
        sync_threads();
        when(warp_id().eq(0), || {
            let lane = lane_id();
            let total = warp_sum(partials.at(lane).get_or(0, lane.lt(block / 32)));
            when(lane.eq(0), || output.reduction().add(total));
        });
    })
    .required_block(block)
}

pub(crate) fn grid_stride() -> Kernel<(Global<f32>, Global<f32>, u64)> {
    kernel("reduce_grid_stride", |input: Global<f32>, output: Global<f32>, len: Val<u64>| {
        let first = (block_idx().x * block_dim().x + thread_idx().x).cast::<u64>();
        let stride = (grid_dim().x * block_dim().x).cast::<u64>();
        let sum = var(0.0_f32);
        range(first, len, stride, |i| sum.add_assign(input.at(i).get()));
        output.at(first).set(sum.get());
    })
}

pub(crate) fn single_pass(block: u32) -> Kernel<(Global<i32>, Global<i32>, Global<u32>)> {
    kernel("reduce_single_pass", move |partials: Global<i32>, output: Global<i32>, ticket: Global<u32>| {
        let thread = thread_idx().x;
        let last = var(false);
        when(thread.eq(0), || {
            partials.at(block_idx().x).set(block_idx().x.cast::<i32>());
            fence(warpfold_lang::Scope::Gpu);
            let arrived = ticket.atomic().order(Order::AcqRel).increment_wrapping(grid_dim().x - 1);
            last.set(arrived.eq(grid_dim().x - 1));
        });
        when(sync_threads_or(last.get()), || {
            let sum = var(0);
            range(thread, grid_dim().x, block, |i| sum.add_assign(partials.at(i).get()));
            when(ballot(sum.get().ne(0)).eq(0), || output.at(thread).set(-1));
            output.at(thread).set(sum.get());
        });
    })
    .required_block(block)
}

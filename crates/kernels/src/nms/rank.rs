//! The place of each box in the order of the scores, by counting the boxes before it.

use warpfold_lang::{
    Val, block_idx, kernel, lane_id, range, shared_named, sync_threads, thread_idx, var, wait_for_dependencies,
    warp_id, when,
};

use super::{GROUP, NmsArgs};
use crate::AnyKernel;

/// Threads per block.
pub(super) const BLOCK: u32 = 256;

/// Boxes a block: one for each lane of a warp. Each warp compares them with its share of all boxes.
pub(super) const BOXES: u32 = 32;

/// Sorts the boxes, and clears the bits of those that are suppressed.
pub(super) fn rank() -> AnyKernel {
    let body = |args: NmsArgs| {
        let NmsArgs { boxes, scores, sorted, order, suppressed, num_boxes, .. } = args;
        wait_for_dependencies();
        // Shared-memory map
        let keys = shared_named::<u64>("keys", BLOCK);
        let counts = shared_named::<u32>("counts", BLOCK);
        // Roles
        let thread = thread_idx().x;
        let (mine, in_grid) = (block_idx().x * BOXES + lane_id(), block_idx().x * BLOCK + thread);
        when(in_grid.lt(num_boxes.div_ceil(GROUP)), || suppressed.at(in_grid).set(0_u64));
        // Count: a tile of keys at a time, of which each warp takes a part.
        let key_of = |i: Val<u32>| i.lt(num_boxes).select(key(scores.at(i).get_or(0.0, i.lt(num_boxes)), i), u64::MAX);
        let key = key_of(mine);
        let count = var(0_u32);
        range(0, num_boxes, BLOCK, |first| {
            keys.at(thread).set(key_of(first + thread));
            sync_threads();
            let part = keys.at(warp_id() * BOXES);
            for i in (0..BOXES).step_by(2) {
                let [a, b] = part.at(i).get_vec::<2>();
                count.add_assign(a.lt(key).cast::<u32>() + b.lt(key).cast::<u32>());
            }
            sync_threads();
        });
        // Fold
        counts.at(thread).set(count);
        sync_threads();
        // Epilogue
        when(warp_id().eq(0) & mine.lt(num_boxes), || {
            let of_warps = (0..BLOCK / BOXES).map(|warp| counts.at(thread).at(warp * BOXES).get());
            let place = of_warps.fold(Val::constant(0), |sum, count| sum + count);
            order.at(place).set(mine);
            let (from, to) = (boxes.at(mine.mul_wide(4)), sorted.at(place.mul_wide(4)));
            to.set_vec([0, 1, 2, 3].map(|i| from.at(i).get()));
        });
    };
    kernel("nms_rank", body).required_block(BLOCK).into()
}

/// A number that is less for a box that comes before: the score's order above the index.
fn key(score: Val<f32>, index: Val<u32>) -> Val<u64> {
    const SIGN: u32 = 1 << 31;
    let bits = score.bitcast::<u32>();
    // Positive scores: the larger, the less, all below the negative ones, which fall towards minus
    // infinity as it is.
    let ordered = (bits & SIGN).eq(0).select(!bits ^ SIGN, bits);
    let ordered = score.eq(0.0).select(!SIGN, ordered);
    let ordered = score.is_nan().select(u32::MAX, ordered);
    (ordered.cast::<u64>() << 32) | index.cast::<u64>()
}

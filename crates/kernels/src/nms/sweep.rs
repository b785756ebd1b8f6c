//! Which boxes are kept: one block walks over them, 64 at a time.

use warpfold_lang::{
    Val, kernel, loop_until_left, range, shared_named, sync_threads, thread_idx, var, wait_for_dependencies, when,
};

use super::{GROUP, NmsArgs};
use crate::AnyKernel;

/// Threads of the block.
pub(super) const BLOCK: u32 = 256;

/// Words of pairs' bits that a thread has under way.
const UNROLL: u32 = 8;

/// Goes on where the launch before it ended, and leaves the bits of the boxes that come later for
/// the next.
pub(super) fn sweep() -> AnyKernel {
    let body = |args: NmsArgs| {
        let NmsArgs { bits, order, suppressed, indices, count, num_boxes, num_words, first, end, .. } = args;
        wait_for_dependencies();
        // Shared-memory map
        let within = shared_named::<u64>("within", GROUP);
        // Roles
        let thread = thread_idx().x;
        let num_kept = var(count.get_or(0_i64, first.ne(0)));
        range(first / GROUP, end.div_ceil(GROUP), 1, |group| {
            let row = |i: Val<u32>| bits.at((group * GROUP + i - first).mul_wide(num_words));
            // Load: what the boxes of the group do to one another.
            let is_box = thread.lt(GROUP) & (group * GROUP + thread).lt(num_boxes);
            when(thread.lt(GROUP), || within.at(thread).set(row(thread).at(group).get_or(0_u64, is_box)));
            sync_threads();
            // Keep, in every thread: the first that is left, then what it leaves, and so on.
            let beyond = Val::constant(u64::MAX) << (num_boxes - group * GROUP);
            let left = var(!(suppressed.at(group).get() | beyond));
            let kept = var(0_u64);
            loop_until_left(|next| {
                next.leave_if(left.get().eq(0));
                let b = left.get().ctz();
                let bit = Val::constant(1_u64) << b;
                kept.set(kept.get() | bit);
                left.set(left.get() & !(bit | within.at(b).get()));
            });
            let kept = kept.get();
            // Epilogue of the group
            let is_kept = |i: Val<u32>| ((kept >> i) & 1).ne(0);
            when(thread.lt(GROUP) & is_kept(thread), || {
                let before = kept & ((Val::constant(1_u64) << thread) - 1);
                let place = num_kept.get() + before.popc().cast::<i64>();
                indices.at(place).set(order.at(group * GROUP + thread).get().cast::<i64>());
            });
            num_kept.add_assign(kept.popc().cast::<i64>());
            // What the kept boxes do to the groups after it
            range(group + 1 + thread, num_words, BLOCK, |word| {
                let found = var(suppressed.at(word).get());
                range(0_u32, GROUP, UNROLL, |b| {
                    when(((kept >> b) & u64::from((1_u32 << UNROLL) - 1)).ne(0), || {
                        let words = (0..UNROLL).map(|n| row(b + n).at(word).get_or(0_u64, is_kept(b + n)));
                        let words: Vec<_> = words.collect();
                        found.set(words.into_iter().fold(found.get(), |found, word| found | word));
                    });
                });
                suppressed.at(word).set(found);
            });
            sync_threads();
        });
        // Epilogue
        when(thread.eq(0), || count.set(num_kept));
    };
    kernel("nms_sweep", body).required_block(BLOCK).into()
}

//! The fold over the blocks of a grid, in the launch that made them: the last block finishes.

use warpfold_lang::{
    AnyRegisters, Global, Order, Registers, Val, block_dim, linear_thread_idx, range, shared_named, sync_threads, vars,
    when,
};

use super::block;
use super::erased::ErasedMonoid;

/// Where the blocks that share one result store their accumulators.
pub(crate) struct Parts {
    /// Memory for one accumulator per part: 8 bytes per register.
    pub(crate) workspace: Global<u64>,
    /// Accumulators in the whole workspace.
    pub(crate) slots: Val<u64>,
    /// The first slot of this result; the parts follow.
    pub(crate) first: Val<u64>,
    /// The number of this block's part, and of all.
    pub(crate) part: Val<u32>,
    pub(crate) parts: Val<u32>,
    /// Zero before the launch, and zero again after it.
    pub(crate) ticket: Global<u32>,
}

/// Folds the accumulators that thread 0 of each part has, in the order of the parts; `done` runs in
/// the block that comes last, with the result in its thread 0. All threads of the block must come
/// here together.
pub(crate) fn fold(
    monoid: &dyn ErasedMonoid,
    acc: AnyRegisters,
    parts: &Parts,
    threads: u32,
    done: &dyn Fn(AnyRegisters),
) {
    let is_last = shared_named::<u32>("is_last", 1);
    let thread = linear_thread_idx();
    let slots = acc.global(parts.workspace, parts.slots, &mut 0);
    // The release of this block's part meets the acquire of the last block, which sees all parts.
    when(thread.eq(0), || {
        acc.store(slots, parts.first + parts.part.cast::<u64>());
        // Wraps to zero at the last block: the counter is ready for the next launch.
        let before = parts.ticket.atomic().order(Order::AcqRel).increment_wrapping(parts.parts - 1);
        is_last.set(before.eq(parts.parts - 1).cast::<u32>());
    });
    sync_threads();
    when(is_last.get().ne(0), || {
        debug_assert!(block_dim().x.known().is_none_or(|x| x <= threads), "one thread per part at most");
        // A thread folds neighbouring parts, so that the order is theirs.
        let each = (parts.parts + (threads - 1)) / threads;
        let first = thread * each;
        let acc = vars(monoid.identity());
        range(first, (first + each).min(parts.parts), 1, |part| {
            acc.set(monoid.combine(acc.get(), AnyRegisters::load(slots, parts.first + part.cast::<u64>())));
        });
        done(block::fold(monoid, acc.get(), threads));
    });
}

//! The barrier of a whole grid, for cooperative launches.

use crate::{Global, Order, Scope, Val, block_idx, grid_dim, linear_thread_idx, loop_until_left, sync_threads, when};

/// The bit that flips when all blocks have arrived.
const TURN: u32 = 1 << 31;

/// Waits until all threads of the grid have arrived, and makes their earlier writes visible to each
/// other: `cooperative_groups::this_grid().sync()`.
///
/// `word` is memory of the grid alone: zero before its first use, and ready for the next one, in
/// this launch or a later one, after each. Every thread of every block has to come here, and all
/// blocks have to be resident at once: **the launch has to be cooperative**
/// (`LaunchConfig::cooperative`), which a device refuses if the grid is too large for it. In
/// another launch blocks may wait for ever for one that cannot begin. The grid has at most 2^31
/// blocks.
///
/// A fence does not replace it: a fence orders what one thread does, and waits for nobody.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, Val, block_idx, grid_dim, grid_sync, kernel, thread_idx, when};
/// let turn = kernel("turn", |data: Global<u32>, word: Global<u32>| {
///     when(thread_idx().x.eq(0), || data.at(block_idx().x).set(block_idx().x));
///     grid_sync(word);
///     let next: Val<u32> = data.at((block_idx().x + 1) % grid_dim().x).get();
///     grid_sync(word);
///     when(thread_idx().x.eq(0), || data.at(block_idx().x).set(next));
/// });
/// assert!(turn.ptx(&Target::new(Arch::SM_80, (7, 0)))?.contains("atom.acq_rel.gpu.global.add.u32"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
///
/// PTX ISA, "Memory Consistency Model": the barrier of the block makes what its threads wrote part
/// of what the thread that comes to the word releases; a thread that acquires the turned bit sees
/// it.
#[track_caller]
pub fn grid_sync(word: Global<u32>) {
    sync_threads();
    when(linear_thread_idx().eq(0), || {
        let idx = block_idx();
        // The first block adds what the others leave to the bit: together they add exactly it.
        let of_first = Val::constant(TURN) - (grid_dim().count() - 1);
        let share = (idx.x | idx.y | idx.z).eq(0).select(of_first, Val::constant(1_u32));
        let before = word.atomic().order(Order::AcqRel).add(share);
        loop_until_left(|spin| {
            let seen = word.load(Order::Acquire, Scope::Gpu);
            spin.leave_if(((seen ^ before) & TURN).ne(0));
        });
    });
    sync_threads();
}

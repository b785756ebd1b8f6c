//! Dynamic tile scheduler of persistent kernels: a counter in global memory gives each block its
//! next output tile.

use super::pipeline::{Cursor, Pipeline};
use crate::memory::{Global, Shared, shared_named};
use crate::{Operand, Val, Var, block_idx, grid_dim, linear_thread_idx, sync_threads, var, when, while_loop};

/// Numbers from 0 to `total` that the blocks of a grid draw, each number once: tiles of unequal
/// cost, longest first, end at nearly the same time in all blocks.
///
/// A block begins with its own number and draws the following ones from a counter. The counter must
/// be 0 when the grid begins, and is 0 again when all blocks have drawn: it is cleared once, when
/// it is allocated. Every block of the grid whose number is less than `total` must draw until there
/// are no more, which [`produce`](Self::produce) and [`each_together`](Self::each_together) do.
///
/// One thread draws, and hands each number to the others of its block through shared memory:
/// ```
/// use warpfold_lang::{
///     Arch, Global, Target, TileCounter, Val, kernel, linear_thread_idx, sync_threads, warp_id, when, when_else,
/// };
/// let persistent = kernel("persistent", |counter: Global<u32>, total: Val<u32>, out: Global<u32>| {
///     let tiles = TileCounter::new(counter, total);
///     when(linear_thread_idx().eq(0), || tiles.init(128));
///     sync_threads();
///     when_else(
///         linear_thread_idx().ge(128), // warp 4: the producer
///         || when(linear_thread_idx().eq(128), || tiles.produce(|tile| { /* starts the copies of the tile */ })),
///         || tiles.consume(|tile| { out.at(tile).reduction().add(1_u32); }),
///     );
/// });
/// assert!(persistent.required_block(160).build(&Target::new(Arch::SM_90A, (8, 0))).is_ok());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TileCounter {
    counter: Global<u32>,
    total: Val<u32>,
    slots: Shared<u32>,
    ring: Pipeline,
}

/// Slots for numbers in shared memory: one is in use while the next one is handed over.
const SLOTS: u32 = 2;

impl TileCounter {
    /// Allocates shared memory for the numbers that a block draws.
    #[track_caller]
    #[must_use]
    pub fn new(counter: Global<u32>, total: impl Operand<u32>) -> Self {
        Self { counter, total: total.val(), slots: shared_named("tile_index", SLOTS), ring: Pipeline::new(SLOTS) }
    }

    /// Initialises the barriers for the number of threads that [consume](Self::consume). For one
    /// thread, before the block synchronises; not needed for
    /// [`each_together`](Self::each_together).
    #[track_caller]
    pub fn init(self, consumers: u32) {
        self.ring.init(1, consumers);
    }

    /// The next number, of which one is drawn for each: the counter goes from `total - 1` back to
    /// 0, which is the last draw, as each of the `total` numbers leads to one: to another number,
    /// or to the end of its block.
    #[track_caller]
    fn draw(self) -> Val<u32> {
        grid_dim().x + self.counter.atomic().increment_wrapping(self.total - 1)
    }

    /// For one thread: runs `body` for each number of the block, and then hands over the next
    /// number.
    #[track_caller]
    pub fn produce(self, body: impl FnOnce(Val<u32>)) {
        self.each(body, |at, tile| {
            let next = self.draw();
            self.ring.acquire(at);
            self.slots.at(at.stage()).set(next);
            self.ring.full(at).arrive();
            tile.set(next);
        });
    }

    /// For the threads that [`init`](Self::init) counted: runs `body` for each number that the
    /// producer handed over.
    #[track_caller]
    pub fn consume(self, body: impl FnOnce(Val<u32>)) {
        self.each(body, |at, tile| {
            self.ring.wait(at);
            tile.set(self.slots.at(at.stage()).get());
            self.ring.empty(at).arrive();
        });
    }

    /// For all threads of a block together, without a producer: runs `body` for each number,
    /// between barriers.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Target, TileCounter, Val, kernel, thread_idx};
    /// let persistent = kernel("persistent", |counter: Global<u32>, total: Val<u32>, out: Global<u32>| {
    ///     TileCounter::new(counter, total).each_together(|tile| out.at(tile * 128 + thread_idx().x).set(tile));
    /// });
    /// assert!(persistent.required_block(128).build(&Target::new(Arch::SM_80, (8, 0))).is_ok());
    /// ```
    #[track_caller]
    pub fn each_together(self, body: impl FnOnce(Val<u32>)) {
        self.each(body, |_, tile| {
            sync_threads();
            when(linear_thread_idx().eq(0), || self.slots.set(self.draw()));
            sync_threads();
            tile.set(self.slots.get());
        });
    }

    #[track_caller]
    fn each(self, body: impl FnOnce(Val<u32>), next: impl FnOnce(Cursor, Var<u32>)) {
        let (tile, at) = (var(block_idx().x), self.ring.start());
        while_loop(
            || tile.get().lt(self.total),
            || {
                body(tile.get());
                next(at, tile);
                at.advance();
            },
        );
    }
}

//! Rows that go through shared memory tile by tile: a ring of tiles, so that rows to come are loaded while one is folded and
//! stored (sm_90).

use std::cell::Cell;
use std::rc::Rc;

use warpfold_lang::{
    Barriers, Global, Shared, Val, Var, barriers, block_idx, fence_async, grid_dim, range, sync_threads, thread_idx,
    var, when, when_else,
};

use super::held::{At, Pass, Walk};
use crate::Dtype;

/// How tiles are dealt out, and how many there is room for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiling {
    /// Tiles of the ring, at least as many as a row has.
    pub(super) slots: u32,
    /// Threads of the block.
    pub(super) threads: u32,
    /// Items side by side.
    pub(super) vector: u32,
    /// Groups that a thread has of a tile.
    pub(super) unroll: u32,
}

impl Tiling {
    const fn round(self) -> u32 {
        self.threads * self.vector
    }

    /// Items of a tile: a power of two.
    const fn tile(self) -> u32 {
        self.round() * self.unroll
    }
}

/// An input that goes through the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    /// Its number.
    pub(super) input: usize,
    pub(super) dtype: Dtype,
    /// Where its first tile goes.
    pub(super) to: Shared<u8>,
}

/// The rows of a block in their order.
pub(super) struct Rows {
    /// Where the inputs of a row begin, at multiples of 16 bytes.
    pub(super) bases: Box<dyn Fn(Val<u64>) -> Vec<Global<u8>>>,
    /// Items of a row, which take a multiple of 16 bytes of each input.
    pub(super) len: Val<u32>,
    /// How many there are for the whole grid.
    pub(super) rows: Val<u64>,
    pub(super) staged: Vec<Staged>,
}

/// A ring of tiles.
pub(super) struct Ring {
    tiling: Tiling,
    rows: Rows,
    arrived: Barriers,
    /// The slot of the row's first tile.
    first: Var<u32>,
    /// The parity of the phase in which it arrives.
    parity: Var<u32>,
    /// The row and the tile that the first thread loads next.
    ahead: (Var<u64>, Var<u32>),
    /// Whether the row's first pass, which waits for tiles to arrive, is recorded.
    is_there: Cell<bool>,
}

impl Ring {
    /// The inputs that go through a ring of these tiles, in so much shared memory.
    pub(super) fn staged(tiling: Tiling, inputs: &[(usize, Dtype)], mut room: Shared<u8>) -> Vec<Staged> {
        let one = |(input, dtype): &(usize, Dtype)| {
            let to = room;
            room = room.at(tiling.slots * tiling.tile() * dtype.bytes() as u32);
            Staged { input: *input, dtype: *dtype, to }
        };
        inputs.iter().map(one).collect()
    }

    /// Begins to load as much as there is room for.
    pub(super) fn begin(tiling: Tiling, rows: Rows) -> Self {
        let row = var(block_idx().x.cast::<u64>());
        let arrived = barriers(tiling.slots);
        let ring = Self {
            tiling,
            rows,
            arrived,
            first: var(0),
            parity: var(0),
            ahead: (row, var(0)),
            is_there: Cell::new(false),
        };
        when(thread_idx().x.eq(0), || {
            arrived.init(1);
            Barriers::publish();
            range(0_u32, tiling.slots, 1, |slot| ring.load_next(slot));
        });
        sync_threads();
        ring
    }

    /// Does something with each row of the block.
    pub(super) fn for_each_row(self, body: impl FnOnce(Val<u64>, Rc<dyn Walk>)) {
        let (first, parity, slots) = (self.first, self.parity, self.tiling.slots);
        let (rows, tiles) = (self.rows.rows, self.num_tiles());
        range(block_idx().x.cast::<u64>(), rows, grid_dim().x.cast::<u64>(), |row| {
            body(row, Rc::new(self));
            let (next, turns) = turned(first.get() + tiles, slots);
            first.set(next);
            parity.set(parity.get() ^ turns.cast::<u32>());
        });
    }

    /// Tiles of a row.
    fn num_tiles(&self) -> Val<u32> {
        let tile = self.tiling.tile();
        (self.rows.len + (tile - 1)) >> tile.ilog2()
    }

    /// Loads what comes next into a slot, unless all is loaded; for the first thread.
    fn load_next(&self, slot: Val<u32>) {
        let Self { tiling, rows, arrived, ahead, .. } = self;
        let (row, tile) = (ahead.0.get(), ahead.1.get());
        when(row.lt(rows.rows), || {
            let start = tile * tiling.tile();
            let len = (rows.len - start).min(tiling.tile());
            let bytes: u64 = rows.staged.iter().map(|staged| staged.dtype.bytes()).sum();
            arrived.at(slot).arrive_expect(len * bytes as u32);
            let bases = (rows.bases)(row);
            for Staged { input, dtype, to } in &rows.staged {
                let bytes = dtype.bytes() as u32;
                let (to, from) = (to.at(slot * (tiling.tile() * bytes)), bases[*input].at(start * bytes));
                to.copy_bulk(from, len * bytes, arrived.at(slot));
            }
            let is_last = (tile + 1).eq(self.num_tiles());
            ahead.0.set(is_last.select::<u64>(row + grid_dim().x.cast::<u64>(), row));
            ahead.1.set(is_last.select::<u32>(0, tile + 1));
        });
    }
}

/// A slot counted beyond the last one at most once round, and whether it was.
fn turned(slot: Val<u32>, slots: u32) -> (Val<u32>, Val<bool>) {
    let turns = slot.ge(slots);
    (turns.select::<u32>(slot - slots, slot), turns)
}

impl Walk for Ring {
    fn each(&self, pass: Pass, body: &dyn Fn(&[At])) {
        let Tiling { slots, vector, unroll, .. } = self.tiling;
        let (tile, round, mine) = (self.tiling.tile(), self.tiling.round(), thread_idx().x * vector);
        let (first, parity, is_there) = (self.first.get(), self.parity.get(), self.is_there.replace(true));
        range(0_u32, self.num_tiles(), 1, |number| {
            let (slot, turns) = turned(first + number, slots);
            if !is_there {
                self.arrived.at(slot).wait(parity ^ turns.cast::<u32>());
            }
            let (start, place) = (number * tile, slot * tile);
            let at = |i: Val<u32>| At { first: start + i, more: 0, place: place + i };
            let len = self.rows.len - start;
            let whole = || body(&(0..unroll).map(|u| at(mine + u * round)).collect::<Vec<_>>());
            when_else(len.ge(tile), whole, || range(mine, len, round, |i| body(&[at(i)])));
            if pass == Pass::Last {
                // Everyone has read the tile, and the copy is to know that.
                sync_threads();
                when(thread_idx().x.eq(0), || {
                    fence_async();
                    self.load_next(slot);
                });
            }
        });
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("tiling", &self.tiling).finish_non_exhaustive()
    }
}

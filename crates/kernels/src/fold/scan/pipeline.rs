//! The software pipeline of a block over the tiles that blocks share: several tiles at a time, so
//! that loads never stop.
//!
//! A block draws tickets for tiles, so that all tiles before one belong to blocks that have
//! started, and no block waits for one that is not resident yet. The newest of its tiles are in
//! flight to shared memory; it publishes the aggregate of the one that has arrived, a round before
//! it needs the prefix of that tile. By then other blocks have published theirs, so it seldom
//! waits, and never for a tile after the one that it finishes.

use warpfold_lang::{
    Global, Shared, Val, Var, grid_dim, loop_until_left, shared_named, sync_threads, thread_idx, var, when,
};

use super::look_back::Nodes;

/// Words before the nodes: the number of the launch, in the high half, and the tickets drawn.
pub(crate) const COUNTERS: u64 = 1;

/// The tiles of one launch, to be drawn one by one.
pub(super) struct TileQueue {
    memory: Global<u64>,
    drawn: Shared<u64>,
    tiles: Val<u32>,
    slots: u32,
    first: Val<u64>,
}

impl TileQueue {
    /// The launch's `tiles`, of which the block has as many as there are `slots`. All threads of
    /// the block come here together.
    pub(super) fn begin(memory: Global<u64>, tiles: Val<u32>, slots: u32) -> Self {
        let drawn = shared_named::<u64>("drawn", 2);
        let mut queue = Self { memory, drawn, tiles, slots, first: Val::constant(0) };
        // The second place: the first round writes the other one.
        let place = drawn.at(1);
        when(thread_idx().x.eq(0), || place.set(queue.draw()));
        sync_threads();
        queue.first = place.get();
        queue
    }

    /// Draws a ticket, in the low half; for one thread. Every block draws until it gets one after
    /// the last tile.
    fn draw(&self) -> Val<u64> {
        let drawn = self.memory.atomic().add(1);
        let all = self.tiles + grid_dim().x;
        // All blocks have read the number of this launch; the next one is one more, and its tickets
        // begin at zero.
        when(drawn.cast::<u32>().eq(all - 1), || self.memory.reduction().add((1_u64 << 32) - all.cast::<u64>()));
        drawn
    }

    /// The `num` nodes after the counter, as this launch marks them.
    pub(super) fn nodes(&self, num: Val<u64>) -> Nodes {
        // Memory that no launch has used is zero, which is no mark.
        Nodes { memory: self.memory.at(COUNTERS), num, mark: (self.first >> 32).cast::<u32>() + 1 }
    }

    /// Processes tile after tile. `load` requests one into a stage, `publish` publishes its
    /// aggregate, and `finish` does the rest with the nodes that `look_back` loaded before the next
    /// tile was published; `publish_group` may wait for nodes of tiles before one that was
    /// published. All get the tile's ticket. `wait` waits for all loads but the last ones.
    pub(super) fn walk<L>(
        &self,
        load: impl FnOnce(Val<u32>, Val<u32>),
        wait: impl FnOnce(u32),
        look_back: impl FnOnce(Val<u32>, Val<bool>) -> L,
        publish: impl FnOnce(Val<u32>, Val<u32>),
        finish: impl FnOnce(Val<u32>, Val<u32>, L),
        publish_group: impl FnOnce(Val<u32>),
    ) {
        let none = u32::MAX;
        // The tile to finish, the one to publish, those in flight, the one to load.
        let hand: Vec<Var<u32>> = (0..self.slots).map(|_| var(none)).collect();
        let newest = self.slots as usize - 1;
        hand[newest].set(self.first.cast::<u32>());
        let first_slot = var(0_u32);
        let slot = |i: u32| next_slot(first_slot.get(), i, self.slots);
        let is_tile = |i: usize| hand[i].get().lt(self.tiles);
        let round = var(0_u32);
        loop_until_left(|walking| {
            let least = hand.iter().map(|tile| tile.get()).reduce(|least, tile| least.min(tile));
            walking.leave_if(least.expect("there are slots").ge(self.tiles));
            let drawn = var(u64::from(none));
            let draw = || when(thread_idx().x.eq(0) & is_tile(newest), || drawn.set(self.draw()));
            if self.slots == 1 {
                let (tile, slot) = (hand[0].get(), Val::constant(0));
                load(tile, slot);
                wait(0);
                publish(tile, slot);
                publish_group(tile);
                finish(tile, slot, look_back(tile, Val::constant(true)));
                // Not before: other blocks wait for every tile that has been drawn.
                draw();
            } else {
                draw();
                when(is_tile(newest), || load(hand[newest].get(), slot(self.slots - 1)));
                let looked = look_back(hand[0].get(), is_tile(0));
                wait(self.slots - 2);
                when(is_tile(1), || publish(hand[1].get(), slot(1)));
                when(is_tile(0), || finish(hand[0].get(), slot(0), looked));
                when(is_tile(1), || publish_group(hand[1].get()));
            }
            // Another address in each round: all threads have read it after the barrier of the
            // next.
            let place = self.drawn.at(round.get());
            when(thread_idx().x.eq(0), || place.set(drawn));
            sync_threads();
            hand.windows(2).for_each(|pair| pair[0].set(pair[1].get()));
            hand[newest].set(place.get().cast::<u32>());
            first_slot.set(slot(1));
            round.set(round.get() ^ 1);
        });
    }
}

/// The slot `by` further on, in a ring.
fn next_slot(slot: Val<u32>, by: u32, slots: u32) -> Val<u32> {
    let next = slot + by;
    next.ge(slots).select::<u32>(next - slots, next)
}

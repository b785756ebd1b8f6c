//! The way of a block through the tiles that blocks share: several in hand at a time, so that loads never stop.
//!
//! A block takes tiles by tickets, so that all tiles before one belong to blocks that have begun, and no wait can be for
//! a block that waits for room. Of the tiles that it has in hand the youngest are on their way into shared memory; of the
//! one that has arrived it shows the aggregate, a round before it asks what lies before that tile. By then others have
//! shown theirs, too, so it waits seldom, and for no tile that comes after the one that it finishes.

use warpfold_lang::{
    Global, Shared, Val, Var, grid_dim, loop_until_left, shared_named, sync_threads, thread_idx, var, when,
};

use super::look_back::Nodes;

/// Words in front of the nodes: the number of the launch, in the high half, and the tickets drawn.
pub(crate) const COUNTERS: u64 = 1;

/// The tiles of one launch, to be taken one by one.
pub(super) struct Queue {
    memory: Global<u64>,
    drawn: Shared<u64>,
    tiles: Val<u32>,
    slots: u32,
    first: Val<u64>,
}

impl Queue {
    /// The launch's `tiles`; the block has as many in hand as there are `slots`. All threads of the block come here
    /// together.
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

    /// Draws a ticket, in the low half; for one thread. Every block draws until it gets one beyond the last tile.
    fn draw(&self) -> Val<u64> {
        let drawn = self.memory.atomic().add(1);
        let all = self.tiles + grid_dim().x;
        // Everyone has the number of this launch; the next one is one more, and its tickets begin at zero.
        when(drawn.cast::<u32>().eq(all - 1), || self.memory.reduction().add((1_u64 << 32) - all.cast::<u64>()));
        drawn
    }

    /// The nodes behind the counter, `num` of them, as this launch marks them.
    pub(super) fn nodes(&self, num: Val<u64>) -> Nodes {
        // Memory that no launch has used is zero, and no mark.
        Nodes { memory: self.memory.at(COUNTERS), num, mark: (self.first >> 32).cast::<u32>() + 1 }
    }

    /// Takes tile after tile. `load` brings one into a slot, `show` its aggregate to the others, and `finish` does the
    /// rest of it with what `look` saw of others before the next tile was shown; `settle` may wait for what others show of
    /// tiles before one that was shown. All are given the tile's ticket. `wait` waits for what was loaded, but for the last so many.
    pub(super) fn walk<L>(
        &self,
        load: impl FnOnce(Val<u32>, Val<u32>),
        wait: impl FnOnce(u32),
        look: impl FnOnce(Val<u32>, Val<bool>) -> L,
        show: impl FnOnce(Val<u32>, Val<u32>),
        finish: impl FnOnce(Val<u32>, Val<u32>, L),
        settle: impl FnOnce(Val<u32>),
    ) {
        let none = u32::MAX;
        // The tile to finish, the one to show, those on their way, the one to load.
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
                show(tile, slot);
                settle(tile);
                finish(tile, slot, look(tile, Val::constant(true)));
                // Not before: others wait for whatever has been drawn.
                draw();
            } else {
                draw();
                when(is_tile(newest), || load(hand[newest].get(), slot(self.slots - 1)));
                let looked = look(hand[0].get(), is_tile(0));
                wait(self.slots - 2);
                when(is_tile(1), || show(hand[1].get(), slot(1)));
                when(is_tile(0), || finish(hand[0].get(), slot(0), looked));
                when(is_tile(1), || settle(hand[1].get()));
            }
            // Another place in each round: what one has, all have read behind the barrier of the next.
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

/// The slot that comes so many behind one, in a ring.
fn next_slot(slot: Val<u32>, by: u32, slots: u32) -> Val<u32> {
    let next = slot + by;
    next.ge(slots).select::<u32>(next - slots, next)
}

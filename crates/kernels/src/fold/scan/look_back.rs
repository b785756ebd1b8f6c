//! The scan over tiles that blocks share, in the launch that makes them: tickets, and a tree of fixed radix.
//!
//! After Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016): a block takes its tile
//! by a ticket, so that all tiles before it belong to blocks that have begun, and no wait can be for a block that waits
//! for room. What deviates: which nodes a prefix is made of is fixed (see the module above), so that its bits are.
//!
//! Nodes of a row with `tiles` tiles, each an accumulator and a flag that says that it is there:
//! - one a tile, its aggregate;
//! - one for each group of 32 tiles, its aggregate, left there by the last of them;
//! - one for each 1024 tiles, the prefix of all before them, left there by the last of those.
//!
//! Flags and tickets are zero before a launch; the block that comes last makes them so again. It needs no memset and no
//! number of the launch, so a launch may be recorded and replayed.

use warpfold_lang::{
    Global, GlobalSpace, Order, Registers, Scope, Val, fence, grid_dim, lane_id, loop_until_left, range, shared_named,
    sync_threads, sync_warp, thread_idx, vars, when,
};

use crate::fold::{Monoid, fold_warp};

/// Nodes that share one of the next level.
pub(crate) const RADIX: u32 = 32;

/// Counters in front of the flags: the ticket and the blocks that need no flag any more.
pub(crate) const COUNTERS: u64 = 2;

/// Nodes of a row.
pub(crate) const fn num_nodes(tiles: u64) -> u64 {
    let radix = RADIX as u64;
    tiles + tiles.div_ceil(radix) + tiles.div_ceil(radix * radix)
}

/// A level of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Tile,
    Group,
    Prefix,
}

/// The nodes of one row.
pub(crate) struct Nodes<A: Registers> {
    /// The number of its first one among those of all rows.
    pub(crate) first: Val<u64>,
    /// Tiles of the row.
    pub(crate) tiles: Val<u64>,
    /// Accumulators of all rows.
    pub(crate) slots: A::Pointers<GlobalSpace>,
    /// The counters, and behind them the flags of all rows.
    pub(crate) tickets: Global<u32>,
}

fn groups_of(tiles: Val<u64>) -> Val<u64> {
    (tiles + u64::from(RADIX - 1)) >> RADIX.ilog2()
}

/// [`num_nodes`], inside a kernel.
pub(crate) fn nodes_of(tiles: Val<u64>) -> Val<u64> {
    let groups = groups_of(tiles);
    tiles + groups + groups_of(groups)
}

impl<A: Registers> Nodes<A> {
    /// The number of a node.
    pub(crate) fn number(&self, level: Level, i: Val<u64>) -> Val<u64> {
        let in_row = match level {
            Level::Tile => i,
            Level::Group => self.tiles + i,
            Level::Prefix => self.tiles + groups_of(self.tiles) + i,
        };
        self.first + in_row
    }

    /// The flag of a node.
    pub(crate) fn flag(&self, node: Val<u64>) -> Global<u32> {
        self.tickets.at(COUNTERS).at(node)
    }

    /// Leaves an accumulator at a node; for one thread.
    fn show(&self, node: Val<u64>, acc: A) {
        acc.store(self.slots, node);
        self.flag(node).store(1, Order::Release, Scope::Gpu);
    }

    /// Waits until an accumulator is there, and loads it.
    fn wait_for(&self, node: Val<u64>) -> A {
        wait_for(self.flag(node));
        A::load(self.slots, node)
    }
}

/// Where a tile stands in the tree.
pub(crate) struct Place {
    pub(crate) tile: Val<u64>,
    /// Its number in its group.
    pub(crate) in_group: Val<u32>,
    pub(crate) group: Val<u64>,
    /// The group's number in its group of groups.
    pub(crate) in_groups: Val<u32>,
    pub(crate) groups: Val<u64>,
}

impl Place {
    pub(crate) fn new(tile: Val<u64>) -> Self {
        let bits = RADIX.ilog2();
        let within = |i: Val<u64>| i.cast::<u32>() & (RADIX - 1);
        let group = tile >> bits;
        Self { tile, in_group: within(tile), group, in_groups: within(group), groups: group >> bits }
    }

    /// Whether the tile is the last of its group.
    pub(crate) fn ends_group(&self) -> Val<bool> {
        self.in_group.eq(RADIX - 1)
    }

    /// Whether it is the last of a group of groups, and others follow.
    pub(crate) fn ends_groups(&self, tiles: Val<u64>) -> Val<bool> {
        self.ends_group() & self.in_groups.eq(RADIX - 1) & (self.tile + 1_u64).lt(tiles)
    }
}

/// The fold of all tiles before, in lane 0; `own` is the tile's aggregate. For one warp, all of its lanes together.
pub(crate) fn look_back<M: Monoid>(monoid: M, nodes: &Nodes<M::Acc>, tile: Val<u64>, own: M::Acc) -> M::Acc {
    let place = Place::new(tile);
    let is_first = lane_id().eq(0);
    let show = |level, i, acc| when(is_first, || nodes.show(nodes.number(level, i), acc));
    let gather = |level, first: Val<u64>, count: Val<u32>| {
        let acc = vars(monoid.identity());
        let node = nodes.number(level, first + lane_id().cast::<u64>());
        when(lane_id().lt(count), || acc.set(nodes.wait_for(node)));
        fold_warp(monoid, acc.get(), RADIX)
    };
    show(Level::Tile, tile, own);
    let tiles = gather(Level::Tile, place.group << RADIX.ilog2(), place.in_group);
    let with_own = monoid.combine(tiles, own);
    // Shown before any wait for other groups, which would make a chain of all groups.
    when(place.ends_group(), || show(Level::Group, place.group, with_own));
    let before = vars(gather(Level::Group, place.groups << RADIX.ilog2(), place.in_groups));
    when(is_first & place.groups.ne(0), || {
        let all = nodes.wait_for(nodes.number(Level::Prefix, place.groups));
        before.set(monoid.combine(all, before.get()));
    });
    let before = before.get();
    when(place.ends_groups(nodes.tiles), || {
        show(Level::Prefix, place.groups + 1_u64, monoid.combine(before, with_own));
    });
    // What the lanes have read comes before what lane 0 lets others know.
    sync_warp();
    monoid.combine(before, tiles)
}

/// Waits until a flag is set.
pub(crate) fn wait_for(flag: Global<u32>) {
    // Polled without order, which costs nothing; the fence orders once.
    loop_until_left(|spin| spin.leave_if(flag.load(Order::Relaxed, Scope::Gpu).ne(0)));
    fence(Scope::Gpu);
}

/// The block's ticket: the next number that no block has. All threads of the block come here together.
pub(crate) fn take_ticket(tickets: Global<u32>) -> Val<u32> {
    let ticket = shared_named::<u32>("ticket", 1);
    when(thread_idx().x.eq(0), || ticket.set(tickets.atomic().increment_wrapping(grid_dim().x - 1)));
    sync_threads();
    ticket.get()
}

/// Counts this block among those that need no flag any more, and says whether it is the last; for one thread, which has
/// met those that read flags.
pub(crate) fn leave(tickets: Global<u32>) -> Val<bool> {
    let before = tickets.at(1).atomic().order(Order::AcqRel).increment_wrapping(grid_dim().x - 1);
    before.eq(grid_dim().x - 1)
}

/// Makes all flags zero again; for the threads of the last block.
pub(crate) fn clear(tickets: Global<u32>, flags: Val<u64>, threads: u32) {
    let flag = tickets.at(COUNTERS);
    range(thread_idx().x.cast::<u64>(), flags, u64::from(threads), |i| flag.at(i).set(0));
}

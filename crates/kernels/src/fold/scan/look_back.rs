//! The scan over tiles that blocks share, in the launch that makes them: tickets, and a tree of fixed radix.
//!
//! After Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016): a block takes its tile
//! by a ticket, so that all tiles before it belong to blocks that have begun, and no wait can be for a block that waits
//! for room. What deviates: which nodes a prefix is made of is fixed (see the module above), so that its bits are.
//!
//! Nodes of a row with `tiles` tiles:
//! - one a tile, its aggregate;
//! - one for each group of 32 tiles, its aggregate, left there by the last of them;
//! - one for each 1024 tiles, the prefix of all before them, left there by the last of those.
//!
//! A node is an accumulator cut into words of 32 bits, each beside a mark of as many, stored and loaded together as one
//! strong access of 64: who sees the mark has the word, and no fence is needed. The mark is the number of the launch,
//! which lies in memory beside the ticket and counts up when the last ticket is drawn; what earlier launches left behind
//! has other marks. So nothing has to be cleared, and a launch may be recorded and replayed.

use warpfold_lang::{
    Element, Global, MapRegisters, Order, Registers, Scope, Val, Var, grid_dim, join_words, lane_id, loop_until_left,
    shared_named, split_words, sync_threads, thread_idx, var, vars, when,
};

use crate::fold::{Monoid, fold_warp};

/// Nodes that share one of the next level.
pub(crate) const RADIX: u32 = 32;

/// Words in front of the nodes: the number of the launch, in the high half, and the tickets drawn.
pub(crate) const COUNTERS: u64 = 1;

/// Nodes of a row.
pub(crate) const fn num_nodes(tiles: u64) -> u64 {
    let radix = RADIX as u64;
    tiles + tiles.div_ceil(radix) + tiles.div_ceil(radix * radix)
}

fn groups_of(tiles: Val<u64>) -> Val<u64> {
    (tiles + u64::from(RADIX - 1)) >> RADIX.ilog2()
}

/// [`num_nodes`], inside a kernel.
pub(crate) fn nodes_of(tiles: Val<u64>) -> Val<u64> {
    let groups = groups_of(tiles);
    tiles + groups + groups_of(groups)
}

/// Words of an accumulator.
pub(crate) fn num_words<A: Registers>(acc: A) -> u64 {
    struct Count(u64);
    impl MapRegisters for Count {
        fn map<T: Element>(&mut self, value: Val<T>) -> Val<T> {
            self.0 += u64::from(T::BYTES.div_ceil(4));
            value
        }
    }
    let mut count = Count(0);
    let _ = acc.map(&mut count);
    count.0
}

/// The nodes of all rows, in one launch.
#[derive(Clone, Copy)]
pub(crate) struct Nodes {
    memory: Global<u64>,
    /// How many there are: the first words of all lie side by side, then the second ones.
    num: Val<u64>,
    /// The launch's mark.
    mark: Val<u32>,
}

/// A node that a thread has looked at, and may look at again.
pub(crate) struct Seen {
    nodes: Nodes,
    place: Global<u64>,
    words: Vec<Var<u64>>,
}

impl Nodes {
    /// The launch's nodes, and the block's ticket: the next number that no block has. All threads of the block come here
    /// together.
    pub(crate) fn begin(memory: Global<u64>, num: Val<u64>) -> (Self, Val<u32>) {
        let drawn = shared_named::<u64>("ticket", 1);
        when(thread_idx().x.eq(0), || {
            let before = memory.atomic().add(1);
            drawn.set(before);
            let blocks = grid_dim().x;
            // Everyone has the number of this launch; the next one is one more, and its tickets begin at zero.
            when(before.cast::<u32>().eq(blocks - 1), || {
                memory.reduction().add((1_u64 << 32) - blocks.cast::<u64>());
            });
        });
        sync_threads();
        let drawn = drawn.get();
        // Memory that no launch has used is zero, and no mark.
        let mark = (drawn >> 32).cast::<u32>() + 1;
        (Self { memory: memory.at(COUNTERS), num, mark }, drawn.cast())
    }

    /// Leaves an accumulator at a node; for one thread.
    pub(crate) fn show<A: Registers>(&self, node: Val<u64>, acc: A) {
        for (word, i) in split_words(acc).into_iter().zip(0_u64..) {
            let marked = word.cast::<u64>() | (self.mark.cast::<u64>() << 32);
            self.place(node, i).store(marked, Order::Relaxed, Scope::Gpu);
        }
    }

    fn place(&self, node: Val<u64>, word: u64) -> Global<u64> {
        let first = self.memory.at(node);
        if word == 0 { first } else { first.at(self.num * word) }
    }

    /// Prepares to look at a node.
    pub(crate) fn seen<A: Registers>(&self, node: Val<u64>, like: A) -> Seen {
        let words = (0..num_words(like)).map(|_| var(0_u64)).collect();
        Seen { nodes: *self, place: self.memory.at(node), words }
    }
}

impl Seen {
    /// Looks, and does not wait for what is to be seen.
    pub(crate) fn look(&self) {
        for (word, i) in self.words.iter().zip(0_u64..) {
            let place = if i == 0 { self.place } else { self.place.at(self.nodes.num * i) };
            word.set(place.load(Order::Relaxed, Scope::Gpu));
        }
    }

    fn is_there(&self) -> Val<bool> {
        let is_marked = |word: &Var<u64>| (word.get() >> 32).cast::<u32>().eq(self.nodes.mark);
        self.words.iter().map(is_marked).reduce(|all, one| all & one).unwrap_or(Val::constant(true))
    }

    /// Looks again until the node is there; it was looked at before.
    pub(crate) fn wait<A: Registers>(&self, like: A) -> A {
        loop_until_left(|waiting| {
            waiting.leave_if(self.is_there());
            self.look();
        });
        join_words(like, &self.words.iter().map(|word| word.get().cast()).collect::<Vec<_>>())
    }
}

/// A level of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Level {
    Tile,
    Group,
    Prefix,
}

impl Level {
    /// The number of a node in a row of so many tiles.
    pub(crate) fn number(self, tiles: Val<u64>, i: Val<u64>) -> Val<u64> {
        match self {
            Self::Tile => i,
            Self::Group => tiles + i,
            Self::Prefix => tiles + groups_of(tiles) + i,
        }
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

    /// The first tile of its group, and the first group of its group of groups.
    pub(crate) fn firsts(&self) -> (Val<u64>, Val<u64>) {
        (self.group << RADIX.ilog2(), self.groups << RADIX.ilog2())
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

/// The fold of all tiles of a row before one, in lane 0. `own` is the tile's aggregate, which was shown, `first` the
/// row's first node. For one warp, all of its lanes together.
pub(crate) fn look_back<M: Monoid>(
    monoid: M,
    nodes: Nodes,
    first: Val<u64>,
    tiles: Val<u64>,
    tile: Val<u64>,
    own: M::Acc,
) -> M::Acc {
    let (place, lane) = (Place::new(tile), lane_id());
    let identity = monoid.identity();
    let number = |level: Level, i| first + level.number(tiles, i);
    let show = |level, i, acc| when(lane.eq(0), || nodes.show(number(level, i), acc));
    let (first_tile, first_group) = place.firsts();
    // Each lane has a tile of the group, a group of the groups, and the first one the prefix.
    let of_tile = nodes.seen(number(Level::Tile, first_tile + lane.cast::<u64>()), identity);
    let of_group = nodes.seen(number(Level::Group, first_group + lane.cast::<u64>()), identity);
    let of_prefix = nodes.seen(number(Level::Prefix, place.groups), identity);
    let has_tile = lane.lt(place.in_group);
    let has_group = lane.lt(place.in_groups);
    let has_prefix = lane.eq(0) & place.groups.ne(0);
    let wait_for = |seen: &Seen, condition| {
        let acc = vars(identity);
        when(condition, || acc.set(seen.wait(identity)));
        acc.get()
    };
    // All three at once: most often they are there.
    when(has_tile, || of_tile.look());
    when(has_group, || of_group.look());
    when(has_prefix, || of_prefix.look());
    let before_in_group = fold_warp(monoid, wait_for(&of_tile, has_tile), RADIX);
    let with_own = monoid.combine(before_in_group, own);
    // Shown before any wait for other groups, which would make a chain of all groups.
    when(place.ends_group(), || show(Level::Group, place.group, with_own));
    let groups = fold_warp(monoid, wait_for(&of_group, has_group), RADIX);
    let before = monoid.combine(wait_for(&of_prefix, has_prefix), groups);
    when(place.ends_groups(tiles), || {
        show(Level::Prefix, place.groups + 1_u64, monoid.combine(before, with_own));
    });
    monoid.combine(before, before_in_group)
}

//! The look-back of a single-pass scan: tiles that blocks share, in a tree of fixed radix.
//!
//! After Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
//! It deviates in this: the order in which a prefix is combined is fixed (see the module above),
//! and so are its bits; only the source of its pieces is not. The fold of a group may be read from
//! its node, or folded again from the nodes of its tiles, in the same order.
//!
//! Nodes of a row with `tiles` tiles:
//! - one per tile, its aggregate;
//! - one for each group of 32 tiles, its aggregate, stored by the last of them;
//! - one for each 1024 tiles, the prefix of all before them, stored by the last of those.
//!
//! A node is an accumulator in words of 32 bits, each packed with a mark of 32 bits into one strong
//! 64-bit access: a thread that sees the mark has the word, and no fence is needed. The mark is the
//! number of the launch, which is in memory beside the ticket counter and is incremented when the
//! last ticket is drawn; words of earlier launches have other marks. So nothing has to be cleared,
//! and a launch may be captured in a graph and replayed.

use warpfold_lang::{
    AnyRegisters, Element, Global, Lanes, MapRegisters, Order, Registers, Scope, Val, Var, join_words, lane_id,
    loop_until_left, split_words, sync_threads, thread_idx, var, vars, warp_id, when,
};

use crate::fold::erased::{ErasedMonoid, SharedArrays};
use crate::fold::warp;

// THRESHOLD: another level of the tree of tiles; tested by
// crates/kernels/tests/folds/scan/shared.rs::more_tiles_than_a_group_of_groups_has_are_scanned_in_order
/// Nodes of a group: the radix of the tree.
pub(crate) const RADIX: u32 = 32;

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
    pub(super) memory: Global<u64>,
    /// How many there are: the first words of all nodes are contiguous, then the second ones.
    pub(super) num: Val<u64>,
    /// The launch's mark.
    pub(super) mark: Val<u32>,
}

/// The words of a node as a thread last loaded them; it polls until they have the mark.
pub(crate) struct NodePoll {
    nodes: Nodes,
    place: Global<u64>,
    words: Vec<Var<u64>>,
}

impl Nodes {
    /// Stores an accumulator to a node; for one thread.
    pub(crate) fn publish(&self, node: Val<u64>, acc: AnyRegisters) {
        for (word, i) in split_words(acc).into_iter().zip(0_u64..) {
            let marked = word.cast::<u64>() | (self.mark.cast::<u64>() << 32);
            self.place(node, i).store(marked, Order::Relaxed, Scope::Gpu);
        }
    }

    fn place(&self, node: Val<u64>, word: u64) -> Global<u64> {
        let first = self.memory.at(node);
        if word == 0 { first } else { first.at(self.num * word) }
    }

    /// Prepares to poll a node.
    pub(crate) fn poll(&self, node: Val<u64>, like: AnyRegisters) -> NodePoll {
        let words = (0..num_words(like)).map(|_| var(0_u64)).collect();
        NodePoll { nodes: *self, place: self.memory.at(node), words }
    }
}

impl NodePoll {
    /// Loads the words once, without waiting for the mark.
    pub(crate) fn load(&self) {
        for (word, i) in self.words.iter().zip(0_u64..) {
            let place = if i == 0 { self.place } else { self.place.at(self.nodes.num * i) };
            word.set(place.load(Order::Relaxed, Scope::Gpu));
        }
    }

    fn is_there(&self) -> Val<bool> {
        let is_marked = |word: &Var<u64>| (word.get() >> 32).cast::<u32>().eq(self.nodes.mark);
        self.words.iter().map(is_marked).reduce(|all, one| all & one).unwrap_or(Val::constant(true))
    }

    /// Polls until the node is there; it was loaded before.
    pub(crate) fn wait(&self, like: AnyRegisters) -> AnyRegisters {
        Self::wait_for_all(&[(Val::constant(true), self)]);
        self.get(like)
    }

    /// Polls the nodes that are wanted, all at once, until all are there; they were loaded before.
    pub(crate) fn wait_for_all(nodes: &[(Val<bool>, &Self)]) {
        loop_until_left(|waiting| {
            let missing: Vec<_> = nodes.iter().map(|(is_node, poll)| *is_node & !poll.is_there()).collect();
            let is_any = missing.iter().copied().reduce(|any, one| any | one);
            waiting.leave_if(!is_any.unwrap_or(Val::constant(false)));
            for (is_missing, (_, poll)) in missing.iter().zip(nodes) {
                when(*is_missing, || poll.load());
            }
        });
    }

    /// The accumulator of a node that is there.
    pub(crate) fn get(&self, like: AnyRegisters) -> AnyRegisters {
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
    /// The number of a node in a row of `tiles` tiles.
    pub(crate) fn number(self, tiles: Val<u64>, i: Val<u64>) -> Val<u64> {
        match self {
            Self::Tile => i,
            Self::Group => tiles + i,
            Self::Prefix => tiles + groups_of(tiles) + i,
        }
    }
}

/// The position of a tile in the tree.
pub(crate) struct TreePosition {
    pub(crate) tile: Val<u64>,
    /// Its number in its group.
    pub(crate) in_group: Val<u32>,
    pub(crate) group: Val<u64>,
    /// The group's number in its group of groups.
    pub(crate) in_groups: Val<u32>,
    pub(crate) groups: Val<u64>,
}

impl TreePosition {
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

/// A look-back from a tile of a row, begun and finished by all warps of a block together.
pub(crate) struct LookBack {
    nodes: Nodes,
    first: Val<u64>,
    tiles: Val<u64>,
    place: TreePosition,
    /// Groups whose tiles one warp each polls: the nodes of these groups may not be there yet.
    near: u32,
    of_tile: NodePoll,
    of_group: NodePoll,
    of_prefix: NodePoll,
}

impl LookBack {
    /// Accumulators in shared memory that a look-back takes: one per group, the fold of the tiles
    /// before in the tile's group, and the prefix.
    pub(crate) const SLOTS: u32 = RADIX + 2;

    /// Loads, where it `is_tile`, the nodes that `warps` warps need: `first` is the row's first
    /// node.
    pub(crate) fn begin(
        nodes: Nodes,
        [first, tiles, tile]: [Val<u64>; 3],
        is_tile: Val<bool>,
        warps: u32,
        like: AnyRegisters,
    ) -> Self {
        let (place, lane, warp) = (TreePosition::new(tile), lane_id(), warp_id());
        let number = |level: Level, i| first + level.number(tiles, i);
        let (first_tile, first_group) = place.firsts();
        let lane_of = |i: Val<u64>| i + lane.cast::<u64>();
        // The first warp polls the tile's own group, each other warp one before it.
        let back = (warp.min(place.in_groups) << RADIX.ilog2()).cast::<u64>();
        let this = Self {
            nodes,
            first,
            tiles,
            near: warps - 1,
            of_tile: nodes.poll(number(Level::Tile, lane_of(first_tile - back)), like),
            of_group: nodes.poll(number(Level::Group, lane_of(first_group)), like),
            of_prefix: nodes.poll(number(Level::Prefix, place.groups), like),
            place,
        };
        when(is_tile, || {
            when(this.has_tile(), || this.of_tile.load());
            when(this.has_group(), || this.of_group.load());
            when(this.has_prefix(), || this.of_prefix.load());
        });
        this
    }

    fn has_tile(&self) -> Val<bool> {
        let is_own = warp_id().eq(0);
        (is_own & lane_id().lt(self.place.in_group)) | (!is_own & warp_id().le(self.place.in_groups))
    }

    fn has_group(&self) -> Val<bool> {
        warp_id().eq(0) & (lane_id() + self.near).lt(self.place.in_groups)
    }

    fn has_prefix(&self) -> Val<bool> {
        thread_idx().x.eq(0) & self.place.groups.ne(0)
    }

    /// The fold of all tiles of the row before this one, in every thread. `own` is the tile's
    /// aggregate, which was published; no thread may still read the memory.
    pub(crate) fn finish(&self, monoid: &dyn ErasedMonoid, own: AnyRegisters, memory: SharedArrays) -> AnyRegisters {
        let (place, lane) = (&self.place, lane_id());
        let identity = monoid.identity();
        let publish = |level: Level, i, acc| self.nodes.publish(self.first + level.number(self.tiles, i), acc);
        let wait_for = |poll: &NodePoll, condition| {
            let acc = vars(identity);
            when(condition, || acc.set(poll.wait(identity)));
            acc.get()
        };
        let [of_own, of_prefix] = [RADIX, RADIX + 1];
        let tiles = wait_for(&self.of_tile, self.has_tile());
        let group = warp::fold(monoid, tiles, RADIX);
        let is_own = warp_id().eq(0);
        let to = is_own.select::<u32>(of_own, place.in_groups - warp_id());
        when(lane.eq(0) & (is_own | warp_id().le(place.in_groups)), || group.store(memory, to));
        let whole_group = vars(identity);
        when(is_own, || {
            when(place.ends_group(), || {
                let all = warp::fold(monoid, AnyRegisters::select(lane.eq(RADIX - 1), own, tiles), RADIX);
                when(lane.eq(0), || publish(Level::Group, place.group, all));
                whole_group.set(all);
            });
            when(self.has_group(), || self.of_group.wait(identity).store(memory, lane));
            when(lane.eq(0), || wait_for(&self.of_prefix, self.has_prefix()).store(memory, of_prefix));
        });
        sync_threads();
        let groups = vars(identity);
        when(lane.lt(place.in_groups), || groups.set(AnyRegisters::load(memory, lane)));
        let groups = Lanes::all_lanes().shfl(warp::fold(monoid, groups.get(), RADIX), 0);
        let before = monoid.combine(AnyRegisters::load(memory, of_prefix), groups);
        when(thread_idx().x.eq(0) & place.ends_groups(self.tiles), || {
            publish(Level::Prefix, place.groups + 1_u64, monoid.combine(before, whole_group.get()));
        });
        monoid.combine(before, AnyRegisters::load(memory, of_own))
    }
}

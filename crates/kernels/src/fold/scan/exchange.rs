//! What the threads of a block that shares columns tell one another, and other blocks by the tree of nodes.
//!
//! A thread looks after one column of the strip: it folds over the warps, shows the tile's aggregate, and looks at its
//! share of the nodes of what lies before. What comes of that every thread needs for the columns that it scans.

use warpfold_lang::{
    Registers, SharedSpace, Val, Var, Vars, lane_id, linear_thread_idx, sync_threads, var, vars, warp_id, when,
};

use super::columns::{Columns, Strip};
use super::look_back::{Level, Nodes, Place, RADIX, Room, Seen, room_of, seen_in};
use crate::fold::Monoid;

/// Accumulators in shared memory.
type Memory<A> = <A as Registers>::Pointers<SharedSpace>;

/// What the threads of a block hand to each other where blocks share columns, one accumulator a column in each row.
pub(super) struct Exchange<'a, M: Monoid> {
    columns: &'a Columns<'a, M>,
    nodes: Nodes,
    /// Of two tiles in turn: the folds of the warps before each warp, and of all.
    of_warps: Memory<M::Acc>,
    /// Of two lists of nodes: the folds of the threads that share a column.
    of_shares: Memory<M::Acc>,
    /// All tiles before.
    before: Memory<M::Acc>,
    /// Which of the two the tile that was shown last has.
    copy: Var<u32>,
    /// Of that tile: the folds of the groups of lanes before, one a column of the thread.
    of_groups: Vec<Vars<M::Acc>>,
    /// What the thread sees of the tiles and groups before, and of the prefix before those.
    tiles: Vec<Room>,
    groups: Vec<Room>,
    prefix: Room,
}

/// What is known of a tile since it was shown.
pub(super) struct Shown<A> {
    copy: Val<u32>,
    of_groups: Vec<A>,
}

/// Nodes of a level one behind the other, as far as the thread looks at them.
struct List<'a> {
    level: Level,
    /// The first one.
    first: Val<u64>,
    rooms: &'a [Room],
    /// Whether each is there at all.
    are_there: Vec<Val<bool>>,
}

impl<'a, M: Monoid> Exchange<'a, M> {
    pub(super) fn new(columns: &'a Columns<'a, M>, nodes: Nodes) -> Self {
        let (shape, identity) = (columns.shape, columns.scan.monoid.identity());
        let rooms = || (0..RADIX / shape.shares()).map(|_| room_of(identity)).collect();
        Self {
            columns,
            nodes,
            of_warps: identity.shared(2 * (shape.warps + 1) * shape.width()),
            of_shares: identity.shared(2 * 32 * shape.warps),
            before: identity.shared(shape.width()),
            copy: var(0),
            of_groups: (0..shape.vector).map(|_| vars(identity)).collect(),
            tiles: rooms(),
            groups: rooms(),
            prefix: room_of(identity),
        }
    }

    /// The number of a column's node.
    fn number(&self, strip: &Strip<'_, M>, level: Level, i: Val<u64>) -> Val<u64> {
        level.number(self.columns.words.tiles(), i) * self.columns.words.rows() + strip.own
    }

    /// Leaves an accumulator at a node of the thread's own column.
    fn leave(&self, strip: &Strip<'_, M>, level: Level, i: Val<u64>, acc: M::Acc) {
        when(strip.is_own, || self.nodes.show(self.number(strip, level, i), acc));
    }

    /// Where the folds of the warps before a warp stand, or, beyond the last warp, of all.
    fn of_warp(&self, copy: Val<u32>, warp: impl Into<Val<u32>>) -> Val<u32> {
        let shape = self.columns.shape;
        (copy * (shape.warps + 1) + warp.into()) * shape.width()
    }

    /// Shows the aggregates of a tile, from the folds of each thread. All threads come here together.
    pub(super) fn show(&self, strip: &Strip<'_, M>, tile: Val<u64>, accs: Vec<M::Acc>) {
        let (columns, monoid) = (self.columns, self.columns.scan.monoid);
        let copy = self.copy.get() ^ 1;
        self.copy.set(copy);
        let (before, all): (Vec<_>, Vec<_>) = accs.into_iter().map(|acc| columns.over_groups(acc)).unzip();
        self.of_groups.iter().zip(before).for_each(|(vars, before)| vars.set(before));
        when(lane_id().ge(32 - columns.shape.lanes), || {
            let to = self.of_warp(copy, warp_id()) + columns.column();
            (0..).zip(all).for_each(|(v, acc)| acc.store(self.of_warps, to + v));
        });
        sync_threads();
        when(columns.share().eq(0), || {
            let at = |warp: u32| self.of_warp(copy, Val::constant(warp)) + columns.own();
            let warps: Vec<_> = (0..columns.shape.warps).map(|warp| M::Acc::load(self.of_warps, at(warp))).collect();
            let mut all = monoid.identity();
            for (warp, acc) in (0..).zip(warps) {
                all.store(self.of_warps, at(warp));
                all = monoid.combine(all, acc);
            }
            all.store(self.of_warps, at(columns.shape.warps));
            self.leave(strip, Level::Tile, tile, all);
        });
    }

    /// What is known of the tile that was shown last.
    pub(super) fn shown(&self) -> Shown<M::Acc> {
        Shown { copy: self.copy.get(), of_groups: self.of_groups.iter().map(|vars| vars.get()).collect() }
    }

    /// The thread's share of `count` nodes from `first` on.
    fn list<'b>(
        &self,
        strip: &Strip<'_, M>,
        level: Level,
        first: Val<u64>,
        count: Val<u32>,
        rooms: &'b [Room],
    ) -> List<'b> {
        let share = self.columns.share() * rooms.len() as u32;
        let count = strip.is_own.select::<u32>(count, 0);
        let are_there = (0..rooms.len() as u32).map(|i| (share + i).lt(count)).collect();
        List { level, first: first + share.cast::<u64>(), rooms, are_there }
    }

    /// What lies before a tile: tiles of its group, groups of its group of groups, and the prefix before those.
    fn lists(&self, strip: &Strip<'_, M>, place: &Place) -> [List<'_>; 3] {
        let (tile, group) = place.firsts();
        let has_prefix = place.groups.ne(0).select::<u32>(1, 0);
        [
            self.list(strip, Level::Tile, tile, place.in_group, &self.tiles),
            self.list(strip, Level::Group, group, place.in_groups, &self.groups),
            self.list(strip, Level::Prefix, place.groups, has_prefix, std::slice::from_ref(&self.prefix)),
        ]
    }

    /// The nodes of a list, and whether they are there.
    fn nodes(&self, strip: &Strip<'_, M>, list: &List<'_>) -> Vec<(Val<bool>, Seen)> {
        let first = self.number(strip, list.level, list.first);
        let node = |i: usize| self.nodes.seen(first + self.columns.words.rows() * i as u64, &list.rooms[i]);
        list.are_there.iter().enumerate().map(|(i, is_there)| (*is_there, node(i))).collect()
    }

    /// Looks back from a tile: at everything at once, as most often it is there.
    pub(super) fn look(&self, strip: &Strip<'_, M>, tile: Val<u64>) {
        self.lists(strip, &Place::new(tile)).iter().for_each(|list| self.look_at(strip, list));
    }

    fn look_at(&self, strip: &Strip<'_, M>, list: &List<'_>) {
        self.nodes(strip, list).iter().for_each(|(is_there, node)| when(*is_there, || node.look()));
    }

    /// Waits for all nodes of lists that were looked at.
    fn wait_for(&self, strip: &Strip<'_, M>, lists: &[List<'_>]) {
        let each = lists.iter().flat_map(|list| list.are_there.iter().zip(list.rooms));
        let is_missing = each.map(|(is_there, room)| *is_there & !self.nodes.is_in(room));
        let is_any = is_missing.reduce(|any, one| any | one).unwrap_or(Val::constant(false));
        when(is_any, || {
            let nodes: Vec<_> = lists.iter().flat_map(|list| self.nodes(strip, list)).collect();
            Seen::wait_for_all(&nodes.iter().map(|(is_there, node)| (*is_there, node)).collect::<Vec<_>>());
        });
    }

    /// The fold of nodes that are there.
    fn fold(&self, list: &List<'_>) -> M::Acc {
        let monoid = self.columns.scan.monoid;
        list.are_there.iter().zip(list.rooms).fold(monoid.identity(), |acc, (is_there, room)| {
            M::Acc::select(*is_there, monoid.combine(acc, seen_in(room, acc)), acc)
        })
    }

    /// Leaves what the thread has of each list to the first one of its column.
    fn hand_in(&self, accs: &[M::Acc]) {
        let columns = self.columns;
        let at = linear_thread_idx();
        for (list, acc) in (0..).zip(accs) {
            acc.store(self.of_shares, at + list * 32 * columns.shape.warps);
        }
        sync_threads();
    }

    /// The fold over the threads of a column, of a list that was handed in.
    fn gather(&self, list: u32) -> M::Acc {
        let (columns, shares) = (self.columns, self.columns.shape.shares());
        let first = list * 32 * columns.shape.warps;
        let load = |share: u32| M::Acc::load(self.of_shares, columns.own() + (first + share * columns.shape.width()));
        let accs = (0..shares).map(load).collect::<Vec<_>>().into_iter();
        accs.reduce(|left, right| columns.scan.monoid.combine(left, right)).expect("a column has a thread")
    }

    /// The folds of all rows before the thread's, one a column; what lies before the tile was looked at. All threads come
    /// here together.
    pub(super) fn before(&self, strip: &Strip<'_, M>, tile: Val<u64>, shown: &Shown<M::Acc>) -> Vec<M::Acc> {
        let (columns, monoid, place) = (self.columns, self.columns.scan.monoid, Place::new(tile));
        let lists = self.lists(strip, &place);
        self.wait_for(strip, &lists);
        let [tiles, groups, prefix] = lists;
        self.hand_in(&[self.fold(&tiles), self.fold(&groups)]);
        when(columns.share().eq(0), || {
            let in_group = self.gather(0);
            let before = monoid.combine(self.fold(&prefix), self.gather(1));
            monoid.combine(before, in_group).store(self.before, columns.own());
            when(place.ends_groups(columns.words.tiles()), || {
                let at = self.of_warp(shown.copy, Val::constant(columns.shape.warps)) + columns.own();
                let whole_group = monoid.combine(in_group, M::Acc::load(self.of_warps, at));
                self.leave(strip, Level::Prefix, place.groups + 1_u64, monoid.combine(before, whole_group));
            });
        });
        sync_threads();
        let of_warp = self.of_warp(shown.copy, warp_id()) + columns.column();
        let before = |(v, of_groups): (u32, &M::Acc)| {
            let of_warp = M::Acc::load(self.of_warps, of_warp + v);
            let before = monoid.combine(M::Acc::load(self.before, columns.column() + v), of_warp);
            if columns.shape.lanes == 32 { before } else { monoid.combine(before, *of_groups) }
        };
        (0..).zip(&shown.of_groups).map(before).collect()
    }

    /// Shows the fold of the group that a tile ends, once all of its tiles are shown. All threads come here together.
    pub(super) fn settle(&self, strip: &Strip<'_, M>, tile: Val<u64>) {
        let place = Place::new(tile);
        let rooms: Vec<_> = self.tiles.iter().map(|_| room_of(self.columns.scan.monoid.identity())).collect();
        let tiles = self.list(strip, Level::Tile, place.firsts().0, Val::constant(RADIX), &rooms);
        self.look_at(strip, &tiles);
        self.wait_for(strip, std::slice::from_ref(&tiles));
        self.hand_in(&[self.fold(&tiles)]);
        when(self.columns.share().eq(0), || self.leave(strip, Level::Group, place.group, self.gather(0)));
    }
}

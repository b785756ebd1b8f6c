//! The scan whose threads are mapped along a kept dimension: columns of a matrix, row by row, so
//! that loads are coalesced.

use warpfold_lang::{
    AnyRegisters, Global, Registers, Val, block_idx, kernel, lane_id, sync_threads, vars, wait_for_dependencies,
    warp_id, when,
};

use super::geometry::{OPERANDS, RESULTS, ScanArgs};
use super::look_back::{Level, NodePoll, Nodes, RADIX, TreePosition, nodes_of};
use super::pipeline::TileQueue;
use super::stage::{SLOTS, Stage, copied_bytes};
use super::{Direction, Prefix, ScanOrder, StrideKind, Tiles};
use crate::elements::{Place, Run};
use crate::fold::Position;
use crate::fold::erased::{Definition, SharedArrays};
use crate::fold::geometry::MAX_INPUTS;
use crate::walk::divide;
use crate::{AnyKernel, Dtype};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanColumns {
    /// Warps a block, each with its own rows of a tile.
    pub warps: u32,
    /// Columns a thread.
    pub vector: u32,
    /// Rows of a tile that a warp takes.
    pub unroll: u32,
    /// How neighbouring columns are loaded, one an input.
    pub runs: [Run; MAX_INPUTS],
    /// Kept dimensions, the columns among them.
    pub kept: usize,
    /// Tiles a column.
    pub tiles: Tiles,
    /// Resident blocks per SM, where blocks share columns.
    pub resident: u32,
    /// Whether positions have 32 bits.
    pub small: bool,
    /// What is given for each item.
    pub order: ScanOrder,
}

impl ScanColumns {
    /// Rows a tile.
    pub(crate) const fn tile(&self) -> u64 {
        self.warps as u64 * self.unroll as u64
    }

    /// Bytes of a thread's columns that `cp.async` copies.
    pub(crate) fn copied_bytes(&self, inputs: &[Dtype]) -> Option<u32> {
        copied_bytes(inputs, self.vector).filter(|_| self.runs[0] != Run::Same && self.tiles != Tiles::One)
    }
}

/// What a thread knows of all columns, while the kernel is recorded.
struct Columns<'a> {
    scan: &'a Definition,
    shape: &'a ScanColumns,
    args: ScanArgs,
    inputs: [Global<u8>; MAX_INPUTS],
    outputs: [Global<u8>; 2],
    /// Memory of the warps' accumulators, one array a column of the thread.
    of_warps: Vec<SharedArrays>,
}

/// The columns of a block, and a thread's part of them.
struct Strip<'a> {
    all: &'a Columns<'a>,
    /// Where the first column of the thread begins.
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
    /// The number of that column.
    column: Val<u64>,
    /// Whether they are columns; else copies of the last ones, whose results are not stored.
    is_column: Val<bool>,
}

/// A tile of some columns among the nodes.
struct Node {
    nodes: Nodes,
    /// Tiles of a column, and columns in all.
    tiles: Val<u64>,
    columns: Val<u64>,
    /// The thread's first column.
    column: Val<u64>,
}

/// A look-back from a tile: this warp's share of the tiles and groups before it, and the prefix
/// before those.
struct LookBack {
    node: Node,
    place: TreePosition,
    tiles: Vec<PolledNodes>,
    groups: Vec<PolledNodes>,
    prefix: PolledNodes,
}

/// Nodes that a thread polls, one per column, if there are any.
struct PolledNodes {
    is_there: Val<bool>,
    columns: Vec<NodePoll>,
}

/// Waits until all of them are there.
fn wait_for<'a>(nodes: impl IntoIterator<Item = &'a PolledNodes>) {
    let each = |node: &'a PolledNodes| node.columns.iter().map(|poll| (node.is_there, poll));
    NodePoll::wait_for_all(&nodes.into_iter().flat_map(each).collect::<Vec<_>>());
}

impl Node {
    fn number(&self, level: Level, i: Val<u64>, v: usize) -> Val<u64> {
        level.number(self.tiles, i) * self.columns + self.column + v as u64
    }
}

impl Columns<'_> {
    const fn width(&self) -> u32 {
        32 * self.shape.vector
    }

    /// Strips at each outer position.
    fn strips(&self) -> Val<u64> {
        let num_columns = self.args.kept(self.shape.kept).size(self.shape.kept - 1);
        (num_columns + u64::from(self.width() - 1)) >> self.width().ilog2()
    }

    fn strip(&self, number: Val<u64>) -> Strip<'_> {
        let ScanColumns { kept, small, vector, .. } = *self.shape;
        let num_columns = self.args.kept(kept).size(kept - 1);
        let (outer, inner) = if kept == 1 { (Val::constant(0), number) } else { divide(number, self.strips(), small) };
        let column = inner * u64::from(self.width()) + (lane_id() * vector).cast::<u64>();
        let is_column = column.lt(num_columns);
        // Threads beyond the last column scan the last ones as well and store nothing.
        let column = column.min(num_columns - u64::from(vector));
        let offsets = self.args.kept(kept - 1).offsets(outer, OPERANDS, small);
        let at = |pointer: &Global<u8>, dtype: &Dtype, operand: usize| {
            pointer.at(column.mul_add(self.args.kept(kept).stride(kept - 1, operand), offsets[operand]) * dtype.bytes())
        };
        let inputs = self.inputs.iter().zip(self.scan.source.dtypes()).zip(0..);
        let outputs = self.outputs.iter().zip(self.scan.sink.dtypes());
        Strip {
            all: self,
            inputs: inputs.map(|((pointer, dtype), i)| at(pointer, dtype, i)).collect(),
            outputs: outputs.map(|(pointer, dtype)| at(pointer, dtype, RESULTS)).collect(),
            column: outer.mul_add(num_columns, column),
            is_column,
        }
    }

    /// The first row of the warp in a tile.
    fn first(&self, tile: Val<u64>) -> Val<u64> {
        tile * self.shape.tile() + (warp_id() * self.shape.unroll).cast::<u64>()
    }

    fn stage(&self) -> Stage<'_> {
        let ScanColumns { warps, unroll, tiles, .. } = *self.shape;
        let source = &self.scan.source;
        // In a tree, more blocks with one tile each are faster: they wait for one another more
        // often.
        let slots = if tiles == Tiles::Loop { SLOTS } else { 1 };
        Stage::new(source, 32 * warps, unroll, slots, self.shape.copied_bytes(source.dtypes()))
    }

    /// The folds of the rows of a warp, one per column of the thread.
    fn fold(&self, items: impl Fn(u32) -> Vec<AnyRegisters>, first: Val<u64>) -> Vec<AnyRegisters> {
        let (monoid, row) = (&self.scan.monoid, items(0));
        let lift = |item: &AnyRegisters| monoid.lift(*item, Position::new(first, 0));
        let mut accs: Vec<_> = row.iter().map(lift).collect();
        for u in 1..self.shape.unroll {
            for (acc, item) in accs.iter_mut().zip(items(u)) {
                *acc = monoid.push(*acc, item, Position::new(first, u.into()));
            }
        }
        accs
    }

    /// From what each warp has: the folds of the warps before, and of all, one an accumulator. The
    /// memory must not be read any more.
    fn over_warps(&self, accs: &[AnyRegisters]) -> Vec<(AnyRegisters, AnyRegisters)> {
        let (monoid, warps) = (&self.scan.monoid, self.shape.warps);
        if warps == 1 {
            return accs.iter().map(|acc| (monoid.identity(), *acc)).collect();
        }
        let at = |warp: Val<u32>| warp * 32 + lane_id();
        accs.iter().zip(&self.of_warps).for_each(|(acc, memory)| acc.store(*memory, at(warp_id())));
        sync_threads();
        let fold = |memory| {
            let mut all = AnyRegisters::load(memory, at(Val::constant(0)));
            let mut before = monoid.identity();
            for warp in 1..warps {
                before = AnyRegisters::select(warp_id().eq(warp), all, before);
                all = monoid.combine(all, AnyRegisters::load(memory, at(Val::constant(warp))));
            }
            (before, all)
        };
        self.of_warps.iter().take(accs.len()).map(|memory| fold(*memory)).collect()
    }

    fn combine(&self, left: &[AnyRegisters], right: &[AnyRegisters]) -> Vec<AnyRegisters> {
        left.iter().zip(right).map(|(left, right)| self.scan.monoid.combine(*left, *right)).collect()
    }

    /// The only tile of some columns.
    fn one(&self) {
        let strip = self.strip(block_idx().x.cast());
        let first = self.first(Val::constant(0));
        let rows: Vec<_> = strip.rows(first).map(|at| strip.load(at)).collect();
        let items = |u: u32| rows[u as usize].clone();
        let own = self.over_warps(&self.fold(items, first));
        strip.finish(items, first, own.into_iter().map(|(before, _)| before).collect());
    }

    /// Tiles of columns that blocks share.
    fn share(&self, marks: Global<u64>) {
        let ScanColumns { kept, small, vector, tiles, .. } = *self.shape;
        let (args, monoid) = (self.args, &self.scan.monoid);
        let all_strips = (0..kept - 1).fold(self.strips(), |strips, dim| strips * args.kept(kept).size(dim));
        let stage = self.stage();
        let queue = TileQueue::begin(marks, (all_strips * args.tiles).cast(), stage.slots());
        let nodes = queue.nodes(args.rows * nodes_of(args.tiles));
        // Tiles of all strips in turn, so that a tile comes long after the one before it in its
        // strip.
        let place = |ticket: Val<u32>| {
            let (tile, strip) = divide(ticket.cast::<u64>(), all_strips, small);
            (tile, self.strip(strip))
        };
        let node = |strip: &Strip<'_>| Node { nodes, tiles: args.tiles, columns: args.rows, column: strip.column };
        // Of the tile that was published last: the folds of the warps before, and of all of it.
        let published: Vec<_> = (0..vector).map(|_| vars((monoid.identity(), monoid.identity()))).collect();
        queue.walk(
            |ticket, slot| {
                let (tile, strip) = place(ticket);
                strip.take(&stage, slot, self.first(tile));
            },
            |last| stage.wait(last),
            |ticket, is_tile| {
                let (tile, strip) = place(ticket);
                let look_back = strip.look_back(node(&strip), tile, is_tile);
                (look_back, published.iter().map(|published| published.get()).unzip::<_, _, Vec<_>, Vec<_>>())
            },
            |ticket, slot| {
                let (tile, strip) = place(ticket);
                let own = self.fold(|u| stage.items(slot, u), self.first(tile));
                let own = self.over_warps(&own);
                let all: Vec<_> = own.iter().map(|(_, all)| *all).collect();
                if tiles == Tiles::Split {
                    strip.publish(&node(&strip), Level::Tile, tile, &all);
                }
                published.iter().zip(own).for_each(|(published, own)| published.set(own));
            },
            |ticket, slot, (look_back, (of_warps, own))| {
                let (tile, strip) = place(ticket);
                let before = self.combine(&strip.finish_look_back(&look_back, &own), &of_warps);
                strip.finish(|u| stage.items(slot, u), self.first(tile), before);
            },
            |ticket| {
                let (tile, strip) = place(ticket);
                if tiles == Tiles::Split {
                    when(TreePosition::new(tile).ends_group(), || strip.publish_group(node(&strip), tile));
                }
            },
        );
    }
}

impl Strip<'_> {
    /// The address of a row after a position.
    fn place(&self, base: Global<u8>, operand: usize, dtype: Dtype, at: (Val<u64>, Val<u32>)) -> Global<u8> {
        let Columns { args, shape: ScanColumns { order, .. }, .. } = *self.all;
        let memory = order.locate(args.len, at.0, 1);
        let first = args.along_axis(base, operand, StrideKind::Any, dtype.bytes(), memory);
        let bytes = dtype.bytes() as i64 * if order.direction == Direction::Forward { 1 } else { -1 };
        first.at(args.axis.at(operand) * bytes * at.1.cast::<i64>())
    }

    /// The positions of a warp's rows in a tile.
    fn rows(&self, first: Val<u64>) -> impl Iterator<Item = (Val<u64>, Val<u32>)> + use<> {
        let unroll = self.all.shape.unroll;
        // Items after the last row come last in the order of the scan, so their value does not
        // matter.
        let last = self.all.args.len - 1_u64;
        let inside = first.min(last);
        let further = (last - inside).min(u64::from(unroll)).cast::<u32>();
        (0..unroll).map(move |u| (inside, further.min(u)))
    }

    fn load(&self, at: (Val<u64>, Val<u32>)) -> Vec<AnyRegisters> {
        let ScanColumns { runs, vector, .. } = *self.all.shape;
        let source = &self.all.scan.source;
        let place = |(input, dtype): (usize, &Dtype)| Place {
            pointer: self.place(self.inputs[input], input, *dtype, at),
            run: runs[input],
        };
        source.load(&source.dtypes().iter().enumerate().map(place).collect::<Vec<_>>(), vector)
    }

    /// Requests the rows of a tile into a stage.
    fn take(&self, stage: &Stage<'_>, slot: Val<u32>, first: Val<u64>) {
        let dtype = self.all.scan.source.dtypes()[0];
        for (at, u) in self.rows(first).zip(0..) {
            stage.take(slot, u, || self.place(self.inputs[0], 0, dtype, at), || self.load(at));
        }
    }

    fn store(&self, at: (Val<u64>, Val<u32>), values: &[AnyRegisters]) {
        let sink = &self.all.scan.sink;
        let to = |(output, dtype): (&Global<u8>, &Dtype)| self.place(*output, RESULTS, *dtype, at);
        let to: Vec<_> = self.outputs.iter().zip(sink.dtypes()).map(to).collect();
        sink.store(&to, values, values.len() > 1);
    }

    /// Stores the results of a tile; `accs` are the folds of all before the warp's rows.
    fn finish(&self, items: impl Fn(u32) -> Vec<AnyRegisters>, first: Val<u64>, mut accs: Vec<AnyRegisters>) {
        let Columns { scan: Definition { monoid, .. }, shape: ScanColumns { unroll, order, .. }, args, .. } = self.all;
        // Rows from this warp's first one on.
        let rest = (args.len.max(first) - first).min(u64::from(*unroll)).cast::<u32>();
        for u in 0..*unroll {
            let mut results = Vec::new();
            for (acc, item) in accs.iter_mut().zip(items(u)) {
                let after = monoid.push(*acc, item, Position::new(first, u.into()));
                results.push(match order.prefix {
                    Prefix::Inclusive => monoid.finish(after, first + u64::from(u + 1)),
                    Prefix::Exclusive => monoid.finish(*acc, first + u64::from(u)),
                });
                *acc = after;
            }
            when(self.is_column & rest.gt(u), || self.store((first, Val::constant(u)), &results));
        }
    }

    /// Stores accumulators to a node of each column, by the first warp.
    fn publish(&self, node: &Node, level: Level, i: Val<u64>, accs: &[AnyRegisters]) {
        when(warp_id().eq(0) & self.is_column, || {
            for (v, acc) in accs.iter().enumerate() {
                node.nodes.publish(node.number(level, i, v), *acc);
            }
        });
    }

    /// This warp's share of `count` nodes of a level from `first` on.
    fn share(&self, node: &Node, level: Level, first: Val<u64>, count: Val<u32>) -> Vec<PolledNodes> {
        let each = RADIX / self.all.shape.warps;
        let look = |i: u32| {
            let i = warp_id() * each + i;
            self.poll(node, level, first + i.cast::<u64>(), i.lt(count))
        };
        (0..each).map(look).collect()
    }

    /// Loads a node of each column, where it `is_there`.
    fn poll(&self, node: &Node, level: Level, i: Val<u64>, is_there: Val<bool>) -> PolledNodes {
        let poll = |v| node.nodes.poll(node.number(level, i, v), self.all.scan.monoid.identity());
        let columns: Vec<_> = (0..self.all.shape.vector as usize).map(poll).collect();
        when(is_there, || columns.iter().for_each(NodePoll::load));
        PolledNodes { is_there, columns }
    }

    /// Looks back from a tile, where it `is_tile`: loads all nodes at once, as most often they are
    /// there.
    fn look_back(&self, node: Node, tile: Val<u64>, is_tile: Val<bool>) -> LookBack {
        let place = TreePosition::new(tile);
        if self.all.shape.tiles == Tiles::Loop {
            let prefix = self.poll(&node, Level::Tile, tile, is_tile & tile.ne(0));
            return LookBack { node, place, tiles: Vec::new(), groups: Vec::new(), prefix };
        }
        let (first_tile, first_group) = place.firsts();
        let among = |count: Val<u32>| is_tile.select::<u32>(count, 0);
        LookBack {
            tiles: self.share(&node, Level::Tile, first_tile, among(place.in_group)),
            groups: self.share(&node, Level::Group, first_group, among(place.in_groups)),
            prefix: self.poll(&node, Level::Prefix, place.groups, is_tile & place.groups.ne(0)),
            place,
            node,
        }
    }

    /// The folds of a warp's nodes that are there, one per column.
    fn fold_nodes(&self, nodes: &[PolledNodes]) -> Vec<AnyRegisters> {
        let monoid = &self.all.scan.monoid;
        let mut accs = vec![monoid.identity(); self.all.shape.vector as usize];
        for PolledNodes { is_there, columns } in nodes {
            for (acc, poll) in accs.iter_mut().zip(columns) {
                let with = monoid.combine(*acc, poll.get(*acc));
                *acc = AnyRegisters::select(*is_there, with, *acc);
            }
        }
        accs
    }

    /// The folds of all warps' nodes, of each list.
    fn gather<const N: usize>(&self, lists: [&[PolledNodes]; N]) -> [Vec<AnyRegisters>; N] {
        wait_for(lists.iter().copied().flatten());
        let accs: Vec<_> = lists.iter().flat_map(|nodes| self.fold_nodes(nodes)).collect();
        // Other warps may still read what they last had there.
        sync_threads();
        let mut all = self.all.over_warps(&accs).into_iter().map(|(_, all)| all);
        lists.map(|_| all.by_ref().take(self.all.shape.vector as usize).collect())
    }

    /// The folds of all tiles before; `own` are the tile's aggregates. All threads come here
    /// together.
    fn finish_look_back(&self, look: &LookBack, own: &[AnyRegisters]) -> Vec<AnyRegisters> {
        let LookBack { node, place, .. } = look;
        if self.all.shape.tiles == Tiles::Loop {
            wait_for([&look.prefix]);
            let before = self.fold_nodes(std::slice::from_ref(&look.prefix));
            when((place.tile + 1_u64).lt(node.tiles), || {
                self.publish(node, Level::Tile, place.tile + 1_u64, &self.all.combine(&before, own));
            });
            return before;
        }
        let [before_in_group, groups] = self.gather([&look.tiles, &look.groups]);
        wait_for([&look.prefix]);
        let before = self.all.combine(&self.fold_nodes(std::slice::from_ref(&look.prefix)), &groups);
        when(place.ends_groups(node.tiles), || {
            let whole_group = self.all.combine(&before_in_group, own);
            self.publish(node, Level::Prefix, place.groups + 1_u64, &self.all.combine(&before, &whole_group));
        });
        self.all.combine(&before, &before_in_group)
    }

    /// Publishes the fold of the group that a tile ends, once all of its tiles are published. All
    /// threads come here together.
    fn publish_group(&self, node: Node, tile: Val<u64>) {
        let place = TreePosition::new(tile);
        let [group] = self.gather([&self.share(&node, Level::Tile, place.firsts().0, Val::constant(RADIX))]);
        self.publish(&node, Level::Group, place.group, &group);
    }
}

pub(super) fn kernel_of(scan: &Definition, shape: &ScanColumns) -> AnyKernel {
    let (name, block) = (format!("{}_scan_columns", scan.name), 32 * shape.warps);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |args: ScanArgs| {
        wait_for_dependencies();
        // Contract: the grid has in x a block for each 32 * `vector` columns of each outer
        // position, or any number of blocks that share the tiles of those.
        let of_warps = |_| scan.monoid.identity().shared(block);
        // A look back gathers two lists at once.
        let lists = if shape.tiles == Tiles::Split { 2 } else { 1 };
        let columns = Columns {
            scan: &scan,
            shape: &shape,
            args,
            inputs: args.inputs,
            outputs: args.outputs,
            of_warps: (0..lists * shape.vector).filter(|_| shape.warps > 1).map(of_warps).collect(),
        };
        match shape.tiles {
            Tiles::One => columns.one(),
            Tiles::Loop | Tiles::Split => columns.share(args.marks),
        }
    };
    kernel(name, body).required_block(block).into()
}

//! The scan whose threads stand along a kept dimension: columns of a matrix, walked row by row.

use warpfold_lang::{
    Array, Global, Order, Registers, Scope, SharedSpace, Val, Vars, block_idx, kernel, lane_id, linear_thread_idx,
    range, shared_named, sync_threads, sync_warp, vars, warp_id, when,
};

use super::geometry::{RESULTS, WORDS, Words};
use super::look_back::{Level, Nodes, Place as Tile, RADIX, clear, leave, nodes_of, take_ticket, wait_for};
use super::{Prefix, Scan, ScanOrder, Step, Tiles};
use crate::elements::{Place, Run};
use crate::fold::geometry::{MAX_INPUTS, divide};
use crate::fold::{Monoid, Position};
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
    /// How neighbouring columns lie, one an input.
    pub runs: [Run; MAX_INPUTS],
    /// Kept dimensions, the columns among them.
    pub kept: usize,
    /// Tiles a column.
    pub tiles: Tiles,
    /// Whether positions have 32 bits.
    pub small: bool,
    /// What is given for each item.
    pub order: ScanOrder,
}

impl ScanColumns {
    /// Rows a tile.
    const fn tile(&self) -> u64 {
        self.warps as u64 * self.unroll as u64
    }
}

type Slots<A> = Vec<<A as Registers>::Pointers<SharedSpace>>;

/// What one thread has of its columns, while the kernel is built.
struct Strip<'a, M: Monoid> {
    scan: &'a Scan<M>,
    shape: &'a ScanColumns,
    words: Words,
    /// Where the first column of the thread begins.
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
    /// Whether they are columns; else copies of the last ones, whose results nobody wants.
    is_column: Val<bool>,
    /// Memory of the warps' accumulators, one array a column of the thread.
    of_warps: Slots<M::Acc>,
}

impl<M: Monoid> Strip<'_, M> {
    fn load(&self, position: Val<u64>) -> Vec<M::Item> {
        let memory = self.shape.order.locate(self.words.len(), position, 1);
        let place = |(input, dtype): (usize, &Dtype)| Place {
            pointer: self.words.along_axis(self.inputs[input], input, Step::Any, dtype.bytes(), memory),
            run: self.shape.runs[input],
        };
        let places: Vec<_> = self.scan.source.dtypes().iter().enumerate().map(place).collect();
        self.scan.source.load(&places, self.shape.vector)
    }

    fn store(&self, position: Val<u64>, values: &[M::Output]) {
        let memory = self.shape.order.locate(self.words.len(), position, 1);
        let to = |(output, dtype): (&Global<u8>, &Dtype)| {
            self.words.along_axis(*output, RESULTS, Step::Any, dtype.bytes(), memory)
        };
        let to: Vec<_> = self.outputs.iter().zip(self.scan.sink.dtypes()).map(to).collect();
        self.scan.sink.store(&to, values, values.len() > 1);
    }

    /// From what each warp has: the folds of the warps before, and of all, one a column. `copy` of the memory must not be
    /// read any more.
    fn over_warps(&self, accs: &[M::Acc], copy: Val<u32>) -> Vec<(M::Acc, M::Acc)> {
        let (monoid, warps) = (self.scan.monoid, self.shape.warps);
        if warps == 1 {
            return accs.iter().map(|acc| (monoid.identity(), *acc)).collect();
        }
        let at = |warp: Val<u32>| (copy * warps + warp) * 32 + lane_id();
        accs.iter().zip(&self.of_warps).for_each(|(acc, memory)| acc.store(*memory, at(warp_id())));
        sync_threads();
        let fold = |memory| {
            let mut all = M::Acc::load(memory, at(Val::constant(0)));
            let mut before = monoid.identity();
            for warp in 1..warps {
                before = M::Acc::select(warp_id().eq(warp), all, before);
                all = monoid.combine(all, M::Acc::load(memory, at(Val::constant(warp))));
            }
            (before, all)
        };
        self.of_warps.iter().map(|memory| fold(*memory)).collect()
    }

    /// Scans a tile; `before` is given its aggregates and gives the folds of all tiles before. Gives the aggregates.
    fn tile(
        &self,
        tile: Val<u64>,
        copy: Val<u32>,
        before: impl FnOnce(&[M::Acc]) -> Option<Vec<M::Acc>>,
    ) -> Vec<M::Acc> {
        let ScanColumns { vector, unroll, order, .. } = *self.shape;
        let monoid = self.scan.monoid;
        // Load
        let first = tile * self.shape.tile() + (warp_id() * unroll).cast::<u64>();
        let positions: Vec<_> = (0..unroll).map(|u| first + u64::from(u)).collect();
        // What lies behind the last row comes last in the order of the scan, so it does not matter what it is.
        let last = self.words.len() - 1_u64;
        let rows: Vec<_> = positions.iter().map(|position| self.load(position.min(last))).collect();
        // Scan: rows by threads, warps, tiles
        let own = (0..vector as usize).map(|v| {
            let acc = monoid.lift(rows[0][v], Position::new(first, 0));
            let rest = rows.iter().zip(0..).skip(1);
            rest.fold(acc, |acc, (row, u)| monoid.push(acc, row[v], Position::new(first, u)))
        });
        let (of_warps, all): (Vec<_>, Vec<_>) = self.over_warps(&own.collect::<Vec<_>>(), copy).into_iter().unzip();
        // Epilogue
        let mut accs = match before(&all) {
            None => of_warps,
            Some(of_tiles) => of_tiles.iter().zip(of_warps).map(|(tiles, own)| monoid.combine(*tiles, own)).collect(),
        };
        for (row, u) in rows.iter().zip(0_u64..) {
            let mut results = Vec::new();
            for (acc, item) in accs.iter_mut().zip(row) {
                let after = monoid.push(*acc, *item, Position::new(first, u));
                results.push(match order.prefix {
                    Prefix::Inclusive => monoid.finish(after, first + (u + 1)),
                    Prefix::Exclusive => monoid.finish(*acc, first + u),
                });
                *acc = after;
            }
            let position = positions[u as usize];
            when(self.is_column & position.lt(self.words.len()), || self.store(position, &results));
        }
        all
    }
}

/// The nodes of a strip of columns; each has an accumulator a column, and one flag.
struct Tree<A: Registers> {
    nodes: Nodes<A>,
    /// Columns and strips in all, and the numbers of this thread's first column and of this block's strip.
    columns: Val<u64>,
    strips: Val<u64>,
    column: Val<u64>,
    strip: Val<u64>,
}

impl<A: Registers> Tree<A> {
    fn flag(&self, level: Level, i: Val<u64>) -> Global<u32> {
        self.nodes.flag(self.nodes.number(level, i) * self.strips + self.strip)
    }

    fn slot(&self, level: Level, i: Val<u64>, v: usize) -> Val<u64> {
        self.nodes.number(level, i) * self.columns + self.column + v as u64
    }
}

impl<M: Monoid> Strip<'_, M> {
    /// Leaves accumulators at a node; the first warp does. All threads come here together.
    fn show(&self, tree: &Tree<M::Acc>, level: Level, i: Val<u64>, accs: &[M::Acc]) {
        when(warp_id().eq(0), || {
            when(self.is_column, || {
                accs.iter().enumerate().for_each(|(v, acc)| acc.store(tree.nodes.slots, tree.slot(level, i, v)));
            });
            sync_warp();
            when(lane_id().eq(0), || tree.flag(level, i).store(1, Order::Release, Scope::Gpu));
        });
    }

    /// The fold of `count` nodes, less than [`RADIX`], by all warps; `also` is something else to wait for.
    fn gather(
        &self,
        tree: &Tree<M::Acc>,
        level: Level,
        first: Val<u64>,
        count: Val<u32>,
        also: impl FnOnce(),
    ) -> Vec<M::Acc> {
        let ScanColumns { warps, vector, .. } = *self.shape;
        let monoid = self.scan.monoid;
        let lane = lane_id();
        when(lane.lt(count), || wait_for(tree.flag(level, first + lane.cast::<u64>())));
        // What one lane has seen, all of the warp see.
        sync_warp();
        let accs: Vec<Vars<M::Acc>> = (0..vector).map(|_| vars(monoid.identity())).collect();
        let each = RADIX / warps;
        for i in 0..each {
            let i = warp_id() * each + i;
            when(i.lt(count), || {
                for (v, acc) in accs.iter().enumerate() {
                    let node = M::Acc::load(tree.nodes.slots, tree.slot(level, first + i.cast::<u64>(), v));
                    acc.set(monoid.combine(acc.get(), node));
                }
            });
        }
        also();
        // Other warps may still read what they last had there.
        sync_threads();
        let accs: Vec<_> = accs.into_iter().map(Vars::get).collect();
        self.over_warps(&accs, Val::constant(0)).into_iter().map(|(_, all)| all).collect()
    }

    /// The folds of all tiles before; `own` are the tile's aggregates. All threads come here together.
    fn look_back(&self, tree: &Tree<M::Acc>, tile: Val<u64>, own: &[M::Acc]) -> Vec<M::Acc> {
        let monoid = self.scan.monoid;
        let combine = |left: &[M::Acc], right: &[M::Acc]| -> Vec<_> {
            left.iter().zip(right).map(|(left, right)| monoid.combine(*left, *right)).collect()
        };
        let place = Tile::new(tile);
        self.show(tree, Level::Tile, tile, own);
        let tiles = self.gather(tree, Level::Tile, place.group << RADIX.ilog2(), place.in_group, || ());
        let with_own = combine(&tiles, own);
        // Shown before any wait for other groups, which would make a chain of all groups.
        when(place.ends_group(), || self.show(tree, Level::Group, place.group, &with_own));
        let prefixes: Vec<Vars<M::Acc>> = own.iter().map(|_| vars(monoid.identity())).collect();
        let of_prefix = || {
            when(place.groups.ne(0), || {
                wait_for(tree.flag(Level::Prefix, place.groups));
                for (v, prefix) in prefixes.iter().enumerate() {
                    prefix.set(M::Acc::load(tree.nodes.slots, tree.slot(Level::Prefix, place.groups, v)));
                }
            });
        };
        let groups = self.gather(tree, Level::Group, place.groups << RADIX.ilog2(), place.in_groups, of_prefix);
        let prefixes: Vec<_> = prefixes.into_iter().map(Vars::get).collect();
        let before = combine(&prefixes, &groups);
        when(place.ends_groups(tree.nodes.tiles), || {
            self.show(tree, Level::Prefix, place.groups + 1_u64, &combine(&before, &with_own));
        });
        combine(&before, &tiles)
    }
}

pub(super) fn kernel_of<M: Monoid>(scan: &Scan<M>, shape: &ScanColumns) -> AnyKernel {
    let (name, block) = (format!("{}_scan_columns", scan.name), 32 * shape.warps);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     workspace: Global<u64>,
                     tickets: Global<u32>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has in x a block for each 32 * `vector` columns of each outer position, or for each tile of
        // those.
        let words = Words(words);
        let ScanColumns { vector, kept, tiles, small, warps, .. } = shape;
        let (monoid, width) = (scan.monoid, 32 * vector);
        let num_columns = words.size(kept - 1);
        let strips = (num_columns + u64::from(width - 1)) >> width.ilog2();
        let all_strips = (0..kept - 1).fold(strips, |strips, dim| strips * words.size(dim));
        let (tile, strip) = match tiles {
            // Tiles of all strips in turn, so that a tile comes long after the one before it.
            Tiles::Split => divide(take_ticket(tickets).cast::<u64>(), all_strips, small),
            Tiles::One | Tiles::Loop => (Val::constant(0), block_idx().x.cast()),
        };
        let (outer, inner) = if kept == 1 { (Val::constant(0), strip) } else { divide(strip, strips, small) };
        let column = inner * u64::from(width) + (lane_id() * vector).cast::<u64>();
        let is_column = column.lt(num_columns);
        // Threads beyond the last column scan the last ones as well and store nothing.
        let column = column.min(num_columns - u64::from(vector));
        let offsets = words.offsets(kept - 1, outer, small);
        let at = |pointer: Global<u8>, dtype: &Dtype, operand: usize| {
            pointer.at(column.mul_add(words.stride(kept - 1, operand), offsets[operand]) * dtype.bytes())
        };
        let inputs = [in0, in1].into_iter().zip(scan.source.dtypes()).zip(0..).map(|((p, dtype), i)| at(p, dtype, i));
        let outputs = [out0, out1].into_iter().zip(scan.sink.dtypes()).map(|(p, dtype)| at(p, dtype, RESULTS));
        let copies = if tiles == Tiles::Loop { 2 } else { 1 };
        let of_warps = (0..vector).filter(|_| warps > 1).map(|_| monoid.identity().shared(copies * block));
        let strip_of = Strip {
            scan: &scan,
            shape: &shape,
            words,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            is_column,
            of_warps: of_warps.collect(),
        };
        match tiles {
            Tiles::One => drop(strip_of.tile(tile, Val::constant(0), |_| None)),
            Tiles::Loop => {
                let carry: Vec<Vars<M::Acc>> = (0..vector).map(|_| vars(monoid.identity())).collect();
                range(0, words.tiles(), 1, |tile: Val<u64>| {
                    let before: Vec<_> = carry.iter().map(|carry| carry.get()).collect();
                    // Two copies in turn: who writes one has passed the barrier behind the last read of it.
                    let all = strip_of.tile(tile, tile.cast::<u32>() & 1, |_| Some(before.clone()));
                    for ((carry, before), all) in carry.iter().zip(before).zip(all) {
                        carry.set(monoid.combine(before, all));
                    }
                });
            }
            Tiles::Split => {
                let nodes = nodes_of(words.tiles());
                let tree = Tree {
                    nodes: Nodes {
                        first: Val::constant(0),
                        tiles: words.tiles(),
                        slots: monoid.identity().global(workspace, words.rows() * nodes, &mut 0),
                        tickets,
                    },
                    columns: words.rows(),
                    strips: all_strips,
                    column: outer.mul_add(num_columns, column),
                    strip,
                };
                let is_last = shared_named::<u32>("is_last", 1);
                strip_of.tile(tile, Val::constant(0), |own| Some(strip_of.look_back(&tree, tile, own)));
                sync_threads();
                when(linear_thread_idx().eq(0), || is_last.set(leave(tickets).cast::<u32>()));
                sync_threads();
                when(is_last.get().ne(0), || clear(tickets, nodes * all_strips, block));
            }
        }
    };
    kernel(name, body).required_block(block).into()
}

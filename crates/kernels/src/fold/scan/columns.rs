//! The scan whose threads stand along a kept dimension: columns of a matrix, walked row by row.

use warpfold_lang::{
    Array, Global, Registers, SharedSpace, Val, Vars, block_idx, kernel, lane_id, linear_thread_idx, range,
    sync_threads, vars, warp_id, when,
};

use super::geometry::{RESULTS, WORDS, Words};
use super::look_back::{Level, Nodes, Place as Tile, RADIX, Seen, nodes_of, num_words};
use super::{Direction, Prefix, Scan, ScanOrder, Step, Tiles};
use crate::elements::{Place, Run};
use crate::fold::geometry::{MAX_INPUTS, divide};
use crate::fold::{Monoid, Position};
use crate::{AnyKernel, Dtype};

/// Bytes of rows that may wait in shared memory: of the 48 KiB that every block may have, the rest is for accumulators.
const PARKED_BYTES: u64 = 36 << 10;

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

/// Items of a block's threads in shared memory.
struct Parked<I: Registers> {
    memory: I::Pointers<SharedSpace>,
    /// The number of the thread.
    first: Val<u32>,
    block: u32,
}

impl<I: Registers> Parked<I> {
    fn item(&self, i: u32) -> I {
        I::load(self.memory, self.first + i * self.block)
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
    /// Where the row lies that comes so many behind a position.
    fn place(&self, base: Global<u8>, operand: usize, dtype: Dtype, at: (Val<u64>, Val<u32>)) -> Global<u8> {
        let memory = self.shape.order.locate(self.words.len(), at.0, 1);
        let first = self.words.along_axis(base, operand, Step::Any, dtype.bytes(), memory);
        let bytes = dtype.bytes() as i64 * if self.shape.order.direction == Direction::Forward { 1 } else { -1 };
        first.at(self.words.axis(operand) * bytes * at.1.cast::<i64>())
    }

    fn load(&self, at: (Val<u64>, Val<u32>)) -> Vec<M::Item> {
        let place = |(input, dtype): (usize, &Dtype)| Place {
            pointer: self.place(self.inputs[input], input, *dtype, at),
            run: self.shape.runs[input],
        };
        let places: Vec<_> = self.scan.source.dtypes().iter().enumerate().map(place).collect();
        self.scan.source.load(&places, self.shape.vector)
    }

    fn store(&self, at: (Val<u64>, Val<u32>), values: &[M::Output]) {
        let to = |(output, dtype): (&Global<u8>, &Dtype)| self.place(*output, RESULTS, *dtype, at);
        let to: Vec<_> = self.outputs.iter().zip(self.scan.sink.dtypes()).map(to).collect();
        self.scan.sink.store(&to, values, values.len() > 1);
    }

    /// Leaves the rows of a tile in shared memory, as in registers they would keep other blocks from running while this
    /// one waits for others; `None` if there is no room, or nothing to wait for.
    fn park(&self, rows: &[Vec<M::Item>]) -> Option<Parked<M::Item>> {
        let items = rows.len() as u32 * self.shape.vector;
        let block = 32 * self.shape.warps;
        let bytes = 4 * num_words(rows[0][0]) * u64::from(items * block);
        if self.shape.tiles != Tiles::Split || bytes > PARKED_BYTES {
            return None;
        }
        let parked = Parked { memory: rows[0][0].shared(items * block), first: linear_thread_idx(), block };
        for (item, i) in rows.iter().flatten().zip(0..) {
            item.store(parked.memory, parked.first + i * block);
        }
        Some(parked)
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
        // What lies behind the last row comes last in the order of the scan, so it does not matter what it is.
        let last = self.words.len() - 1_u64;
        let inside = first.min(last);
        let further = (last - inside).min(u64::from(unroll)).cast::<u32>();
        let rows: Vec<_> = (0..unroll).map(|u| self.load((inside, further.min(u)))).collect();
        let parked = self.park(&rows);
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
        // Rows from this warp's first one on.
        let rest = (self.words.len().max(first) - first).min(u64::from(unroll)).cast::<u32>();
        for (row, u) in rows.iter().zip(0_u64..) {
            let mut results = Vec::new();
            for (v, acc) in accs.iter_mut().enumerate() {
                let item = parked.as_ref().map_or(row[v], |parked| parked.item(u as u32 * vector + v as u32));
                let after = monoid.push(*acc, item, Position::new(first, u));
                results.push(match order.prefix {
                    Prefix::Inclusive => monoid.finish(after, first + (u + 1)),
                    Prefix::Exclusive => monoid.finish(*acc, first + u),
                });
                *acc = after;
            }
            let u = u as u32;
            when(self.is_column & rest.gt(u), || self.store((first, Val::constant(u)), &results));
        }
        all
    }
}

/// The nodes of a thread's columns.
struct Tree {
    nodes: Nodes,
    /// Columns in all, and the number of this thread's first one.
    columns: Val<u64>,
    column: Val<u64>,
}

impl Tree {
    fn node(&self, tiles: Val<u64>, level: Level, i: Val<u64>, v: usize) -> Val<u64> {
        level.number(tiles, i) * self.columns + self.column + v as u64
    }
}

impl<M: Monoid> Strip<'_, M> {
    /// Leaves accumulators at a node of each column; the first warp does.
    fn show(&self, tree: &Tree, level: Level, i: Val<u64>, accs: &[M::Acc]) {
        when(warp_id().eq(0) & self.is_column, || {
            for (v, acc) in accs.iter().enumerate() {
                tree.nodes.show(tree.node(self.words.tiles(), level, i, v), *acc);
            }
        });
    }

    /// Looks at this warp's share of `count` nodes, less than [`RADIX`]: those of each column.
    fn look(&self, tree: &Tree, level: Level, first: Val<u64>, count: Val<u32>) -> Vec<(Val<bool>, Vec<Seen>)> {
        let ScanColumns { warps, vector, .. } = *self.shape;
        let each = RADIX / warps;
        let look = |i: u32| {
            let i = warp_id() * each + i;
            let node = |v| tree.node(self.words.tiles(), level, first + i.cast::<u64>(), v);
            let seen: Vec<_> =
                (0..vector as usize).map(|v| tree.nodes.seen(node(v), self.scan.monoid.identity())).collect();
            when(i.lt(count), || seen.iter().for_each(Seen::look));
            (i.lt(count), seen)
        };
        (0..each).map(look).collect()
    }

    /// The folds of nodes that all warps have looked at.
    fn gather(&self, nodes: &[(Val<bool>, Vec<Seen>)]) -> Vec<M::Acc> {
        let monoid = self.scan.monoid;
        let accs: Vec<Vars<M::Acc>> = (0..self.shape.vector).map(|_| vars(monoid.identity())).collect();
        for (is_node, seen) in nodes {
            when(*is_node, || {
                for (acc, seen) in accs.iter().zip(seen) {
                    acc.set(monoid.combine(acc.get(), seen.wait(monoid.identity())));
                }
            });
        }
        // Other warps may still read what they last had there.
        sync_threads();
        let accs: Vec<_> = accs.into_iter().map(Vars::get).collect();
        self.over_warps(&accs, Val::constant(0)).into_iter().map(|(_, all)| all).collect()
    }

    /// The folds of all tiles before; `own` are the tile's aggregates. All threads come here together.
    fn look_back(&self, tree: &Tree, tile: Val<u64>, own: &[M::Acc]) -> Vec<M::Acc> {
        let monoid = self.scan.monoid;
        let combine = |left: &[M::Acc], right: &[M::Acc]| -> Vec<_> {
            left.iter().zip(right).map(|(left, right)| monoid.combine(*left, *right)).collect()
        };
        let place = Tile::new(tile);
        let (first_tile, first_group) = place.firsts();
        self.show(tree, Level::Tile, tile, own);
        // All of them at once: most often they are there.
        let tiles = self.look(tree, Level::Tile, first_tile, place.in_group);
        let groups = self.look(tree, Level::Group, first_group, place.in_groups);
        let before_in_group = self.gather(&tiles);
        let with_own = combine(&before_in_group, own);
        // Shown before any wait for other groups, which would make a chain of all groups.
        when(place.ends_group(), || self.show(tree, Level::Group, place.group, &with_own));
        let groups = self.gather(&groups);
        let prefixes: Vec<Vars<M::Acc>> = own.iter().map(|_| vars(monoid.identity())).collect();
        when(place.groups.ne(0), || {
            for (v, prefix) in prefixes.iter().enumerate() {
                let node = tree.node(self.words.tiles(), Level::Prefix, place.groups, v);
                let seen = tree.nodes.seen(node, monoid.identity());
                seen.look();
                prefix.set(seen.wait(monoid.identity()));
            }
        });
        let prefixes: Vec<_> = prefixes.into_iter().map(Vars::get).collect();
        let before = combine(&prefixes, &groups);
        when(place.ends_groups(self.words.tiles()), || {
            self.show(tree, Level::Prefix, place.groups + 1_u64, &combine(&before, &with_own));
        });
        combine(&before, &before_in_group)
    }
}

pub(super) fn kernel_of<M: Monoid>(scan: &Scan<M>, shape: &ScanColumns) -> AnyKernel {
    let (name, block) = (format!("{}_scan_columns", scan.name), 32 * shape.warps);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     marks: Global<u64>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has in x a block for each 32 * `vector` columns of each outer position, or for each tile of
        // those.
        let words = Words(words);
        let ScanColumns { vector, kept, tiles, small, warps, .. } = shape;
        let (monoid, width) = (scan.monoid, 32 * vector);
        let num_columns = words.size(kept - 1);
        let strips = (num_columns + u64::from(width - 1)) >> width.ilog2();
        let all_strips = (0..kept - 1).fold(strips, |strips, dim| strips * words.size(dim));
        let begun = (tiles == Tiles::Split).then(|| Nodes::begin(marks, words.rows() * nodes_of(words.tiles())));
        let (tile, strip) = match tiles {
            // Tiles of all strips in turn, so that a tile comes long after the one before it.
            Tiles::Split => {
                let (_, ticket) = begun.expect("tiles that blocks share have tickets");
                divide(ticket.cast::<u64>(), all_strips, small)
            }
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
                let (nodes, _) = begun.expect("tiles that blocks share have nodes");
                let tree = Tree { nodes, columns: words.rows(), column: outer.mul_add(num_columns, column) };
                strip_of.tile(tile, Val::constant(0), |own| Some(strip_of.look_back(&tree, tile, own)));
            }
        }
    };
    kernel(name, body).required_block(block).into()
}

//! The scan whose threads stand along a kept dimension: columns of a matrix, walked row by row.
//!
//! Columns of one tile are a block's. Longer ones are cut into tiles of 128 bytes a row, of which 16 bytes are a thread's:
//! the lanes of a warp are groups, each with rows of its own, as wide loads want and as a column's node in the tree
//! costs the less the more rows a tile has. What threads know of columns side by side, they fold and hand on by shared
//! memory, where a thread looks after one column.

use warpfold_lang::{
    Array, Global, Lanes, Registers, Val, block_idx, doubling, kernel, lane_id, linear_thread_idx, sync_threads,
    wait_for_dependencies, warp_id, when,
};

use super::exchange::Exchange;
use super::geometry::{RESULTS, WORDS, Words};
use super::look_back::{Place as Tile, RADIX, nodes_of};
use super::stage::{SLOTS, Stage, copied_bytes};
use super::walk::Queue;
use super::{Direction, Prefix, Scan, ScanOrder, Step};
use crate::elements::{Place, Run};
use crate::fold::geometry::{MAX_INPUTS, divide};
use crate::fold::{Monoid, Position};
use crate::{AnyKernel, Dtype};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanColumns {
    /// Warps a block.
    pub warps: u32,
    /// Lanes that stand side by side along the columns, a power of two; the groups of a warp have rows of their own.
    pub lanes: u32,
    /// Columns a thread.
    pub vector: u32,
    /// Rows of a tile that a thread takes.
    pub unroll: u32,
    /// How neighbouring columns lie, one an input.
    pub runs: [Run; MAX_INPUTS],
    /// Kept dimensions, the columns among them.
    pub kept: usize,
    /// Whether columns have several tiles, which blocks share.
    pub split: bool,
    /// Blocks that shall fit a multiprocessor, where blocks share columns.
    pub resident: u32,
    /// Whether positions have 32 bits.
    pub small: bool,
    /// What is given for each item.
    pub order: ScanOrder,
}

impl ScanColumns {
    /// Columns a block.
    pub(crate) const fn width(&self) -> u32 {
        self.lanes * self.vector
    }

    /// Groups of lanes in a warp.
    const fn groups(&self) -> u32 {
        32 / self.lanes
    }

    /// Rows a tile.
    pub(crate) const fn tile(&self) -> u64 {
        (self.warps * self.groups()) as u64 * self.unroll as u64
    }

    /// Threads that look back for one column: no more than there are nodes.
    pub(crate) const fn shares(&self) -> u32 {
        let shares = 32 * self.warps / self.width();
        if shares < RADIX { shares } else { RADIX }
    }

    /// Bytes of a thread's columns that can be copied in the background.
    pub(crate) fn copied_bytes(&self, inputs: &[Dtype]) -> Option<u32> {
        copied_bytes(inputs, self.vector).filter(|_| self.runs[0] != Run::Same && self.split)
    }
}

/// What one thread knows of all columns, while the kernel is built.
pub(super) struct Columns<'a, M: Monoid> {
    pub(super) scan: &'a Scan<M>,
    pub(super) shape: &'a ScanColumns,
    pub(super) words: Words,
    inputs: [Global<u8>; MAX_INPUTS],
    outputs: [Global<u8>; 2],
}

/// The columns of a block, and what one thread has of them.
pub(super) struct Strip<'a, M: Monoid> {
    all: &'a Columns<'a, M>,
    /// Where the first column of the thread begins.
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
    /// Whether they are columns; else copies of the last ones, whose results nobody wants.
    is_column: Val<bool>,
    /// The column that the thread looks after, counted over all strips, and whether there is one.
    pub(super) own: Val<u64>,
    pub(super) is_own: Val<bool>,
}

impl<M: Monoid> Columns<'_, M> {
    /// Strips at each outer position.
    fn strips(&self) -> Val<u64> {
        let num_columns = self.words.size(self.shape.kept - 1);
        (num_columns + u64::from(self.shape.width() - 1)) >> self.shape.width().ilog2()
    }

    /// The outer position of a strip, and its number there.
    fn locate(&self, strip: Val<u64>) -> (Val<u64>, Val<u64>) {
        let ScanColumns { kept, small, .. } = *self.shape;
        if kept == 1 { (Val::constant(0), strip) } else { divide(strip, self.strips(), small) }
    }

    fn strip(&self, (outer, inner): (Val<u64>, Val<u64>)) -> Strip<'_, M> {
        let ScanColumns { kept, small, vector, lanes, runs, .. } = *self.shape;
        let outer = if kept == 1 { Val::constant(0) } else { outer };
        let num_columns = self.words.size(kept - 1);
        let first = inner * u64::from(self.shape.width());
        let column = first + ((lane_id() & (lanes - 1)) * vector).cast::<u64>();
        let is_column = column.lt(num_columns);
        // Threads beyond the last column scan the last ones as well and store nothing.
        let column = column.min(num_columns - u64::from(vector));
        let own = first + self.own().cast::<u64>();
        let offsets = self.words.offsets(kept - 1, outer, small);
        let at = |pointer: &Global<u8>, dtype: &Dtype, operand: usize| {
            let is_same = runs.get(operand) == Some(&Run::Same);
            let offset = if is_same { offsets[operand] } else { column + offsets[operand] };
            pointer.at(offset * dtype.bytes())
        };
        let inputs = self.inputs.iter().zip(self.scan.source.dtypes()).zip(0..);
        let outputs = self.outputs.iter().zip(self.scan.sink.dtypes());
        Strip {
            all: self,
            inputs: inputs.map(|((pointer, dtype), i)| at(pointer, dtype, i)).collect(),
            outputs: outputs.map(|(pointer, dtype)| at(pointer, dtype, RESULTS)).collect(),
            is_column,
            own: outer.mul_add(num_columns, own),
            is_own: own.lt(num_columns),
        }
    }

    /// The column of a strip that the thread looks after, and the number of the thread among those that do.
    pub(super) fn own(&self) -> Val<u32> {
        linear_thread_idx() & (self.shape.width() - 1)
    }

    pub(super) fn share(&self) -> Val<u32> {
        linear_thread_idx() >> self.shape.width().ilog2()
    }

    /// The first column of the thread in a strip.
    pub(super) fn column(&self) -> Val<u32> {
        (lane_id() & (self.shape.lanes - 1)) * self.shape.vector
    }

    /// The first row of the thread in a tile.
    fn first(&self, tile: Val<u64>) -> Val<u64> {
        let ScanColumns { lanes, unroll, .. } = *self.shape;
        let group = match self.shape.groups() {
            1 => warp_id(),
            groups => warp_id() * groups + (lane_id() >> lanes.ilog2()),
        };
        tile * self.shape.tile() + (group * unroll).cast::<u64>()
    }

    fn stage(&self) -> Stage<'_, M::Item> {
        let ScanColumns { warps, unroll, .. } = *self.shape;
        let source = &self.scan.source;
        Stage::new(source, 32 * warps, unroll, SLOTS, self.shape.copied_bytes(source.dtypes()))
    }

    /// The folds of the rows of a thread, one a column.
    fn fold(&self, items: impl Fn(u32) -> Vec<M::Item>, first: Val<u64>) -> Vec<M::Acc> {
        let (monoid, row) = (self.scan.monoid, items(0));
        let lift = |item: &M::Item| monoid.lift(*item, Position::new(first, 0));
        let mut accs: Vec<_> = row.iter().map(lift).collect();
        for u in 1..self.shape.unroll {
            for (acc, item) in accs.iter_mut().zip(items(u)) {
                *acc = monoid.push(*acc, item, Position::new(first, u.into()));
            }
        }
        accs
    }

    /// From what each group of lanes has: the fold of the groups of the warp before, and, in the last group, of all.
    pub(super) fn over_groups(&self, own: M::Acc) -> (M::Acc, M::Acc) {
        let (monoid, lanes) = (self.scan.monoid, self.shape.lanes);
        let up = |acc: M::Acc, distance: u32| Lanes::all_lanes().shfl_up(acc, distance);
        let mut all = own;
        for distance in doubling(self.shape.groups()).map(|groups| groups * lanes) {
            all = M::Acc::select(lane_id().ge(distance), monoid.combine(up(all, distance), all), all);
        }
        if lanes == 32 {
            return (monoid.identity(), all);
        }
        (M::Acc::select(lane_id().lt(lanes), monoid.identity(), up(all, lanes)), all)
    }

    /// From what each warp has: the folds of the warps before, one an accumulator.
    fn over_warps(&self, accs: &[M::Acc]) -> Vec<M::Acc> {
        let (monoid, warps) = (self.scan.monoid, self.shape.warps);
        if warps == 1 {
            return accs.iter().map(|_| monoid.identity()).collect();
        }
        let at = |warp: Val<u32>| warp * 32 + lane_id();
        let memory: Vec<_> = accs.iter().map(|_| monoid.identity().shared(32 * warps)).collect();
        accs.iter().zip(&memory).for_each(|(acc, memory)| acc.store(*memory, at(warp_id())));
        sync_threads();
        let fold = |memory| {
            let mut all = monoid.identity();
            let mut before = monoid.identity();
            for warp in 0..warps {
                before = M::Acc::select(warp_id().eq(warp), all, before);
                all = monoid.combine(all, M::Acc::load(memory, at(Val::constant(warp))));
            }
            before
        };
        memory.into_iter().map(fold).collect()
    }

    /// The only tile of some columns.
    fn one(&self) {
        let strip = self.strip(self.locate(block_idx().x.cast()));
        let first = self.first(Val::constant(0));
        let rows: Vec<_> = strip.rows(first).iter().map(|places| strip.load(places)).collect();
        let items = |u: u32| rows[u as usize].clone();
        let before = self.over_warps(&self.fold(items, first));
        strip.finish(items, first, before);
    }

    /// Tiles of columns that blocks share.
    fn shared(&self, marks: Global<u64>) {
        let ScanColumns { kept, small, .. } = *self.shape;
        let words = self.words;
        let all_strips = (0..kept - 1).fold(self.strips(), |strips, dim| strips * words.size(dim));
        let stage = self.stage();
        let queue = Queue::begin(marks, (all_strips * words.tiles()).cast(), stage.slots());
        let exchange = Exchange::new(self, queue.nodes(words.rows() * nodes_of(words.tiles())));
        // Tiles of all strips in turn, so that a tile comes long after the one before it.
        let locate = |ticket: Val<u32>| {
            let (tile, strip) = divide(ticket.cast::<u64>(), all_strips, small);
            (tile, self.locate(strip))
        };
        queue.walk(
            locate,
            |(tile, strip), slot| self.strip(strip).take(&stage, slot, self.first(tile)),
            |last| stage.wait(last),
            || exchange.shown(),
            |(tile, strip), slot| {
                let own = self.fold(|u| stage.items(slot, u), self.first(tile));
                exchange.show(&self.strip(strip), tile, own);
            },
            |(tile, strip), slot, shown| {
                let strip = self.strip(strip);
                let before = exchange.before(&strip, tile, &shown);
                strip.finish(|u| stage.items(slot, u), self.first(tile), before);
            },
            |(tile, strip)| when(Tile::new(tile).ends_group(), || exchange.settle(&self.strip(strip), tile)),
            |(tile, strip)| exchange.look(&self.strip(strip), tile),
        );
    }
}

impl<M: Monoid> Strip<'_, M> {
    /// Where a row lies, and how far behind it the next one.
    fn place(&self, base: Global<u8>, operand: usize, dtype: Dtype, row: Val<u64>) -> (Global<u8>, Val<i64>) {
        let Columns { words, shape: ScanColumns { order, .. }, .. } = *self.all;
        let memory = order.locate(words.len(), row, 1);
        let bytes = dtype.bytes() as i64 * if order.direction == Direction::Forward { 1 } else { -1 };
        (words.along_axis(base, operand, Step::Any, dtype.bytes(), memory), words.axis(operand) * bytes)
    }

    /// Where the rows of a thread lie in a tile, one place an input.
    fn rows(&self, first: Val<u64>) -> Vec<Vec<Global<u8>>> {
        let last = self.all.words.len() - 1_u64;
        let inside = first.min(last);
        let further = (last - inside).min(u64::from(self.all.shape.unroll)).cast::<u32>();
        let inputs = self.inputs.iter().zip(self.all.scan.source.dtypes()).zip(0..);
        let mut places: Vec<_> =
            inputs.map(|((base, dtype), input)| self.place(*base, input, *dtype, inside)).collect();
        let mut rows = Vec::new();
        for u in 1..=self.all.shape.unroll {
            rows.push(places.iter().map(|(place, _)| *place).collect());
            for (place, step) in &mut places {
                // What lies behind the last row comes last in the order of the scan, so it does not matter what it is.
                *place = place.at(further.ge(u).select::<i64>(*step, 0));
            }
        }
        rows
    }

    fn load(&self, places: &[Global<u8>]) -> Vec<M::Item> {
        let ScanColumns { runs, vector, .. } = *self.all.shape;
        let place = |(pointer, run): (&Global<u8>, Run)| Place { pointer: *pointer, run };
        self.all.scan.source.load(&places.iter().zip(runs).map(place).collect::<Vec<_>>(), vector)
    }

    /// Takes the rows of a tile into a slot.
    fn take(&self, stage: &Stage<'_, M::Item>, slot: Val<u32>, first: Val<u64>) {
        for (places, u) in self.rows(first).iter().zip(0..) {
            stage.take(slot, u, || places[0], || self.load(places));
        }
    }

    /// Stores the results of a tile; `accs` are the folds of all before the warp's rows.
    fn finish(&self, items: impl Fn(u32) -> Vec<M::Item>, first: Val<u64>, mut accs: Vec<M::Acc>) {
        let Columns { scan: Scan { monoid, sink, .. }, shape: ScanColumns { unroll, order, .. }, words, .. } = self.all;
        // Rows from the thread's first one on.
        let rest = (words.len().max(first) - first).min(u64::from(*unroll)).cast::<u32>();
        let rest = self.is_column.select::<u32>(rest, 0);
        let outputs = self.outputs.iter().zip(sink.dtypes());
        let mut places: Vec<_> = outputs.map(|(output, dtype)| self.place(*output, RESULTS, *dtype, first)).collect();
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
            let to: Vec<_> = places.iter().map(|(place, _)| *place).collect();
            when(rest.gt(u), || sink.store(&to, &results, results.len() > 1));
            places.iter_mut().for_each(|(place, step)| *place = place.at(*step));
        }
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
        wait_for_dependencies();
        // Contract: the grid has in x a block for each `lanes * vector` columns of each outer position, or any number of
        // blocks that share the tiles of those.
        let columns =
            Columns { scan: &scan, shape: &shape, words: Words(words), inputs: [in0, in1], outputs: [out0, out1] };
        if shape.split { columns.shared(marks) } else { columns.one() }
    };
    // Saying that one block is enough keeps ptxas from spilling for more of them.
    kernel(name, body).required_block(block).min_blocks(1).into()
}

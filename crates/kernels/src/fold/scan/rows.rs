//! The scan whose threads stand along the axis: groups of lanes, or blocks, that walk a row tile by tile or share it.

use warpfold_lang::{
    Array, Global, Registers, SharedSpace, Val, Vars, block_idx, kernel, lane_id, range, shared_named, sync_threads,
    thread_idx, vars, warp_id, when,
};

use super::geometry::{OPERANDS, RESULTS, WORDS, Words};
use super::look_back::{Nodes, clear, leave, look_back, nodes_of, take_ticket};
use super::warp::{lane_before, last_lane, scan_warps};
use super::{Prefix, Scan, ScanOrder, Step, scan_warp};
use crate::elements::{Place, Run};
use crate::fold::geometry::divide;
use crate::fold::{Monoid, Position};
use crate::{AnyKernel, Dtype};

/// How many tiles a row has, and who takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tiles {
    /// One.
    One,
    /// Several, one after the other by the same threads.
    Loop,
    /// Several, each by a block of its own.
    Split,
}

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanRows {
    /// Threads a block.
    pub block: u32,
    /// Threads a row, a power of two: up to 32, or the block.
    pub lanes: u32,
    /// Items that a thread takes side by side.
    pub vector: u32,
    /// Such groups a tile.
    pub unroll: u32,
    /// How each operand is walked.
    pub steps: [Step; OPERANDS],
    /// Whether rows end inside of a vector.
    pub tail: bool,
    /// Tiles a row.
    pub tiles: Tiles,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
    /// What is given for each item.
    pub order: ScanOrder,
}

impl ScanRows {
    /// Items a tile.
    pub(crate) const fn tile(&self) -> u64 {
        self.lanes as u64 * self.vector as u64 * self.unroll as u64
    }

    /// Lanes that scan by shuffles.
    const fn width(&self) -> u32 {
        if self.lanes < 32 { self.lanes } else { 32 }
    }
}

/// What one thread has of a row, while the kernel is built.
struct Row<'a, M: Monoid> {
    scan: &'a Scan<M>,
    shape: &'a ScanRows,
    words: Words,
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
    /// Whether it is a row; else a copy of the last one, whose results nobody wants.
    is_row: Val<bool>,
    /// The first item of the thread in a tile.
    first: Val<u64>,
    /// Items in whole vectors.
    whole: Val<u64>,
}

impl<M: Monoid> Row<'_, M> {
    /// `n` items from a position on.
    fn load(&self, position: Val<u64>, n: u32) -> Vec<M::Item> {
        let ScanRows { vector, steps, order, .. } = *self.shape;
        let memory = order.locate(self.words.len(), position, n);
        let place = |(input, dtype): (usize, &Dtype)| {
            let step = steps[input];
            let pointer = self.words.along_axis(self.inputs[input], input, step, dtype.bytes(), memory);
            let run = match step {
                Step::Zero => Run::Same,
                _ if vector > 1 && n == vector => Run::Wide,
                _ => Run::Narrow,
            };
            Place { pointer, run }
        };
        let places: Vec<_> = self.scan.source.dtypes().iter().enumerate().map(place).collect();
        order.turn(self.scan.source.load(&places, n))
    }

    fn store(&self, position: Val<u64>, values: Vec<M::Output>) {
        let n = values.len() as u32;
        let memory = self.shape.order.locate(self.words.len(), position, n);
        let to = |(output, dtype): (&Global<u8>, &Dtype)| {
            self.words.along_axis(*output, RESULTS, self.shape.steps[RESULTS], dtype.bytes(), memory)
        };
        let to: Vec<_> = self.outputs.iter().zip(self.scan.sink.dtypes()).map(to).collect();
        self.scan.sink.store(&to, &self.shape.order.turn(values), n > 1);
    }

    /// Takes in an item, and gives what the prefix of its position finishes to.
    fn step(&self, acc: M::Acc, item: M::Item, first: Val<u64>, i: u64) -> (M::Acc, M::Output) {
        let monoid = self.scan.monoid;
        let after = monoid.push(acc, item, Position::new(first, i));
        let result = match self.shape.order.prefix {
            Prefix::Inclusive => monoid.finish(after, first + (i + 1)),
            Prefix::Exclusive => monoid.finish(acc, first + i),
        };
        (after, result)
    }

    /// Scans a tile. `before` is given the tile's aggregate, if anyone needs it, and gives the fold of all tiles before.
    fn tile(
        &self,
        tile: Val<u64>,
        of_warps: Option<(<M::Acc as Registers>::Pointers<SharedSpace>, Val<u32>)>,
        before: impl FnOnce(M::Acc) -> Option<M::Acc>,
    ) -> M::Acc {
        let ScanRows { block, vector, unroll, tail, .. } = *self.shape;
        let (monoid, width) = (self.scan.monoid, self.shape.width());
        // Load
        let first = tile * self.shape.tile() + self.first;
        let positions: Vec<_> = (0..unroll).map(|u| first + u64::from(u * width * vector)).collect();
        // What lies behind the end of the row comes last in the order of the scan, so it does not matter what it is.
        let last = self.whole - u64::from(vector);
        let items: Vec<_> = positions.iter().map(|position| self.load(position.min(last), vector)).collect();
        // Scan: vectors by threads, lanes, warps, tiles
        let mut ours: Option<M::Acc> = None;
        let mut prefixes = Vec::new();
        for (items, position) in items.iter().zip(&positions) {
            let acc = monoid.lift(items[0], Position::new(*position, 0));
            let rest = items.iter().zip(0..).skip(1);
            let acc = rest.fold(acc, |acc, (item, i)| monoid.push(acc, *item, Position::new(*position, i)));
            let scanned = scan_warp(monoid, acc, width);
            let of_lanes = lane_before(monoid, scanned, width);
            prefixes.push(ours.map_or(of_lanes, |ours| monoid.combine(ours, of_lanes)));
            let all = last_lane(scanned, width);
            ours = Some(ours.map_or(all, |ours| monoid.combine(ours, all)));
        }
        let ours = ours.expect("a tile has a vector");
        let (of_warps, all) = match of_warps {
            None => (None, ours),
            Some((memory, first)) => {
                let (before, all) = scan_warps(monoid, ours, block / 32, memory, first);
                (Some(before), all)
            }
        };
        let of_tiles = before(all);
        // Epilogue
        let before = [of_tiles, of_warps].into_iter().flatten().reduce(|left, right| monoid.combine(left, right));
        for ((items, position), prefix) in items.iter().zip(&positions).zip(prefixes) {
            let mut acc = before.map_or(prefix, |before| monoid.combine(before, prefix));
            let mut results = Vec::new();
            for (item, i) in items.iter().zip(0..) {
                let (after, result) = self.step(acc, *item, *position, i);
                acc = after;
                results.push(result);
            }
            when(self.is_row & position.lt(self.whole), || {
                self.store(*position, results);
                if tail {
                    self.tail(acc, *position);
                }
            });
        }
        all
    }

    /// The thread with the last whole vector goes on to the end of the row.
    fn tail(&self, acc: M::Acc, position: Val<u64>) {
        when((position + u64::from(self.shape.vector)).eq(self.whole), || {
            let acc = vars(acc);
            range(self.whole, self.words.len(), 1, |i| {
                let (after, result) = self.step(acc.get(), self.load(i, 1)[0], i, 0);
                acc.set(after);
                self.store(i, vec![result]);
            });
        });
    }
}

pub(super) fn kernel_of<M: Monoid>(scan: &Scan<M>, shape: &ScanRows) -> AnyKernel {
    let (name, block) = (format!("{}_scan_rows", scan.name), shape.block);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     workspace: Global<u64>,
                     tickets: Global<u32>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has in x a block for each `block / lanes` rows, or for each tile of each row.
        let words = Words(words);
        let ScanRows { lanes, vector, tail, tiles, kept, small, .. } = shape;
        let (monoid, width) = (scan.monoid, shape.width());
        let thread = thread_idx().x;
        let groups = block / lanes;
        let (row, tile) = match tiles {
            // Tiles of all rows in turn, so that a tile comes long after the one before it.
            Tiles::Split => {
                let ticket = take_ticket(tickets).cast::<u64>();
                let (tile, row) =
                    if kept == 0 { (ticket, Val::constant(0)) } else { divide(ticket, words.rows(), small) };
                (row, tile)
            }
            Tiles::One | Tiles::Loop if groups == 1 => (block_idx().x.cast(), Val::constant(0)),
            Tiles::One | Tiles::Loop => {
                let own = (thread >> lanes.ilog2()).cast::<u64>();
                (block_idx().x.cast::<u64>() * u64::from(groups) + own, Val::constant(0))
            }
        };
        let is_row = if groups == 1 { Val::constant(true) } else { row.lt(words.rows()) };
        // Threads beyond the last row scan it as well, so that the lanes of a warp stay together.
        let inside = if groups == 1 { row } else { row.min(words.rows() - 1) };
        let offsets = words.offsets(kept, inside, small);
        let at = |pointer: Global<u8>, dtype: &Dtype, operand: usize| pointer.at(offsets[operand] * dtype.bytes());
        let inputs = [in0, in1].into_iter().zip(scan.source.dtypes()).zip(0..).map(|((p, dtype), i)| at(p, dtype, i));
        let outputs = [out0, out1].into_iter().zip(scan.sink.dtypes()).map(|(p, dtype)| at(p, dtype, RESULTS));
        let of_warp = if lanes > 32 { warp_id() * (shape.tile() as u32 / (lanes / 32)) } else { Val::constant(0) };
        let own = Row {
            scan: &scan,
            shape: &shape,
            words,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            is_row,
            first: (of_warp + (lane_id() & (width - 1)) * vector).cast(),
            whole: if tail { words.len() & !u64::from(vector - 1) } else { words.len() },
        };
        let num_warps = block / 32;
        let shared = |copies| (lanes > 32).then(|| monoid.identity().shared(copies * num_warps));
        match tiles {
            Tiles::One => {
                own.tile(tile, shared(1).map(|memory| (memory, Val::constant(0))), |_| None);
            }
            Tiles::Loop => {
                // Two copies in turn: who writes one has passed the barrier behind the last read of it.
                let of_warps = shared(2);
                let carry: Vars<M::Acc> = vars(monoid.identity());
                range(0, words.tiles(), 1, |tile: Val<u64>| {
                    let copy = (tile.cast::<u32>() & 1) * num_warps;
                    let before = carry.get();
                    let all = own.tile(tile, of_warps.map(|memory| (memory, copy)), |_| Some(before));
                    carry.set(monoid.combine(before, all));
                });
            }
            Tiles::Split => {
                let is_last = shared_named::<u32>("is_last", 1);
                let nodes_a_row = nodes_of(words.tiles());
                let all_nodes = words.rows() * nodes_a_row;
                let nodes = Nodes {
                    first: if kept == 0 { Val::constant(0) } else { row * nodes_a_row },
                    tiles: words.tiles(),
                    slots: monoid.identity().global(workspace, all_nodes, &mut 0),
                    tickets,
                };
                own.tile(tile, shared(1).map(|memory| (memory, Val::constant(0))), |all| {
                    let of_tiles = monoid.identity().shared(1);
                    when(warp_id().eq(0), || {
                        let before = look_back(monoid, &nodes, tile, all);
                        when(lane_id().eq(0), || {
                            before.store(of_tiles, 0_u32);
                            is_last.set(leave(tickets).cast::<u32>());
                        });
                    });
                    sync_threads();
                    Some(M::Acc::load(of_tiles, 0_u32))
                });
                when(is_last.get().ne(0), || clear(tickets, all_nodes, block));
            }
        }
    };
    // Saying how many blocks shall fit keeps ptxas from spilling for more of them.
    kernel(name, body).required_block(block).min_blocks(1).into()
}

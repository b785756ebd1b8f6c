//! The scan whose threads are mapped along the axis: groups of lanes, or blocks, which scan a row
//! tile by tile or share it.

use warpfold_lang::{
    AnyRegisters, Global, Registers, Val, Vars, block_idx, kernel, lane_id, range, thread_idx, vars,
    wait_for_dependencies, warp_id, when,
};

use super::geometry::{OPERANDS, RESULTS, ScanArgs};
use super::look_back::{LookBack, nodes_of};
use super::pipeline::TileQueue;
use super::stage::{SLOTS, Stage, copied_bytes};
use super::warp::{lane_before, last_lane, scan_lanes, scan_warps};
use super::{Direction, Prefix, ScanOrder, StrideKind};
use crate::elements::{Place, Run};
use crate::fold::erased::{Definition, ErasedMonoid, SharedArrays};
use crate::fold::{Position, warp};
use crate::walk::divide;
use crate::{AnyKernel, Dtype};

/// How many tiles a row has, and which blocks scan them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tiles {
    /// One.
    One,
    /// Several, one after the other: the prefix is carried from tile to tile.
    Loop,
    /// Several at once, by blocks that look back through a tree.
    Split,
}

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanRows {
    /// Threads per block.
    pub block: u32,
    /// Threads per row, a power of two: up to 32, or the block.
    pub lanes: u32,
    /// Neighbouring items that a thread loads at a time.
    pub vector: u32,
    /// Such vectors of a tile a thread.
    pub unroll: u32,
    /// The stride of each operand.
    pub stride_kinds: [StrideKind; OPERANDS],
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
    /// Resident blocks per SM, where blocks share rows.
    pub resident: u32,
}

impl ScanRows {
    /// Items a tile.
    pub(crate) const fn tile(&self) -> u64 {
        self.lanes as u64 * self.vector as u64 * self.unroll as u64
    }

    /// Bytes of vectors that `cp.async` copies.
    pub(crate) fn copied_bytes(&self, inputs: &[Dtype]) -> Option<u32> {
        copied_bytes(inputs, self.vector).filter(|_| self.stride_kinds[0] == StrideKind::Unit)
    }

    /// Lanes that scan by shuffles.
    const fn width(&self) -> u32 {
        if self.lanes < 32 { self.lanes } else { 32 }
    }
}

/// A distance from a position.
#[derive(Clone, Copy)]
enum Further {
    /// A constant, which becomes an immediate offset of the access.
    Items(u32),
    /// A register.
    AtMost(Val<u32>),
}

/// The fold of neighbouring items.
fn fold_items(monoid: &dyn ErasedMonoid, items: &[AnyRegisters], first: Position) -> AnyRegisters {
    let acc = monoid.lift(items[0], first);
    items.iter().zip(0..).skip(1).fold(acc, |acc, (item, i)| monoid.push(acc, *item, first.plus(i)))
}

/// A thread's part of the rows, while the kernel is recorded.
struct Rows<'a> {
    scan: &'a Definition,
    shape: &'a ScanRows,
    args: ScanArgs,
    inputs: [Global<u8>; 2],
    outputs: [Global<u8>; 2],
    /// The first item of the thread in a tile.
    first: Val<u64>,
    /// Items in whole vectors.
    whole: Val<u64>,
}

/// One of them.
struct Row<'a> {
    rows: &'a Rows<'a>,
    inputs: Vec<Global<u8>>,
    outputs: Vec<Global<u8>>,
    /// Whether it is a row; else a copy of the last one, whose results are not stored.
    is_row: Val<bool>,
}

impl Rows<'_> {
    /// The row of a number; threads beyond the last row scan it as well, so that the lanes of a
    /// warp stay together.
    fn row(&self, row: Val<u64>) -> Row<'_> {
        let ScanRows { block, lanes, kept, small, .. } = *self.shape;
        let is_alone = block == lanes;
        let is_row = if is_alone { Val::constant(true) } else { row.lt(self.args.rows) };
        let inside = if is_alone { row } else { row.min(self.args.rows - 1) };
        let offsets = self.args.kept(kept).offsets(inside, OPERANDS, small);
        let at = |pointer: &Global<u8>, dtype: &Dtype, operand: usize| pointer.at(offsets[operand] * dtype.bytes());
        let inputs = self.inputs.iter().zip(self.scan.source.dtypes()).zip(0..);
        let outputs = self.outputs.iter().zip(self.scan.sink.dtypes());
        Row {
            rows: self,
            inputs: inputs.map(|((pointer, dtype), i)| at(pointer, dtype, i)).collect(),
            outputs: outputs.map(|(pointer, dtype)| at(pointer, dtype, RESULTS)).collect(),
            is_row,
        }
    }

    /// The thread's first item in a tile.
    fn first(&self, tile: Val<u64>) -> Val<u64> {
        tile * self.shape.tile() + self.first
    }

    /// The offsets of the thread's vectors from the first one.
    fn offsets(&self) -> impl Iterator<Item = u32> + use<> {
        let step = self.shape.width() * self.shape.vector;
        (0..self.shape.unroll).map(move |u| u * step)
    }

    /// For each vector of the warp's part of a tile the fold of all before it in that part, and the
    /// fold of all of it. `items` gives a vector.
    fn scan_vectors(
        &self,
        items: impl Fn(u32) -> Vec<AnyRegisters>,
        first: Val<u64>,
    ) -> (Vec<AnyRegisters>, AnyRegisters) {
        let (monoid, width) = (&*self.scan.monoid, self.shape.width());
        let mut ours: Option<AnyRegisters> = None;
        let mut prefixes = Vec::new();
        for (offset, u) in self.offsets().zip(0..) {
            let acc = fold_items(monoid, &items(u), Position::new(first, u64::from(offset)));
            let scanned = scan_lanes(monoid, acc, width);
            let of_lanes = lane_before(monoid, scanned, width);
            prefixes.push(ours.map_or(of_lanes, |ours| monoid.combine(ours, of_lanes)));
            let all = last_lane(scanned, width);
            ours = Some(ours.map_or(all, |ours| monoid.combine(ours, all)));
        }
        (prefixes, ours.expect("a tile has a vector"))
    }

    /// The fold of the warp's part of a tile, in its first lane: by shuffles once, if the order of
    /// the items may change.
    fn fold_vectors(&self, items: impl Fn(u32) -> Vec<AnyRegisters>, first: Val<u64>) -> AnyRegisters {
        let monoid = &*self.scan.monoid;
        let fold = |(offset, u): (u32, u32)| {
            let acc = fold_items(monoid, &items(u), Position::new(first, u64::from(offset)));
            if monoid.commutes() { acc } else { warp::fold(monoid, acc, 32) }
        };
        let ours = self.offsets().zip(0..).map(fold).collect::<Vec<_>>();
        let ours = ours.into_iter().reduce(|left, right| monoid.combine(left, right)).expect("a tile has a vector");
        if monoid.commutes() { warp::fold(monoid, ours, 32) } else { ours }
    }

    /// Scans the tiles that blocks share.
    fn share(&self, marks: Global<u64>) {
        let ScanRows { block, unroll, kept, small, .. } = *self.shape;
        let (scan, args, monoid, warps) = (self.scan, self.args, &*self.scan.monoid, block / 32);
        let stage = Stage::new(&scan.source, block, unroll, SLOTS, self.shape.copied_bytes(scan.source.dtypes()));
        let queue = TileQueue::begin(marks, (args.rows * args.tiles).cast(), stage.slots());
        let nodes = queue.nodes(args.rows * nodes_of(args.tiles));
        let items = |slot, u| self.shape.order.turn(stage.items(slot, u));
        let (of_warps, of_tiles) = (monoid.identity().shared(warps), monoid.identity().shared(LookBack::SLOTS));
        // Tiles of all rows in turn, so that a tile comes long after the one before it in its row.
        let place = |ticket: Val<u32>| match (ticket.cast::<u64>(), kept) {
            (ticket, 0) => (ticket, Val::constant(0)),
            (ticket, _) => divide(ticket, args.rows, small),
        };
        let node = |row: Val<u64>| if kept == 0 { Val::constant(0) } else { row * nodes_of(args.tiles) };
        // Of the tile that was published last: the folds of the warps before, and of all of it.
        let published = vars((monoid.identity(), monoid.identity()));
        queue.walk(
            |ticket, slot| {
                let (tile, row) = place(ticket);
                self.row(row).take(&stage, slot, self.first(tile));
            },
            |last| stage.wait(last),
            |ticket, is_tile| {
                let (tile, row) = place(ticket);
                let nodes_of_tile = [node(row), args.tiles, tile];
                (LookBack::begin(nodes, nodes_of_tile, is_tile, warps, monoid.identity()), published.get())
            },
            |ticket, slot| {
                let (tile, row) = place(ticket);
                let ours = self.fold_vectors(|u| items(slot, u), self.first(tile));
                let (before, all) = scan_warps(monoid, ours, warps, of_warps, Val::constant(0));
                when(thread_idx().x.eq(0), || nodes.publish(node(row) + tile, all));
                published.set((before, all));
            },
            |ticket, slot, (look_back, (of_warps, own))| {
                let (tile, row) = place(ticket);
                let first = self.first(tile);
                let (prefixes, _) = self.scan_vectors(|u| items(slot, u), first);
                let before = monoid.combine(look_back.finish(monoid, own, of_tiles), of_warps);
                self.row(row).finish(|u| items(slot, u), first, &prefixes, Some(before));
            },
            |_| {},
        );
    }
}

impl Row<'_> {
    /// The address of the `n` items `further` after a position.
    fn place(&self, base: Global<u8>, operand: usize, dtype: Dtype, n: u32, at: (Val<u64>, Further)) -> Global<u8> {
        let (position, further) = at;
        let Rows { shape: ScanRows { stride_kinds, order, .. }, args, .. } = *self.rows;
        let step = stride_kinds[operand];
        let memory = order.locate(args.len, position, n);
        let pointer = args.along_axis(base, operand, step, dtype.bytes(), memory);
        let bytes = dtype.bytes() as i64 * if order.direction == Direction::Forward { 1 } else { -1 };
        match (step, further) {
            (StrideKind::Zero, _) | (_, Further::Items(0)) => pointer,
            (StrideKind::Unit, Further::Items(items)) => pointer.at(i64::from(items) * bytes),
            (StrideKind::Unit, Further::AtMost(items)) => pointer.at(items.cast::<i64>() * bytes),
            (StrideKind::Any, Further::Items(items)) => pointer.at(args.axis.at(operand) * (i64::from(items) * bytes)),
            (StrideKind::Any, Further::AtMost(items)) => {
                pointer.at(args.axis.at(operand) * (items.cast::<i64>() * bytes))
            }
        }
    }

    /// The `n` items `further` after a position, in memory order.
    fn load(&self, n: u32, at: (Val<u64>, Further)) -> Vec<AnyRegisters> {
        let ScanRows { vector, stride_kinds, .. } = *self.rows.shape;
        let source = &self.rows.scan.source;
        let place = |(input, dtype): (usize, &Dtype)| {
            let run = match stride_kinds[input] {
                StrideKind::Zero => Run::Same,
                _ if vector > 1 && n == vector => Run::Wide,
                _ => Run::Narrow,
            };
            Place { pointer: self.place(self.inputs[input], input, *dtype, n, at), run }
        };
        source.load(&source.dtypes().iter().enumerate().map(place).collect::<Vec<_>>(), n)
    }

    /// The positions of a tile's vectors.
    fn vectors(&self, first: Val<u64>) -> impl Iterator<Item = (Val<u64>, Further)> + use<> {
        // Items after the end of the row come last in the order of the scan, so their value does
        // not matter.
        let last = self.rows.whole - u64::from(self.rows.shape.vector);
        let inside = first.min(last);
        let further = (last - inside).min(u64::from(u32::MAX >> 1)).cast::<u32>();
        self.rows.offsets().map(move |offset| match offset {
            0 => (inside, Further::Items(0)),
            offset => (inside, Further::AtMost(further.min(offset))),
        })
    }

    /// Requests the vectors of a tile into a stage.
    fn take(&self, stage: &Stage<'_>, slot: Val<u32>, first: Val<u64>) {
        let (n, dtype) = (self.rows.shape.vector, self.rows.scan.source.dtypes()[0]);
        for (at, u) in self.vectors(first).zip(0..) {
            stage.take(slot, u, || self.place(self.inputs[0], 0, dtype, n, at), || self.load(n, at));
        }
    }

    fn store(&self, values: Vec<AnyRegisters>, at: (Val<u64>, Further)) {
        let n = values.len() as u32;
        let sink = &self.rows.scan.sink;
        let to = |(output, dtype): (&Global<u8>, &Dtype)| self.place(*output, RESULTS, *dtype, n, at);
        let to: Vec<_> = self.outputs.iter().zip(sink.dtypes()).map(to).collect();
        sink.store(&to, &self.rows.shape.order.turn(values), n > 1);
    }

    /// Pushes an item, and gives the result of its position.
    fn step(&self, acc: AnyRegisters, item: AnyRegisters, first: Val<u64>, i: u64) -> (AnyRegisters, AnyRegisters) {
        let monoid = &self.rows.scan.monoid;
        let after = monoid.push(acc, item, Position::new(first, i));
        let result = match self.rows.shape.order.prefix {
            Prefix::Inclusive => monoid.finish(after, first + (i + 1)),
            Prefix::Exclusive => monoid.finish(acc, first + i),
        };
        (after, result)
    }

    /// Scans a tile that no other block waits for; `before` is the fold of all tiles before, if
    /// there are any. Gives the tile's aggregate.
    fn tile(
        &self,
        tile: Val<u64>,
        of_warps: Option<(SharedArrays, Val<u32>)>,
        before: Option<AnyRegisters>,
    ) -> AnyRegisters {
        let Rows { scan: Definition { monoid, .. }, shape: ScanRows { block, vector, order, .. }, .. } = *self.rows;
        // Load
        let first = self.rows.first(tile);
        let groups: Vec<_> = self.vectors(first).map(|at| order.turn(self.load(*vector, at))).collect();
        // Scan: vectors by threads, lanes, warps, tiles
        let items = |u: u32| groups[u as usize].clone();
        let (prefixes, ours) = self.rows.scan_vectors(items, first);
        let (of_warps, all) = match of_warps {
            None => (None, ours),
            Some((memory, first)) => {
                let (before, all) = scan_warps(&**monoid, ours, block / 32, memory, first);
                (Some(before), all)
            }
        };
        // Epilogue
        let before = [before, of_warps].into_iter().flatten().reduce(|left, right| monoid.combine(left, right));
        self.finish(items, first, &prefixes, before);
        all
    }

    /// Stores the results of a tile: `before` is the fold of all before the warp's part, `prefixes`
    /// that of all before each vector in it.
    fn finish(
        &self,
        items: impl Fn(u32) -> Vec<AnyRegisters>,
        first: Val<u64>,
        prefixes: &[AnyRegisters],
        before: Option<AnyRegisters>,
    ) {
        let Rows { shape: ScanRows { vector, tail, .. }, whole, .. } = *self.rows;
        // Items of the row from this thread's first one on.
        let rest = whole.max(first) - first;
        let rest = rest.min(u64::from(u32::MAX)).cast::<u32>();
        for ((offset, u), prefix) in self.rows.offsets().zip(0..).zip(prefixes) {
            let mut acc = before.map_or(*prefix, |before| self.rows.scan.monoid.combine(before, *prefix));
            let mut results = Vec::new();
            for (item, i) in items(u).into_iter().zip(u64::from(offset)..) {
                let (after, result) = self.step(acc, item, first, i);
                acc = after;
                results.push(result);
            }
            when(self.is_row & rest.gt(offset), || {
                self.store(results, (first, Further::Items(offset)));
                if *tail {
                    // The thread with the last whole vector goes on to the end of the row.
                    when(rest.eq(offset + vector), || self.tail(acc));
                }
            });
        }
    }

    /// From the last whole vector to the end of the row.
    fn tail(&self, acc: AnyRegisters) {
        let acc = vars(acc);
        range(self.rows.whole, self.rows.args.len, 1, |i| {
            let item = self.load(1, (i, Further::Items(0)))[0];
            let (after, result) = self.step(acc.get(), item, i, 0);
            acc.set(after);
            self.store(vec![result], (i, Further::Items(0)));
        });
    }
}

pub(super) fn kernel_of(scan: &Definition, shape: &ScanRows) -> AnyKernel {
    let (name, block) = (format!("{}_scan_rows", scan.name), shape.block);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |args: ScanArgs| {
        wait_for_dependencies();
        // Contract: the grid has in x a block for each `block / lanes` rows, or any number of
        // blocks that share tiles.
        let ScanRows { lanes, vector, tail, tiles, .. } = shape;
        let (monoid, width) = (&scan.monoid, shape.width());
        let of_warp = if lanes > 32 { warp_id() * (shape.tile() as u32 / (lanes / 32)) } else { Val::constant(0) };
        let rows = Rows {
            scan: &scan,
            shape: &shape,
            args,
            inputs: args.inputs,
            outputs: args.outputs,
            first: (of_warp + (lane_id() & (width - 1)) * vector).cast(),
            whole: if tail { args.len & !u64::from(vector - 1) } else { args.len },
        };
        if tiles == Tiles::Split {
            return rows.share(args.marks);
        }
        let block_of_rows = block_idx().x.cast::<u64>();
        let row = rows.row(match block / lanes {
            1 => block_of_rows,
            groups => block_of_rows * u64::from(groups) + (thread_idx().x >> lanes.ilog2()).cast::<u64>(),
        });
        let num_warps = block / 32;
        let for_warps = |copies| (lanes > 32).then(|| monoid.identity().shared(copies * num_warps));
        if tiles == Tiles::One {
            row.tile(Val::constant(0), for_warps(1).map(|memory| (memory, Val::constant(0))), None);
            return;
        }
        // Two copies in turn: a warp that writes one has passed the barrier after the last read of
        // it.
        let of_warps = for_warps(2);
        let carry: Vars<AnyRegisters> = vars(monoid.identity());
        range(0, args.tiles, 1, |tile: Val<u64>| {
            let copy = (tile.cast::<u32>() & 1) * num_warps;
            let before = carry.get();
            let all = row.tile(tile, of_warps.map(|memory| (memory, copy)), Some(before));
            carry.set(monoid.combine(before, all));
        });
    };
    // Saying that one block is enough keeps ptxas from spilling for more of them.
    kernel(name, body).required_block(block).min_blocks(1).into()
}

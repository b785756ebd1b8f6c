//! The scan whose threads stand along the axis: groups of lanes, or blocks, that walk a row tile by tile or share it.

use warpfold_lang::{
    Array, Global, Registers, Shared, SharedSpace, Val, Vars, block_idx, join_words, kernel, lane_id, range, shared,
    sync_threads, thread_idx, vars, warp_id, when,
};

use super::geometry::{OPERANDS, RESULTS, WORDS, Words};
use super::look_back::{Nodes, look_back, nodes_of};
use super::warp::{lane_before, last_lane, scan_warps};
use super::{Direction, Prefix, Scan, ScanOrder, Step, scan_warp};
use crate::elements::{Origin, Place, Run};
use crate::fold::geometry::divide;
use crate::fold::{Monoid, Position, fold_warp};
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
    /// Blocks that have to fit a multiprocessor.
    pub resident: u32,
}

impl ScanRows {
    /// Items a tile.
    pub(crate) const fn tile(&self) -> u64 {
        self.lanes as u64 * self.vector as u64 * self.unroll as u64
    }

    /// Whether vectors wait in shared memory while the block waits for others: in registers they would leave room for
    /// half as many blocks.
    fn parks(&self, inputs: &[Dtype]) -> bool {
        let [dtype] = inputs else { return false };
        let is_full = u64::from(self.vector) * dtype.bytes() == 16;
        is_full && self.steps[0] == Step::Unit && self.tiles == Tiles::Split
    }

    /// Lanes that scan by shuffles.
    const fn width(&self) -> u32 {
        if self.lanes < 32 { self.lanes } else { 32 }
    }
}

/// How much behind a position something comes.
#[derive(Clone, Copy)]
enum Further {
    /// So many items: a part of the address that the instruction adds.
    Items(u32),
    /// As many as a register says.
    AtMost(Val<u32>),
}

/// The fold of items side by side.
fn fold_items<M: Monoid>(monoid: M, items: &[M::Item], first: Position) -> M::Acc {
    let acc = monoid.lift(items[0], first);
    items.iter().zip(0..).skip(1).fold(acc, |acc, (item, i)| monoid.push(acc, *item, first.plus(i)))
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

/// Items side by side: in registers, or as four words in shared memory.
enum Group<I> {
    Items(Vec<I>),
    Parked([Val<u32>; 4], Shared<u32>),
}

impl<M: Monoid> Row<'_, M> {
    /// Where the `n` items lie that come `further` behind a position.
    fn place(&self, base: Global<u8>, operand: usize, dtype: Dtype, n: u32, at: (Val<u64>, Further)) -> Global<u8> {
        let (position, further) = at;
        let step = self.shape.steps[operand];
        let memory = self.shape.order.locate(self.words.len(), position, n);
        let pointer = self.words.along_axis(base, operand, step, dtype.bytes(), memory);
        let bytes = dtype.bytes() as i64 * if self.shape.order.direction == Direction::Forward { 1 } else { -1 };
        match (step, further) {
            (Step::Zero, _) | (_, Further::Items(0)) => pointer,
            (Step::Unit, Further::Items(items)) => pointer.at(i64::from(items) * bytes),
            (Step::Unit, Further::AtMost(items)) => pointer.at(items.cast::<i64>() * bytes),
            (Step::Any, Further::Items(items)) => pointer.at(self.words.axis(operand) * (i64::from(items) * bytes)),
            (Step::Any, Further::AtMost(items)) => pointer.at(self.words.axis(operand) * (items.cast::<i64>() * bytes)),
        }
    }

    /// `n` items that come `further` behind a position.
    fn load(&self, n: u32, at: (Val<u64>, Further)) -> Vec<M::Item> {
        let ScanRows { vector, steps, order, .. } = *self.shape;
        let place = |(input, dtype): (usize, &Dtype)| {
            let run = match steps[input] {
                Step::Zero => Run::Same,
                _ if vector > 1 && n == vector => Run::Wide,
                _ => Run::Narrow,
            };
            Place { pointer: self.place(self.inputs[input], input, *dtype, n, at), run }
        };
        let places: Vec<_> = self.scan.source.dtypes().iter().enumerate().map(place).collect();
        order.turn(self.scan.source.load(&places, n))
    }

    /// The same items as [`Row::load`] gives, from the words that they share.
    fn unpack(&self, words: &[Val<u32>]) -> Vec<M::Item> {
        let source = &self.scan.source;
        let items: Vec<_> = match source.dtypes()[0].bytes() {
            8 => {
                let longs = words.chunks(2).map(|halves| join_words(Val::constant(0_u64), halves));
                longs.flat_map(|long| source.load_from(&[Origin::Long(long)], 1)).collect()
            }
            bytes => {
                let each = 4 / bytes as u32;
                words.iter().flat_map(|word| source.load_from(&[Origin::Word(*word)], each)).collect()
            }
        };
        self.shape.order.turn(items)
    }

    /// Loads the vectors of a tile, all before the first is used.
    fn groups(&self, offsets: &[u32], first: Val<u64>) -> Vec<Group<M::Item>> {
        let ScanRows { block, vector, .. } = *self.shape;
        // What lies behind the end of the row comes last in the order of the scan, so it does not matter what it is.
        let last = self.whole - u64::from(vector);
        let inside = first.min(last);
        let further = (last - inside).min(u64::from(u32::MAX >> 1)).cast::<u32>();
        let at = |offset: &u32| match *offset {
            0 => (inside, Further::Items(0)),
            offset => (inside, Further::AtMost(further.min(offset))),
        };
        if !self.shape.parks(self.scan.source.dtypes()) {
            return offsets.iter().map(|offset| Group::Items(self.load(vector, at(offset)))).collect();
        }
        let dtype = self.scan.source.dtypes()[0];
        let words = offsets
            .iter()
            .map(|offset| self.place(self.inputs[0], 0, dtype, vector, at(offset)).reinterpret::<u32>().get_vec::<4>());
        let words: Vec<_> = words.collect();
        let parked = shared::<u32>(4 * block * offsets.len() as u32).at(thread_idx().x * 4);
        let park = |(words, i): (&[Val<u32>; 4], u32)| {
            let to = parked.at(i * 4 * block);
            to.set_vec(*words);
            Group::Parked(*words, to)
        };
        words.iter().zip(0..).map(park).collect()
    }

    /// The items of a group, as they were loaded, or again from where they wait.
    fn items(&self, group: &Group<M::Item>, again: bool) -> Vec<M::Item> {
        match group {
            Group::Items(items) => items.clone(),
            Group::Parked(words, _) if !again => self.unpack(words),
            Group::Parked(_, from) => self.unpack(&from.get_vec::<4>()),
        }
    }

    /// The fold of what the thread's vectors have, without the order of the scan: for a monoid that commutes.
    fn total(&self, groups: &[Group<M::Item>], offsets: &[u32], first: Val<u64>) -> M::Acc {
        let monoid = self.scan.monoid;
        let of_group = |(group, offset): (&Group<M::Item>, &u32)| {
            let (items, at) = (self.items(group, false), Position::new(first, u64::from(*offset)));
            fold_items(monoid, &items, at)
        };
        let totals = groups.iter().zip(offsets).map(of_group).collect::<Vec<_>>();
        totals.into_iter().reduce(|left, right| monoid.combine(left, right)).expect("a tile has a vector")
    }

    fn store(&self, values: Vec<M::Output>, at: (Val<u64>, Further)) {
        let n = values.len() as u32;
        let to = |(output, dtype): (&Global<u8>, &Dtype)| self.place(*output, RESULTS, *dtype, n, at);
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

    /// Scans a tile. `show` is given the aggregate of a tile that others wait for as soon as it is known; `before` is given
    /// it, if anyone needs it, and gives the fold of all tiles before.
    fn tile(
        &self,
        tile: Val<u64>,
        of_warps: Option<(<M::Acc as Registers>::Pointers<SharedSpace>, Val<u32>)>,
        show: impl Fn(M::Acc),
        before: impl FnOnce(M::Acc) -> Option<M::Acc>,
    ) -> M::Acc {
        let ScanRows { block, vector, unroll, tail, tiles, .. } = *self.shape;
        let (monoid, width) = (self.scan.monoid, self.shape.width());
        // Load
        let first = tile * self.shape.tile() + self.first;
        let offsets: Vec<_> = (0..unroll).map(|u| u * width * vector).collect();
        let groups = self.groups(&offsets, first);
        // Tiles that others wait for: their folds come first, and are shown before the scan.
        let is_early = M::COMMUTES && tiles == Tiles::Split;
        let early = is_early.then(|| {
            let total = fold_warp(monoid, self.total(&groups, &offsets, first), 32);
            let (memory, at) = of_warps.expect("a block has warps");
            let (before, all) = scan_warps(monoid, total, block / 32, memory, at);
            show(all);
            (before, all)
        });
        // Scan: vectors by threads, lanes, warps, tiles
        let mut ours: Option<M::Acc> = None;
        let mut prefixes = Vec::new();
        for (group, offset) in groups.iter().zip(&offsets) {
            let acc = fold_items(monoid, &self.items(group, is_early), Position::new(first, u64::from(*offset)));
            let scanned = scan_warp(monoid, acc, width);
            let of_lanes = lane_before(monoid, scanned, width);
            prefixes.push(ours.map_or(of_lanes, |ours| monoid.combine(ours, of_lanes)));
            let all = last_lane(scanned, width);
            ours = Some(ours.map_or(all, |ours| monoid.combine(ours, all)));
        }
        let ours = ours.expect("a tile has a vector");
        let (of_warps, all) = match (early, of_warps) {
            (Some((before, all)), _) => (Some(before), all),
            (None, None) => (None, ours),
            (None, Some((memory, first))) => {
                let (before, all) = scan_warps(monoid, ours, block / 32, memory, first);
                if tiles == Tiles::Split {
                    show(all);
                }
                (Some(before), all)
            }
        };
        let of_tiles = before(all);
        // Epilogue
        let before = [of_tiles, of_warps].into_iter().flatten().reduce(|left, right| monoid.combine(left, right));
        // Items of the row from this thread's first one on.
        let rest = self.whole.max(first) - first;
        let rest = rest.min(u64::from(u32::MAX)).cast::<u32>();
        for ((group, offset), prefix) in groups.iter().zip(&offsets).zip(prefixes) {
            let items = self.items(group, true);
            let mut acc = before.map_or(prefix, |before| monoid.combine(before, prefix));
            let mut results = Vec::new();
            for (item, i) in items.into_iter().zip(u64::from(*offset)..) {
                let (after, result) = self.step(acc, item, first, i);
                acc = after;
                results.push(result);
            }
            when(self.is_row & rest.gt(*offset), || {
                self.store(results, (first, Further::Items(*offset)));
                if tail {
                    // The thread with the last whole vector goes on to the end of the row.
                    when(rest.eq(*offset + vector), || self.tail(acc));
                }
            });
        }
        all
    }

    /// From the last whole vector to the end of the row.
    fn tail(&self, acc: M::Acc) {
        let acc = vars(acc);
        range(self.whole, self.words.len(), 1, |i| {
            let item = self.load(1, (i, Further::Items(0)))[0];
            let (after, result) = self.step(acc.get(), item, i, 0);
            acc.set(after);
            self.store(vec![result], (i, Further::Items(0)));
        });
    }
}

pub(super) fn kernel_of<M: Monoid>(scan: &Scan<M>, shape: &ScanRows) -> AnyKernel {
    let (name, block, resident) = (format!("{}_scan_rows", scan.name), shape.block, shape.resident);
    let (scan, shape) = (scan.clone(), shape.clone());
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     marks: Global<u64>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has in x a block for each `block / lanes` rows, or for each tile of each row.
        let words = Words(words);
        let ScanRows { lanes, vector, tail, tiles, kept, small, .. } = shape;
        let (monoid, width) = (scan.monoid, shape.width());
        let thread = thread_idx().x;
        let groups = block / lanes;
        let begun = (tiles == Tiles::Split).then(|| Nodes::begin(marks, words.rows() * nodes_of(words.tiles())));
        let (row, tile) = match tiles {
            // Tiles of all rows in turn, so that a tile comes long after the one before it.
            Tiles::Split => {
                let ticket = begun.expect("tiles that blocks share have tickets").1.cast::<u64>();
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
        let for_warps = |copies| (lanes > 32).then(|| monoid.identity().shared(copies * num_warps));
        match tiles {
            Tiles::One => {
                own.tile(tile, for_warps(1).map(|memory| (memory, Val::constant(0))), drop, |_| None);
            }
            Tiles::Loop => {
                // Two copies in turn: who writes one has passed the barrier behind the last read of it.
                let of_warps = for_warps(2);
                let carry: Vars<M::Acc> = vars(monoid.identity());
                range(0, words.tiles(), 1, |tile: Val<u64>| {
                    let copy = (tile.cast::<u32>() & 1) * num_warps;
                    let before = carry.get();
                    let all = own.tile(tile, of_warps.map(|memory| (memory, copy)), drop, |_| Some(before));
                    carry.set(monoid.combine(before, all));
                });
            }
            Tiles::Split => {
                let (nodes, _) = begun.expect("tiles that blocks share have nodes");
                let first = if kept == 0 { Val::constant(0) } else { row * nodes_of(words.tiles()) };
                let show = |all| when(thread.eq(0), || nodes.show(first + tile, all));
                own.tile(tile, for_warps(1).map(|memory| (memory, Val::constant(0))), show, |all| {
                    let of_tiles = monoid.identity().shared(1);
                    when(warp_id().eq(0), || {
                        let before = look_back(monoid, nodes, first, words.tiles(), tile, all);
                        when(lane_id().eq(0), || before.store(of_tiles, 0_u32));
                    });
                    sync_threads();
                    Some(M::Acc::load(of_tiles, 0_u32))
                });
            }
        }
    };
    // Saying how many blocks shall fit keeps ptxas from spilling for more of them.
    kernel(name, body).required_block(block).min_blocks(resident).into()
}

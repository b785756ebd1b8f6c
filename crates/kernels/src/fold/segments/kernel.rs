//! The kernel that folds segments of any sizes: short ones by lanes, longer ones by warps and
//! blocks, huge ones in parts.

use warpfold_lang::{
    AnyRegisters, Global, Registers, Shared, Val, Vars, ballot, block_idx, grid_dim, kernel, lane_id, params, range,
    shared_named, sync_threads, thread_idx, var, vars, wait_for_dependencies, warp_id, when, when_else, while_loop,
};

use crate::elements::{Place, Run};
use crate::fold::erased::Definition;
use crate::fold::geometry::MAX_INPUTS;
use crate::fold::grid::{self, Parts};
use crate::fold::thread::{self, Share};
use crate::fold::{Position, StrideKind, block, warp};
use crate::{AnyKernel, Dtype};

/// Threads per block.
pub(super) const BLOCK: u32 = 256;
// THRESHOLD: shorter segments are folded by a few lanes; tested by
// crates/kernels/tests/folds/segments.rs::one_segment_of_every_size
/// Items of a segment for each of its lanes; longer segments are put off.
const SHORT: u64 = 64;
/// Items of a segment for a warp; longer ones are for the block.
const MEDIUM: u64 = 2048;
/// Items of a segment for a block; longer ones are cut into parts of this many items or up to twice
/// as many.
pub(super) const PART: u64 = 32_768;
/// Ranges of `PART` items that one block searches for parts at most: one for each warp.
pub(super) const RANGES: u64 = BLOCK as u64 / 32;

params! {
    /// Parameters of the kernel.
    pub(super) struct SegmentArgs {
        inputs: [Global<u8>; 2], outputs: [Global<u8>; 2],
        /// Accumulators and tickets of blocks that share segments.
        workspace: Option<Global<u64>>, tickets: Option<Global<u32>>,
        /// Where segments begin.
        offsets: Global<u8>,
        /// Segments, and items of all of them.
        segments: u64, len: u64,
        /// Blocks that fold parts of huge segments.
        helpers: u64,
        /// Elements from an item to the next, of each input.
        item_steps: [u64; MAX_INPUTS],
    }
}

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentsAlgorithm {
    /// Threads that try a segment first, a power of two up to 32.
    pub lanes: u32,
    /// Loads in flight of each of them.
    pub unroll: u32,
    /// The same for threads that fold longer segments.
    pub long_unroll: u32,
    /// The type of the offsets.
    pub offsets: Dtype,
    /// The stride of each input.
    pub stride_kinds: [StrideKind; MAX_INPUTS],
    /// Whether some blocks fold parts of huge segments.
    pub shares: bool,
}

impl SegmentsAlgorithm {
    /// Segments that lanes take one after the other before their block goes on to what was put off.
    /// Where more lanes share a segment, several in turn gain nothing.
    ///
    /// | a thread per segment: 67,108,864 of 4 f32, H200, 2026-11-21, driver 580 | GB/s |
    /// | --- | --- |
    /// | four in turn | 3,457 |
    /// | two | 3,314 |
    /// | one | 2,871 |
    const fn rounds(&self) -> u32 {
        if self.is_persistent() { 4 } else { 1 }
    }

    /// Segments of a block's turn.
    pub(super) const fn turn(&self) -> u32 {
        BLOCK / self.lanes * self.rounds()
    }

    /// Whether blocks are persistent and loop over segments. A thread that folds a segment alone
    /// has few loads in flight, and gains from loading the next offsets ahead; where more lanes
    /// share one it loses.
    ///
    /// | a thread per segment: 67,108,864 of 4 f32, H200, 2026-11-20, driver 580 | GB/s |
    /// | --- | --- |
    /// | six persistent blocks per SM | 3,037 |
    /// | a block for each turn | 2,412 |
    pub(super) const fn is_persistent(&self) -> bool {
        self.lanes == 1
    }
}

/// A segment: where it starts, and its items.
#[derive(Clone, Copy)]
struct Segment {
    number: Val<u64>,
    start: Val<u64>,
    len: Val<u64>,
}

/// What all threads know of the problem, while the kernel is built.
struct Body<'a> {
    fold: &'a Definition,
    shape: &'a SegmentsAlgorithm,
    inputs: [Global<u8>; MAX_INPUTS],
    outputs: [Global<u8>; 2],
    args: SegmentArgs,
}

impl Body<'_> {
    /// An offset as stored, sign-extended.
    fn raw_offset(&self, i: Val<u64>) -> Val<i64> {
        match self.shape.offsets {
            Dtype::I32 => self.args.offsets.reinterpret::<i32>().at(i).get().cast(),
            _ => self.args.offsets.reinterpret::<i64>().at(i).get(),
        }
    }

    fn offset(&self, i: Val<u64>) -> Val<u64> {
        self.inside(self.raw_offset(i))
    }

    /// Nothing outside of the tensor is read, whatever an offset says.
    fn inside(&self, offset: Val<i64>) -> Val<u64> {
        offset.cast::<u64>().min(self.args.len)
    }

    /// The offsets of a segment's start and end, as stored.
    fn ends(&self, number: Val<u64>) -> [Val<i64>; 2] {
        [self.raw_offset(number), self.raw_offset(number + 1_u64)]
    }

    fn between(&self, number: Val<u64>, [start, end]: [Val<i64>; 2]) -> Segment {
        let start = self.inside(start);
        Segment { number, start, len: self.inside(end).max(start) - start }
    }

    fn segment(&self, number: Val<u64>) -> Segment {
        self.between(number, self.ends(number))
    }

    /// The item `further` positions after a position of the whole.
    fn item(&self, position: Val<u64>, further: Val<u32>) -> AnyRegisters {
        let place = |(input, dtype): (usize, &Dtype)| {
            let (base, step, bytes) = (self.inputs[input], self.shape.stride_kinds[input], dtype.bytes());
            let pointer = match step {
                StrideKind::Zero => base,
                StrideKind::Unit => base.at(position * bytes).at(further * bytes as u32),
                StrideKind::Any => base.at((position + further.cast::<u64>()) * self.args.item_steps.at(input) * bytes),
            };
            Place { pointer, run: if step == StrideKind::Zero { Run::Same } else { Run::Narrow } }
        };
        let places: Vec<_> = self.fold.source.dtypes().iter().enumerate().map(place).collect();
        self.fold.source.load(&places, 1)[0]
    }

    /// What one of `threads` threads takes of the items from `from` to before `to` of a segment.
    fn share(
        &self,
        segment: Segment,
        [from, to]: [Val<u64>; 2],
        thread: Val<u32>,
        threads: u32,
        unroll: u32,
    ) -> AnyRegisters {
        let monoid = &*self.fold.monoid;
        if !monoid.commutes() {
            let none = Val::constant(0);
            let load =
                |i: Val<u64>, n: u32| (0..n).map(|k| self.item(segment.start + i + u64::from(k), none)).collect();
            let share = Share { start: from, end: to, thread, threads, vector: 1, unroll, load: &load };
            return thread::fold(monoid, &share);
        }
        let accs: Vec<Vars<AnyRegisters>> = (0..unroll.min(4)).map(|_| vars(monoid.identity())).collect();
        let first = if threads == 1 { from } else { from + thread.cast::<u64>() };
        range(first, to, u64::from(threads * unroll), |i| {
            // Loads of one round go out together, the last round's too: beyond the end they load
            // the last item again.
            let rest = (to - i).min(1 << 31).cast::<u32>();
            let offsets = (0..unroll).map(|u| u * threads);
            let items = offsets.clone().map(|offset| match offset {
                0 => self.item(segment.start + i, Val::constant(0)),
                _ => self.item(segment.start + i, (rest - 1).min(offset)),
            });
            let items: Vec<_> = items.collect();
            for ((item, offset), acc) in items.iter().zip(offsets).zip(accs.iter().cycle()) {
                let pushed = monoid.push(acc.get(), *item, Position::new(i, offset.into()));
                acc.set(if offset == 0 { pushed } else { AnyRegisters::select(rest.gt(offset), pushed, acc.get()) });
            }
        });
        let accs = accs.into_iter().map(Vars::get);
        accs.reduce(|left, right| monoid.combine(left, right)).expect("at least one accumulator")
    }

    fn finish(&self, segment: Segment, acc: AnyRegisters) {
        let outputs = &self.outputs[..self.fold.sink.dtypes().len()];
        self.fold.sink.store_at(outputs, segment.number, self.fold.monoid.finish(acc, segment.len));
    }

    /// Folds the segments of one block of `blocks`: short ones as its lanes meet them, then, in
    /// turn, what was too long for them. The offsets of the next segments are loaded before the
    /// items of these, so that both loads are in flight together.
    fn segments(&self, block: Val<u64>, blocks: Val<u64>) {
        let SegmentsAlgorithm { lanes, unroll, shares, .. } = *self.shape;
        let rounds = self.shape.rounds();
        let (monoid, thread) = (&*self.fold.monoid, thread_idx().x);
        let (each, turn_len) = (BLOCK / lanes, self.shape.turn());
        let zero = Val::constant(0_u64);
        let (medium, long) = (PutOff::new("medium", turn_len), PutOff::new("long", turn_len));
        when(thread.lt(COPIES), || {
            medium.count(thread).set(0);
            long.count(thread).set(0);
        });
        sync_threads();
        let own = if lanes == 1 { thread } else { thread >> lanes.ilog2() };
        let lane = if lanes == 1 { Val::constant(0) } else { thread & (lanes - 1) };
        let turns = (self.args.segments + u64::from(turn_len - 1)) >> turn_len.ilog2();
        let first = |turn: Val<u64>| turn * u64::from(turn_len) + own.cast::<u64>();
        let ends = |number: Val<u64>| self.ends(number.min(self.args.segments - 1));
        let ahead = vars(ends(first(block)));
        let fold = |turn: Val<u64>, next: Option<Val<u64>>, copy: [Val<u32>; 2]| {
            let [copy, next_copy] = copy;
            // Lanes
            let round = |k: Val<u32>| {
                let number = first(turn) + (k * each).cast::<u64>();
                let segment = self.between(number, ahead.get());
                if let Some(next) = next {
                    let following = number + u64::from(each);
                    ahead.set(ends(k.lt(rounds - 1).select::<u64>(following, next)));
                }
                let is_short = segment.len.le(SHORT * u64::from(lanes));
                // Lanes whose segment is put off fold nothing, so that the warp stays together.
                let end = is_short.select::<u64>(segment.len, 0);
                let acc = warp::fold(monoid, self.share(segment, [zero, end], lane, lanes, unroll), lanes);
                when(lane.eq(0) & segment.number.lt(self.args.segments), || {
                    when_else(
                        is_short,
                        || self.finish(segment, acc),
                        || {
                            let own = k * each + own;
                            when(segment.len.le(MEDIUM), || medium.add(copy, own));
                            let is_huge = if shares { segment.len.gt(PART) } else { Val::constant(false) };
                            when(segment.len.gt(MEDIUM) & !is_huge, || long.add(copy, own));
                        },
                    );
                });
            };
            if rounds == 1 {
                round(Val::constant(0))
            } else {
                range(0, rounds, 1, round)
            }
            // The copy of the next turn, which all have read before the last barrier.
            when(thread.eq(0), || {
                medium.count(next_copy).set(0);
                long.count(next_copy).set(0);
            });
            sync_threads();
            self.longer(turn, [&medium, &long], copy);
        };
        if !self.shape.is_persistent() {
            return fold(block, None, [0, 1].map(Val::constant));
        }
        let copy = var(0_u32);
        range(block, turns, blocks, |turn| {
            let copy_now = copy.get();
            copy.set((copy_now + 1).lt(COPIES).select::<u32>(copy_now + 1, 0));
            fold(turn, Some(first(turn + blocks)), [copy_now, copy.get()]);
        });
    }

    /// Folds the segments of a turn that were too long for lanes: each by a warp, or by the block.
    fn longer(&self, turn: Val<u64>, [medium, long]: [&PutOff; 2], copy: Val<u32>) {
        let (monoid, thread, unroll) = (&*self.fold.monoid, thread_idx().x, self.shape.long_unroll);
        let zero = Val::constant(0_u64);
        let put_off = |number: Val<u32>| self.segment(turn * u64::from(self.shape.turn()) + number.cast::<u64>());
        // Warps
        range(warp_id(), medium.count(copy).get(), BLOCK / 32, |i| {
            let segment = put_off(medium.number(copy, i));
            let lane = thread & 31;
            let acc = warp::fold(monoid, self.share(segment, [zero, segment.len], lane, 32, unroll), 32);
            when(lane.eq(0), || self.finish(segment, acc));
        });
        // Block
        range(0, long.count(copy).get(), 1, |i: Val<u32>| {
            let segment = put_off(long.number(copy, i));
            let acc = self.share(segment, [zero, segment.len], thread, BLOCK, unroll);
            let acc = block::fold(monoid, acc, BLOCK);
            when(thread.eq(0), || self.finish(segment, acc));
            // The next round writes what this one has read.
            sync_threads();
        });
    }

    /// How many segments start at or before a position. The lanes of a warp, all together, ask at
    /// as many places at once, so that each round leaves a 32nd of what can be.
    fn started(&self, position: Val<u64>) -> Val<u64> {
        let (low, high) = (var(0_u64), var(self.args.segments));
        while_loop(
            || low.get().lt(high),
            || {
                let (from, to) = (low.get(), high.get());
                let step = (to - from + 31_u64) >> 5;
                let place = from + lane_id().cast::<u64>() * step;
                let starts = place.lt(to) & self.offset(place.min(to - 1_u64)).le(position);
                // Offsets ascend, so these are the first lanes.
                let count = ballot(starts).popc().cast::<u64>();
                let is_none = count.eq(0);
                low.set(is_none.select::<u64>(from, from + (count.max(1) - 1_u64) * step + 1_u64));
                high.set(is_none.select::<u64>(from, to.min(from + count * step)));
            },
        );
        low.get()
    }

    /// Folds parts of the huge segments that hold the first items of this block's ranges of the
    /// whole; each of its warps looks for that of one range. A segment holds the first items of as
    /// many ranges as it has parts, or of one more.
    fn parts(&self, block: Val<u64>, blocks: Val<u64>, workspace: Global<u64>, tickets: Global<u32>) {
        let thread = thread_idx().x;
        let bits = PART.ilog2();
        let num_ranges = (self.args.len + (PART - 1)) >> bits;
        // One more than the number of the huge segment, or 0.
        let found = shared_named::<u64>("found", RANGES as u32);
        let range_of = |warp: Val<u32>| block + warp.cast::<u64>() * blocks;
        let number_of = |segment: Segment, range: Val<u64>| range - ((segment.start + (PART - 1)) >> bits);
        let own = range_of(warp_id());
        let hit = var(0_u64);
        when(own.lt(num_ranges), || {
            let begin = own << bits;
            let started = self.started(begin);
            let segment = self.segment(started.max(1) - 1);
            let is_part = number_of(segment, own).lt(segment.len >> bits);
            let is_inside = segment.start.le(begin) & segment.len.gt(PART);
            hit.set((is_inside & is_part).select::<u64>(started, 0));
        });
        when(lane_id().eq(0), || found.at(warp_id()).set(hit.get()));
        sync_threads();
        range(0, RANGES as u32, 1, |k: Val<u32>| {
            when(found.at(k).get().ne(0), || {
                let segment = self.segment(found.at(k).get() - 1_u64);
                let (part, parts) = (number_of(segment, range_of(k)), segment.len >> bits);
                let size = (segment.len + parts - 1_u64) / parts;
                let from = (part * size).min(segment.len);
                let to = (from + size).min(segment.len);
                let acc = self.share(segment, [from, to], thread, BLOCK, self.shape.long_unroll);
                let acc = block::fold(&*self.fold.monoid, acc, BLOCK);
                // Slots are counted in parts, too: the next huge segment begins at least as many
                // slots later.
                let first = segment.start >> bits;
                let (part, parts, slots) = (part.cast(), parts.cast(), num_ranges);
                let parts = Parts { workspace, slots, first, part, parts, ticket: tickets.at(first) };
                grid::fold(&*self.fold.monoid, acc, &parts, BLOCK, &|acc| {
                    when(thread.eq(0), || self.finish(segment, acc));
                });
            });
            // What the next round writes, this one has read before the barriers of its folds.
        });
    }
}

/// Turns whose lists are in use at once: one is written while others are still read, and one made
/// ready.
const COPIES: u32 = 3;

/// Segments of the block that its lanes have put off, in any order: each is folded by itself. One
/// list a turn.
struct PutOff {
    counts: Shared<u32>,
    numbers: Shared<u32>,
    len: u32,
}

impl PutOff {
    fn new(name: &str, len: u32) -> Self {
        let numbers = shared_named(name, COPIES * len);
        Self { counts: shared_named(&format!("num_{name}"), COPIES), numbers, len }
    }

    fn count(&self, copy: Val<u32>) -> Shared<u32> {
        self.counts.at(copy)
    }

    fn add(&self, copy: Val<u32>, number: Val<u32>) {
        self.numbers.at(copy * self.len + self.count(copy).atomic().add(1)).set(number);
    }

    fn number(&self, copy: Val<u32>, i: Val<u32>) -> Val<u32> {
        self.numbers.at(copy * self.len + i).get()
    }
}

pub(super) fn kernel_of(fold: &Definition, shape: &SegmentsAlgorithm) -> AnyKernel {
    let name = format!("{}_segments", fold.name);
    let has_bytes = fold.source.dtypes().iter().any(|dtype| dtype.bytes() == 1);
    let (fold, shape) = (fold.clone(), shape.clone());
    let body = move |args: SegmentArgs| {
        wait_for_dependencies();
        // Contract: the grid has the blocks for parts, then any number of blocks for segments.
        let (inputs, outputs) = (args.inputs, args.outputs);
        let body = Body { fold: &fold, shape: &shape, inputs, outputs, args };
        let block = block_idx().x.cast::<u64>();
        let blocks = grid_dim().x.cast::<u64>();
        if !shape.shares {
            return body.segments(block, blocks);
        }
        let helpers = args.helpers;
        let parts = || body.parts(block, helpers, args.workspace, args.tickets);
        when_else(block.lt(helpers), parts, || body.segments(block - helpers, blocks - helpers));
    };
    let kernel = kernel(name, body).required_block(BLOCK);
    // For sm_80 ptxas aims at more blocks of bytes than their registers allow, and spills; told so
    // of wider elements as well, it gave them too many registers for six blocks, and segments of 4
    // f32 fell from 3,004 to 2,280 GB/s (H200).
    if has_bytes { kernel.min_blocks(5).into() } else { kernel.into() }
}

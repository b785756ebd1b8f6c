//! A resident block: its warps, its shared memory and its barriers; runs until it is done or has to wait.

use std::sync::Arc;

use super::code::{Barrier, BarrierKind, BlockId, Class, Code, FunctionCode, Special, Terminator};
use super::code::{Fill, NO_BLOCK};
use super::frame;
use super::machine::{Fault, Machine};
use super::op::NONE;
use super::row::{ALL_LANES, LANES, Row};
use super::warp::{Part, PartState, Warp};
use crate::check::{BlockCheck, LaunchCheck};
use crate::report::{FindingKind, Severity};
use crate::runtime;

/// Basic blocks that a part runs before others get their turn.
const SLICE: u32 = 4096;
/// Slices without a sign of waiting after which a part that waits at a join is let go all the same.
const PATIENCE_SLICES: u32 = 256;

/// Barriers of a block (PTX ISA, `bar`: sixteen of them).
pub(crate) const BARRIERS: usize = 16;

/// What a launch fixes for all blocks.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks a cluster in x, y, z.
    pub cluster: [u32; 3],
    /// Threads a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of all shared memory, as laid out in the code.
    pub shared_bytes: u32,
    /// Index of the kernel's function.
    pub kernel: u32,
    /// Multiprocessors of the device that is stood in for.
    pub multiprocessors: u32,
    /// Which launch of the process it is.
    pub grid_id: u64,
    /// Whether the checks are on.
    pub checked: bool,
    /// Where a cooperative launch keeps the state of its grid barrier; null in other launches.
    pub grid_workspace: u64,
}

impl Geometry {
    /// Coordinates of a linear index in `extent`.
    pub(crate) fn coordinates(linear: u64, extent: [u32; 3]) -> [u32; 3] {
        let [x, y, _] = extent.map(u64::from);
        let narrow = |v: u64| u32::try_from(v).expect("a coordinate fits its extent");
        [narrow(linear % x), narrow(linear / x % y), narrow(linear / (x * y))]
    }

    /// Warps a block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads.div_ceil(32)
    }
}

/// How a turn of a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Every thread has exited.
    Done,
    /// Its slice is over, or something in it waits for another block.
    Yield,
    /// Nothing in it can run again.
    Stuck,
    /// A fault or a trap.
    Stopped,
}

/// One barrier of a block.
#[derive(Debug, Clone, Default)]
struct BarrierState {
    /// Lanes that have arrived, by warp.
    arrived: Vec<u32>,
    /// Threads that are expected; all of the block if none is given.
    expected: Option<u32>,
    /// Whether any has arrived.
    open: bool,
    /// Threads whose predicate held.
    held: u32,
    /// Threads that gave a predicate.
    given: u32,
    /// The first instruction that arrived, for findings.
    instruction: u32,
}

/// A resident block.
pub(crate) struct Block {
    /// Linear index in the grid.
    pub index: u64,
    coordinates: [u32; 3],
    warps: Vec<Warp>,
    /// Warps that may be able to run, a bit each.
    ready: u32,
    shared: Vec<Row>,
    barriers: Vec<BarrierState>,
    clock: u64,
    /// Its part of the checker.
    check: Option<BlockCheck>,
    /// What it printed.
    pub output: String,
}

/// Executions of basic blocks: how often, and with how many lanes.
pub(crate) type BlockCounts = Vec<(u64, u64)>;

/// Everything that a turn needs besides the block.
pub(crate) struct Context<'a> {
    /// The program.
    pub code: &'a Code,
    /// The launch.
    pub geometry: &'a Geometry,
    /// Counts by basic block.
    pub counts: &'a mut BlockCounts,
    /// Where a trap is recorded.
    pub trap: &'a mut Option<(u32, u64, u32)>,
}

/// How running one part ended.
enum Outcome {
    /// The part is gone, or waits; look for another.
    Switch,
    /// Its slice is over.
    SliceOver,
    /// The run is over.
    Stop,
}

impl Block {
    /// Storage for blocks of a launch.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let rows = geometry.shared_bytes.div_ceil(128) as usize + 1;
        Self {
            index: 0,
            coordinates: [0; 3],
            warps: (0..geometry.warps()).map(|_| Warp::new()).collect(),
            ready: 0,
            shared: vec![Row([0; LANES]); rows],
            barriers: vec![BarrierState::default(); BARRIERS],
            clock: 0,
            check: geometry.checked.then(|| BlockCheck::new(geometry.shared_bytes)),
            output: String::new(),
        }
    }

    /// Starts over as block `index`.
    pub(crate) fn start(&mut self, index: u64, launch: Option<&LaunchCheck>, cx: &Context<'_>) {
        let geometry = cx.geometry;
        if let (Some(check), Some(launch)) = (&mut self.check, launch) {
            check.begin(launch, u32::try_from(index).unwrap_or(u32::MAX), geometry.threads);
        }
        let first_use = self.warps.first().is_none_or(|w| w.rows.is_empty());
        self.index = index;
        self.coordinates = Geometry::coordinates(index, geometry.grid);
        self.clock = 0;
        self.ready = if geometry.warps() == 32 { ALL_LANES } else { (1 << geometry.warps()) - 1 };
        self.shared.fill(Row([0; LANES]));
        for barrier in &mut self.barriers {
            *barrier = BarrierState { arrived: std::mem::take(&mut barrier.arrived), ..BarrierState::default() };
            barrier.arrived.clear();
            barrier.arrived.resize(geometry.warps() as usize, 0);
        }
        let function = &cx.code.functions[geometry.kernel as usize];
        for (w, warp) in self.warps.iter_mut().enumerate() {
            let w = u32::try_from(w).expect("at most 32 warps");
            let lanes = (geometry.threads - w * 32).min(32);
            warp.start(ALL_LANES >> (32 - lanes), geometry.kernel, function.entry);
            if first_use {
                warp.rows.resize(function.rows as usize, Row([0; LANES]));
                fill_constants(&mut warp.rows, function);
            }
            warp.local.resize(function.local_bytes.div_ceil(4) as usize, Row([0; LANES]));
            fill_specials(&mut warp.rows, 0, function, geometry, self.coordinates, w, first_use);
            clear_undefined(&mut warp.rows, 0, function);
        }
    }

    /// Runs until the block is done or everything in it has had its slice.
    pub(crate) fn turn(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        self.swap_check(m);
        let turn = self.run(m, cx);
        self.swap_check(m);
        turn
    }

    /// Lends the block's part of the checker to the machine, or takes it back.
    fn swap_check(&mut self, m: &mut Machine) {
        if let (Some(mine), Some(checking)) = (&mut self.check, &mut m.checking) {
            std::mem::swap(mine, &mut checking.block);
        }
    }

    fn run(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        m.shared = self.shared.as_mut_ptr().cast();
        m.shared_bytes = cx.geometry.shared_bytes;
        m.block = self.index;
        m.clock = self.clock;
        let mut pass = self.ready;
        loop {
            if pass == 0 {
                self.clock = m.clock;
                return match self.ready {
                    0 if self.warps.iter().all(|w| w.live == 0) => Turn::Done,
                    0 => Turn::Stuck,
                    _ => Turn::Yield,
                };
            }
            let w = pass.trailing_zeros();
            pass &= pass - 1;
            let before = self.ready;
            let runnable = self.run_warp(w, m, cx);
            if m.stop {
                return Turn::Stopped;
            }
            if !runnable {
                self.ready &= !(1 << w);
            }
            // Warps that a barrier woke run in this pass, too.
            pass |= self.ready & !before;
            if pass == 0 && !runnable {
                pass = self.ready;
            }
        }
    }

    /// Runs one warp; false if it cannot go on by itself.
    fn run_warp(&mut self, w: u32, m: &mut Machine, cx: &mut Context<'_>) -> bool {
        m.warp = w;
        m.waiting = false;
        loop {
            let warp = &mut self.warps[w as usize];
            let Some(i) = warp.parts.iter().position(|p| p.state == PartState::Ready) else {
                if self.complete_warp_sync(w, m, cx) || self.warps[w as usize].release_join() {
                    continue;
                }
                return false;
            };
            match self.run_part(w, i, m, cx) {
                Outcome::Switch => {}
                Outcome::Stop => return false,
                Outcome::SliceOver => {
                    let warp = &mut self.warps[w as usize];
                    // The part that ran goes to the end of the line.
                    warp.parts[i..].rotate_left(1);
                    if warp.has_waiting_join() {
                        warp.impatience += 1;
                        if m.waiting || warp.impatience > PATIENCE_SLICES {
                            warp.release_join();
                        }
                    }
                    return true;
                }
            }
        }
    }

    /// Runs part `i` of warp `w`.
    fn run_part(&mut self, w: u32, i: usize, m: &mut Machine, cx: &mut Context<'_>) -> Outcome {
        let code = cx.code;
        let part = &self.warps[w as usize].parts[i];
        let (mut mask, mut block, mut joined) = (part.mask, part.block, part.join.is_some());
        let mut skip = part.at_terminator;
        self.enter_frame(w, i, m, code);
        let mut steps = SLICE;
        loop {
            let b = &code.blocks[block as usize];
            if !skip {
                let counts = &mut cx.counts[block as usize];
                counts.0 += 1;
                counts.1 += u64::from(mask.count_ones());
                m.clock += u64::from(b.count);
                run_ops(m, code, b.start, b.end, mask);
                if m.stop {
                    return Outcome::Stop;
                }
            }
            skip = false;
            let next = match &b.terminator {
                Terminator::Jump(next) => *next,
                Terminator::Branch { predicate, negated, taken, next, join, instruction } => {
                    // SAFETY: the decoder gave the function this predicate.
                    let p = unsafe { m.predicate(*predicate) };
                    let goes = mask & if *negated { !p } else { p };
                    if goes == mask {
                        *taken
                    } else if goes == 0 {
                        *next
                    } else {
                        if let Some(instruction) = instruction {
                            m.counters[*instruction as usize].divergent += 1;
                        }
                        self.diverge(w, i, *join, &[(goes, *taken), (mask & !goes, *next)]);
                        return Outcome::Switch;
                    }
                }
                Terminator::WarpSync { op, members, instruction, next } => {
                    let needed = self.members(w, m, mask, *members, *instruction);
                    if needed & !mask & self.warps[w as usize].live != 0 {
                        let part = &mut self.warps[w as usize].parts[i];
                        (part.block, part.at_terminator, part.state) = (block, true, PartState::WarpSync);
                        return Outcome::Switch;
                    }
                    self.warp_sync_done(w, m, *members, mask);
                    if let Some(op) = op {
                        run_ops(m, code, *op, *op + 1, mask);
                        if m.stop {
                            return Outcome::Stop;
                        }
                    }
                    *next
                }
                Terminator::Barrier(barrier) => {
                    let part = &mut self.warps[w as usize].parts[i];
                    (part.block, part.at_terminator) = (block, true);
                    match self.reach_barrier(w, i, barrier, m, cx) {
                        Some(next) => next,
                        None => return if m.stop { Outcome::Stop } else { Outcome::Switch },
                    }
                }
                terminator => {
                    let part = &mut self.warps[w as usize].parts[i];
                    part.block = block;
                    return self.leave(w, i, terminator, m, cx);
                }
            };
            if joined {
                let warp = &mut self.warps[w as usize];
                let join = &warp.joins[warp.parts[i].join.expect("a joined part") as usize];
                if join.at == next {
                    let part = warp.parts.swap_remove(i);
                    if let Some(part) = warp.arrive(part, next) {
                        warp.parts.push(part);
                        let last = warp.parts.len() - 1;
                        warp.parts.swap(i, last);
                        let part = &warp.parts[i];
                        (mask, block, joined) = (part.mask, part.block, part.join.is_some());
                        if !warp.has_waiting_join() {
                            warp.impatience = 0;
                        }
                        continue;
                    }
                    return Outcome::Switch;
                }
            }
            block = next;
            steps -= 1;
            if steps == 0 {
                let part = &mut self.warps[w as usize].parts[i];
                (part.block, part.at_terminator) = (block, false);
                return Outcome::SliceOver;
            }
        }
    }

    /// Points the machine at the frame of part `i`.
    fn enter_frame(&mut self, w: u32, i: usize, m: &mut Machine, code: &Code) {
        let warp = &mut self.warps[w as usize];
        let frame = warp.parts[i].frame;
        let function = &code.functions[frame.function as usize];
        frame::enter(m, warp, frame, function);
    }

    /// Splits part `i` by where its lanes go.
    fn diverge(&mut self, w: u32, i: usize, join: BlockId, ways: &[(u32, BlockId)]) {
        let warp = &mut self.warps[w as usize];
        let part = warp.parts.swap_remove(i);
        let join = warp.open_join(&part, join);
        for &(mask, block) in ways {
            let side = Part { mask, join, ..part.clone() };
            if let Some(side) = warp.arrive(side, block) {
                warp.parts.push(side);
            }
        }
    }

    /// Terminators after which the part is in another frame, or gone.
    fn leave(&mut self, w: u32, i: usize, terminator: &Terminator, m: &mut Machine, cx: &mut Context<'_>) -> Outcome {
        match terminator {
            Terminator::Exit => self.exit(w, i, m, cx),
            Terminator::Return => {
                let warp = &mut self.warps[w as usize];
                if warp.parts[i].callers.is_empty() {
                    return self.exit(w, i, m, cx);
                }
                let part = warp.parts.swap_remove(i);
                let returned = frame::return_from(warp, part, cx.code);
                let block = returned.block;
                if let Some(part) = warp.arrive(returned, block) {
                    warp.parts.push(part);
                }
                Outcome::Switch
            }
            Terminator::Trap { instruction } => {
                let lane = self.warps[w as usize].parts[i].mask.trailing_zeros();
                *cx.trap = Some((*instruction, self.index, w * 32 + lane));
                m.stop = true;
                Outcome::Stop
            }
            Terminator::Switch { index, targets, count, join, instruction } => {
                self.switch(w, i, m, cx.code, (*index, *targets, *count, *join, *instruction))
            }
            Terminator::Call(call) => {
                let warp = &mut self.warps[w as usize];
                match frame::call(warp, i, call, m, cx, self.coordinates) {
                    frame::Called::Entered => Outcome::Switch,
                    frame::Called::Runtime => {
                        let stopped = runtime::call(m, warp, i, call, cx, &mut self.output);
                        if stopped {
                            return Outcome::Stop;
                        }
                        let part = warp.parts.swap_remove(i);
                        if let Some(part) = warp.arrive(part, call.next) {
                            warp.parts.push(part);
                        }
                        Outcome::Switch
                    }
                    frame::Called::Fault => Outcome::Stop,
                }
            }
            Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::WarpSync { .. } | Terminator::Barrier(_) => {
                unreachable!("run_part handles this terminator itself")
            }
        }
    }

    fn switch(
        &mut self,
        w: u32,
        i: usize,
        m: &mut Machine,
        code: &Code,
        (index, targets, count, join, instruction): (u32, u32, u32, BlockId, u32),
    ) -> Outcome {
        let mask = self.warps[w as usize].parts[i].mask;
        // SAFETY: the decoder gave the function this row.
        let indices = unsafe { m.read::<u32>(index) };
        let mut ways: Vec<(u32, BlockId)> = Vec::new();
        for lane in lanes_of(mask) {
            let Some(&to) =
                code.lists[targets as usize..(targets + count) as usize].get(indices[lane as usize] as usize)
            else {
                let rule = format!("brx.idx index {} is outside its {count} targets", indices[lane as usize]);
                self.fault(m, FindingKind::OutOfBounds, instruction, w, lane, rule);
                m.stop = true;
                return Outcome::Stop;
            };
            match ways.iter_mut().find(|(_, b)| *b == to) {
                Some((lanes, _)) => *lanes |= 1 << lane,
                None => ways.push((1 << lane, to)),
            }
        }
        if ways.len() > 1 {
            m.counters[instruction as usize].divergent += 1;
            self.diverge(w, i, join, &ways);
        } else {
            let warp = &mut self.warps[w as usize];
            let part = warp.parts.swap_remove(i);
            if let Some(part) = warp.arrive(part, ways[0].1) {
                warp.parts.push(part);
            }
        }
        Outcome::Switch
    }

    fn exit(&mut self, w: u32, i: usize, m: &mut Machine, cx: &Context<'_>) -> Outcome {
        let warp = &mut self.warps[w as usize];
        let part = warp.parts.swap_remove(i);
        warp.exit(part.mask);
        m.progress = true;
        for id in 0..BARRIERS {
            if self.barriers[id].open {
                self.complete_barrier(id, m, cx.code);
            }
        }
        Outcome::Switch
    }

    fn fault(&self, m: &mut Machine, kind: FindingKind, instruction: u32, w: u32, lane: u32, rule: String) {
        let fault = Fault {
            kind,
            severity: Severity::Error,
            instruction,
            block: self.index,
            thread: w * 32 + lane,
            address: None,
            other: None,
            rule,
        };
        m.fault(fault, false);
    }

    /// The lanes that the lanes of `mask` name in a member mask.
    fn members(&self, w: u32, m: &mut Machine, mask: u32, row: u32, instruction: u32) -> u32 {
        // SAFETY: the decoder gave the function this row.
        let members = unsafe { m.read::<u32>(row) };
        let (mut needed, mut outside) = (0, 0);
        for lane in 0..LANES {
            if mask >> lane & 1 != 0 {
                needed |= members[lane];
                outside |= u32::from(members[lane] >> lane & 1 == 0) << lane;
            }
        }
        if outside != 0 {
            let lane = outside.trailing_zeros();
            let rule =
                format!("the member mask {:#010x} does not name the executing lane {lane}", members[lane as usize]);
            self.fault(m, FindingKind::InvalidSync, instruction, w, lane, rule);
        }
        needed
    }

    /// Tells the checker about a warp-level synchronisation.
    fn warp_sync_done(&self, w: u32, m: &mut Machine, members: u32, mask: u32) {
        if m.checked {
            // SAFETY: the decoder gave the function this row.
            let members = unsafe { m.read::<u32>(members) };
            m.check_warp_sync(&members, mask, self.warps[w as usize].live);
        }
    }

    /// Lets parts go on that wait for one another at warp-level synchronising instructions.
    fn complete_warp_sync(&mut self, w: u32, m: &mut Machine, cx: &Context<'_>) -> bool {
        let code = cx.code;
        let waiting: Vec<usize> = (0..self.warps[w as usize].parts.len())
            .filter(|&i| self.warps[w as usize].parts[i].state == PartState::WarpSync)
            .collect();
        for &i in &waiting {
            let first = self.warps[w as usize].parts[i].clone();
            let Terminator::WarpSync { op, members, instruction, next: _ } =
                code.blocks[first.block as usize].terminator
            else {
                unreachable!("a part that waits at a warp synchronisation is at one")
            };
            self.enter_frame(w, i, m, code);
            let needed = self.members(w, m, first.mask, members, instruction) & self.warps[w as usize].live;
            // A plain barrier may be reached at different instructions; an exchange has to be the same one.
            let together: Vec<usize> = waiting
                .iter()
                .copied()
                .filter(|&j| {
                    let other = &self.warps[w as usize].parts[j];
                    let same = other.block == first.block && other.frame == first.frame;
                    let plain =
                        matches!(code.blocks[other.block as usize].terminator, Terminator::WarpSync { op: None, .. });
                    other.mask & needed != 0 && (same || op.is_none() && plain)
                })
                .collect();
            let union = together.iter().fold(0, |all, &j| all | self.warps[w as usize].parts[j].mask);
            if needed & !union != 0 {
                continue;
            }
            self.warp_sync_done(w, m, members, first.mask);
            if let Some(op) = op {
                run_ops(m, code, op, op + 1, union);
            }
            self.pass_warp_sync(w, &together, code);
            return true;
        }
        false
    }

    /// Moves parts past the synchronising instruction that they wait at, and merges those that belong together.
    fn pass_warp_sync(&mut self, w: u32, together: &[usize], code: &Code) {
        let warp = &mut self.warps[w as usize];
        let mut passed: Vec<Part> = Vec::new();
        for &j in together.iter().rev() {
            let part = warp.parts.remove(j);
            match passed.iter_mut().find(|p| {
                p.block == part.block && p.join == part.join && p.frame == part.frame && p.callers == part.callers
            }) {
                Some(same) => same.mask |= part.mask,
                None => passed.push(part),
            }
        }
        for part in passed {
            let Terminator::WarpSync { next, .. } = code.blocks[part.block as usize].terminator else {
                unreachable!("a part that waits at a warp synchronisation is at one")
            };
            if let Some(part) = warp.arrive(part, next) {
                warp.parts.push(part);
            }
        }
    }

    /// Part `i` of warp `w` reaches a barrier; the next block if it need not wait.
    fn reach_barrier(
        &mut self,
        w: u32,
        i: usize,
        barrier: &Barrier,
        m: &mut Machine,
        cx: &Context<'_>,
    ) -> Option<BlockId> {
        let mask = self.warps[w as usize].parts[i].mask;
        let live = self.warps[w as usize].live;
        let lane = mask.trailing_zeros();
        // SAFETY: the decoder gave the function these rows.
        let (id, threads) = unsafe {
            (m.read::<u32>(barrier.id)[lane as usize], barrier.threads.map(|row| m.read::<u32>(row)[lane as usize]))
        };
        let invalid = if id as usize >= BARRIERS {
            Some(format!("barrier {id}: a block has {BARRIERS} barriers"))
        } else if threads.is_some_and(|t| t == 0 || t % 32 != 0) {
            Some(format!("thread count {} is not a positive multiple of the warp size 32", threads.unwrap_or(0)))
        } else if self.barriers[id as usize].open && self.barriers[id as usize].expected != threads {
            Some(format!("barrier {id} is in use with another thread count"))
        } else {
            None
        };
        if let Some(rule) = invalid {
            self.fault(m, FindingKind::InvalidSync, barrier.instruction, w, lane, rule);
            m.stop = true;
            return None;
        }
        if barrier.aligned && mask != live && cx.geometry.checked {
            let rule = format!(
                "an aligned barrier was executed by lanes {mask:#010x} of a warp whose live lanes are {live:#010x}"
            );
            self.fault(m, FindingKind::BarrierDivergence, barrier.instruction, w, lane, rule);
        }
        let state = &mut self.barriers[id as usize];
        if !state.open {
            (state.open, state.expected, state.instruction) = (true, threads, barrier.instruction);
        }
        state.arrived[w as usize] |= mask;
        if let BarrierKind::Popc { predicate, negated, .. }
        | BarrierKind::And { predicate, negated, .. }
        | BarrierKind::Or { predicate, negated, .. } = barrier.kind
        {
            // SAFETY: the decoder gave the function this predicate.
            let p = unsafe { m.predicate(predicate) };
            state.held += (mask & if negated { !p } else { p }).count_ones();
            state.given += mask.count_ones();
        }
        m.progress = true;
        m.check_arrive(id);
        let waits = barrier.kind != BarrierKind::Arrive;
        if waits {
            self.warps[w as usize].parts[i].state = PartState::Barrier(id);
        }
        self.complete_barrier(id as usize, m, cx.code);
        if waits {
            // Either the part waits, or it was moved on together with the others.
            return None;
        }
        Some(barrier.next)
    }

    /// Lets the waiting parts go on if everybody has arrived.
    fn complete_barrier(&mut self, id: usize, m: &mut Machine, code: &Code) {
        let state = &self.barriers[id];
        let mut arrived_warps = 0;
        let mut missing = false;
        for (warp, &arrived) in self.warps.iter().zip(&state.arrived) {
            let all_here = arrived & warp.live == warp.live;
            arrived_warps += u32::from(arrived != 0 && all_here);
            missing |= !all_here;
        }
        let complete = match state.expected {
            None => !missing,
            Some(threads) => arrived_warps * 32 >= threads,
        };
        if !complete {
            return;
        }
        let (held, given) = (state.held, state.given);
        let state = &mut self.barriers[id];
        (state.open, state.expected, state.held, state.given) = (false, None, 0, 0);
        state.arrived.fill(0);
        let waiting = PartState::Barrier(u32::try_from(id).expect("sixteen barriers"));
        if m.checked {
            let id = u32::try_from(id).expect("sixteen barriers");
            let waits = |warp: &Warp| warp.parts.iter().any(|p| p.state == PartState::Barrier(id));
            let receivers = self.warps.iter().enumerate().filter(|(_, warp)| waits(warp));
            let receivers = receivers.fold(0, |all, (w, _)| all | 1u32 << w);
            let live = self.warps.iter().enumerate().filter(|(_, warp)| warp.live != 0);
            let live = live.fold(0, |all, (w, _)| all | 1u32 << w);
            m.check_complete(id, receivers, receivers == live && !missing);
        }
        let current = (m.frame, m.predicates, m.local, m.local_base, m.local_end);
        for w in 0..self.warps.len() {
            let mut i = 0;
            while i < self.warps[w].parts.len() {
                if self.warps[w].parts[i].state != waiting {
                    i += 1;
                    continue;
                }
                let w32 = u32::try_from(w).expect("at most 32 warps");
                let Terminator::Barrier(barrier) = &code.blocks[self.warps[w].parts[i].block as usize].terminator
                else {
                    unreachable!("a part that waits at a barrier is at one")
                };
                self.barrier_result(w32, i, barrier.kind, (held, given), m, code);
                self.ready |= 1 << w;
                let warp = &mut self.warps[w];
                let part = &mut warp.parts[i];
                (part.block, part.at_terminator, part.state) = (barrier.next, false, PartState::Ready);
                if part.join.is_some() {
                    let part = warp.parts.swap_remove(i);
                    if let Some(part) = warp.arrive(part, barrier.next) {
                        warp.parts.push(part);
                    }
                } else {
                    i += 1;
                }
            }
        }
        (m.frame, m.predicates, m.local, m.local_base, m.local_end) = current;
    }

    fn barrier_result(
        &mut self,
        w: u32,
        i: usize,
        kind: BarrierKind,
        (held, given): (u32, u32),
        m: &mut Machine,
        code: &Code,
    ) {
        let mask = self.warps[w as usize].parts[i].mask;
        if matches!(kind, BarrierKind::Sync | BarrierKind::Arrive) {
            return;
        }
        self.enter_frame(w, i, m, code);
        let everywhere = |holds: bool| if holds { ALL_LANES } else { 0 };
        // SAFETY: the decoder gave the function these destinations.
        unsafe {
            match kind {
                BarrierKind::Popc { dst, .. } => m.write(dst, &[held; LANES], mask),
                BarrierKind::And { dst, .. } => m.set_predicate(dst, everywhere(held == given), mask),
                BarrierKind::Or { dst, .. } => m.set_predicate(dst, everywhere(held != 0), mask),
                BarrierKind::Sync | BarrierKind::Arrive => {}
            }
        }
    }

    /// Warp instructions that the block has executed.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }

    /// Where something in the block waits for ever: instruction, linear thread.
    pub(crate) fn stuck_at(&self, code: &Code) -> Option<(u32, u32, String)> {
        for (w, warp) in self.warps.iter().enumerate() {
            let Some(part) = warp.parts.first() else { continue };
            let thread = u32::try_from(w).expect("at most 32 warps") * 32 + part.mask.trailing_zeros();
            let b = &code.blocks[part.block as usize];
            return Some(match (&part.state, &b.terminator) {
                (PartState::Barrier(id), Terminator::Barrier(barrier)) => (
                    barrier.instruction,
                    thread,
                    format!("waits at barrier {id}, which not all expected threads can reach"),
                ),
                (PartState::WarpSync, Terminator::WarpSync { instruction, .. }) => (
                    *instruction,
                    thread,
                    "waits for lanes of its member mask that cannot reach the instruction".to_owned(),
                ),
                _ => {
                    let of_block = code.instructions.iter().position(|i| i.block == part.block);
                    let instruction = of_block.map_or(0, |i| u32::try_from(i).expect("few instructions"));
                    (instruction, thread, "spins, and nothing in the grid makes progress".to_owned())
                }
            });
        }
        None
    }
}

/// The lanes of a mask.
pub(crate) fn lanes_of(mask: u32) -> impl Iterator<Item = u32> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let lane = rest.trailing_zeros();
        rest &= rest - 1;
        Some(lane)
    })
}

/// Runs straight-line operations.
#[inline]
fn run_ops(m: &mut Machine, code: &Code, start: u32, end: u32, mask: u32) {
    for op in &code.ops[start as usize..end as usize] {
        let mut active = mask;
        if op.guard != NONE {
            // SAFETY: the decoder gave the function this predicate.
            let p = unsafe { m.predicate(op.guard) };
            active &= if op.guard_negated { !p } else { p };
            if op.leads {
                m.counters[op.instruction as usize].guarded_off += u64::from((mask & !active).count_ones());
            }
            if active == 0 {
                continue;
            }
        }
        // SAFETY: the decoder chose the handler for this host and this function's rows, and the machine points
        // at a frame of that function.
        unsafe {
            (op.run)(m, op, active);
        }
    }
}

/// Writes the rows of a frame that hold constants.
pub(crate) fn fill_constants(rows: &mut [Row], function: &FunctionCode) {
    fill_constants_at(rows, 0, function);
}

/// Writes the rows of a frame at `base` that hold constants.
pub(crate) fn fill_constants_at(rows: &mut [Row], base: u32, function: &FunctionCode) {
    for &(row, fill) in &function.fills {
        match fill {
            Fill::Constant32(v) => rows[(base + row) as usize] = Row([v; LANES]),
            Fill::Constant64(v) => put64(rows, base + row, v),
            Fill::Constant128(v) => put128(rows, base + row, v),
            Fill::Special(_) => {}
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "splitting into words")]
fn put64(rows: &mut [Row], row: u32, v: u64) {
    for r in 0..2 {
        for lane in 0..LANES {
            rows[row as usize + r].0[lane] = if lane % 2 == 0 { v as u32 } else { (v >> 32) as u32 };
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "splitting into words")]
fn put128(rows: &mut [Row], row: u32, v: u128) {
    for r in 0..4 {
        for lane in 0..LANES {
            rows[row as usize + r].0[lane] = (v >> (32 * (lane % 4))) as u32;
        }
    }
}

/// Writes the rows of a frame that hold special registers; those that differ between blocks only, unless `all`.
pub(crate) fn fill_specials(
    rows: &mut [Row],
    base: u32,
    function: &FunctionCode,
    geometry: &Geometry,
    block: [u32; 3],
    warp: u32,
    all: bool,
) {
    for &(row, fill) in &function.fills {
        let Fill::Special(special) = fill else { continue };
        if !all
            && !matches!(
                special,
                Special::Ctaid(_)
                    | Special::SmId
                    | Special::ClusterId(_)
                    | Special::ClusterCtaid(_)
                    | Special::ClusterCtarank
            )
        {
            continue;
        }
        if special == Special::GridId {
            put64(rows, base + row, geometry.grid_id);
            continue;
        }
        for lane in 0..32u32 {
            rows[(base + row) as usize].0[lane as usize] = special_value(special, geometry, block, warp, lane);
        }
    }
}

fn special_value(special: Special, g: &Geometry, block: [u32; 3], warp: u32, lane: u32) -> u32 {
    let at = |v: [u32; 3], axis: u8| v[axis as usize];
    let thread = || Geometry::coordinates(u64::from(warp * 32 + lane), g.block);
    let in_cluster = || [0, 1, 2].map(|i| block[i] % g.cluster[i]);
    let rank = |v: [u32; 3], e: [u32; 3]| (v[2] * e[1] + v[1]) * e[0] + v[0];
    match special {
        Special::Tid(a) => at(thread(), a),
        Special::Ntid(a) => at(g.block, a),
        Special::Ctaid(a) => at(block, a),
        Special::Nctaid(a) => at(g.grid, a),
        Special::LaneId => lane,
        Special::WarpId => warp,
        Special::NWarpId => g.warps(),
        Special::SmId => rank(block, g.grid) % g.multiprocessors,
        Special::NSmId => g.multiprocessors,
        Special::GridId => 0,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLe => ALL_LANES >> (31 - lane),
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskGe => ALL_LANES << lane,
        Special::LaneMaskGt => !(ALL_LANES >> (31 - lane)),
        Special::ClusterId(a) => at(block, a) / at(g.cluster, a),
        Special::NClusterId(a) => at(g.grid, a) / at(g.cluster, a),
        Special::ClusterCtaid(a) => at(in_cluster(), a),
        Special::ClusterNctaid(a) => at(g.cluster, a),
        Special::ClusterCtarank => rank(in_cluster(), g.cluster),
        Special::ClusterNctarank => g.cluster.iter().product(),
        Special::IsExplicitCluster => u32::from(g.cluster != [1, 1, 1]),
        Special::DynamicSmemSize => g.dynamic_shared,
        Special::TotalSmemSize | Special::AggrSmemSize => g.shared_bytes,
        Special::ReservedSmem => 0,
        // The driver passes the grid's workspace to cooperative groups in two halves; their library adds 4 for the
        // barrier's word (`cooperative_groups/details/helpers.h`). The other registers are the driver's own.
        Special::EnvReg(1) => (g.grid_workspace >> 32) as u32,
        Special::EnvReg(2) => g.grid_workspace as u32,
        Special::EnvReg(_) => 0,
    }
}

/// Clears registers and predicates that may be read before they are written, so that runs repeat.
pub(crate) fn clear_undefined(rows: &mut [Row], base: u32, function: &FunctionCode) {
    for &row in &function.clear_rows {
        rows[(base + row) as usize] = Row([0; LANES]);
    }
    for &p in &function.clear_predicates {
        rows[(base + function.predicate_row + p / 32) as usize].0[p as usize % 32] = 0;
    }
}

/// What an instruction's executions count towards.
pub(crate) fn is_synchronising(class: Class) -> bool {
    matches!(class, Class::Barrier | Class::WarpSync)
}

/// Keeps the shared pointer type in one place.
pub(crate) type SharedCode = Arc<Code>;

const _: () = assert!(NO_BLOCK == u32::MAX);

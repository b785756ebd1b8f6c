//! A resident block: its warps, its shared memory and its barriers; runs until it is done or must
//! wait.

use super::barrier::{BARRIERS, BarrierState, Partial};
use super::checking::Checking;
use super::cluster_barrier::Arrival;
use super::code::Code;
use super::geometry::Geometry;
use super::machine::{Fault, Machine};
use super::mbarrier_wait::Waits;
use super::part::Outcome;
use super::registers::Registers;
use super::row::{ALL_LANES, LANES, Row};
use super::special::{clear_undefined, fill_constants, fill_specials};
use super::warp::{PartState, Warp};
use crate::asynchronous::Asynchronous;
use crate::asynchronous::luck::Luck;
use crate::check::{BlockCheck, ClusterMemory, LaunchCheck, PeerUse};
use crate::report::{FindingKind, Severity};
use crate::tensor_ops::rules::Warpgroups;

/// Slices without any sign of waiting after which a part that waits at a join is released
/// nevertheless.
const PATIENCE_SLICES: u32 = 256;

/// Slices of warps in one turn: warps that wake each other would continue without end, and a
/// launch's limit is checked between turns.
const SLICES_OF_A_TURN: u32 = 4096;

/// Times that a warp continues after a barrier, a branch or a join before that counts as a slice: a
/// loop with a barrier that no other warp joins would continue without end.
const SWITCHES_OF_A_SLICE: u32 = 4096;

/// Number of such slices before other blocks get a turn.
const SWITCHING_SLICES: u32 = 64;

/// Outcome of a block's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Every thread has exited.
    Done,
    /// Its slice is over, or part of it waits for another block.
    Yield,
    /// No part of it can run again.
    Stuck,
    /// A fault or a trap.
    Stopped,
}

/// A resident block.
pub(crate) struct Block {
    /// Linear index in the grid.
    pub index: u64,
    pub(super) coordinates: [u32; 3],
    pub(super) warps: Vec<Warp>,
    /// Warps that may be able to run, a bit each.
    pub(super) ready: u32,
    shared: Vec<Row>,
    pub(super) barriers: Vec<BarrierState>,
    /// Arrivals at the barrier of the cluster, by warp.
    pub(super) cluster: Vec<Arrival>,
    /// Registers of its warps.
    pub(super) registers: Registers,
    /// Aligned barriers that wait for the rest of a warp.
    pub(super) partial: Vec<Partial>,
    clock: u64,
    /// Its part of the checker.
    pub(super) check: Option<BlockCheck>,
    /// Its pending copies.
    asynchronous: Asynchronous,
    /// Parts that wait at mbarriers.
    pub(super) waits: Waits,
    /// Instructions that its warpgroups have executed, for the checks.
    warpgroups: Warpgroups,
    /// Output of `vprintf`.
    pub output: String,
    /// Slices that a warp has used up by switching, in the present turn.
    switching: u32,
    /// Source of the order of warps.
    luck: Luck,
}

/// Executions of basic blocks: their number, and the sum of their lanes.
pub(crate) type BlockCounts = Vec<(u64, u64)>;

/// Everything that a turn needs besides the block.
pub(crate) struct Context<'a> {
    /// The program.
    pub code: &'a Code,
    /// The launch.
    pub geometry: &'a Geometry,
    /// Counts by basic block.
    pub counts: &'a mut BlockCounts,
    /// Slot for a trap.
    pub trap: &'a mut Option<(u32, u64, u32)>,
}

impl Block {
    /// Allocates storage for blocks of a launch.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let rows = geometry.shared_bytes.div_ceil(128) as usize + 1;
        Self {
            index: 0,
            coordinates: [0; 3],
            warps: (0..geometry.warps()).map(|_| Warp::new()).collect(),
            ready: 0,
            shared: vec![Row([0; LANES]); rows],
            barriers: vec![BarrierState::default(); BARRIERS],
            cluster: vec![Arrival::default(); geometry.warps() as usize],
            registers: Registers::default(),
            partial: Vec::new(),
            clock: 0,
            check: geometry.checked.then(|| BlockCheck::new(geometry.shared_bytes, geometry.reserved_shared)),
            asynchronous: Asynchronous::default(),
            waits: Waits::default(),
            warpgroups: Warpgroups::default(),
            output: String::new(),
            switching: 0,
            luck: Luck::default(),
        }
    }

    /// Restarts the storage as block `index`.
    pub(crate) fn start(&mut self, index: u64, launch: Option<&LaunchCheck>, cx: &Context<'_>) {
        let geometry = cx.geometry;
        if let (Some(check), Some(launch)) = (&mut self.check, launch) {
            check.begin(launch, u32::try_from(index).unwrap_or(u32::MAX), geometry.threads);
        }
        let first_use = self.warps.first().is_none_or(|w| w.rows.is_empty());
        self.index = index;
        self.coordinates = Geometry::coordinates(index, geometry.grid);
        self.clock = 0;
        self.asynchronous.begin(self.warps.len(), Luck::new(geometry.seed, index));
        self.luck = Luck::new(geometry.seed, !index);
        self.waits.begin();
        self.warpgroups.begin(self.warps.len());
        self.partial.clear();
        self.cluster.fill(Arrival::default());
        self.registers.start(self.warps.len(), geometry.entry_registers);
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
                fill_constants(&mut warp.rows, 0, function);
            }
            warp.local.resize(function.local_bytes.div_ceil(4) as usize, Row([0; LANES]));
            fill_specials(&mut warp.rows, 0, function, geometry, self.coordinates, w, first_use);
            clear_undefined(&mut warp.rows, 0, function);
        }
    }

    /// Runs until the block is done or every part of it has had its slice.
    pub(crate) fn turn(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        self.lend(m);
        m.shared = self.shared.as_mut_ptr().cast();
        m.shared_bytes = cx.geometry.shared_bytes;
        m.block = self.index;
        if let Some(devices) = &cx.geometry.devices {
            m.params = devices[self.coordinates[2] as usize].clone();
        }
        m.check_arrivals_of_copies();
        let turn = self.run(m, cx);
        m.progress |= std::mem::take(&mut self.waits.has_progressed);
        self.lend(m);
        turn
    }

    /// Lends the block's copies and its checker to the machine, or takes them back.
    fn lend(&mut self, m: &mut Machine) {
        std::mem::swap(&mut self.asynchronous, &mut m.asynchronous);
        std::mem::swap(&mut self.warpgroups, &mut m.warpgroups);
        if let (Some(mine), Some(checking)) = (&mut self.check, &mut m.checking) {
            std::mem::swap(mine, &mut checking.block);
        }
    }

    fn run(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        m.clock = self.clock;
        let mut pass = self.ready;
        let mut order = WarpOrder::draw(&mut self.luck);
        let mut slices = 0;
        loop {
            if pass == 0 {
                let was_idle = self.ready == 0;
                if self.unblock(m, was_idle) {
                    pass = self.ready;
                    if was_idle {
                        continue;
                    }
                }
                self.clock = m.clock;
                return match self.ready {
                    0 if self.has_exited() => {
                        m.end_copies();
                        self.end_registers(m);
                        Turn::Done
                    }
                    0 => Turn::Stuck,
                    _ => Turn::Yield,
                };
            }
            let w = order.first(pass);
            pass &= !(1 << w);
            let before = self.ready;
            let runnable = self.run_warp(w, m, cx);
            if m.stop {
                return Turn::Stopped;
            }
            if !runnable {
                self.ready &= !(1 << w);
            }
            if std::mem::take(&mut m.asynchronous.woken) {
                self.wake_waiting();
            }
            slices += 1 + std::mem::take(&mut self.switching);
            let is_over = slices >= SLICES_OF_A_TURN || m.clock.wrapping_sub(self.clock) > cx.geometry.limit;
            if is_over && self.ready != 0 {
                self.clock = m.clock;
                return Turn::Yield;
            }
            // Warps that a barrier woke run in this pass, too.
            pass |= self.ready & !before;
            if pass == 0 && !runnable {
                pass = self.ready;
                order = WarpOrder::draw(&mut self.luck);
            }
        }
    }

    /// Runs one warp; returns false if it cannot continue by itself.
    fn run_warp(&mut self, w: u32, m: &mut Machine, cx: &mut Context<'_>) -> bool {
        m.warp = w;
        m.waiting = false;
        let mut switches = 0;
        loop {
            let warp = &mut self.warps[w as usize];
            let Some(i) = warp.parts.iter().position(|p| p.state == PartState::Ready) else {
                if self.complete_warp_sync(w, m, cx) || self.warps[w as usize].release_join() {
                    continue;
                }
                return false;
            };
            let outcome = if m.checked || m.is_stepped() {
                self.run_part::<true>(w, i, m, cx)
            } else {
                self.run_part::<false>(w, i, m, cx)
            };
            match outcome {
                Outcome::Switch => {
                    switches += 1;
                    let is_over = switches >= SWITCHES_OF_A_SLICE * SWITCHING_SLICES;
                    if is_over || m.clock.wrapping_sub(self.clock) > cx.geometry.limit {
                        self.switching = switches / SWITCHES_OF_A_SLICE;
                        return true;
                    }
                }
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

    pub(super) fn fault(&self, m: &mut Machine, kind: FindingKind, instruction: u32, w: u32, lane: u32, rule: String) {
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

    /// Its shared memory.
    pub(super) fn memory(&mut self) -> *mut u8 {
        self.shared.as_mut_ptr().cast()
    }

    /// Returns true if every thread has exited.
    pub(super) fn has_exited(&self) -> bool {
        self.warps.iter().all(|w| w.live == 0)
    }

    /// Joins the block to its peers, which access its shared memory: returns the checker's state of
    /// that memory.
    pub(super) fn join_cluster(
        &mut self,
        geometry: &Geometry,
        launch: Option<&LaunchCheck>,
        blocks: &[u32],
    ) -> Option<ClusterMemory> {
        self.check.as_mut()?.join_cluster(launch?, blocks);
        Some(ClusterMemory::new(
            u32::try_from(self.index).unwrap_or(u32::MAX),
            geometry.shared_bytes,
            geometry.reserved_shared,
        ))
    }

    /// Checks the peers' accesses to the memory of the block, which has exited.
    pub(super) fn leave_cluster(&self, uses: &[PeerUse], checking: Option<&mut Checking>) {
        if let (Some(check), Some(checking)) = (&self.check, checking) {
            check.exit(uses, &mut checking.findings);
        }
    }

    /// Makes every warp check again what it waits for.
    pub(super) fn wake(&mut self) {
        self.wake_waiting();
        for (w, warp) in self.warps.iter().enumerate() {
            self.ready |= u32::from(warp.live != 0) << w;
        }
    }

    /// Warp instructions that the block has executed.
    pub(crate) fn clock(&self) -> u64 {
        self.clock
    }
}

/// The order in which the warps of a block run.
#[derive(Debug, Clone, Copy, Default)]
struct WarpOrder {
    first: u32,
    is_descending: bool,
}

impl WarpOrder {
    /// Draws a random order; without a seed, the increasing one.
    fn draw(luck: &mut Luck) -> Self {
        let first = u32::try_from(luck.below(32)).unwrap_or(0);
        Self { first, is_descending: luck.below(2) != 0 }
    }

    /// The first warp of a nonempty mask.
    fn first(self, warps: u32) -> u32 {
        let turned = warps.rotate_right(self.first);
        let at = if self.is_descending { 31 - turned.leading_zeros() } else { turned.trailing_zeros() };
        (at + self.first) % 32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warp_of_a_pass_comes_once_in_an_order_that_a_seed_draws() {
        let order_of = |luck: &mut Luck| {
            let (order, mut pass) = (WarpOrder::draw(luck), 0b1011_0110_u32);
            std::iter::from_fn(|| {
                let warp = (pass != 0).then(|| order.first(pass))?;
                pass &= !(1 << warp);
                Some(warp)
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(order_of(&mut Luck::default()), [1, 2, 4, 5, 7]);
        let mut luck = Luck::new(1, 0);
        let mut orders: Vec<_> = (0..2000).map(|_| order_of(&mut luck)).collect();
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), 10, "upwards and downwards from each");
        for order in &mut orders {
            order.sort_unstable();
            assert_eq!(order[..], [1, 2, 4, 5, 7]);
        }
    }
}

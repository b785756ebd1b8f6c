//! Programmatic dependent launches: what a launch does before `griddepcontrol.wait` orders it after
//! the launch before it.
//!
//! Such a launch may begin once every block of the one before has executed
//! `griddepcontrol.launch_dependents` or exited, and nothing that one wrote need be seen until a
//! wait (PTX ISA, "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch"). The
//! shadow of global memory still tells what the last launches did, under the numbers of their
//! records; so a launch that may overlap others holds on to these ([`Past`]), and an access that no
//! wait orders is judged by them first. A wait is an event of its lane with a record of its own:
//! what happens after it in the sense of [`order`](crate::check::order::block) comes after it. What
//! a launch could overlap stays open for the one after it, if no thread of it waited, or every
//! block let dependents begin before.
//!
//! Reads of the launch before are over when this one begins, except those after the block's
//! `launch_dependents`; and these are, too, if a block executed that instruction after what it
//! learnt of another one, which may have been the read.
//!
//! What can be missed:
//! - what an earlier launch did to a word that any thread of the present one has written since, or
//!   read by one that the present one has read; and of several readers all but some;
//! - a wait by one thread counts for the warps that only lockstep gathers after it, and, once a
//!   block has learnt of another, a wait anywhere in the launch for all of the block; a wait ends
//!   all overlap, also with launches that the one before did not wait for;
//! - what the launch learns through a flag of an earlier one counts for all of its threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::check::access::{Access, Kind, Lanes, Space};
use crate::check::block::BlockCheck;
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::judge::WORD;
use crate::check::global::readers::each;
use crate::check::global::records::{LaunchCheck, Reached, Record};
use crate::check::global::shadow::{Cell, GlobalShadow};
use crate::check::order::block::{BlockOrder, Ordered};
use crate::check::order::reach::{Reach, join};

// THRESHOLD: what is older counts as waited for, and its races are missed; tested by
// crates/device/tests/all/virtual_gpu.rs::a_launch_overlaps_no_more_launches_than_are_remembered
/// Launches that one may overlap at most; older ones are forgotten.
const MOST: usize = 8;

/// An earlier launch of the stream that later ones may overlap.
#[derive(Debug)]
pub(crate) struct Past {
    launch: LaunchCheck,
    /// Reads after `launch_dependents` may come after any access of a dependent launch.
    reads_linger: bool,
}

/// Earlier launches that a launch may overlap, and its synchronisation with them.
#[derive(Debug, Default)]
pub(in crate::check) struct Overlap {
    /// The launches, the latest last.
    before: Vec<Arc<Past>>,
    /// The first record number of the oldest.
    from: u32,
    /// Clock of each, as learnt through locations at which it released something.
    learnt: Mutex<Vec<Option<Arc<Reach>>>>,
    /// Some thread has learnt of an earlier launch so.
    has_learnt: AtomicBool,
    /// Some thread has waited.
    has_waited: AtomicBool,
    /// Blocks that let dependents begin without knowing of any other block.
    triggered: AtomicU64,
    /// Number of those blocks that did so before they waited.
    triggered_first: AtomicU64,
}

impl LaunchCheck {
    /// Sets the launches that this one may overlap; those of another numbering do not count.
    pub(crate) fn overlap(&mut self, mut before: Vec<Arc<Past>>) {
        before.retain(|past| self.continues(&past.launch));
        let overlap = &mut self.overlap;
        overlap.from = before.first().map_or(0, |past| past.launch.first);
        *overlap.learnt.get_mut().unwrap_or_else(PoisonError::into_inner) = vec![None; before.len()];
        overlap.before = before;
    }

    /// Launches that the next launch may overlap; this one had `blocks` blocks.
    pub(crate) fn into_past(mut self, blocks: u64) -> Vec<Arc<Past>> {
        let mut before = std::mem::take(&mut self.overlap.before);
        let Overlap { has_learnt, has_waited, triggered, triggered_first, .. } = &mut self.overlap;
        let ends_after = *has_waited.get_mut() && *triggered_first.get_mut() != blocks;
        if ends_after || *has_learnt.get_mut() {
            before.clear();
        }
        before.drain(..before.len().saturating_sub(MOST - 1));
        let reads_linger = *triggered.get_mut() == blocks;
        before.push(Arc::new(Past { launch: self, reads_linger }));
        before
    }
}

impl Overlap {
    /// Returns true if the launch overlaps no other.
    #[inline(always)]
    pub(in crate::check) const fn is_nothing(&self) -> bool {
        self.from == 0
    }

    /// The first record number of a writer that matters to a launch that begins with `first`.
    #[inline(always)]
    pub(in crate::check) const fn kept_from(&self, first: u32) -> u32 {
        if self.is_nothing() { first } else { self.from }
    }

    /// Returns true if the access must be judged, given the waits of the block so far.
    #[inline(always)]
    pub(in crate::check) const fn concerns(&self, access: &Access, waits: &Waits) -> bool {
        !self.is_nothing() && access.mask & !waits.behind[access.warp as usize] != 0
    }

    /// Learns from a strong read of an address what an earlier launch released there.
    fn learn(&self, address: u64) {
        for (n, past) in self.before.iter().enumerate() {
            if let Some(reach) = past.launch.locations.observed(address, u64::MAX) {
                let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
                let reach = if reach.is_told() { Arc::new(reach.acquired()) } else { reach };
                join(&mut learnt[n], Some(&reach));
                self.has_learnt.store(true, Ordering::Relaxed);
            }
        }
    }

    /// The record `id` of an earlier launch, unless it was learnt of through memory.
    fn record(&self, id: u32) -> Option<(&Past, Record)> {
        let n = self.before.iter().rposition(|past| past.launch.first < id)?;
        let record = self.before[n].launch.get(id)?;
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = learnt[n].as_ref().is_some_and(|reach| reach.knows(record.at, 0).is_some());
        (!is_known).then_some((&self.before[n], record))
    }

    /// Rule that the access, which begins with record `first`, breaks at the bytes of `mask` in a
    /// word.
    fn conflict(&self, access: &Access, first: u32, cell: Cell, address: u64, mask: u32) -> Option<Rule> {
        let mine = Reached::of(access);
        let meets =
            |record: &Record| record.bytes & mask != 0 && (record.strength, mine) != (Reached::Wide, Reached::Wide);
        let of_write = if access.kind == Kind::Read { Rule::EarlyRead } else { Rule::EarlyWrite };
        let is_written = |id: u32| self.record(id).is_some_and(|(_, record)| meets(&record));
        let writer = cell.writer();
        if (self.from..first).contains(&writer) {
            let split = self.before.iter().find(|past| past.launch.first == writer);
            let written = match split {
                Some(past) => {
                    let writers = past.launch.split.get(address);
                    Lanes(mask).any(|byte| is_written(writers[byte as usize].id))
                }
                None => is_written(writer),
            };
            if written {
                return Some(of_write);
            }
        }
        let reader = cell.reader();
        if access.kind == Kind::Read || !(self.from..first).contains(&reader) {
            return None;
        }
        let past = self.before.iter().rfind(|past| past.launch.first < reader)?;
        each(&past.launch, reader).find_map(|id| {
            let (past, record) = self.record(id).filter(|(_, record)| meets(record))?;
            match record.kind {
                Kind::Write | Kind::Atomic => Some(of_write),
                Kind::Read => (record.is_late && past.reads_linger).then_some(Rule::EarlyOverwrite),
            }
        })
    }
}

/// The part of a block that comes after a wait.
#[derive(Debug, Default)]
pub(in crate::check) struct Waits {
    /// Per warp: lanes that are known to come after it.
    behind: [u32; 32],
    events: Vec<Event>,
    /// Generation of the order's numbering at the first event.
    generation: u32,
    /// Some thread of the block has waited.
    has_waited: bool,
}

/// The first wait of some lanes of a warp; or, by the agent of an mbarrier, a copy by a thread
/// after a wait.
#[derive(Debug)]
struct Event {
    record: u32,
    agent: u32,
    lanes: u32,
}

impl Waits {
    pub(in crate::check) fn begin(&mut self) {
        self.behind = [0; 32];
        self.events.clear();
        self.has_waited = false;
    }

    fn add(&mut self, order: &BlockOrder, record: u32, agent: u32, lanes: u32) {
        if self.events.is_empty() {
            self.generation = order.generation();
        }
        let known = self.events.iter().filter(|event| event.agent == agent).fold(0, |all, event| all | event.lanes);
        if lanes & !known != 0 {
            self.events.push(Event { record, agent, lanes: lanes & !known });
        }
    }

    /// Lanes of `mask` that are not known to come after a wait of the block.
    fn open(&mut self, order: &BlockOrder, warp: u32, mask: u32) -> u32 {
        let behind = &mut self.behind[warp as usize];
        if mask & !*behind == 0 || self.events.is_empty() {
            return mask & !*behind;
        }
        let comes_before = |event: &Event, lane: u32| {
            // Among other warps all lanes count alike, as they do for lockstep.
            let lanes = if event.agent == warp { event.lanes } else { 1 };
            Lanes(lanes).any(|other| order.ordered(event.record, event.agent, other, warp, lane) != Ordered::No)
        };
        for lane in Lanes(mask & !*behind) {
            // After renumbering, all events are in the past.
            if self.generation != order.generation() || self.events.iter().any(|event| comes_before(event, lane)) {
                *behind |= 1 << lane;
            }
        }
        mask & !*behind
    }
}

impl BlockCheck {
    /// `griddepcontrol.wait` by lanes of a warp.
    pub(crate) fn wait_for_dependencies(&mut self, launch: &LaunchCheck, instr: u32, warp: u32, mask: u32) {
        launch.overlap.has_waited.store(true, Ordering::Relaxed);
        self.waits.has_waited = true;
        if !launch.overlap.is_nothing() {
            let record = self.order.record(warp, instr, Kind::Read, 0);
            self.waits.add(&self.order, record, warp, mask);
            self.waits.behind[warp as usize] |= mask;
        }
    }

    /// `griddepcontrol.launch_dependents` by any thread.
    pub(crate) fn launch_dependents(&mut self, launch: &LaunchCheck) {
        if self.grid.launch_dependents() {
            launch.overlap.triggered.fetch_add(1, Ordering::Relaxed);
            launch.overlap.triggered_first.fetch_add(u64::from(!self.waits.has_waited), Ordering::Relaxed);
        }
    }

    /// Passes on a wait at the end of a copy by `by`, under the record of an mbarrier's agent.
    pub(in crate::check) fn copy_passes_on_waits(&mut self, (record, agent): (u32, u32), by: Side) {
        if !self.waits.events.is_empty()
            && by.block == self.block
            && self.waits.open(&self.order, by.warp, 1 << by.lane) == 0
        {
            self.waits.add(&self.order, record, agent, 1);
        }
    }

    /// Learns from a strong read of global memory.
    pub(in crate::check) fn learn_of_earlier_launches(&self, launch: &LaunchCheck, mask: u32, addresses: &[u64; 32]) {
        for lane in Lanes(mask) {
            launch.overlap.learn(addresses[lane as usize]);
        }
    }

    /// Judges an access of `bytes` bytes per lane against the launches before, if it is not ordered
    /// after them by a wait.
    #[inline(never)]
    pub(in crate::check) fn judge_early(
        &mut self,
        launch: &LaunchCheck,
        shadow: &GlobalShadow,
        access: &Access,
        (addresses, bytes): (&[u64; 32], u64),
        findings: &mut Findings,
    ) {
        let overlap = &launch.overlap;
        let open = self.waits.open(&self.order, access.warp, access.mask);
        if open == 0 || (overlap.has_waited.load(Ordering::Relaxed) && self.grid.knows_of_others()) {
            return;
        }
        for lane in Lanes(open) {
            let start = addresses[lane as usize];
            let (mut at, end) = (start, start + bytes);
            while at < end {
                let word = at & !3;
                let next = end.min(word + 4);
                let mask = ((1u32 << (next - word)) - 1) & (WORD << (at - word));
                let cell = Cell(shadow.cell(shadow.word(at)).load(Ordering::Acquire));
                if !cell.is_old(overlap.from)
                    && let Some(rule) = overlap.conflict(access, launch.first, cell, word, mask)
                {
                    let this = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
                    findings.add(Found { rule, space: Space::Global, address: at, this, other: None, count: 1 });
                    break;
                }
                at = next;
            }
        }
    }
}

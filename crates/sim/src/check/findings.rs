//! Findings: broken rules, one per pair of instructions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::report::{FindingKind, Severity};

use crate::check::access::{Kind, Space};

/// Rule that an access broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    /// A read that is not ordered after a write.
    ReadAfterWrite,
    /// A write that is not ordered after a read.
    WriteAfterRead,
    /// A write that is not ordered after another write.
    WriteAfterWrite,
    /// Two lanes of one store, with different values for the same bytes.
    LanesCollide,
    /// Two unordered stores of the same value: harmless by luck.
    SameValue,
    /// Two unordered stores of floats that differ in their last bits.
    NearValue,
    /// Two lanes of one store, with the same value for the same bytes.
    SameValueOfLanes,
    /// Two lanes of one warp, ordered by lockstep alone.
    WarpSynchronous,
    /// Two warps, ordered by a lane's release before which nothing gathered the lane that made the
    /// access.
    UngatheredLanes,
    /// Two warps, ordered by a lane's acquire that no warp sync passed on to the lane that makes
    /// the access.
    UnsharedAcquire,
    /// An acquire between a strong read and a barrier would provide the order.
    MissingAcquire,
    /// Two strong accesses of different sizes.
    MixedSizes,
    /// A wider scope of a fence or an access would provide the order.
    InsufficientScope,
    /// A read of bytes that an asynchronous copy still writes.
    ReadBeforeLanding,
    /// A write of bytes that an asynchronous copy still writes.
    WriteBeforeLanding,
    /// A write of bytes that an asynchronous copy still reads.
    OverwritesSource,
    /// A read of what an earlier launch wrote, without a wait for it.
    EarlyRead,
    /// A write over what an earlier launch wrote, without a wait for it.
    EarlyWrite,
    /// A write over what an earlier launch may still read, without a wait for it.
    EarlyOverwrite,
    /// A plain access to the bytes of an mbarrier.
    TouchesBarrier,
    /// A read by the async proxy of a generic-proxy write, without a proxy fence.
    UnfencedRead,
    /// A write by the async proxy over a generic-proxy access, without a proxy fence.
    UnfencedWrite,
    /// An access by the async proxy to its own write for another block, without a proxy fence.
    UnfencedHandover,
    /// A tensor map that the launch has modified, and copies use without a tensormap proxy fence.
    UnfencedMap,
    /// A read of uninitialised bytes.
    Uninitialized,
    /// An address that depends on uninitialised bytes.
    UndefinedAddress,
    /// A branch or a guard that depends on uninitialised bytes.
    UndefinedBranch,
    /// A store of a value computed from uninitialised bytes.
    UndefinedStore,
    /// Another operand that depends on uninitialised bytes.
    UndefinedOperand,
    /// An access to a peer's shared memory that is not ordered after the peer's start.
    PeerMayNotHaveBegun,
    /// An access to a peer's shared memory that is not ordered before the peer's exit.
    PeerMayHaveExited,
    /// The checker ran out of record numbers, and records no more races between blocks.
    RecordsExhausted,
    /// Accesses of a block before and after one of its events share a record.
    TimesCoarsened,
    /// The order between blocks has too many parts to be tracked exactly.
    OrderCoarsened,
    /// The checker ran out of record numbers, and forgot a block's accesses to its shared memory so
    /// far.
    BlockForgets,
}

impl Rule {
    pub(crate) const fn kind(self) -> FindingKind {
        match self {
            Self::Uninitialized
            | Self::UndefinedAddress
            | Self::UndefinedBranch
            | Self::UndefinedStore
            | Self::UndefinedOperand => FindingKind::Uninitialized,
            Self::PeerMayHaveExited => FindingKind::UseAfterFree,
            Self::PeerMayNotHaveBegun | Self::TouchesBarrier => FindingKind::InvalidSync,
            Self::UnfencedRead | Self::UnfencedWrite | Self::UnfencedHandover | Self::UnfencedMap => {
                FindingKind::MissingProxyFence
            }
            Self::ReadBeforeLanding
            | Self::WriteBeforeLanding
            | Self::OverwritesSource
            | Self::EarlyRead
            | Self::EarlyWrite
            | Self::EarlyOverwrite => FindingKind::MissingWait,
            Self::ReadAfterWrite
            | Self::WriteAfterRead
            | Self::WriteAfterWrite
            | Self::LanesCollide
            | Self::SameValue
            | Self::NearValue
            | Self::SameValueOfLanes
            | Self::MissingAcquire
            | Self::InsufficientScope
            | Self::MixedSizes
            | Self::RecordsExhausted
            | Self::TimesCoarsened
            | Self::OrderCoarsened
            | Self::BlockForgets => FindingKind::Race,
            Self::WarpSynchronous | Self::UngatheredLanes | Self::UnsharedAcquire => FindingKind::WarpSync,
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::SameValue
            | Self::NearValue
            | Self::WarpSynchronous
            | Self::UngatheredLanes
            | Self::UnsharedAcquire
            | Self::MissingAcquire
            | Self::UnfencedWrite
            | Self::UnfencedHandover
            | Self::PeerMayNotHaveBegun => Severity::Warning,
            Self::SameValueOfLanes
            | Self::RecordsExhausted
            | Self::TimesCoarsened
            | Self::OrderCoarsened
            | Self::BlockForgets => Severity::Info,
            Self::ReadAfterWrite
            | Self::WriteAfterRead
            | Self::WriteAfterWrite
            | Self::LanesCollide
            | Self::InsufficientScope
            | Self::MixedSizes
            | Self::TouchesBarrier
            | Self::UnfencedRead
            | Self::UnfencedMap
            | Self::ReadBeforeLanding
            | Self::WriteBeforeLanding
            | Self::OverwritesSource
            | Self::EarlyRead
            | Self::EarlyWrite
            | Self::EarlyOverwrite
            | Self::Uninitialized
            | Self::UndefinedAddress
            | Self::UndefinedBranch
            | Self::UndefinedStore
            | Self::UndefinedOperand
            | Self::PeerMayHaveExited => Severity::Error,
        }
    }

    /// The rule as a sentence.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::ReadAfterWrite => "reads bytes that another thread writes, and nothing orders the two",
            Self::WriteAfterRead => "overwrites bytes that another thread reads, and nothing orders the two",
            Self::WriteAfterWrite => "overwrites bytes that another thread writes, and nothing orders the two",
            Self::LanesCollide => "two lanes of one instruction write different values into the same bytes",
            Self::SameValueOfLanes => "two lanes of one instruction write the same value into the same bytes",
            Self::NearValue => {
                "two unordered writes put numbers that differ in their last bits into the same bytes: either may stay"
            }
            Self::SameValue => "two unordered writes put the same value into the same bytes",
            Self::WarpSynchronous => {
                "relies on warp-synchronous execution: no warp sync orders this lane and another that touches these bytes"
            }
            Self::UngatheredLanes => {
                "relies on warp-synchronous execution: a lane of the other warp released, but no warp sync had gathered \
                 the lane that touches these bytes"
            }
            Self::UnsharedAcquire => {
                "relies on warp-synchronous execution: another lane of this warp acquired what the other warp or block did, \
                 and no warp sync passed that on to this lane"
            }
            Self::MissingAcquire => {
                "another block's access, which it released: a thread of this block has read the flag or ticket before a \
                 barrier, but did not acquire. A fence.acq_rel.gpu (__threadfence()) between that and the barrier is missing"
            }
            Self::InsufficientScope => {
                "two blocks touch these bytes, and the fences and strong accesses between them do not all reach beyond \
                 the block: .gpu scope is needed, or .cluster scope inside a cluster"
            }
            Self::MixedSizes => {
                "two strong accesses of different sizes overlap, and nothing orders them: strong accesses are safe from one \
                 another where they touch the very same bytes (PTX ISA, \"Limitations on Mixed-size Data-races\")"
            }
            Self::ReadBeforeLanding => {
                "reads bytes that an asynchronous copy is still writing: no wait for it came before"
            }
            Self::WriteBeforeLanding => {
                "overwrites bytes that an asynchronous copy is still writing: no wait for it came before"
            }
            Self::OverwritesSource => {
                "overwrites bytes that an asynchronous copy may still be reading: no wait for it came before"
            }
            Self::EarlyRead => {
                "reads bytes that a launch before this one writes, which may still run: no griddepcontrol.wait came before"
            }
            Self::EarlyWrite => {
                "overwrites bytes that a launch before this one writes, which may still run: no griddepcontrol.wait came \
                 before"
            }
            Self::EarlyOverwrite => {
                "overwrites bytes that a launch before this one reads, which may still run: no griddepcontrol.wait came \
                 before"
            }
            Self::TouchesBarrier => {
                "touches the bytes of an mbarrier that has not been invalidated by other means than mbarrier instructions"
            }
            Self::UnfencedRead => {
                "an asynchronous operation reads what the generic proxy has written, and no fence.proxy.async lies between"
            }
            Self::UnfencedWrite => {
                "an asynchronous operation overwrites what the generic proxy has read or written, and no fence.proxy.async \
                 lies between"
            }
            Self::UnfencedHandover => {
                "an asynchronous operation reads or overwrites what one of another block has written: what orders the blocks \
                 does so in the generic proxy, and no fence.proxy.async lies between"
            }
            Self::UnfencedMap => {
                "copies by a tensor map that this launch has changed: a fence.proxy.tensormap::generic.release after the change \
                 (or tensormap.cp_fenceproxy), and an .acquire of the map's address before the copy, are needed"
            }
            Self::Uninitialized => "reads bytes that nothing has written",
            Self::UndefinedAddress => {
                "an address depends on bytes that nothing has written, which the other side loads"
            }
            Self::UndefinedBranch => {
                "what is executed depends on bytes that nothing has written, which the other side loads"
            }
            Self::UndefinedStore => {
                "stores what was computed from bytes that nothing has written, which the other side loads"
            }
            Self::UndefinedOperand => {
                "hands on what depends on bytes that nothing has written, which the other side loads"
            }
            Self::PeerMayNotHaveBegun => {
                "touches the shared memory of another block of the cluster before anything tells that the block has begun: \
                 a barrier of the cluster would (CUDA programming guide, \"Distributed Shared Memory\")"
            }
            Self::PeerMayHaveExited => {
                "touches the shared memory of another block of the cluster, and nothing orders that before the block's exit"
            }
            Self::RecordsExhausted => {
                "the checker ran out of records for global memory: later races between blocks go unseen"
            }
            Self::TimesCoarsened => {
                "the checker saves records for global memory: it takes some accesses of a block as earlier than they are, and \
                 races with other threads of the block may go unseen"
            }
            Self::OrderCoarsened => {
                "the order between blocks has more parts than the checker tells apart: it takes some accesses of neighbouring \
                 blocks as ordered that may not be"
            }
            Self::BlockForgets => {
                "a block went so long without a barrier of the whole block that the checker ran out of records: races \
                 with what it did in shared memory before this go unseen"
            }
        }
    }

    /// Hazard of two accesses, by their kinds.
    pub(crate) const fn hazard(earlier: Kind, later: Kind) -> Self {
        match (earlier, later) {
            (Kind::Write | Kind::Atomic, Kind::Write | Kind::Atomic) => Self::WriteAfterWrite,
            (Kind::Write | Kind::Atomic, Kind::Read) => Self::ReadAfterWrite,
            (Kind::Read, _) => Self::WriteAfterRead,
        }
    }
}

/// One side of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Side {
    pub(crate) instr: u32,
    /// Linear block index.
    pub(crate) block: u32,
    pub(crate) warp: u32,
    pub(crate) lane: u32,
}

/// A broken rule: the first example, and the number of occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) rule: Rule,
    pub(crate) space: Space,
    pub(crate) address: u64,
    pub(crate) this: Side,
    pub(crate) other: Option<Side>,
    pub(crate) count: u64,
}

impl Found {
    pub(crate) const fn kind(&self) -> FindingKind {
        self.rule.kind()
    }

    pub(crate) const fn severity(&self) -> Severity {
        self.rule.severity()
    }

    fn key(&self) -> Key {
        let pair = (self.this.instr, self.other.map(|other| other.instr));
        // Some accesses of a pair of instructions may race while others rely on lockstep alone.
        let kind = match self.kind() {
            FindingKind::WarpSync => FindingKind::Race,
            kind => kind,
        };
        match self.severity() {
            Severity::Info if self.rule == Rule::SameValueOfLanes => (kind, Some(self.rule), pair.0, pair.1),
            Severity::Info => (kind, Some(self.rule), 0, None),
            Severity::Warning | Severity::Error => (kind, None, pair.0, pair.1),
        }
    }
}

/// Key of a finding: a limit of the checker counts once; other rules count per pair of
/// instructions.
type Key = (FindingKind, Option<Rule>, u32, Option<u32>);

/// All findings of a worker; those of all workers are merged.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: BTreeMap<Key, Found>,
    /// [`Rule::SameValueOfLanes`] is disabled.
    pub(super) skips_same_value: bool,
    /// Reads of uninitialised bytes are noted, but not added.
    is_hushed: bool,
    /// True if such a read was noted.
    has_hushed: bool,
    /// Races of reads are held back: a read whose value is not used is in no race.
    holds_races: bool,
    raced: Vec<Found>,
    /// Some copy has read uninitialised bytes.
    copies_unwritten: bool,
    /// Unwritten bytes that stores have copied within global memory, by store and load.
    handed_on: BTreeMap<(u32, u32), HandedOn>,
}

/// Unwritten bytes that a store has copied: not an error, but they still count as unwritten.
#[derive(Debug, Clone)]
pub(crate) struct HandedOn {
    /// From the first of them to the last.
    pub(crate) range: Range<u64>,
    /// An example: the store, and the load that it got them from.
    pub(crate) sides: (Side, Side),
}

impl Findings {
    /// No findings, with [`Rule::SameValueOfLanes`] disabled.
    pub(crate) fn but_same_values() -> Self {
        Self { skips_same_value: true, ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// From now on, notes reads of uninitialised bytes without adding them; or adds them again.
    /// Returns true if one was noted.
    #[inline(always)]
    pub(crate) fn hush(&mut self, is_hushed: bool) -> bool {
        self.is_hushed = is_hushed;
        std::mem::take(&mut self.has_hushed)
    }

    /// Ends the noting of a copy's reads.
    pub(crate) fn end_copy(&mut self) {
        self.copies_unwritten |= self.hush(false);
    }

    /// From now on, holds back races of reads.
    #[inline(always)]
    pub(crate) fn hold_races(&mut self) {
        self.holds_races = true;
    }

    /// Takes the races held back since [`hold_races`](Self::hold_races), and ends it.
    #[inline(always)]
    pub(crate) fn take_raced(&mut self) -> Vec<Found> {
        self.holds_races = false;
        if self.raced.is_empty() { Vec::new() } else { std::mem::take(&mut self.raced) }
    }

    /// Returns true if copies have read bytes that nothing has written.
    pub(crate) fn copies_unwritten(&self) -> bool {
        self.copies_unwritten
    }

    /// Notes that a store has copied unwritten bytes within global memory.
    pub(crate) fn hand_on(&mut self, new: HandedOn) {
        let (store, load) = new.sides;
        match self.handed_on.entry((store.instr, load.instr)) {
            Entry::Vacant(place) => {
                place.insert(new);
            }
            Entry::Occupied(mut place) => {
                let range = &mut place.get_mut().range;
                *range = range.start.min(new.range.start)..range.end.max(new.range.end);
            }
        }
    }

    /// Unwritten bytes that stores have copied.
    pub(crate) fn handed_on(&self) -> impl Iterator<Item = &HandedOn> {
        self.handed_on.values()
    }

    /// Adds a finding. The example of the highest severity, and among those the first one, is kept.
    pub(crate) fn add(&mut self, new: Found) {
        if self.is_hushed && new.rule == Rule::Uninitialized {
            self.has_hushed = true;
            return;
        }
        if self.holds_races && new.rule == Rule::ReadAfterWrite {
            self.raced.push(new);
            return;
        }
        if self.skips_same_value && new.rule == Rule::SameValueOfLanes {
            return;
        }
        match self.found.entry(new.key()) {
            Entry::Vacant(place) => {
                place.insert(new);
            }
            Entry::Occupied(mut place) => {
                let old = place.get_mut();
                let count = old.count + new.count;
                if new.severity() > old.severity() {
                    *old = new;
                }
                old.count = count;
            }
        }
    }

    /// Merges the findings of another worker; of equally severe examples that of the lower block
    /// stays.
    pub(crate) fn merge(&mut self, other: Self) {
        other.handed_on.into_values().for_each(|handed_on| self.hand_on(handed_on));
        for (key, new) in other.found {
            let Some(old) = self.found.get_mut(&key) else {
                self.found.insert(key, new);
                continue;
            };
            let count = old.count + new.count;
            if (new.severity(), old.this.block) > (old.severity(), new.this.block) {
                *old = new;
            }
            old.count = count;
        }
    }

    /// All findings, ordered by kind and instructions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Found> {
        self.found.values()
    }
}

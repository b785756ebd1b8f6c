//! Traces of steps, as values that print: queues, tables, references, copies, swaps.

use std::fmt;

use crate::batch::{Moves, SequenceId};
use crate::block::{BlockId, PrefixChange};
use crate::config::Policy;
use crate::group::Group;
use crate::request::RequestId;
use crate::scheduler::{Plan, Scheduler};

/// One step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepTrace {
    /// Its number.
    pub step: u64,
    /// Rows of each sequence: whose, the first position, and how many.
    pub rows: Vec<(SequenceId, usize, usize)>,
    /// Rows of padding.
    pub padding: usize,
    /// Copies before the forward pass.
    pub moves: Moves,
    /// Requests that began to run, each with the tokens that the prefix cache had of it.
    pub admitted: Vec<(RequestId, usize)>,
    /// Blocks that can be hit since this step, and those that no longer can, in order.
    pub prefixes: Vec<PrefixChange>,
    /// Requests whose blocks were taken back, and whether to the host.
    pub preempted: Vec<(RequestId, bool)>,
    /// Requests that wait, in order.
    pub waiting: Vec<RequestId>,
    /// Why the first of them does not run; none overtakes it.
    pub wait: Option<Wait>,
    /// Sequences that run, in order.
    pub running: Vec<SequenceTrace>,
    /// Sequences on the host, in order.
    pub swapped: Vec<SequenceTrace>,
    /// Blocks that are free.
    pub num_free: usize,
    /// Free slots that the next group could not have because they do not lie side by side.
    pub external_slots: usize,
}

/// Why a request that waits does not begin to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Its sequences are more than may run beside those that do.
    Seats {
        /// Its sequences.
        needed: usize,
        /// Sequences that may still run.
        free: usize,
    },
    /// Its rows are more than the step has left.
    Budget {
        /// Its rows.
        needed: usize,
        /// Rows that the step has left.
        left: usize,
    },
    /// Its blocks are more than are free and not kept for those that run (the watermark).
    Blocks {
        /// Its blocks.
        needed: usize,
        /// Free blocks.
        free: usize,
        /// The kept ones among them.
        kept: usize,
    },
    /// Free blocks do not lie side by side.
    Scattered {
        /// Its blocks.
        needed: usize,
        /// Free blocks.
        free: usize,
    },
    /// Requests that are swapped out come first.
    Swapped,
    /// Requests that run have no room.
    Preempted,
    /// A static batch runs, or is not full.
    Batch,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seats { needed, free } => write!(f, "seats: {needed} needed, {free} free"),
            Self::Budget { needed, left } => write!(f, "budget: {needed} rows needed, {left} left"),
            Self::Blocks { needed, free, kept: 0 } => write!(f, "blocks: {needed} needed, {free} free"),
            Self::Blocks { needed, free, kept } => write!(f, "blocks: {needed} needed, {free} free, {kept} kept"),
            Self::Scattered { needed, free } => write!(f, "blocks: {needed} needed side by side, {free} free apart"),
            Self::Swapped => f.write_str("swapped requests come first"),
            Self::Preempted => f.write_str("running requests have no room"),
            Self::Batch => f.write_str("a batch starts when the one before has ended"),
        }
    }
}

/// A sequence after the step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequenceTrace {
    /// Request of the sequence.
    pub request: RequestId,
    /// Its number.
    pub id: SequenceId,
    /// Number of its tokens.
    pub len: usize,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Its blocks with their references.
    pub table: Vec<(BlockId, u32)>,
}

impl StepTrace {
    /// The step of a plan that has just been committed.
    pub(crate) fn new(scheduler: &Scheduler, plan: &Plan, rows: Vec<(SequenceId, usize, usize)>) -> Self {
        let refs = |id: BlockId| scheduler.pool.refs(id);
        let host_refs = |id: BlockId| scheduler.host.refs(id);
        let otherwise = match scheduler.config.policy {
            Policy::Static => Some(Wait::Batch),
            _ if plan.may_start() => None,
            _ => Some(Wait::Preempted),
        };
        let wait = plan.wait.or(otherwise).filter(|_| !scheduler.waiting.is_empty());
        Self {
            step: plan.step,
            rows,
            padding: plan.padding,
            moves: plan.moves.clone(),
            admitted: plan.admitted.clone(),
            prefixes: scheduler.pool.prefix_changes().to_vec(),
            preempted: plan.preempted.clone(),
            wait,
            waiting: scheduler.waiting.keys().map(|k| k.id).collect(),
            running: scheduler.running.iter().flat_map(|g| sequences(g, &refs)).collect(),
            swapped: scheduler.swapped.values().flat_map(|g| sequences(g, &host_refs)).collect(),
            num_free: scheduler.pool.num_free(),
            external_slots: plan.external_slots,
        }
    }
}

/// The rows of a plan, before its groups move on.
pub(crate) fn rows_of(scheduler: &Scheduler, plan: &Plan) -> Vec<(SequenceId, usize, usize)> {
    let id = |group: usize, seq: usize| scheduler.running[group].seqs[seq].id;
    plan.present().map(|s| (id(s.group, s.rows.seq), s.rows.start, s.rows.len())).collect()
}

fn sequences(group: &Group, refs: &dyn Fn(BlockId) -> u32) -> Vec<SequenceTrace> {
    let trace = |s: &crate::sequence::Sequence| SequenceTrace {
        request: group.key.id,
        id: s.id,
        len: s.tokens.len(),
        tokens: s.tokens.clone(),
        computed: s.computed,
        table: s.table.blocks.iter().map(|id| (*id, refs(*id))).collect(),
    };
    group.seqs.iter().filter(|s| s.is_live() || !s.table.blocks.is_empty()).map(trace).collect()
}

impl fmt::Display for StepTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: usize = self.rows.iter().map(|(_, _, num)| num).sum();
        write!(f, "step {}: {rows} rows", self.step)?;
        if self.padding > 0 {
            write!(f, " and {} of padding", self.padding)?;
        }
        writeln!(f, ", {} blocks free", self.num_free)?;
        for (RequestId(id), hits) in &self.admitted {
            match hits {
                0 => writeln!(f, "  admit    request {id}")?,
                hits => writeln!(f, "  admit    request {id}: the cache has {hits} tokens")?,
            }
        }
        for (RequestId(id), is_swapped) in &self.preempted {
            writeln!(f, "  preempt  request {id}: {}", if *is_swapped { "swap" } else { "recompute" })?;
        }
        for (id, start, num) in &self.rows {
            writeln!(f, "  run      sequence {id}: positions {start}..{}", start + num)?;
        }
        for (name, list) in
            [("swap out", &self.moves.swap_out), ("swap in", &self.moves.swap_in), ("copy", &self.moves.copies)]
        {
            if !list.is_empty() {
                let pairs: Vec<_> = list.iter().map(|(from, to)| format!("{from}→{to}")).collect();
                writeln!(f, "  {name:<8} {}", pairs.join(" "))?;
            }
        }
        for change in &self.prefixes {
            writeln!(f, "  {change}")?;
        }
        for (name, list) in [("running", &self.running), ("swapped", &self.swapped)] {
            if list.is_empty() {
                writeln!(f, "  {name:<8} []")?;
            }
            for s in list {
                let table: Vec<_> = s.table.iter().map(|(id, refs)| format!("{id}({refs})")).collect();
                let RequestId(request) = s.request;
                let table = table.join(" ");
                writeln!(f, "  {name:<8} {request}/{}: {} of {} computed, blocks [{table}]", s.id, s.computed, s.len)?;
            }
        }
        let waiting: Vec<_> = self.waiting.iter().map(|RequestId(id)| id.to_string()).collect();
        match &self.wait {
            None => writeln!(f, "  waiting  [{}]", waiting.join(" ")),
            Some(wait) => writeln!(f, "  waiting  [{}]: {wait}", waiting.join(" ")),
        }
    }
}

//! Plan of a step: rows, copies, and the sequence of each sample.

use crate::batch::Moves;
use crate::group::{Group, Key};
use crate::planted::{EngineFault, planted};
use crate::request::RequestId;
use crate::trace::Wait;

/// Rows of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// Index of the sequence in its group.
    pub(crate) seq: usize,
    /// The first position.
    pub(crate) start: usize,
    /// Rows of tokens that are known.
    pub(crate) known: usize,
    /// Guesses of the tokens after those, a row each.
    pub(crate) drafts: Vec<u32>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.known + self.drafts.len()
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.len()
    }
}

/// Rows of a group.
#[derive(Debug, Clone)]
pub(crate) struct Scheduled {
    /// Index of the running group.
    pub(crate) group: usize,
    key: Key,
    /// The group has ended since.
    is_gone: bool,
    pub(crate) rows: Rows,
}

/// Destination of a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Index of the row in [`Plan::scheduled`].
    pub(crate) scheduled: usize,
    /// Index of its sequence.
    pub(crate) seq: usize,
    pub(crate) use_: Use,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    /// The logprob of the prompt's token at this position.
    Score(usize),
    /// The hidden state of this position.
    Hidden(usize),
    /// The token of this position, if the sequence has this one before it, which is not known yet
    /// where a step before draws it.
    Next { after: Option<u32>, position: usize },
}

/// One step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) step: u64,
    /// The order of groups, as numbers: it changes when one of them does.
    pub(crate) order: u64,
    /// Scheduled sequences, sorted by group.
    pub(crate) scheduled: Vec<Scheduled>,
    /// One for each of the batch's samples, then one for each of its hidden states.
    pub(crate) targets: Vec<Target>,
    pub(crate) moves: Moves,
    /// Rows that nobody wants.
    pub(crate) padding: usize,
    pub(crate) num_preempted: usize,
    /// For traces: who was preempted, and whether by a swap.
    pub(crate) preempted: Vec<(RequestId, bool)>,
    /// For traces: who began, with the tokens that the prefix cache had.
    pub(crate) admitted: Vec<(RequestId, usize)>,
    /// Why the first group that waits did not begin, where that was looked at.
    pub(crate) wait: Option<Wait>,
    /// It was made while the step before ran.
    pub(crate) is_ahead: bool,
    /// It leaves out for whom something would have to be preempted, which no plan that is ahead may
    /// do.
    pub(crate) is_short: bool,
    /// The next step can be planned before this one's tokens are known.
    pub(crate) is_predictable: bool,
    /// Slots that were free in sum but not side by side, when a group wanted them.
    pub(crate) external_slots: usize,
    budget: usize,
    num_rows: usize,
    /// Rows of prompts that are scored: each has logits.
    pub(super) num_scored: usize,
}

impl Plan {
    /// An empty plan with the memory of this one.
    pub(crate) fn renewed(mut self, step: u64, budget: usize, is_ahead: bool) -> Self {
        self.scheduled.clear();
        self.targets.clear();
        Self { step, budget, is_ahead, scheduled: self.scheduled, targets: self.targets, ..Self::default() }
    }

    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.num_rows == 0 && self.padding == 0 && self.moves == Moves::default()
    }

    /// Returns whether groups may start: not while running ones lack blocks.
    pub(crate) fn may_start(&self) -> bool {
        self.num_preempted == 0 && !self.is_short
    }

    /// Rows that are left of the budget.
    pub(crate) fn left(&self) -> usize {
        self.budget - self.num_rows
    }

    /// Rows of sequences.
    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub(crate) fn push(&mut self, group: usize, key: Key, rows: Rows) {
        self.num_rows += rows.len();
        debug_assert!(self.num_rows <= self.budget, "step {} has more rows than its budget", self.step);
        self.scheduled.push(Scheduled { group, key, is_gone: false, rows });
    }

    pub(crate) fn has(&self, group: usize) -> bool {
        self.scheduled.iter().any(|s| s.group == group)
    }

    /// The rows of groups that are still there.
    pub(crate) fn present(&self) -> impl Iterator<Item = &Scheduled> {
        self.scheduled.iter().filter(|s| !s.is_gone)
    }

    /// The group of a target, if it is still there.
    pub(crate) fn group_of(&self, target: &Target) -> Option<usize> {
        let scheduled = &self.scheduled[target.scheduled];
        (!scheduled.is_gone).then_some(scheduled.group)
    }

    /// Finds its groups again after others have come and gone.
    pub(crate) fn follow(&mut self, running: &[Group], order: u64) {
        if self.order == order || planted(EngineFault::PlanIsNotFollowed) {
            return;
        }
        self.order = order;
        // Mostly they stand as they stood, a few places further up.
        let mut next = 0;
        for scheduled in self.scheduled.iter_mut().filter(|s| !s.is_gone) {
            let is_it = |i: &usize| running[*i].key == scheduled.key;
            let found = std::iter::once(next.max(1) - 1).chain(next..running.len()).chain(0..next);
            match found.filter(|i| *i < running.len()).find(is_it) {
                Some(group) => (scheduled.group, next) = (group, group + 1),
                None => scheduled.is_gone = true,
            }
        }
    }
}

//! What a step will do: rows, copies, and whose answers are whose.

use crate::batch::Moves;

/// Rows of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    /// Which sequence of its group.
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

/// What an answer of the model is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Which of the running groups.
    pub(crate) group: usize,
    /// Which of its sequences.
    pub(crate) seq: usize,
    pub(crate) use_: Use,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Use {
    /// The logprob of the prompt's token at this position.
    Score(usize),
    /// The next token, if the sequence ends with this one at the position before.
    Next { after: u32, position: usize },
}

/// One step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) step: u64,
    /// Which of the running groups, and its rows; in order of groups.
    pub(crate) scheduled: Vec<(usize, Rows)>,
    /// One for each of the batch's samples.
    pub(crate) targets: Vec<Target>,
    pub(crate) moves: Moves,
    /// Rows that nobody wants.
    pub(crate) padding: usize,
    pub(crate) num_preempted: usize,
    /// Slots that were free in sum but not side by side, when a group wanted them.
    pub(crate) external_slots: usize,
    budget: usize,
    num_rows: usize,
}

impl Plan {
    /// An empty plan with the memory of this one.
    pub(crate) fn renewed(mut self, step: u64, budget: usize) -> Self {
        self.scheduled.clear();
        self.targets.clear();
        Self { step, budget, scheduled: self.scheduled, targets: self.targets, ..Self::default() }
    }

    /// Rows that are left of the budget.
    pub(crate) fn left(&self) -> usize {
        self.budget - self.num_rows
    }

    /// Rows of sequences.
    pub(crate) fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub(crate) fn push(&mut self, group: usize, rows: Rows) {
        self.num_rows += rows.len();
        debug_assert!(self.num_rows <= self.budget, "step {} has more rows than its budget", self.step);
        self.scheduled.push((group, rows));
    }

    pub(crate) fn has(&self, group: usize) -> bool {
        self.scheduled.iter().any(|(g, _)| *g == group)
    }
}

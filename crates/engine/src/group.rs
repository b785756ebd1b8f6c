//! The sequences of one request, which are admitted, preempted and resumed together.
//!
//! Several sequences share what they have in common. The first one that lives is the *leader*: it
//! computes the common tokens, up to `fork_at`, while the others are attached; then they fork from
//! it. That is so at the first start, where the prompt is common, and after a preemption by
//! recompute, where more may be.

use std::sync::Arc;
use std::time::Duration;

use crate::beam::Hypothesis;
use crate::block::{Pool, Table};
use crate::planted::{EngineFault, planted};
use crate::pooling::{PooledStates, Pooling};
use crate::request::{Request, RequestId};
use crate::sampling::{Sampled, Sampling};
use crate::sequence::{Sequence, StopRules};

/// The order of requests: priority, then arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) priority: i64,
    pub(crate) id: RequestId,
}

/// A request and its sequences.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) key: Key,
    pub(crate) request: Request,
    pub(crate) sampling: Arc<Sampling>,
    pub(crate) rules: StopRules,
    pub(crate) seqs: Vec<Sequence>,
    /// Tokens that the attached sequences share with the leader.
    pub(crate) fork_at: usize,
    pub(crate) seed: u64,
    /// Logprobs of the prompt's tokens from the second one, as far as they are scored.
    pub(crate) prompt_logprobs: Vec<Sampled>,
    pub(crate) are_prompt_logprobs_reported: bool,
    /// The embedding that is asked for, as far as it has come.
    pub(crate) pooled: Option<PooledStates>,
    /// The whole of it, to be reported.
    pub(crate) embedding: Option<Vec<f32>>,
    /// Beams that ended.
    pub(crate) hypotheses: Vec<Hypothesis>,
    pub(crate) arrival: Duration,
    /// From the arrival to the first step.
    pub(crate) queued: Option<Duration>,
    /// Tokens of the prompt that the cache had at the first start.
    pub(crate) cached: Option<usize>,
    /// Was preempted for a test, and has not generated a token since.
    pub(crate) is_spared: bool,
}

impl Group {
    pub(crate) fn num_live(&self) -> usize {
        self.seqs.iter().filter(|s| s.is_live()).count()
    }

    /// Sequences that live or will: beams come from the first one.
    pub(crate) fn num_slots(&self) -> usize {
        self.request.beam.map_or_else(|| self.num_live(), |b| b.width)
    }

    /// The sequence that computes for those attached to it.
    pub(crate) fn leader(&self) -> usize {
        let is_leader = |s: &Sequence| s.is_live() && !s.is_attached;
        self.seqs.iter().position(is_leader).expect("a group that waits has a sequence that lives")
    }

    pub(crate) fn attached(&self) -> impl Iterator<Item = (usize, &Sequence)> {
        self.seqs.iter().enumerate().filter(|(_, s)| s.is_attached)
    }

    /// Returns whether the next step can be planned before the drawn tokens are known: not with
    /// beams, and not if the draw after it depends on them.
    pub(crate) fn is_predictable(&self) -> bool {
        let depends = |s: &Sequence| s.counts.is_some() || s.mask.is_some();
        self.request.beam.is_none() && self.num_scores_missing() == 0 && !self.seqs.iter().any(depends)
    }

    /// Returns the number of leading tokens that a prefix hit may skip: all but the one whose
    /// logits are wanted first.
    pub(crate) fn max_hit(&self) -> usize {
        if self.num_scores_missing() > 0 {
            return 0;
        }
        if let Some(pooled) = &self.pooled {
            return pooled.wanted().start;
        }
        let needs_fork_row = self.attached().any(|(_, s)| s.tokens.len() == self.fork_at);
        let len = self.seqs[self.leader()].tokens.len();
        if needs_fork_row { self.fork_at - 1 } else { len - 1 }
    }

    /// Tokens of the prompt whose logprobs are asked for and not there.
    pub(crate) fn num_scores_missing(&self) -> usize {
        let wanted = self.request.prompt_logprobs.map_or(0, |_| self.request.prompt.len() - 1);
        wanted - self.prompt_logprobs.len()
    }

    /// Whether the model answers each row of its prompt.
    pub(crate) fn wants_all_rows(&self) -> bool {
        self.num_scores_missing() > 0 || self.request.pooling == Some(Pooling::Mean)
    }

    /// Blocks that the sequences need to compute what they have, starting from nothing.
    pub(crate) fn blocks_to_start(&self, block_size: usize) -> usize {
        let shared = self.fork_at / block_size;
        let leader = self.leader();
        let tail = |(i, s): (usize, &Sequence)| match (i == leader, s.is_attached) {
            (true, _) | (_, false) => s.tokens.len().div_ceil(block_size),
            (_, true) if s.tokens.len() > self.fork_at => s.tokens.len().div_ceil(block_size) - shared,
            (_, true) => 0,
        };
        self.seqs.iter().enumerate().filter(|(_, s)| s.is_live()).map(tail).sum()
    }

    /// Blocks that the sequences hold in the worst case, when they are as long as they may become.
    pub(crate) fn worst_blocks(&self, block_size: usize, shares: bool) -> usize {
        worst_blocks(self.request.num_sequences(), self.request.prompt.len(), self.rules.max_total, block_size, shares)
    }

    pub(crate) fn live_tables(&self) -> impl Iterator<Item = &Table> {
        self.seqs.iter().filter(|s| s.is_live()).map(|s| &s.table)
    }

    /// Gives the blocks of all sequences back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for seq in self.seqs.iter_mut().rev() {
            let fence = seq.last_step;
            seq.table.release(pool, fence);
        }
    }

    /// Gives the blocks of ended sequences back.
    pub(crate) fn release_ended(&mut self, pool: &mut Pool) {
        for seq in self.seqs.iter_mut().filter(|s| !s.is_live()) {
            let fence = seq.last_step;
            seq.table.release(pool, fence);
        }
    }

    /// Forgets what was computed; the tokens stay. With `shares`, all but the first sequence attach
    /// to it.
    pub(crate) fn restart(&mut self, pool: &mut Pool, shares: bool) {
        self.release(pool);
        let live: Vec<usize> = (0..self.seqs.len()).filter(|i| self.seqs[*i].is_live()).collect();
        let Some(&leader) = live.first() else { return };
        self.fork_at =
            live.iter().map(|i| num_common(&self.seqs[leader].tokens, &self.seqs[*i].tokens)).min().unwrap_or(0);
        for i in live {
            let seq = &mut self.seqs[i];
            seq.computed = if planted(EngineFault::RestartKeepsComputed) { seq.computed } else { 0 };
            seq.candidates = None;
            seq.is_attached = shares && i != leader;
        }
    }

    /// Lets the attached sequences go their own ways once the leader has computed what they share.
    pub(crate) fn fork_attached(&mut self, pool: &mut Pool, block_size: usize) {
        if self.attached().next().is_none() {
            return;
        }
        let leader = self.leader();
        if self.seqs[leader].computed < self.fork_at && !planted(EngineFault::ForkComesEarly) {
            return;
        }
        let (table, last_step) = (self.seqs[leader].table.clone(), self.seqs[leader].last_step);
        for seq in self.seqs.iter_mut().filter(|s| s.is_attached) {
            seq.is_attached = false;
            seq.computed = self.fork_at;
            seq.table = table.fork(pool, self.fork_at, block_size);
            seq.last_step = last_step;
        }
    }
}

/// Blocks of `num` sequences with a common prompt when they have `total` tokens.
pub(crate) fn worst_blocks(num: usize, prompt: usize, total: usize, block_size: usize, shares: bool) -> usize {
    let shared = if shares && num > 1 { prompt / block_size } else { 0 };
    shared + num * (total.div_ceil(block_size) - shared)
}

/// The largest `total` for which [`worst_blocks`] is at most `have`; 0 if there is none.
pub(crate) fn longest_total(num: usize, prompt: usize, have: usize, block_size: usize, shares: bool) -> usize {
    let shared = if shares && num > 1 { prompt / block_size } else { 0 };
    have.checked_sub(shared).map_or(0, |rest| (shared + rest / num) * block_size)
}

fn num_common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_total_is_the_inverse_of_the_worst_case() {
        for (num, prompt, shares) in [(1, 7, true), (2, 7, true), (3, 9, true), (3, 9, false), (4, 16, true)] {
            for have in 1..40 {
                let total = longest_total(num, prompt, have, 4, shares);
                if total > prompt {
                    assert!(worst_blocks(num, prompt, total, 4, shares) <= have);
                    assert!(worst_blocks(num, prompt, total + 1, 4, shares) > have);
                }
            }
        }
    }
}

//! Static batching, the baseline: a batch starts when it is full or its first request has waited
//! long enough, and the next one when its last sequence has ended.
//!
//! Blocks for the longest that all sequences may become are there before a batch starts, so it
//! never preempts. Ended sequences keep their blocks and their row, and prompts are padded to the
//! longest: that is what the baseline wastes.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;
use crate::group::Group;

impl Scheduler {
    pub(super) fn plan_static(&mut self, plan: &mut Plan) {
        self.end_batch();
        if !self.running.is_empty() {
            self.advance_running(plan, Wants::Whole);
        } else if plan.may_start() && !plan.is_ahead {
            // The blocks of the last batch are free once its last step is over.
            self.start_batch(plan);
        }
        self.pad(plan);
    }

    /// Gives all blocks back once the last sequence has ended.
    pub(super) fn end_batch(&mut self) {
        if !self.running.is_empty() && self.running.iter().all(|g| g.num_live() == 0) {
            self.order += 1;
            for mut group in self.running.drain(..) {
                group.release(&mut self.pool);
            }
        }
    }

    fn start_batch(&mut self, plan: &mut Plan) {
        self.resume_swapped(plan, Wants::Whole);
        let is_due = |g: &Group| self.now.saturating_sub(g.arrival) >= self.config.static_wait;
        let is_full = self.waiting.values().map(|g| g.num_slots()).sum::<usize>() >= self.config.max_seqs;
        if !(is_full || self.is_draining || self.waiting.values().any(is_due)) {
            return;
        }
        let shares = self.config.shares();
        let worst = |g: &Group| g.worst_blocks(self.config.block_size, shares);
        let leaders = |g: &Group| if shares { 1 } else { g.num_live() };
        let mut reserved: usize = self.running.iter().map(worst).sum();
        let (mut longest, mut rows, mut batch) = (0, plan.scheduled.len(), Vec::new());
        for (key, group) in &self.waiting {
            reserved += worst(group);
            rows += leaders(group);
            longest = longest.max(group.seqs.iter().map(|s| s.tokens.len()).max().unwrap_or(0));
            let is_over_budget = longest * rows > plan.left() && !batch.is_empty();
            if reserved > self.config.num_blocks || is_over_budget {
                break;
            }
            batch.push(*key);
        }
        let later = self.waiting.keys().find(|k| !batch.contains(k)).copied();
        let held = later.map(|key| self.waiting.split_off(&key));
        self.admit_waiting(plan, Wants::Whole);
        self.waiting.extend(held.into_iter().flatten());
    }

    /// Pads every slot of the batch to the rows of the longest.
    fn pad(&self, plan: &mut Plan) {
        let longest = plan.scheduled.iter().map(|s| s.rows.len()).max().unwrap_or(0);
        let waits = |g: &Group| g.seqs.iter().filter(|s| s.is_attached).count();
        let slots: usize = self.running.iter().map(|g| g.seqs.len() - waits(g)).sum();
        plan.padding = (longest * slots).saturating_sub(plan.num_rows()).min(plan.left());
    }
}

//! Taking blocks back from running groups, and bringing swapped ones in again.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;
use crate::block::{blocks_needed, num_unique, swap_tables};
use crate::config::{Allocator, Policy, Preemption};
use crate::group::Group;
use crate::planted::{EngineFault, planted};
use crate::sampling::philox;

impl Scheduler {
    /// Preempts a group, by swap or recompute as the settings say.
    pub(super) fn preempt(&mut self, plan: &mut Plan, group: usize) {
        let by_swap = self.wants_swap(&self.running[group]);
        self.preempt_by(plan, group, by_swap);
    }

    /// Preempts a group: to the host if that is wanted and it has room, otherwise its blocks are
    /// forgotten. Its tokens stay, and it keeps its place in the order.
    fn preempt_by(&mut self, plan: &mut Plan, group: usize, by_swap: bool) {
        debug_assert!(!plan.has(group), "a group that is scheduled is preempted");
        let mut group = self.running.remove(group);
        self.order += 1;
        let key = group.key;
        group.release_ended(&mut self.pool);
        plan.num_preempted += 1;
        if group.num_live() == 0 {
            // A static batch kept its blocks; its answers are out.
            return;
        }
        let is_paged = self.config.allocator != Allocator::Contiguous;
        if by_swap && is_paged && num_unique(group.live_tables()) <= self.host.num_free() {
            let tables = group.seqs.iter_mut().map(|s| &mut s.table);
            let out = swap_tables(tables, &mut self.pool, &mut self.host, plan.step - 1);
            self.metrics.swapped_out_blocks += out.len() as u64;
            self.metrics.preempted_by_swap += 1;
            plan.preempted.push((key.id, true));
            plan.moves.swap_out.extend(out);
            self.swapped.insert(key, group);
        } else {
            group.restart(&mut self.pool, self.config.shares());
            self.metrics.preempted_by_recompute += 1;
            plan.preempted.push((key.id, false));
            self.waiting.insert(key, group);
        }
    }

    fn wants_swap(&self, group: &Group) -> bool {
        let is_several = group.num_live() > 1;
        let computed = group.seqs.iter().map(|s| s.computed).max().unwrap_or(0);
        match self.config.preemption {
            Preemption::Recompute => false,
            Preemption::Swap => true,
            Preemption::Auto if self.config.policy == Policy::VllmV0 => is_several,
            Preemption::Auto => is_several || computed > self.config.swap_above,
        }
    }

    /// Brings swapped groups back in order, as long as they fit, and gives them rows.
    pub(super) fn resume_swapped(&mut self, plan: &mut Plan, wants: Wants) {
        while let Some((&key, group)) = self.swapped.first_key_value() {
            if !self.can_resume(group) || planted(EngineFault::SwappedIsNotWoken) && self.waiting.is_empty() {
                return;
            }
            let mut group = self.swapped.remove(&key).expect("the group is swapped");
            let tables = group.seqs.iter_mut().map(|s| &mut s.table);
            let moved = swap_tables(tables, &mut self.host, &mut self.pool, plan.step);
            self.metrics.swapped_in_blocks += moved.len() as u64;
            plan.moves.swap_in.extend(moved);
            group.seqs.iter_mut().for_each(|s| s.last_step = plan.step);
            self.push_running(group);
            self.try_advance(plan, self.running.len() - 1, wants);
        }
    }

    /// Returns whether the device has blocks to swap a group in, and for one more token of each
    /// sequence.
    fn can_resume(&self, group: &Group) -> bool {
        let reserve = if self.num_slots() > 0 { self.config.watermark_blocks() } else { 0 };
        let next = group.seqs.iter().filter(|s| s.need() > 0).map(|s| (&s.table, s.computed..s.computed + 1));
        let growth = blocks_needed(&self.host, self.config.block_size, next);
        self.num_slots() + group.num_slots() <= self.config.max_seqs
            && num_unique(group.live_tables()) + growth + reserve <= self.pool.num_free()
    }

    /// Preempts running groups at random, for tests. A group is spared until it has generated a
    /// token since the last time, so that all requests end.
    pub(super) fn inject_preemptions(&mut self, plan: &mut Plan) {
        if self.config.inject_preemptions == 0.0 {
            return;
        }
        for i in (0..self.running.len()).rev() {
            let group = &self.running[i];
            if group.is_spared || group.num_live() == 0 {
                continue;
            }
            let counter = [plan.step, group.key.id.0].map(|x| (x & 0xFFFF_FFFF) as u32);
            let [luck, way, ..] = philox(self.config.seed, [counter[0], counter[1], 0, 1]);
            if f64::from(luck) >= self.config.inject_preemptions * 2_f64.powi(32) {
                continue;
            }
            if plan.is_ahead {
                plan.is_short = true;
                return;
            }
            self.running[i].is_spared = true;
            match self.config.preemption {
                Preemption::Auto => self.preempt_by(plan, i, way % 2 == 0),
                Preemption::Recompute | Preemption::Swap => self.preempt(plan, i),
            }
        }
    }
}

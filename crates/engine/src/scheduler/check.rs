//! The invariants of queues, tables and pools, compared after each step in tests and debug builds.

use super::Scheduler;
use super::plan::{Plan, Scheduled};
use crate::block::Pool;
use crate::group::Group;

impl Scheduler {
    /// Compares references with tables, in both pools, and the states of groups with their queues.
    ///
    /// # Panics
    /// If an invariant is broken; the message says which.
    pub(crate) fn check(&self) {
        check_references(&self.pool, self.running.iter());
        check_references(&self.host, self.swapped.values());
        for group in self.waiting.values() {
            assert!(group.num_live() > 0, "a group that waits has ended");
            assert!(group.seqs.iter().all(|s| s.pending.is_none()), "a group that waits expects a token of a step");
            let holds = group.seqs.iter().any(|s| !s.table.blocks.is_empty() || s.is_live() && s.computed > 0);
            assert!(!holds, "a group that waits holds blocks");
        }
        for seq in self.running.iter().chain(self.swapped.values()).flat_map(|g| &g.seqs).filter(|s| s.is_live()) {
            let room = seq.table.blocks.len() * self.config.block_size;
            assert!(seq.computed <= room, "{} positions are computed in room for {room}", seq.computed);
            assert!(seq.computed <= seq.tokens.len(), "more positions are computed than there are tokens");
            assert!(seq.table.nodes.len() * self.config.block_size <= seq.computed.max(seq.table.cached));
        }
        let slots = self.num_slots();
        assert!(slots <= self.config.max_seqs || self.config.max_seqs == 0, "{slots} sequences run");
    }

    /// Every slot that the step writes belongs to a block that one table names, and once.
    ///
    /// # Panics
    /// If it does not.
    pub(crate) fn check_writes(&self, plan: &Plan) {
        let mut written = Vec::new();
        for Scheduled { group, rows, .. } in plan.present() {
            let seq = &self.running[*group].seqs[rows.seq];
            for position in rows.start.max(seq.table.cached)..rows.end() {
                let block = seq.table.blocks[position / self.config.block_size];
                assert_eq!(self.pool.refs(block), 1, "step {} writes to block {block}, which is shared", plan.step);
                written.push(seq.table.slot(position, self.config.block_size));
            }
        }
        let num = written.len();
        written.sort_unstable();
        written.dedup();
        assert_eq!(written.len(), num, "two rows of step {} write to one slot", plan.step);
    }
}

fn check_references<'a>(pool: &Pool, groups: impl Iterator<Item = &'a Group>) {
    let mut held = vec![0; pool.num_blocks() + 1];
    for id in groups.flat_map(|g| &g.seqs).flat_map(|s| &s.table.blocks) {
        held[*id as usize] += 1;
    }
    pool.check(&held);
}

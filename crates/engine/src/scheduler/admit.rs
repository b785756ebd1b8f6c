//! Starting waiting groups: a placement without side effects, then what it says.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;
use crate::block::{Hit, Parent};
use crate::config::Allocator;
use crate::group::{Group, Key};

/// Where a group will start.
#[derive(Debug, Default)]
struct Placement {
    /// Blocks that hold its first tokens.
    hits: Vec<Hit>,
    /// Leading tokens that need not run.
    computed: usize,
}

impl Scheduler {
    /// Starts waiting groups in order until one does not fit. None starts while any is swapped out.
    pub(super) fn admit_waiting(&mut self, plan: &mut Plan, wants: Wants) {
        while self.swapped.is_empty() && plan.left() > 0 {
            let Some((&key, group)) = self.waiting.first_key_value() else { return };
            let Some(placement) = self.place(plan, group, wants) else {
                plan.external_slots = self.external_slots(key);
                return;
            };
            self.admit(key, placement);
            let is_scheduled = self.try_advance(plan, self.running.len() - 1, wants);
            debug_assert!(is_scheduled, "a group that was placed has its blocks");
        }
    }

    /// Whether and where a group can start now: the prefix that the cache has, then slots, budget
    /// and blocks.
    fn place(&self, plan: &Plan, group: &Group, wants: Wants) -> Option<Placement> {
        if self.num_slots() + group.num_slots() > self.config.max_seqs {
            return None;
        }
        let reserve = if self.num_slots() > 0 { self.config.watermark_blocks() } else { 0 };
        if self.config.allocator == Allocator::Contiguous {
            let need = group.worst_blocks(self.config.block_size, false);
            let fits = self.pool.num_free() >= need + reserve && self.pool.find_run(need).is_some();
            return (fits && self.has_budget(plan, group, 0, wants)).then(Placement::default);
        }
        let hits = self.hits(group);
        let computed = (hits.len() * self.config.block_size).min(group.max_hit());
        let taken = hits.iter().filter(|h| self.pool.is_free(h.block)).count();
        let need = group.blocks_to_start(self.config.block_size) - hits.len() + taken;
        let fits = self.pool.num_free() >= need + reserve;
        (fits && self.has_budget(plan, group, computed, wants)).then_some(Placement { hits, computed })
    }

    /// Prompts that run whole need a budget for all of it.
    fn has_budget(&self, plan: &Plan, group: &Group, computed: usize, wants: Wants) -> bool {
        let need = group.seqs[group.leader()].tokens.len() - computed;
        wants == Wants::Chunks || need <= plan.left()
    }

    /// The blocks that hold the leader's first tokens.
    fn hits(&self, group: &Group) -> Vec<Hit> {
        if self.config.allocator != Allocator::PrefixCaching || group.max_hit() == 0 {
            return Vec::new();
        }
        let mut parent = Parent::Root(group.request.salt.clone());
        let find = |tokens: &[u32]| {
            let hit = self.pool.lookup(&crate::block::Key::new(parent.clone(), tokens))?;
            parent = Parent::Node(hit.node);
            Some(hit)
        };
        group.seqs[group.leader()].tokens.chunks_exact(self.config.block_size).map_while(find).collect()
    }

    fn admit(&mut self, key: Key, placement: Placement) {
        let mut group = self.waiting.remove(&key).expect("the group is waiting");
        group.queued.get_or_insert(self.now.saturating_sub(group.arrival));
        group.cached.get_or_insert(placement.computed);
        let block_size = self.config.block_size;
        if self.config.allocator == Allocator::Contiguous {
            let live = group.num_live();
            let need = group.worst_blocks(block_size, false) / group.request.num_sequences();
            let run = self.pool.take_run(need * live).expect("a run was found before it is taken");
            let parts = run.chunks_exact(need);
            for (seq, part) in group.seqs.iter_mut().filter(|s| s.is_live()).zip(parts) {
                seq.table.blocks = part.to_vec();
            }
        } else {
            let leader = group.leader();
            let seq = &mut group.seqs[leader];
            if self.config.allocator == Allocator::PrefixCaching {
                self.metrics.prefix_queries += seq.tokens.len() as u64;
                self.metrics.prefix_hits += placement.computed as u64;
            }
            for hit in &placement.hits {
                self.pool.share(hit.block);
                seq.table.blocks.push(hit.block);
                seq.table.nodes.push(hit.node);
            }
            seq.table.cached = placement.hits.len() * block_size;
            seq.computed = placement.computed;
        }
        self.push_running(group);
    }

    /// Free slots that a group cannot have because they do not lie side by side.
    fn external_slots(&self, key: Key) -> usize {
        let need = self.waiting[&key].worst_blocks(self.config.block_size, false);
        let is_scattered = self.config.allocator == Allocator::Contiguous
            && self.pool.num_free() >= need
            && self.pool.find_run(need).is_none();
        if is_scattered { self.pool.num_free() * self.config.block_size } else { 0 }
    }
}

//! Starting waiting groups: a placement without side effects, then what it says.

use super::Scheduler;
use super::advance::Wants;
use super::plan::Plan;
use crate::block::{Hit, Parent};
use crate::config::Allocator;
use crate::group::{Group, Key};
use crate::trace::Wait;

/// Start of a group: its prefix, slots and blocks.
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
        while let Some((&key, group)) = self.waiting.first_key_value() {
            let closed = match () {
                () if !self.swapped.is_empty() => Some(Wait::Swapped),
                () if plan.left() == 0 => Some(Wait::Budget { needed: 1, left: 0 }),
                () => None,
            };
            if closed.is_some() {
                plan.wait = closed;
                return;
            }
            let placement = match self.place(plan, group, wants) {
                Ok(placement) => placement,
                Err(wait) => {
                    plan.wait = Some(wait);
                    plan.external_slots = self.external_slots(key);
                    return;
                }
            };
            if self.config.trace {
                plan.admitted.push((key.id, placement.computed));
            }
            self.admit(key, placement);
            let is_scheduled = self.try_advance(plan, self.running.len() - 1, wants);
            debug_assert!(is_scheduled, "a group that was placed has its blocks");
        }
    }

    /// Returns the start of a group, or the reason to wait: checks the cached prefix, then slots,
    /// budget and blocks.
    fn place(&self, plan: &Plan, group: &Group, wants: Wants) -> Result<Placement, Wait> {
        let seats = self.config.max_seqs.saturating_sub(self.num_slots());
        if group.num_slots() > seats {
            return Err(Wait::Seats { needed: group.num_slots(), free: seats });
        }
        let free = self.pool.num_free();
        let reserve = if self.num_slots() > 0 { self.config.watermark_blocks() } else { 0 };
        if self.config.allocator == Allocator::Contiguous {
            let needed = group.worst_blocks(self.config.block_size, false);
            self.check_budget(plan, group, 0, wants)?;
            return match () {
                () if free < needed + reserve => Err(Wait::Blocks { needed, free, kept: reserve }),
                () if self.pool.find_run(needed).is_none() => Err(Wait::Scattered { needed, free }),
                () => Ok(Placement::default()),
            };
        }
        let hits = self.hits(group);
        let computed = (hits.len() * self.config.block_size).min(group.max_hit());
        let taken = hits.iter().filter(|h| self.pool.is_free(h.block)).count();
        let needed = group.blocks_to_start(self.config.block_size) - hits.len() + taken;
        self.check_budget(plan, group, computed, wants)?;
        match free < needed + reserve {
            true => Err(Wait::Blocks { needed, free, kept: reserve }),
            false => Ok(Placement { hits, computed }),
        }
    }

    /// Prompts that run whole need a budget for all of it, others for a row.
    fn check_budget(&self, plan: &Plan, group: &Group, computed: usize, wants: Wants) -> Result<(), Wait> {
        let rows = group.seqs[group.leader()].tokens.len() - computed;
        let needed = if wants == Wants::Chunks { 1 } else { rows.max(1) };
        let left = plan.left();
        if needed > left { Err(Wait::Budget { needed, left }) } else { Ok(()) }
    }

    /// The blocks that hold the leader's first tokens.
    fn hits(&self, group: &Group) -> Vec<Hit> {
        if self.config.allocator != Allocator::PrefixCaching || group.max_hit() == 0 {
            return Vec::new();
        }
        let mut parent = group.request.root();
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

//! From a plan to the flat arrays of a batch.

use std::collections::BTreeSet;

use super::Scheduler;
use super::plan::{Plan, Rows, Scheduled, Target, Use};
use crate::batch::{Batch, Feed, SampleRow};
use crate::block::NULL_BLOCK;
use crate::group::Group;
use crate::planted::{EngineFault, planted};
use crate::pooling::PooledStates;
use crate::sequence::Sequence;

impl Scheduler {
    /// Fills the batch of a plan; notes in the plan what each sample is for.
    pub(crate) fn assemble(&mut self, plan: &mut Plan, batch: &mut Batch) {
        batch.clear(plan.step, self.config.block_size);
        if self.limits.state_bytes > 0 {
            self.give_states(plan, batch);
        }
        let rows = plan.num_rows() + plan.padding;
        for list in [&mut batch.ids, &mut batch.positions, &mut batch.slots] {
            list.reserve(rows);
        }
        let tables = plan.scheduled.iter().map(|s| &self.running[s.group].seqs[s.rows.seq].table);
        batch.table_width = tables.map(|t| t.blocks.len()).max().unwrap_or(0);
        let num = plan.scheduled.len();
        batch.tables.reserve(num * batch.table_width);
        batch.samples.reserve(num);
        plan.targets.reserve(num);
        let mut hidden = Vec::new();
        for (index, Scheduled { group, rows, .. }) in plan.scheduled.iter().enumerate() {
            let group = &self.running[*group];
            push_sequence(batch, &group.seqs[rows.seq], rows);
            batch.adapters.push(group.request.adapter.as_ref().map(|adapter| adapter.slot));
            let first = batch.ids.len() - rows.len();
            push_scores(batch, &mut plan.targets, (index, group), rows, first);
            push_samples(batch, &mut plan.targets, (index, group), rows, first);
            push_hidden(batch, &mut hidden, (index, group), rows, first);
        }
        plan.targets.append(&mut hidden);
        batch.ids.resize(rows, 0);
        batch.positions.resize(rows, 0);
        batch.slots.resize(rows, NULL_BLOCK);
    }

    /// Gives each sequence of a plan a place for its state, which it has as long as it runs.
    fn give_states(&mut self, plan: &Plan, batch: &mut Batch) {
        for Scheduled { group, rows, .. } in &plan.scheduled {
            let id = self.running[*group].seqs[rows.seq].id;
            let place = self.states.get(&id).copied().unwrap_or_else(|| {
                let live = self.running.iter().flat_map(|group| &group.seqs).filter(|seq| seq.is_live());
                let live: BTreeSet<_> = live.map(|seq| seq.id).collect();
                self.states.retain(|id, _| live.contains(id));
                let taken: BTreeSet<u32> = self.states.values().copied().collect();
                let place = (0..).find(|place| !taken.contains(place)).expect("sequences have 32 bits");
                self.states.insert(id, place);
                place
            });
            batch.states.push(place);
        }
    }
}

fn push_sequence(batch: &mut Batch, seq: &Sequence, rows: &Rows) {
    let block_size = batch.block_size;
    let known = rows.start + rows.known;
    batch.ids.extend(&seq.tokens[rows.start..known]);
    if let Some(pending) = seq.pending.filter(|_| known > seq.num_known()) {
        let row = batch.ids.len() - 1;
        batch.ids[row] = 0;
        batch.feeds.push(Feed { row: to_u32(row), sample: pending.sample });
    }
    batch.ids.extend(&rows.drafts);
    for position in rows.start..rows.end() {
        let is_cached = position < seq.table.cached;
        batch.positions.push(to_u32(position));
        batch.slots.push(if is_cached { to_u32(position % block_size) } else { seq.table.slot(position, block_size) });
    }
    batch.cu_q.push(to_u32(batch.ids.len()));
    batch.kv_lens.push(to_u32(rows.end()));
    batch.sequences.push(seq.id);
    let stale = if planted(EngineFault::TableIsStale) { seq.table.blocks.len() - 1 } else { seq.table.blocks.len() };
    batch.tables.extend(&seq.table.blocks[..stale]);
    batch.tables.resize(batch.sequences.len() * batch.table_width, NULL_BLOCK);
}

/// The logprobs of the prompt that are asked for and missing, as far as these rows give them.
fn push_scores(
    batch: &mut Batch,
    targets: &mut Vec<Target>,
    (index, group): (usize, &Group),
    rows: &Rows,
    first: usize,
) {
    let is_scorer = group.num_scores_missing() > 0 && rows.seq == group.leader();
    let Some(top) = group.request.prompt_logprobs.filter(|_| is_scorer) else { return };
    let next = group.prompt_logprobs.len();
    for position in next.max(rows.start)..rows.end().min(group.request.prompt.len() - 1) {
        let given = Some(group.request.prompt[position + 1]);
        let row = to_u32(first + position - rows.start);
        let position = position + 1;
        batch.samples.push(SampleRow {
            row,
            position: to_u32(position),
            top: Some(top),
            given,
            ..SampleRow::default()
        });
        targets.push(Target { scheduled: index, seq: rows.seq, use_: Use::Score(position) });
    }
}

/// Pushes the requested hidden states that are still missing and that these rows compute.
fn push_hidden(
    batch: &mut Batch,
    targets: &mut Vec<Target>,
    (index, group): (usize, &Group),
    rows: &Rows,
    first: usize,
) {
    let wanted = group.pooled.iter().flat_map(PooledStates::wanted);
    for position in wanted.filter(|position| (rows.start..rows.end()).contains(position)) {
        batch.hidden.push(to_u32(first + position - rows.start));
        targets.push(Target { scheduled: index, seq: rows.seq, use_: Use::Hidden(position) });
    }
}

/// Pushes the samples after the last known token and each guess, and after the tokens that attached
/// sequences share.
fn push_samples(
    batch: &mut Batch,
    targets: &mut Vec<Target>,
    (index, group): (usize, &Group),
    rows: &Rows,
    first: usize,
) {
    if group.pooled.is_some() {
        return;
    }
    let mut push = |i: usize, row: usize, drafts: &[u32]| {
        let seq = &group.seqs[i];
        let position = seq.tokens.len() + drafts.len();
        let last = seq.tokens.last().filter(|_| seq.pending.is_none());
        let after = drafts.last().or(last).copied();
        batch.samples.push(sample_row(group, seq, to_u32(first + row), drafts));
        targets.push(Target { scheduled: index, seq: i, use_: Use::Next { after, position } });
    };
    let known_end = rows.start + rows.known;
    if known_end == group.seqs[rows.seq].tokens.len() {
        for num in 0..=rows.drafts.len() {
            push(rows.seq, rows.known - 1 + num, &rows.drafts[..num]);
        }
    }
    if rows.seq == group.leader() && (rows.start + 1..=known_end).contains(&group.fork_at) {
        let waits = |(_, s): &(usize, &Sequence)| s.tokens.len() == group.fork_at;
        for (i, _) in group.attached().filter(waits) {
            push(i, group.fork_at - 1 - rows.start, &[]);
        }
    }
}

fn sample_row(group: &Group, seq: &Sequence, row: u32, drafts: &[u32]) -> SampleRow {
    let num_generated = seq.num_generated() + drafts.len();
    let is_early = num_generated < group.rules.min_tokens && group.request.beam.is_none();
    SampleRow {
        row,
        position: to_u32(seq.tokens.len() + drafts.len()),
        seed: seq.seed,
        sampling: group.sampling.clone(),
        counts: seq.counts_with(drafts),
        mask: seq.mask.clone(),
        banned: is_early.then(|| group.rules.stop_ids.clone()),
        top: group.request.beam.map(|beam| crate::beam::num_candidates(group, beam)).or(group.request.logprobs),
        given: None,
    }
}

fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("positions, rows and slots have 32 bits")
}

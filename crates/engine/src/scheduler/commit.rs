//! Applies the model's samples: tokens, prefixes, forks, ends.

use super::Scheduler;
use super::plan::{Plan, Scheduled, Target, Use};
use crate::beam;
use crate::block::Pool;
use crate::config::{Allocator, Policy};
use crate::group::Group;
use crate::planted::{EngineFault, planted};
use crate::request::{Finish, RequestId, Update};
use crate::sampling::Sampled;

impl Scheduler {
    /// Notes that a plan runs: what its rows compute will be there for whatever runs after it.
    pub(crate) fn advance(&mut self, plan: &mut Plan) {
        plan.follow(&self.running, self.order);
        plan.is_predictable = self.config.kv_cache && self.config.speculation.is_none();
        let mut is_predictable = true;
        for Scheduled { group, rows, .. } in plan.present() {
            let group = &mut self.running[*group];
            is_predictable &= group.is_predictable();
            let seq = &mut group.seqs[rows.seq];
            if seq.is_live() {
                seq.computed = rows.start + rows.known;
            }
            group.fork_attached(&mut self.pool, self.config.block_size);
        }
        plan.is_predictable &= is_predictable;
    }

    /// Gives sequences the tokens that a plan will draw, which nobody knows yet.
    pub(crate) fn expect(&mut self, plan: &mut Plan) {
        plan.follow(&self.running, self.order);
        let is_next = |(_, target): &(u32, &Target)| matches!(target.use_, Use::Next { .. });
        for (sample, target) in (0..).zip(&plan.targets).filter(is_next) {
            let Some(group) = plan.group_of(target) else { continue };
            let group = &mut self.running[group];
            let seq = &mut group.seqs[target.seq];
            if seq.is_live() {
                seq.expect(sample, &group.rules);
            }
        }
    }

    /// Applies the answers to a plan's samples, frees what is no longer needed, and returns what is
    /// new.
    pub(crate) fn commit(&mut self, plan: &mut Plan, answers: Vec<Sampled>) -> Vec<Update> {
        self.pool.finish_step(plan.step);
        self.host.finish_step(plan.step);
        self.count(plan);
        plan.follow(&self.running, self.order);
        for (target, answer) in plan.targets.iter().zip(answers) {
            match plan.group_of(target) {
                Some(group) => self.apply(group, *target, answer),
                None => self.metrics.discarded_tokens += 1,
            }
        }
        let mut updates = Vec::with_capacity(plan.scheduled.len());
        let mut last = None;
        for Scheduled { group, .. } in plan.present() {
            if last.replace(*group) != Some(*group) {
                self.settle(*group, &mut updates);
            }
        }
        updates.iter().filter_map(|u| u.finish).for_each(|f| self.metrics.count_finish(f));
        if self.config.policy == Policy::Static {
            self.end_batch();
        } else if updates.iter().any(|u| u.finish.is_some()) {
            self.order += 1;
            self.running.retain(|g| g.num_live() > 0);
        }
        updates
    }

    /// Ends all requests that hold blocks, after the model failed, and returns them.
    pub(crate) fn fail(&mut self) -> Vec<RequestId> {
        self.pool.finish_step(self.last_step);
        self.host.finish_step(self.last_step);
        self.order += 1;
        let mut failed = Vec::new();
        let mut end = |mut group: Group, pool: &mut Pool| {
            group.release(pool);
            failed.extend((group.num_live() > 0).then_some(group.key.id));
        };
        self.running.drain(..).for_each(|group| end(group, &mut self.pool));
        if !planted(EngineFault::FailureForgetsSwapped) {
            std::mem::take(&mut self.swapped).into_values().for_each(|group| end(group, &mut self.host));
        }
        self.pool.clear_index();
        self.metrics.failed += failed.len() as u64;
        failed
    }

    fn apply(&mut self, group: usize, target: Target, answer: Sampled) {
        let group = &mut self.running[group];
        let is_beam = group.request.beam.is_some();
        let seq = &mut group.seqs[target.seq];
        match target.use_ {
            Use::Score(position) => {
                debug_assert_eq!(group.prompt_logprobs.len() + 1, position, "the prompt is scored in order");
                group.prompt_logprobs.push(answer);
            }
            Use::Hidden(position) => {
                let pooled = group.pooled.as_mut().filter(|_| seq.is_live());
                group.embedding = pooled.and_then(|pooled| pooled.push(position, &answer.hidden));
                seq.finish = group.embedding.as_ref().map(|_| Finish::Pooled).or(seq.finish);
            }
            Use::Next { .. } if is_beam => seq.candidates = Some(answer.top),
            Use::Next { after, position } => {
                let is_after = |token| seq.tokens.get(position - 1) == Some(&token);
                let is_wanted = after.is_none_or(is_after) || planted(EngineFault::GuessIsNotCompared);
                if !seq.is_live() || seq.num_known() != position || !is_wanted {
                    self.metrics.discarded_tokens += u64::from(after.is_none());
                    return;
                }
                if seq.end_if_refused() {
                    self.metrics.discarded_tokens += 1;
                    return;
                }
                if seq.computed < position {
                    // The token before was a guess, and right: what its row wrote counts.
                    seq.computed = position;
                    self.metrics.accepted_drafts += 1;
                }
                seq.push(answer, &group.rules, group.request.include_stop);
                group.is_spared = false;
                self.metrics.generation_tokens += 1;
            }
        }
    }

    /// Brings a group in order after a step: prefixes, beams, ends. Adds what is new.
    fn settle(&mut self, group: usize, new: &mut Vec<Update>) {
        let group = &mut self.running[group];
        for seq in group.seqs.iter_mut().filter(|s| !s.table.blocks.is_empty()) {
            if self.config.allocator == Allocator::PrefixCaching {
                seq.publish(&mut self.pool, &group.request.root(), self.config.block_size);
            }
            if !self.config.kv_cache {
                seq.computed = 0;
            }
        }
        if group.request.beam.is_some() {
            let before = group.seqs[0].tokens.len();
            let is_over = beam::advance(group, &mut self.pool, self.config.block_size, &mut self.last_sequence);
            group.is_spared &= !is_over && group.seqs[0].tokens.len() == before;
            if is_over {
                push_beams(group, new);
            }
        } else {
            push_updates(group, new);
        }
        if self.config.policy != Policy::Static && !planted(EngineFault::EndedKeepsBlocks) {
            group.release_ended(&mut self.pool);
        }
    }

    fn count(&mut self, plan: &Plan) {
        let drafts: usize = plan.scheduled.iter().map(|s| s.rows.drafts.len()).sum();
        self.metrics.steps += u64::from(plan.num_rows() > 0);
        self.metrics.overlapped_steps += u64::from(plan.num_rows() > 0 && plan.is_ahead);
        self.metrics.rows += plan.num_rows() as u64;
        self.metrics.padding_rows += plan.padding as u64;
        self.metrics.copied_blocks += plan.moves.copies.len() as u64;
        self.metrics.drafts += drafts as u64;
    }
}

/// Pushes the update of each sequence.
fn push_updates(group: &mut Group, new: &mut Vec<Update>) {
    let embedding = group.embedding.take();
    for seq in &mut group.seqs {
        if !std::mem::take(&mut seq.is_refused) && seq.fresh.is_empty() && embedding.is_none() {
            continue;
        }
        let is_first = seq.output == 0 && !std::mem::replace(&mut group.are_prompt_logprobs_reported, true);
        new.push(Update {
            request: group.key.id,
            output: seq.output,
            seed: seq.seed,
            tokens: std::mem::take(&mut seq.fresh),
            text: std::mem::take(&mut seq.fresh_text),
            finish: seq.finish,
            queued: group.queued.unwrap_or_default(),
            cached: group.cached.unwrap_or(0),
            prompt_logprobs: if is_first { group.prompt_logprobs.clone() } else { Vec::new() },
            embedding: embedding.clone().unwrap_or_default(),
            weights: 0,
        });
    }
}

/// The best beams as answers; the group is over.
fn push_beams(group: &mut Group, new: &mut Vec<Update>) {
    let text = group.seqs[0].text.take();
    let stop_ids = group.rules.stop_ids.clone();
    let written = |tokens: &[Sampled]| {
        let Some(mut text) = text.clone() else { return String::new() };
        let tokens = tokens.iter().map(|t| t.token).filter(|t| group.request.include_stop || !stop_ids.contains(t));
        let pieces: String = tokens.map(|t| text.push(t, false).text).collect();
        pieces + &text.finish()
    };
    let update = |(output, h): (usize, &beam::Hypothesis)| Update {
        request: group.key.id,
        output,
        seed: group.seed,
        text: written(&h.tokens),
        tokens: h.tokens.clone(),
        finish: Some(h.finish),
        queued: group.queued.unwrap_or_default(),
        cached: group.cached.unwrap_or(0),
        prompt_logprobs: if output == 0 { group.prompt_logprobs.clone() } else { Vec::new() },
        embedding: Vec::new(),
        weights: 0,
    };
    new.extend(group.hypotheses.iter().take(group.request.n).enumerate().map(update));
    group.seqs.iter_mut().for_each(|s| s.finish = Some(Finish::Length));
}

//! Rows for running groups, with preemption from the end of the queue where blocks are missing.

use super::Scheduler;
use super::plan::{Plan, Rows};
use crate::block::{blocks_needed, prepare};
use crate::config::Speculation;
use crate::group::Group;
use crate::sequence::{DraftAsked, Sequence};
use crate::speculate::{DraftRequest, drafts};

/// Rows that a policy schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// All that fit the budget, of any sequence.
    Chunks,
    /// All that a sequence needs, or none.
    Whole,
    /// The same, of sequences that are more than one token behind.
    Prefills,
    /// The same, of sequences that are one token behind.
    Decodes,
}

impl Wants {
    /// Rows of a sequence that needs `need`, of which the budget has `left`.
    fn rows(self, need: usize, left: usize) -> usize {
        let is_wanted = match self {
            Self::Chunks => return need.min(left),
            Self::Whole => true,
            Self::Prefills => need > 1,
            Self::Decodes => need == 1,
        };
        if is_wanted && need <= left { need } else { 0 }
    }
}

/// Guesses that a sequence can use in a step at most: it decodes, and nothing waits for its tokens.
fn most_drafts(group: &Group, seq: &Sequence) -> usize {
    let is_alone = seq.mask.is_none() && group.request.beam.is_none() && group.attached().next().is_none();
    let room = group.rules.max_total.saturating_sub(seq.tokens.len() + 1);
    if seq.need() == 1 && is_alone { room } else { 0 }
}

impl Scheduler {
    /// Gives all running groups their rows, in order, until the budget is spent.
    pub(super) fn advance_running(&mut self, plan: &mut Plan, wants: Wants) {
        let mut group = 0;
        while group < self.running.len() && plan.left() > 0 {
            // Preempts the last groups, at worst this one, until there are blocks for all of its
            // rows.
            while group < self.running.len() && !self.try_advance(plan, group, wants) {
                if plan.is_ahead {
                    // It waits for the step that runs, which may end somebody, and those after it
                    // go on. The next plan may preempt.
                    plan.is_short = true;
                    break;
                }
                self.preempt(plan, self.running.len() - 1);
            }
            group += 1;
        }
    }

    /// Gives a group its rows if there are blocks for all of them.
    pub(super) fn try_advance(&mut self, plan: &mut Plan, group: usize, wants: Wants) -> bool {
        if self.advance_one(plan, group, wants) {
            return true;
        }
        let mut rows = std::mem::take(&mut self.scratch);
        let is_scored = self.running[group].wants_all_rows();
        // No step has logits of a whole long prompt, for which nobody has counted memory. Prompts
        // that run whole have to.
        let most_scored = if is_scored && wants == Wants::Chunks { self.config.max_seqs } else { usize::MAX };
        self.rows(&self.running[group], plan.left().min(most_scored - plan.num_scored), wants, &mut rows);
        let mut fits = self.has_blocks(group, &rows);
        if !fits {
            rows.iter_mut().for_each(|r| r.drafts.clear());
            fits = self.has_blocks(group, &rows);
        }
        for rows in rows.drain(..).filter(|_| fits) {
            plan.num_scored += if is_scored && wants == Wants::Chunks { rows.len() } else { 0 };
            self.schedule(plan, group, rows);
        }
        self.scratch = rows;
        fits
    }

    /// The usual case, for its speed: the only sequence of a group runs its last token, for which
    /// its last block has room. Returns whether it was that.
    fn advance_one(&mut self, plan: &mut Plan, group: usize, wants: Wants) -> bool {
        let group_idx = group;
        let group = &mut self.running[group];
        let [seq] = group.seqs.as_mut_slice() else { return false };
        let (start, table) = (seq.computed, &seq.table);
        // What was published may be shared. Beams share what was not.
        let is_own = start >= table.cached.max(table.nodes.len() * self.config.block_size);
        let has_room = start < table.blocks.len() * self.config.block_size;
        let is_usual = seq.need() == 1 && is_own && has_room && group.request.beam.is_none();
        if !is_usual || self.config.speculation.is_some() || wants.rows(1, plan.left()) == 0 {
            return false;
        }
        seq.last_step = plan.step;
        plan.push(group_idx, group.key, Rows { seq: 0, start, known: 1, drafts: Vec::new() });
        true
    }

    /// The rows of a group's sequences, at most `left`.
    fn rows(&self, group: &Group, mut left: usize, wants: Wants, all: &mut Vec<Rows>) {
        for (seq, s) in group.seqs.iter().enumerate() {
            let known = wants.rows(s.need(), left);
            if known > 0 {
                let drafts = if known == s.need() { self.drafts(group, seq, left - known) } else { Vec::new() };
                left -= known + drafts.len();
                all.push(Rows { seq, start: s.computed, known, drafts });
            }
        }
    }

    /// Guesses for a sequence that decodes, at most `left`.
    fn drafts(&self, group: &Group, seq: usize, left: usize) -> Vec<u32> {
        let s = &group.seqs[seq];
        let Some(speculation) = self.config.speculation.filter(|_| self.limits.state_bytes == 0) else {
            return Vec::new();
        };
        let most = left.min(most_drafts(group, s));
        match &self.guesses {
            // A drafter may have tokens that the model has not.
            Some(guesses) => {
                let known = guesses.get(&s.id).into_iter().flatten().copied();
                known.take(most).take_while(|token| (*token as usize) < self.limits.vocab).collect()
            }
            None if most == 0 => Vec::new(),
            None => drafts(&s.tokens, speculation, most).to_vec(),
        }
    }

    /// Sequences that a drafter is asked for. Of a sequence all of whose last guesses were right
    /// one more is asked for than then, of others one more than were right.
    pub(crate) fn draft_requests(&mut self) -> Vec<DraftRequest> {
        let Some(Speculation { num_drafts, .. }) = self.config.speculation else { return Vec::new() };
        let mut asked = Vec::new();
        for group in &mut self.running {
            for seq in 0..group.seqs.len() {
                let (most, s) = (most_drafts(group, &group.seqs[seq]), &mut group.seqs[seq]);
                if s.need() == 0 {
                    continue;
                }
                let DraftAsked { len, num } = s.asked;
                // A token more than the guesses that were right, if the step ran.
                let num = match s.tokens.len().saturating_sub(len) {
                    _ if num == 0 => num_drafts,
                    0 => num,
                    new => new.min(num_drafts),
                };
                let num = num.min(most);
                if num > 0 {
                    s.asked = DraftAsked { len: s.tokens.len(), num };
                    let (sequence, tokens, seed) = (s.id, s.tokens.clone(), s.seed);
                    asked.push(DraftRequest { sequence, tokens, num, seed, sampling: group.request.sampling.clone() });
                }
            }
        }
        asked
    }

    fn has_blocks(&self, group: usize, rows: &[Rows]) -> bool {
        let writes = rows.iter().map(|r| (&self.running[group].seqs[r.seq].table, r.start..r.end()));
        blocks_needed(&self.pool, self.config.block_size, writes) <= self.pool.num_free()
    }

    /// Makes room for rows and puts them into the plan.
    fn schedule(&mut self, plan: &mut Plan, group: usize, rows: Rows) {
        let key = self.running[group].key;
        let seq = &mut self.running[group].seqs[rows.seq];
        let positions = rows.start..rows.end();
        let copies = &mut plan.moves.copies;
        prepare(&mut self.pool, self.config.block_size, &mut seq.table, positions, plan.step, copies);
        seq.last_step = plan.step;
        plan.push(group, key, rows);
    }
}

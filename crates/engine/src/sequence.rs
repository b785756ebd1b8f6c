//! One sequence: its tokens, how far they are computed, where they lie.

use std::sync::Arc;

use crate::batch::{SequenceId, TokenCount};
use crate::block::{Key, Parent, Pool, Table};
use crate::constraint::LateMask;
use crate::detokenize::Detokenizer;
use crate::request::Finish;
use crate::sampling::Sampled;

/// Stop conditions of a group's sequences.
#[derive(Debug, Clone)]
pub(crate) struct StopRules {
    /// Tokens that end one.
    pub(crate) stop_ids: Arc<[u32]>,
    /// Tokens to generate before that.
    pub(crate) min_tokens: usize,
    /// Tokens at most, the prompt's included.
    pub(crate) max_total: usize,
}

/// A token that a step draws which still runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Index among the step's samples.
    pub(crate) sample: u32,
    /// Ends the sequence with this token, whatever it is.
    is_last: bool,
}

/// Placeholder for a token that is not drawn yet.
const UNKNOWN: u32 = u32::MAX;

/// A prompt and one continuation of it.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    pub(crate) id: SequenceId,
    /// Index of the answer in its request.
    pub(crate) output: usize,
    pub(crate) seed: u64,
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt_len: usize,
    /// The last token, if it is not known yet.
    pub(crate) pending: Option<Pending>,
    /// Leading tokens whose keys and values are in the cache.
    pub(crate) computed: usize,
    pub(crate) table: Table,
    /// Waits for the leader of its group to compute what they share.
    pub(crate) is_attached: bool,
    /// The last step that may touch its blocks.
    pub(crate) last_step: u64,
    /// Number of occurrences of each generated token, where penalties need it.
    pub(crate) counts: Option<Arc<Vec<TokenCount>>>,
    /// Continuations of a beam that waits for the other beams.
    pub(crate) candidates: Option<Vec<(u32, f32)>>,
    /// The sum of its logprobs.
    pub(crate) score: f64,
    /// Generated tokens that are not reported yet.
    pub(crate) fresh: Vec<Sampled>,
    pub(crate) fresh_text: String,
    pub(crate) text: Option<Detokenizer>,
    /// Tokens that a constraint lets come next.
    pub(crate) mask: Option<LateMask>,
    /// It ended without a token, which is not reported yet.
    pub(crate) is_refused: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) asked: DraftAsked,
}

/// The last time that a drafter was asked for a sequence: its tokens then, and the guesses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DraftAsked {
    pub(crate) len: usize,
    pub(crate) num: usize,
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, output: usize, seed: u64, prompt: &[u32], has_penalties: bool) -> Self {
        Self {
            id,
            output,
            seed,
            tokens: prompt.to_vec(),
            prompt_len: prompt.len(),
            pending: None,
            computed: 0,
            table: Table::default(),
            is_attached: false,
            last_step: 0,
            counts: has_penalties.then(|| Arc::new(counts_of(prompt))),
            candidates: None,
            score: 0.0,
            fresh: Vec::new(),
            fresh_text: String::new(),
            text: None,
            mask: None,
            is_refused: false,
            finish: None,
            asked: DraftAsked::default(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.finish.is_none()
    }

    /// Tokens that the next steps have to run.
    pub(crate) fn need(&self) -> usize {
        let ends = self.pending.is_some_and(|pending| pending.is_last);
        let waits = !self.is_live() || self.is_attached || self.candidates.is_some() || ends;
        if waits { 0 } else { self.tokens.len() - self.computed }
    }

    /// Tokens that were generated.
    pub(crate) fn num_generated(&self) -> usize {
        self.tokens.len() - self.prompt_len
    }

    /// Adds the token that a step draws as one of its samples.
    pub(crate) fn expect(&mut self, sample: u32, rules: &StopRules) {
        self.tokens.push(UNKNOWN);
        self.pending = Some(Pending { sample, is_last: self.tokens.len() >= rules.max_total });
    }

    /// Returns the number of known tokens.
    pub(crate) fn num_known(&self) -> usize {
        self.tokens.len() - usize::from(self.pending.is_some())
    }

    /// Adds a token that was drawn, perhaps the one that was expected, and ends the sequence where
    /// the rules say so.
    pub(crate) fn push(&mut self, sampled: Sampled, rules: &StopRules, include_stop: bool) {
        let token = sampled.token;
        self.tokens.truncate(self.num_known());
        self.pending = None;
        self.tokens.push(token);
        if self.fresh.is_empty() {
            // One token a step is the rule.
            self.fresh.reserve_exact(1);
        }
        self.fresh.push(sampled);
        if let Some(counts) = &mut self.counts {
            count(Arc::make_mut(counts), token);
        }
        let is_stop = rules.stop_ids.contains(&token);
        if let Some(text) = self.text.as_mut().filter(|_| !is_stop || include_stop) {
            let may_stop = self.tokens.len() - self.prompt_len > rules.min_tokens;
            self.finish = text.push_to(token, may_stop, &mut self.fresh_text).map(Finish::StopText);
        }
        if is_stop {
            self.finish = Some(Finish::StopToken(token));
        } else if self.is_live() {
            self.finish = self.mask.as_mut().and_then(|mask| mask.push(token));
            if self.is_live() && self.tokens.len() >= rules.max_total {
                self.finish = Some(Finish::Length);
            }
        }
        if let Some(text) = self.text.as_mut().filter(|_| self.finish.is_some()) {
            text.finish_to(&mut self.fresh_text);
        }
    }

    /// Ends the sequence without the token that was drawn, if no token may come. The mask may be
    /// made after the step began.
    pub(crate) fn end_if_refused(&mut self) -> bool {
        let Some(Err(finish)) = self.mask.as_ref().map(LateMask::get) else { return false };
        (self.finish, self.is_refused) = (Some(*finish), true);
        self.text.iter_mut().for_each(|text| text.finish_to(&mut self.fresh_text));
        true
    }

    /// The counts that penalties need, as if `drafts` had been generated, too.
    pub(crate) fn counts_with(&self, drafts: &[u32]) -> Option<Arc<Vec<TokenCount>>> {
        let mut counts = self.counts.clone()?;
        drafts.iter().for_each(|token| count(Arc::make_mut(&mut counts), *token));
        Some(counts)
    }

    /// Lets the blocks that are computed to their end be hit by others.
    pub(crate) fn publish(&mut self, pool: &mut Pool, root: &Parent, block_size: usize) {
        let Table { blocks, nodes, .. } = &mut self.table;
        while (nodes.len() + 1) * block_size <= self.computed {
            let i = nodes.len();
            let parent = nodes.last().map_or_else(|| root.clone(), |node| Parent::Node(*node));
            let key = Key::new(parent, &self.tokens[i * block_size..(i + 1) * block_size]);
            nodes.push(pool.publish(blocks[i], key));
        }
    }
}

/// The tokens of a prompt, none of them generated.
fn counts_of(prompt: &[u32]) -> Vec<TokenCount> {
    let mut tokens = prompt.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.into_iter().map(|token| TokenCount { token, in_output: 0 }).collect()
}

fn count(counts: &mut Vec<TokenCount>, token: u32) {
    match counts.binary_search_by_key(&token, |c| c.token) {
        Ok(i) => counts[i].in_output += 1,
        Err(i) => counts.insert(i, TokenCount { token, in_output: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(min_tokens: usize) -> StopRules {
        StopRules { stop_ids: [9].into(), min_tokens, max_total: 5 }
    }

    fn sampled(token: u32) -> Sampled {
        Sampled { token, ..Sampled::default() }
    }

    #[test]
    fn a_sequence_ends_at_a_stop_token_or_at_its_length() {
        let mut a = Sequence::new(1, 0, 0, &[1, 2], false);
        a.push(sampled(3), &rules(0), false);
        assert_eq!((a.finish, a.need()), (None, 3));
        let mut b = a.clone();
        a.push(sampled(9), &rules(0), false);
        assert_eq!((a.finish, a.need(), a.num_generated()), (Some(Finish::StopToken(9)), 0, 2));
        b.push(sampled(3), &rules(0), false);
        b.push(sampled(3), &rules(0), false);
        assert_eq!(b.finish, Some(Finish::Length));
    }

    #[test]
    fn counts_tell_the_prompt_from_what_was_generated() {
        let mut a = Sequence::new(1, 0, 0, &[1, 2], true);
        a.push(sampled(2), &rules(0), false);
        let count = |token, in_output| TokenCount { token, in_output };
        let counts = |drafts: &[u32]| a.counts_with(drafts).expect("penalties ask for them").to_vec();
        assert_eq!(counts(&[]), [count(1, 0), count(2, 1)]);
        assert_eq!(counts(&[2, 4]), [count(1, 0), count(2, 2), count(4, 1)]);
        assert_eq!(counts(&[]).len(), 2);
    }
}

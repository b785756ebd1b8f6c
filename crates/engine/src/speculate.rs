//! Guesses of next tokens: what followed the last occurrence of the last tokens (prompt lookup), or
//! what a second, smaller model answers.
//!
//! A guess is one more row of the batch. The row before it draws its token as it would without the
//! guess, from the same logits and with the noise of the same position; if that is the guessed
//! token, the guess's row counts as well. So the answer is the same, bit for bit, and only the
//! number of steps differs.
//!
//! A [`DraftModel`] draws its guesses with the noise that the sequence has at those positions: two
//! models that agree on the likelihoods draw the same tokens, at any temperature. It is an engine
//! of its own, whose prefix cache has what it was asked before; a step of the large model asks it
//! for all sequences at once.

use crate::batch::SequenceId;
use crate::config::{Allocator, Config, Policy, Speculation};
use crate::engine::Engine;
use crate::error::{Error, ModelError, config};
use crate::model::{Limits, Model};
use crate::request::Request;
use crate::sampling::Sampling;

/// A sequence whose next tokens are to be guessed.
#[derive(Debug, Clone)]
pub struct DraftRequest {
    /// The sequence, in its engine.
    pub sequence: SequenceId,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Guesses at most.
    pub num: usize,
    /// The key of its noise.
    pub seed: u64,
    /// Its sampling parameters.
    pub sampling: Sampling,
}

/// A source of guesses. Whatever it guesses, answers are the same.
pub trait Drafter: Send {
    /// Guesses for what follows each sequence, as many as it likes of those that are asked for.
    ///
    /// # Errors
    /// If it can guess no more; the step that asks fails with it.
    fn draft(&mut self, asked: &[DraftRequest]) -> Result<Vec<Vec<u32>>, ModelError>;
}

impl Drafter for Box<dyn Drafter> {
    fn draft(&mut self, asked: &[DraftRequest]) -> Result<Vec<Vec<u32>>, ModelError> {
        (**self).draft(asked)
    }
}

/// A model that guesses for another one with the same tokens.
#[derive(Debug)]
pub struct DraftModel<M> {
    engine: Engine<M>,
    limits: Limits,
}

impl<M: Model> DraftModel<M> {
    /// Makes an engine of the model, with a cache of so many blocks for so many sequences at once.
    ///
    /// # Errors
    /// Those of [`Engine::new`]; if the model keeps a state of a sequence, which would be computed
    /// from the beginning for each guess.
    pub fn new(model: M, num_blocks: usize, block_size: usize, max_seqs: usize) -> Result<Self, Error> {
        let limits = model.limits();
        if limits.state_bytes > 0 {
            return Err(config("--draft", "a model that keeps a state of each sequence does not draft"));
        }
        let config = Config {
            num_blocks,
            block_size,
            max_seqs,
            policy: Policy::Continuous,
            allocator: Allocator::PrefixCaching,
            ..Config::default()
        };
        Ok(Self { engine: Engine::new(model, config)?, limits })
    }
}

impl<M: Model + Send> Drafter for DraftModel<M> {
    fn draft(&mut self, asked: &[DraftRequest]) -> Result<Vec<Vec<u32>>, ModelError> {
        let add = |DraftRequest { tokens, num, seed, sampling, .. }: &DraftRequest| {
            let room = self.limits.max_len.saturating_sub(tokens.len());
            let is_known = tokens.iter().all(|token| (*token as usize) < self.limits.vocab);
            let max_tokens = Some((*num).min(room)).filter(|num| *num > 0 && is_known)?;
            let (seed, sampling) = (Some(*seed), sampling.clone());
            let request = Request { max_tokens: Some(max_tokens), sampling, seed, ..Request::new(tokens.clone()) };
            // What it has no room for, or no tokens, it does not guess.
            self.engine.add(Request { ignore_eos: true, skip_special: false, ..request }).ok()
        };
        let ids: Vec<_> = asked.iter().map(add).collect();
        let mut answers = self.engine.run_to_end()?;
        let mut guesses = |id| answers.remove(&id).and_then(|mut outputs| outputs.pop()).map(|output| output.ids());
        Ok(ids.into_iter().map(|id| id.and_then(&mut guesses).unwrap_or_default()).collect())
    }
}

/// The guesses for what follows `tokens`, at most `most` of them.
pub(crate) fn drafts(tokens: &[u32], speculation: Speculation, most: usize) -> &[u32] {
    let len = tokens.len();
    for num in (speculation.min_match..=speculation.max_match.min(len.saturating_sub(1))).rev() {
        let last = &tokens[len - num..];
        let found = (0..len - num).rev().find(|start| &tokens[*start..start + num] == last);
        if let Some(start) = found {
            let guess = &tokens[start + num..];
            return &guess[..guess.len().min(speculation.num_drafts).min(most)];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn guesses(tokens: &[u32], most: usize, expected: &[u32]) {
        let speculation = Speculation { min_match: 2, max_match: 3, num_drafts: 3 };
        assert_eq!(drafts(tokens, speculation, most), expected);
    }

    #[test]
    fn the_longest_and_latest_match_is_continued() {
        guesses(&[1, 2, 3, 4, 1, 2], 9, &[3, 4, 1]);
        guesses(&[1, 2, 3, 4, 1, 2], 1, &[3]);
        guesses(&[1, 2, 3, 1, 2, 4, 1, 2], 9, &[4, 1, 2]);
        guesses(&[7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2], 9, &[3, 8, 1]);
        guesses(&[1, 2, 3], 9, &[]);
        guesses(&[5, 5, 5], 9, &[5]);
        guesses(&[5], 9, &[]);
    }
}

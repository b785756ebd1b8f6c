//! Requests of users, and their answers.

use std::sync::Arc;
use std::time::Duration;

use crate::block::Parent;
use crate::constraint::Constraint;
use crate::error::{Error, ErrorKind, request};
use crate::model::Limits;
use crate::planted::{EngineFault, planted};
use crate::pooling::Pooling;
use crate::sampling::{Sampled, Sampling};

/// The number of a request, given when it is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A prompt and what is wanted of it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Answers to the prompt. Each has a seed of its own: the request's, plus its number.
    pub n: usize,
    /// Beam search instead of draws; the best `n` beams are the answers.
    pub beam: Option<Beam>,
    /// The key of the noise; drawn if there is none, and returned with the answer.
    pub seed: Option<u64>,
    /// Tokens of an answer at most; without it, as many as the model and the cache have room for.
    pub max_tokens: Option<usize>,
    /// Tokens of an answer at least, before any that ends it.
    pub min_tokens: usize,
    /// Tokens that end an answer, beside the model's own.
    pub stop_ids: Vec<u32>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Keeps the text that ended the answer in it.
    pub include_stop: bool,
    /// Runs on past the model's end tokens.
    pub ignore_eos: bool,
    /// Leaves special tokens out of the text.
    pub skip_special: bool,
    /// Number of likely tokens to report with each generated one. Beams report their own alone.
    pub logprobs: Option<usize>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// One vector of the prompt instead of tokens after it.
    pub pooling: Option<Pooling>,
    /// Constraint on each answer, which ends when no token is allowed.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Requests of a lower number run first.
    pub priority: i64,
    /// Prefixes are shared only between requests of the same salt, and of the same adapter.
    pub salt: Arc<str>,
    /// LoRA adapter of the model's weights.
    pub adapter: Option<Arc<Adapter>>,
}

/// Weights that a model adds to its own for the requests that name them (LoRA).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Slot of the adapter in the model.
    pub slot: u32,
    /// A number that no other adapter of the model ever has, also in the same slot.
    pub id: u64,
}

/// Beam search, with the score that Hugging Face's has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beam {
    /// Hypotheses that are kept.
    pub width: usize,
    /// The score of an answer is the sum of its logprobs over its length to this power.
    pub length_penalty: f64,
}

impl Request {
    /// A greedy answer to a prompt.
    #[must_use]
    pub fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Self {
        let sampling = Sampling::greedy();
        Self { max_tokens: Some(max_tokens), sampling, ..Self::new(prompt) }
    }

    /// One answer, with the defaults of the API.
    #[must_use]
    pub fn new(prompt: Vec<u32>) -> Self {
        Self {
            prompt,
            sampling: Sampling::default(),
            n: 1,
            beam: None,
            seed: None,
            max_tokens: None,
            min_tokens: 0,
            stop_ids: Vec::new(),
            stop: Vec::new(),
            include_stop: false,
            ignore_eos: false,
            skip_special: true,
            logprobs: None,
            prompt_logprobs: None,
            pooling: None,
            constraint: None,
            priority: 0,
            salt: "".into(),
            adapter: None,
        }
    }

    /// Returns the request for the embedding of a prompt.
    #[must_use]
    pub fn embedding(prompt: Vec<u32>, pooling: Pooling) -> Self {
        Self { pooling: Some(pooling), ..Self::new(prompt) }
    }

    /// Returns the prefix before the first block.
    pub(crate) fn root(&self) -> Parent {
        let adapter = self.adapter.as_ref().filter(|_| !planted(EngineFault::AdapterIsNoPartOfKey));
        Parent::Root { salt: self.salt.clone(), adapter: adapter.map(|adapter| adapter.id) }
    }

    /// Tokens that are generated at least, as far as is known before.
    pub(crate) fn least_new(&self) -> usize {
        self.max_tokens.unwrap_or(usize::from(self.pooling.is_none())).max(self.min_tokens)
    }

    /// Sequences that it runs at a time.
    #[must_use]
    pub fn num_sequences(&self) -> usize {
        self.beam.map_or(self.n, |b| b.width)
    }

    /// Compares every field with its range and with the others.
    ///
    /// # Errors
    /// The first field that does not fit.
    pub fn validate(&self, limits: &Limits) -> Result<(), Error> {
        let check = |is_right: bool, field, reason: &str| is_right.then_some(()).ok_or_else(|| request(field, reason));
        check(!self.prompt.is_empty(), "prompt", "it has no token")?;
        for id in &self.prompt {
            crate::sampling::check_id("prompt", *id, limits.vocab)?;
        }
        for id in &self.stop_ids {
            crate::sampling::check_id("stop_token_ids", *id, limits.vocab)?;
        }
        self.sampling.validate(limits.vocab)?;
        check(self.n > 0, "n", "0 answers")?;
        check(self.max_tokens != Some(0), "max_tokens", "0 tokens")?;
        let most = self.max_tokens.unwrap_or(usize::MAX);
        check(self.min_tokens <= most, "min_tokens", "it is more than max_tokens")?;
        check(self.stop.iter().all(|s| !s.is_empty()), "stop", "a stop string is empty")?;
        let ends = |id: &u32| self.stop_ids.contains(id) || !self.ignore_eos && limits.eos.contains(id);
        let goes_on = self.sampling.allowed_ids.as_ref().is_none_or(|ids| !ids.iter().all(ends));
        check(goes_on || self.min_tokens == 0, "min_tokens", "all of allowed_token_ids end an answer")?;
        if self.constraint.is_some() {
            check(self.beam.is_none(), "beam", "beams take no constraint")?;
            check(self.min_tokens == 0, "min_tokens", "the constraint says when an answer may end")?;
            check(self.sampling.allowed_ids.is_none(), "allowed_token_ids", "the constraint says which may come")?;
        }
        if let Some(beam) = self.beam {
            check(beam.width >= self.n, "beam", "it keeps fewer hypotheses than the answers that n asks for")?;
            check(beam.length_penalty.is_finite(), "length_penalty", "it is not finite")?;
            // Otherwise a search could end with fewer answers than were asked for.
            let that_go_on = limits.vocab.saturating_sub(limits.eos.len() + self.stop_ids.len());
            check(beam.width <= that_go_on, "beam", "it keeps more hypotheses than there are tokens to go on with")?;
            let is_plain = Sampling { temperature: 0.0, ..self.sampling.clone() } == Sampling::greedy();
            check(is_plain, "beam", "it draws nothing, so that only the temperature may be given, and is not used")?;
            check(self.logprobs.unwrap_or(0) == 0, "logprobs", "beams report their own tokens alone")?;
            check(self.stop.is_empty(), "beam", "it ends at tokens, not at stop strings")?;
        }
        for (field, top) in [("logprobs", self.logprobs), ("prompt_logprobs", self.prompt_logprobs)] {
            check(top.unwrap_or(0) <= limits.vocab, field, "more tokens than the vocabulary has")?;
        }
        if self.pooling.is_some() {
            check(self.max_tokens.is_none() && self.min_tokens == 0, "max_tokens", "an embedding has no tokens")?;
            check(self.n == 1 && self.beam.is_none(), "n", "a prompt has one embedding")?;
            check(self.constraint.is_none(), "constraint", "an embedding has no text")?;
            check(self.prompt_logprobs.is_none(), "prompt_logprobs", "an embedding has no probabilities")?;
        }
        let new = self.least_new();
        if self.prompt.len().saturating_add(new) > limits.max_len {
            let error = ErrorKind::TooLong { prompt: self.prompt.len(), new, max_len: limits.max_len };
            return Err(error.into());
        }
        Ok(())
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// A token that ends answers.
    StopToken(u32),
    /// A stop string, by its place in [`Request::stop`].
    StopText(usize),
    /// Nothing more may come, as the constraint says.
    Constraint,
    /// The constraint gave up.
    ConstraintFailed,
    /// The embedding is there.
    Pooled,
    /// There is no room for more: `max_tokens`, the model's longest sequence, or the cache.
    Length,
}

impl Finish {
    /// The name that the API has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StopToken(_) | Self::StopText(_) | Self::Constraint | Self::Pooled => "stop",
            Self::ConstraintFailed => "error",
            Self::Length => "length",
        }
    }
}

/// The part of an answer that a step adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Request of the answer.
    pub request: RequestId,
    /// Index of the answer in its request.
    pub output: usize,
    /// The answer's seed.
    pub seed: u64,
    /// Generated tokens.
    pub tokens: Vec<Sampled>,
    /// Text that is final.
    pub text: String,
    /// Why the answer ended, if it did.
    pub finish: Option<Finish>,
    /// From the request's arrival to its first step, by the caller's clock.
    pub queued: Duration,
    /// Tokens of the prompt that were found in the cache instead of being run.
    pub cached: usize,
    /// With the first update of answer 0: what was asked of the prompt, from its second token on.
    pub prompt_logprobs: Vec<Sampled>,
    /// With the only update of a request for it: the embedding.
    pub embedding: Vec<f32>,
    /// The weights that made it: how many others the model has had before.
    pub weights: usize,
}

/// A whole answer: the sum of its updates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// The key of the noise that drew it.
    pub seed: u64,
    /// Generated tokens.
    pub tokens: Vec<Sampled>,
    /// The same as text, if the engine can decode.
    pub text: String,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Requested logprobs of the prompt; with answer 0 only.
    pub prompt_logprobs: Vec<Sampled>,
    /// The embedding, where that was asked for.
    pub embedding: Vec<f32>,
}

impl Output {
    /// Adds what a step adds.
    pub fn extend(&mut self, update: Update) {
        self.seed = update.seed;
        self.tokens.extend(update.tokens);
        self.text.push_str(&update.text);
        self.finish = update.finish.or(self.finish);
        self.prompt_logprobs.extend(update.prompt_logprobs);
        self.embedding.extend(update.embedding);
    }

    /// The tokens alone.
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|t| t.token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { vocab: 10, max_len: 8, eos: vec![0], hidden: 1, kv_bytes_per_token: 1, state_bytes: 0 }
    }

    #[track_caller]
    fn refuses(request: Request, field: &str) {
        let error = request.validate(&limits()).expect_err("a field is wrong").to_string();
        assert!(error.starts_with(field), "{error}");
    }

    #[test]
    fn wrong_fields_are_named() {
        let base = || Request::greedy(vec![1, 2], 4);
        base().validate(&limits()).expect("the base is right");
        refuses(Request { prompt: vec![], ..base() }, "prompt");
        refuses(Request { prompt: vec![10], ..base() }, "prompt");
        refuses(Request { n: 0, ..base() }, "n:");
        refuses(Request { pooling: Some(Pooling::Last), ..base() }, "max_tokens");
        refuses(Request { n: 2, ..Request::embedding(vec![1], Pooling::Mean) }, "n:");
        Request::embedding(vec![1; 8], Pooling::Last).validate(&limits()).expect("nothing comes after it");
        refuses(Request { max_tokens: Some(0), ..base() }, "max_tokens");
        refuses(Request { min_tokens: 5, ..base() }, "min_tokens");
        refuses(Request { stop: vec![String::new()], ..base() }, "stop");
        let ends = Request { stop_ids: vec![3], min_tokens: 1, ..base() };
        let only = |ids: &[u32]| Sampling { allowed_ids: Some(ids.to_vec()), ..Sampling::greedy() };
        refuses(Request { sampling: only(&[0, 3]), ..ends.clone() }, "min_tokens: all of allowed_token_ids");
        Request { sampling: only(&[0, 4]), ..ends.clone() }.validate(&limits()).expect("4 goes on");
        Request { sampling: only(&[0]), ignore_eos: true, ..ends }.validate(&limits()).expect("0 goes on");
        refuses(Request { stop_ids: vec![11], ..base() }, "stop_token_ids");
        refuses(Request { n: 3, beam: Some(Beam { width: 2, length_penalty: 1.0 }), ..base() }, "beam");
        let beam = Some(Beam { width: 2, length_penalty: 1.0 });
        refuses(Request { beam, logprobs: Some(1), ..base() }, "logprobs");
        refuses(Request { beam, stop: vec!["a".to_owned()], ..base() }, "beam");
        refuses(Request { beam, sampling: Sampling { top_p: 0.5, ..Sampling::greedy() }, ..base() }, "beam");
        refuses(Request { max_tokens: Some(7), ..base() }, "the prompt has 2 tokens and at least 7");
        refuses(Request { max_tokens: Some(usize::MAX), ..base() }, "the prompt has 2 tokens and at least 18446744");
        refuses(Request { logprobs: Some(11), ..base() }, "logprobs: more tokens than");
        refuses(Request { prompt_logprobs: Some(usize::MAX), ..base() }, "prompt_logprobs: more tokens than");
        let beam = Some(Beam { width: 10, length_penalty: 1.0 });
        refuses(Request { beam, ..base() }, "beam: it keeps more hypotheses than");
        refuses(Request::new(vec![1; 8]), "the prompt has 8 tokens and at least 1");
    }
}

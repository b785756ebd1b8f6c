//! Sampling parameters of a request.

use crate::error::{Error, request};

/// Parameters of drawing, with the meanings of vLLM's `SamplingParams`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f32,
    /// Draw from this many of the most likely tokens.
    pub top_k: Option<u32>,
    /// Draw from the fewest most likely tokens whose probabilities sum to this.
    pub top_p: f32,
    /// Draw from tokens at least this likely, relative to the most likely one.
    pub min_p: f32,
    /// Taken from the logit of a token that was generated before.
    pub presence_penalty: f32,
    /// Taken from the logit of a token for each time that it was generated.
    pub frequency_penalty: f32,
    /// Divides positive logits, and multiplies negative ones, of tokens of the prompt and of what
    /// was generated.
    pub repetition_penalty: f32,
    /// Added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// The only tokens that may be drawn.
    pub allowed_ids: Option<Vec<u32>>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            allowed_ids: None,
        }
    }
}

impl Sampling {
    /// The most likely token, always.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Returns whether a draw depends on the previous tokens other than through the logits.
    #[must_use]
    pub fn has_penalties(&self) -> bool {
        self.presence_penalty != 0.0 || self.frequency_penalty != 0.0 || self.repetition_penalty != 1.0
    }

    /// Compares every field with its range.
    ///
    /// # Errors
    /// The first field that is outside, with the range.
    pub fn validate(&self, vocab: usize) -> Result<(), Error> {
        let within = |field, value: f32, low: f32, high: f32| {
            let is_within = (low..=high).contains(&value);
            let range = || match low == f32::MIN_POSITIVE {
                true => format!("{value} is not above 0 and up to {high}"),
                false => format!("{value} is not in {low} to {high}"),
            };
            is_within.then_some(()).ok_or_else(|| request(field, range()))
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, f32::MIN_POSITIVE, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("presence_penalty", self.presence_penalty, -2.0, 2.0)?;
        within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)?;
        within("repetition_penalty", self.repetition_penalty, f32::MIN_POSITIVE, 100.0)?;
        if self.top_k == Some(0) {
            return Err(request("top_k", "0 tokens leave nothing to draw from"));
        }
        for (id, bias) in &self.logit_bias {
            within("logit_bias", *bias, -100.0, 100.0)?;
            check_id("logit_bias", *id, vocab)?;
        }
        if self.allowed_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(request("allowed_token_ids", "the list is empty"));
        }
        self.allowed_ids.iter().flatten().try_for_each(|id| check_id("allowed_token_ids", *id, vocab))
    }
}

/// Compares a token with the vocabulary.
pub(crate) fn check_id(field: &'static str, id: u32, vocab: usize) -> Result<(), Error> {
    let is_known = (id as usize) < vocab;
    is_known.then_some(()).ok_or_else(|| request(field, format!("token {id} is not in a vocabulary of {vocab}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(sampling: Sampling, field: &str) {
        let error = sampling.validate(100).expect_err("the field is out of range").to_string();
        assert!(error.starts_with(field), "{error}");
    }

    #[test]
    fn fields_outside_their_range_are_named() {
        let base = Sampling::default;
        base().validate(100).expect("the defaults are valid");
        Sampling::greedy().validate(100).expect("greedy is valid");
        refuses(Sampling { temperature: -0.1, ..base() }, "temperature");
        refuses(Sampling { temperature: f32::NAN, ..base() }, "temperature");
        refuses(Sampling { top_p: 0.0, ..base() }, "top_p: 0 is not above 0 and up to 1");
        refuses(Sampling { top_k: Some(0), ..base() }, "top_k");
        refuses(Sampling { min_p: 1.5, ..base() }, "min_p");
        refuses(Sampling { presence_penalty: 2.5, ..base() }, "presence_penalty");
        refuses(Sampling { frequency_penalty: -3.0, ..base() }, "frequency_penalty");
        refuses(Sampling { repetition_penalty: 0.0, ..base() }, "repetition_penalty");
        refuses(Sampling { logit_bias: vec![(100, 1.0)], ..base() }, "logit_bias");
        refuses(Sampling { logit_bias: vec![(1, 101.0)], ..base() }, "logit_bias");
        refuses(Sampling { allowed_ids: Some(vec![]), ..base() }, "allowed_token_ids");
        refuses(Sampling { allowed_ids: Some(vec![100]), ..base() }, "allowed_token_ids");
    }
}

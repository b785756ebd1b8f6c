//! Pooling: one vector of a prompt instead of tokens after it.
//!
//! A row's hidden state is what the model's head would make logits of. A sum over rows is one chain
//! in `f64` in the order of positions, so that it does not depend on how steps cut the prompt.

use std::ops::Range;
use std::str::FromStr;

use crate::error::{Error, config};

/// Choice of the hidden states of a prompt that become its embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// That of the last token, which has seen all others.
    Last,
    /// The mean of all.
    Mean,
    /// That of the first token.
    Cls,
}

impl Pooling {
    /// The names of all.
    pub const NAMES: [(&'static str, Self); 3] = [("last", Self::Last), ("mean", Self::Mean), ("cls", Self::Cls)];
}

impl FromStr for Pooling {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, pooling)| *pooling)
            .ok_or_else(|| config("--pooling", format!("{name} is not last, mean or cls")))
    }
}

/// The embedding of a prompt as far as it has come.
#[derive(Debug, Clone)]
pub(crate) struct PooledStates {
    /// Positions whose hidden states are wanted and have not come.
    wanted: Range<usize>,
    sum: Vec<f64>,
    count: usize,
}

impl PooledStates {
    pub(crate) fn new(pooling: Pooling, prompt_len: usize) -> Self {
        let wanted = match pooling {
            Pooling::Last => prompt_len - 1..prompt_len,
            Pooling::Mean => 0..prompt_len,
            Pooling::Cls => 0..1,
        };
        Self { count: wanted.len(), wanted, sum: Vec::new() }
    }

    /// Positions whose hidden states are wanted and have not come.
    pub(crate) fn wanted(&self) -> Range<usize> {
        self.wanted.clone()
    }

    /// Adds the hidden state of the next position; returns the embedding if that was the last.
    pub(crate) fn push(&mut self, position: usize, hidden: &[f32]) -> Option<Vec<f32>> {
        debug_assert_eq!(self.wanted.start, position, "hidden states come in order");
        self.sum.resize(hidden.len(), 0.0);
        self.sum.iter_mut().zip(hidden).for_each(|(sum, x)| *sum += f64::from(*x));
        self.wanted.start = position + 1;
        self.wanted.is_empty().then(|| self.sum.iter().map(|sum| (sum / self.count as f64) as f32).collect())
    }
}

//! The embedding of tokens: rows of a matrix, which may be the head's weights too.

use std::ops::Range;

use warpfold::{Dtype, Tensor};

use super::linear::{Linear, Weight};
use crate::Error;

/// The embedding of tokens.
#[derive(Debug)]
pub(crate) struct Embedding {
    weight: Weight,
    dtype: Dtype,
}

impl Embedding {
    /// Creates an embedding of weights `[vocab, hidden]`; rows are returned in `dtype`.
    pub(super) const fn new(weight: Weight, dtype: Dtype) -> Self {
        Self { weight, dtype }
    }

    /// The rows of tokens that are known to be of the vocabulary.
    pub(crate) fn rows(&self, ids: &Tensor) -> Result<Tensor, Error> {
        Ok(match &self.weight {
            Weight::Plain(weight) => weight.gather_rows_known(ids)?,
            Weight::Packed(weights) => weights.gather_rows(ids, self.dtype)?,
        })
    }

    /// The product with these of its rows, or all: the head of a model whose head is tied.
    pub(crate) fn head(&self, tokens: Option<Range<usize>>) -> Result<Linear, Error> {
        let weight = match (&self.weight, tokens) {
            (weight, None) => weight.clone(),
            (Weight::Plain(weight), Some(tokens)) => Weight::Plain(weight.slice(0, tokens)?),
            (Weight::Packed(weights), Some(tokens)) => match weights.rows(tokens.clone()) {
                Some(rows) => Weight::Packed(rows),
                None => Weight::Plain(weights.to_matrix(self.dtype)?.slice(0, tokens)?.contiguous()?),
            },
        };
        Linear::new(weight, None)
    }
}

//! Problem parameters of a kernel, and the keys that a row sees.

use warpfold_lang::{Array, Element, Global, Val};

use crate::ladder::Heads;

/// Words of the sizes: tokens of a sequence, query heads that share one of keys, keys that the
/// first query sees, query heads of all sequences.
pub const WORDS: usize = 4;

/// The words of a problem.
pub(super) fn words(heads: Heads) -> [u32; WORDS] {
    let seen = if heads.causal { 1 } else { heads.length };
    [heads.length, heads.group(), seen, heads.all_heads()].map(|word| word as u32)
}

/// The sizes, while a kernel is recorded.
#[derive(Clone, Copy)]
pub(super) struct Work {
    words: Array<u32, WORDS>,
    /// Elements of a head.
    dim: u32,
}

impl Work {
    pub(super) fn of(words: Array<u32, WORDS>, dim: u32) -> Self {
        Self { words, dim }
    }

    /// Elements of a head.
    pub(super) fn dim(self) -> u32 {
        self.dim
    }

    /// Queries of a head, and keys.
    pub(super) fn tokens(self) -> Val<u32> {
        self.words.at(0)
    }

    /// Query heads of all sequences.
    pub(super) fn heads(self) -> Val<u32> {
        self.words.at(3)
    }

    /// The head of keys of a query head.
    pub(super) fn kv_head(self, head: Val<u32>) -> Val<u32> {
        head / self.words.at(1)
    }

    /// Keys that a row sees: the first ones, at least one.
    pub(super) fn seen(self, row: Val<u32>) -> Val<u32> {
        (row + self.words.at(2)).min(self.tokens())
    }

    /// The first row that sees a key.
    pub(super) fn first_row(self, key: Val<u32>) -> Val<u32> {
        (key + 1).max(self.words.at(2)) - self.words.at(2)
    }

    /// Returns the scale of the scores: exponentials are of base 2.
    pub(super) fn scale(self) -> f32 {
        scale(self.dim as usize) as f32
    }

    /// A score times [`scale`](Self::scale) where the row sees the key, else minus infinity.
    pub(super) fn masked(self, row: Val<u32>, key: Val<u32>, score: Val<f32>) -> Val<f32> {
        key.lt(self.seen(row)).select(score * self.scale(), f32::NEG_INFINITY)
    }

    /// A head of a tensor.
    pub(super) fn head<T: Element>(self, tensor: Global<T>, head: Val<u32>) -> Head<T> {
        let first = tensor.at(head.mul_wide(self.tokens()) * u64::from(self.dim));
        Head { first, tokens: self.tokens(), dim: self.dim }
    }

    /// The scores of a row, if all of them lie in memory.
    pub(super) fn scores(self, scores: Global<f32>, head: Val<u32>, row: Val<u32>) -> Global<f32> {
        let row = head.mul_wide(self.tokens()) + row.cast::<u64>();
        scores.at(row * self.tokens().cast::<u64>())
    }
}

/// `log2(e) / sqrt(dim)`.
pub(super) fn scale(dim: usize) -> f64 {
    std::f64::consts::LOG2_E / (dim as f64).sqrt()
}

/// Queries, keys, values or results of a head: rows side by side.
#[derive(Clone, Copy)]
pub(super) struct Head<T> {
    first: Global<T>,
    pub(super) tokens: Val<u32>,
    pub(super) dim: u32,
}

impl<T: Element> Head<T> {
    /// A row.
    pub(super) fn row(self, row: Val<u32>) -> Global<T> {
        self.first.at(row * self.dim)
    }
}

//! Constraints: which tokens may come next, as an answer grows. Grammars and JSON schemas are some.

use std::fmt;
use std::sync::Arc;

/// Constraint on an answer. It follows one answer: the engine tells it each token, and asks which
/// ones may come next.
///
/// The answer is a function of the tokens alone, so that it never depends on the schedule.
pub trait Constraint: fmt::Debug + Send {
    /// Returns the tokens allowed after those pushed. `vocab` is the number of tokens.
    fn next(&mut self, vocab: usize) -> Next;

    /// A token was drawn, one of those that might come next.
    fn push(&mut self, token: u32);

    /// The same constraint for another answer, with the same tokens behind it.
    fn fork(&self) -> Box<dyn Constraint>;
}

impl Clone for Box<dyn Constraint> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

/// A constraint's answer about the next token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A bit for each token, the first in the lowest bit of the first word: whether it may come.
    Tokens(Vec<u32>),
    /// The answer is whole.
    Over,
    /// The constraint gives up, and the answer ends without being whole.
    Failed,
}

/// Tokens that may come next, as a sampler takes them: the shorter of two lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mask {
    /// These alone.
    Allowed(Arc<[u32]>),
    /// All but these.
    Banned(Arc<[u32]>),
}

impl Mask {
    /// The mask that bits say; `None` if no token may come.
    pub(crate) fn of_bits(bits: &[u32], vocab: usize) -> Option<Self> {
        // Bits beyond the vocabulary name no token.
        let within = |word: usize| match vocab.saturating_sub(word * 32) {
            len @ 0..32 => (1_u32 << len) - 1,
            _ => u32::MAX,
        };
        let word = |i: usize| bits.get(i).copied().unwrap_or(0) & within(i);
        let num_words = vocab.div_ceil(32);
        let num: usize = (0..num_words).map(|i| word(i).count_ones() as usize).sum();
        match num {
            0 => None,
            _ if num <= vocab / 2 => Some(Self::Allowed(ids(num, (0..num_words).map(word)))),
            _ => Some(Self::Banned(ids(vocab - num, (0..num_words).map(|i| !word(i) & within(i))))),
        }
    }
}

/// The numbers of the bits that are set, of which there are `num`.
fn ids(num: usize, words: impl Iterator<Item = u32>) -> Arc<[u32]> {
    let mut ids = Vec::with_capacity(num);
    for (first, mut word) in (0..).step_by(32).zip(words) {
        while word != 0 {
            ids.push(first + word.trailing_zeros());
            word &= word - 1;
        }
    }
    ids.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_the_shorter_list() {
        assert_eq!(Mask::of_bits(&[0b101], 40), Some(Mask::Allowed([0, 2].into())));
        assert_eq!(Mask::of_bits(&[!0 - 1, 1], 33), Some(Mask::Banned([0].into())));
        assert_eq!(Mask::of_bits(&[0], 40), None);
        assert_eq!(Mask::of_bits(&[0, !0], 32), None, "bits beyond the vocabulary name no token");
    }
}

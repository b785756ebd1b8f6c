//! Constraints: which tokens may come next, as an answer grows. Grammars and JSON schemas are some.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{Error, request};
use crate::request::Finish;

/// Constraint on an answer. It follows one answer: the engine tells it each token, and asks which
/// ones may come next. That is asked on any thread, while the forward pass runs that draws the next
/// token.
///
/// The answer is a function of the tokens alone, so that it never depends on the schedule.
pub trait Constraint: fmt::Debug + Send {
    /// Returns the tokens allowed after those pushed, unless it is [over](Self::is_over). `vocab` is
    /// the number of tokens.
    fn next(&mut self, vocab: usize) -> Next;

    /// Returns whether the answer is whole. It is asked between two steps, so it should be known
    /// without a mask.
    fn is_over(&self) -> bool;

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
    /// The constraint gives up, and the answer ends without being whole.
    Failed,
}

/// Mask that is made when somebody asks for it first, on that thread.
///
/// Rows of a [batch](crate::Batch) have them, so that a model begins its forward pass before it
/// asks.
#[derive(Clone)]
pub struct LateMask(Arc<LateMaskMaker>);

struct LateMaskMaker {
    /// Nothing once the next token is there.
    constraint: Mutex<Option<Box<dyn Constraint>>>,
    vocab: usize,
    made: OnceLock<Result<Mask, Finish>>,
}

impl fmt::Debug for LateMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LateMask").field(&self.0.made).finish()
    }
}

impl PartialEq for LateMask {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl LateMask {
    /// The mask at the start of an answer.
    pub(crate) fn start(constraint: Box<dyn Constraint>, vocab: usize) -> Result<Self, Error> {
        let is_over = constraint.is_over();
        let mask = Self::new(constraint, vocab);
        let may_begin = !is_over && mask.get().is_ok();
        may_begin.then_some(mask).ok_or_else(|| request("constraint", "no token of the vocabulary may come first"))
    }

    fn new(constraint: Box<dyn Constraint>, vocab: usize) -> Self {
        let constraint = Mutex::new(Some(constraint));
        Self(Arc::new(LateMaskMaker { constraint, vocab, made: OnceLock::new() }))
    }

    /// The mask, or how the answer ends without another token.
    pub(crate) fn get(&self) -> &Result<Mask, Finish> {
        let LateMaskMaker { constraint, vocab, made } = &*self.0;
        made.get_or_init(|| {
            let mut constraint = constraint.lock().unwrap_or_else(PoisonError::into_inner);
            match constraint.as_mut().map(|constraint| constraint.next(*vocab)) {
                Some(Next::Tokens(bits)) => Mask::of_bits(&bits, *vocab).ok_or(Finish::Constraint),
                Some(Next::Failed) | None => Err(Finish::ConstraintFailed),
            }
        })
    }

    /// The mask after another token, or how the answer ends.
    pub(crate) fn push(&mut self, token: u32) -> Option<Finish> {
        let constraint = self.0.constraint.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut constraint) = constraint else { return Some(Finish::ConstraintFailed) };
        constraint.push(token);
        if constraint.is_over() {
            return Some(Finish::Constraint);
        }
        *self = Self::new(constraint, self.0.vocab);
        None
    }

    /// The same mask for another answer.
    pub(crate) fn fork(&self) -> Self {
        let constraint = self.0.constraint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self(Arc::new(LateMaskMaker {
            constraint: Mutex::new(constraint),
            vocab: self.0.vocab,
            made: self.0.made.clone(),
        }))
    }

    /// The only tokens that may be drawn, where they are few.
    pub(crate) fn allowed(&self) -> Option<&[u32]> {
        match self.get() {
            Ok(Mask::Allowed(ids)) => Some(ids),
            Ok(Mask::Banned(_)) | Err(_) => None,
        }
    }

    /// The tokens that must not be drawn, where they are few.
    pub(crate) fn banned(&self) -> Option<&[u32]> {
        match self.get() {
            Ok(Mask::Banned(ids)) => Some(ids),
            Ok(Mask::Allowed(_)) | Err(_) => None,
        }
    }
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

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
    /// Returns the tokens allowed after those pushed. It is not [over](Self::is_over). `vocab` is
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
    /// A bit for each token.
    made: OnceLock<Result<Vec<u32>, Finish>>,
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

    /// The mask that a constraint says for its next token.
    #[must_use]
    pub fn new(constraint: Box<dyn Constraint>, vocab: usize) -> Self {
        let constraint = Mutex::new(Some(constraint));
        Self(Arc::new(LateMaskMaker { constraint, vocab, made: OnceLock::new() }))
    }

    /// The mask, or how the answer ends without another token.
    pub(crate) fn get(&self) -> &Result<Vec<u32>, Finish> {
        let LateMaskMaker { constraint, vocab, made } = &*self.0;
        made.get_or_init(|| {
            let mut constraint = constraint.lock().unwrap_or_else(PoisonError::into_inner);
            match constraint.as_mut().map(|constraint| constraint.next(*vocab)) {
                Some(Next::Tokens(bits)) => within(bits, *vocab).ok_or(Finish::Constraint),
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
}

/// Keeps the bits of a vocabulary; `None` if none of them is set.
fn within(mut bits: Vec<u32>, vocab: usize) -> Option<Vec<u32>> {
    bits.resize(vocab.div_ceil(32), 0);
    if let (Some(last), len @ 1..) = (bits.last_mut(), vocab % 32) {
        *last &= (1 << len) - 1;
    }
    bits.iter().any(|word| *word != 0).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_bits_of_a_vocabulary() {
        assert_eq!(within(vec![0b101], 40), Some(vec![0b101, 0]));
        assert_eq!(within(vec![0, !0], 33), Some(vec![0, 1]));
        assert_eq!(within(vec![0, !0], 32), None, "bits beyond the vocabulary name no token");
        assert_eq!(within(vec![!0], 32), Some(vec![!0]));
    }
}

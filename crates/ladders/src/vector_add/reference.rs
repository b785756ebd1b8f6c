//! Reference of the sum of two vectors.

use crate::LadderElement;

pub(super) fn vector_add<T: LadderElement>(a: &[T], b: &[T]) -> impl Iterator<Item = T> {
    a.iter().zip(b).map(|(a, b)| a.plus(*b))
}

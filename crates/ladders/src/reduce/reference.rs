//! Reference of a sum.

use crate::LadderElement;

/// The sum of some elements, and the sum of their absolute values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reference {
    pub(super) sum: f64,
    pub(super) sum_of_magnitudes: f64,
}

pub(super) fn sum<T: LadderElement>(elements: &[T]) -> Reference {
    Reference { sum: T::sum(elements), sum_of_magnitudes: elements.iter().map(|element| element.as_f64().abs()).sum() }
}

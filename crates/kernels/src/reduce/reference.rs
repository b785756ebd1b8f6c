//! What a sum is, and how far from it a sum in some order may be.

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

/// How far a computed sum may be from the true one if no element goes through more than `depth` additions, each with
/// relative error `unit_roundoff` (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
#[must_use]
pub fn sum_error_bound(depth: u64, unit_roundoff: f64, sum_of_magnitudes: f64) -> f64 {
    let nu = depth as f64 * unit_roundoff;
    nu / (1.0 - nu) * sum_of_magnitudes
}

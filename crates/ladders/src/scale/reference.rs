//! Reference of scaling by the largest magnitude, with error bounds.

use crate::LadderElement;
use crate::row::{Expected, RowElement, RowResult};

/// A row scaled, in double precision, and what it was divided by.
pub(super) fn scale<T: RowElement>(elements: &[f64]) -> RowResult {
    let largest = elements.iter().fold(0.0, |largest, x| f64::max(largest, x.abs()));
    let divisor = if largest == 0.0 { 1.0 } else { largest };
    let expected = |x: &f64| Expected { value: x / divisor, bound: error_bound::<T>(x / divisor) };
    RowResult {
        output: elements.iter().map(expected).collect(),
        statistics: vec![Expected { value: largest, bound: 0.0 }],
    }
}

/// Returns the error bound of a quotient: it is rounded to `f32`, then to `T`, where it may be
/// subnormal.
#[must_use]
pub fn error_bound<T: LadderElement>(value: f64) -> f64 {
    value.abs() * (f32::UNIT_ROUNDOFF + T::UNIT_ROUNDOFF) + T::SMALLEST
}

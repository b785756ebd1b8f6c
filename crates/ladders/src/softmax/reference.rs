//! Reference of a softmax, with error bounds.

use crate::LadderElement;
use crate::row::{Expected, RowElement};

/// The softmax of some elements, in double precision.
pub(super) fn softmax<T: RowElement>(elements: &[f64]) -> Vec<Expected> {
    let largest = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<_> = elements.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    let expected = |(x, exponential): (&f64, &f64)| {
        let value = exponential / sum;
        Expected { value, bound: error_bound::<T>(elements.len(), largest - x, value) }
    };
    elements.iter().zip(&exponentials).map(expected).collect()
}

/// Returns the error bound of a result from the true `value` of an element that is `distance` below
/// the largest one, in a row of `row_len` elements of type `T`.
///
/// The relative error in units of `f32`'s roundoff: the exponential of the element and those of the
/// sum, 5 ulp each and the rounding of what they are taken of, its size for the element, and the
/// logarithm of the row's length for the sum; one addition an element; where the largest element is
/// not known beforehand, a product with an exponential (12 units) for what each of at least 32
/// threads, and then the combining of those, meets in turn; a reciprocal and a product. Then the
/// result is rounded to `T`, and it, or a factor of it, may be subnormal.
#[must_use]
pub fn error_bound<T: LadderElement>(row_len: usize, distance: f64, value: f64) -> f64 {
    let len = row_len as f64;
    let rescalings = 12.0 * (len / 32.0 + 16.0);
    let units = distance + 10.0 + (len + 1.0).ln() + 10.0 + len + rescalings + 4.0;
    value * (units * f32::UNIT_ROUNDOFF + T::UNIT_ROUNDOFF) + 16.0 * f32::SMALLEST + T::SMALLEST
}

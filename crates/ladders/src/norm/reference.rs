//! Reference of a norm, with error bounds.

use crate::LadderElement;
use crate::row::{Expected, RowElement, RowResult};

/// The layer norm of a row, its mean and `rstd`, in double precision.
pub(super) fn layer_norm<T: RowElement>(elements: &[f64], scale: &[f64], bias: &[f64], eps: f64) -> RowResult {
    let len = elements.len() as f64;
    let mean = elements.iter().sum::<f64>() / len;
    let variance = elements.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len;
    let rstd = (variance + eps).sqrt().recip();
    let relative = rstd_error_bound(elements.len(), mean * mean / (variance + eps));
    let expected = |((x, scale), bias): ((&f64, &f64), &f64)| {
        let normal = (x - mean) * rstd;
        let value = normal * scale + bias;
        Expected { value, bound: error_bound::<T>(relative, normal * scale, *scale, *bias) }
    };
    RowResult {
        output: elements.iter().zip(scale).zip(bias).map(expected).collect(),
        statistics: vec![
            Expected { value: mean, bound: relative / rstd },
            Expected { value: rstd, bound: relative * rstd },
        ],
    }
}

/// The RMS norm of a row, and `rstd`, in double precision.
pub(super) fn rms_norm<T: RowElement>(elements: &[f64], scale: &[f64], eps: f64) -> RowResult {
    let square = elements.iter().map(|x| x * x).sum::<f64>() / elements.len() as f64;
    let rstd = (square + eps).sqrt().recip();
    let relative = rstd_error_bound(elements.len(), 0.0);
    let expected = |(x, scale): (&f64, &f64)| {
        let value = x * rstd * scale;
        Expected { value, bound: error_bound::<T>(relative, value, 0.0, 0.0) }
    };
    RowResult {
        output: elements.iter().zip(scale).map(expected).collect(),
        statistics: vec![Expected { value: rstd, bound: relative * rstd }],
    }
}

/// Returns the error bound of a computed `rstd`, relative to it, and of a computed mean relative to
/// the deviation, in a row of `row_len` elements whose squared mean is `offset` times its variance.
///
/// An element goes through one addition, or combination, for each element that its thread has met,
/// of at least 256 threads per row, and one for each doubling of the threads. Each has a relative
/// error of at most four roundings; for the variance they count as often as the elements are larger
/// than their distances (Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983).
#[must_use]
pub fn rstd_error_bound(row_len: usize, offset: f64) -> f64 {
    let depth = row_len.div_ceil(256) as f64 + 16.0;
    4.0 * depth * (1.0 + offset).sqrt() * f32::UNIT_ROUNDOFF
}

/// Returns the error bound of a result: `relative` is [`rstd_error_bound`], `product` the element's
/// normal form times its scale. The mean's error counts times the scale; the product has four
/// roundings, the sum one; and the result is rounded to `T`, where it may be subnormal.
#[must_use]
pub fn error_bound<T: LadderElement>(relative: f64, product: f64, scale: f64, bias: f64) -> f64 {
    let value = product.abs() + bias.abs();
    let computed = relative * (product.abs() + scale.abs()) + 8.0 * f32::UNIT_ROUNDOFF * value;
    computed + T::UNIT_ROUNDOFF * (value + computed) + T::SMALLEST
}

//! Error bounds of results, as functions of type, length and magnitudes.
//!
//! Sums follow from the tree: |error| <= c * log2(n) * eps * sum|x| (N. Higham, "Accuracy and
//! Stability of Numerical Algorithms", section 4.2: a term meets as many roundings as the tree is
//! deep, each at most eps/2). With `SUM_CONSTANT` a term may meet four times as many as in a
//! perfect tree, so each thread may take some in a row.

use super::dtype::Dtype;

/// `c` of the bound for sums.
const SUM_CONSTANT: f64 = 2.0;

/// Distance from one to the next number, in the type that sums of `dtype` are held in.
#[must_use]
pub fn epsilon(dtype: Dtype) -> f64 {
    dtype.accumulator().format().epsilon()
}

/// The relative error of a sum of `n` terms of one sign; nothing is added for a single one.
#[must_use]
pub fn sum_relative(dtype: Dtype, n: usize) -> f64 {
    SUM_CONSTANT * (n.max(1) as f64).log2() * epsilon(dtype)
}

/// Error bound of a sum of `n` terms whose magnitudes sum to `magnitude`. Without a bound if they
/// overflow on their way.
#[must_use]
pub fn sum(dtype: Dtype, n: usize, magnitude: f64) -> f64 {
    if magnitude > dtype.accumulator().format().max() { f64::INFINITY } else { sum_relative(dtype, n) * magnitude }
}

/// Error bound of a sum of `n` terms that were themselves rounded once: products, squares.
#[must_use]
pub fn sum_of_products(dtype: Dtype, n: usize, magnitude: f64) -> f64 {
    let tiny = n as f64 * dtype.accumulator().format().min_denormal();
    sum(dtype, n, magnitude) + 0.5 * epsilon(dtype) * magnitude + tiny
}

/// Error bound of a sum of `n` products in any order, in at most 64 parts: each addition rounds
/// once. Tensor cores keep about 14 bits of sums of eight-bit floats (sm_90) until they are added
/// up outside.
#[must_use]
pub fn chain_of_products(dtype: Dtype, n: usize, magnitude: f64) -> f64 {
    let format = dtype.accumulator().format();
    if magnitude > format.max() {
        return f64::INFINITY;
    }
    let of_tensor_cores = if dtype.is_float() && dtype.bytes() == 1 { magnitude / 8192.0 } else { 0.0 };
    0.5 * (n as f64 + 64.0) * epsilon(dtype) * magnitude + n as f64 * format.min_denormal() + of_tensor_cores
}

/// Error bound of a product of `n` factors: each of the `n - 1` multiplications rounds once.
#[must_use]
pub fn product(dtype: Dtype, n: usize, value: f64) -> f64 {
    n.saturating_sub(1) as f64 * epsilon(dtype) * value.abs()
}

/// The relative error of e^-t from an approximation to a few units: the argument is rounded before.
#[must_use]
pub fn exponential_relative(dtype: Dtype, t: f64) -> f64 {
    epsilon(dtype) * (4.0 + 2.0 * t.abs())
}

/// Error bound of a logarithm, which is absolute around one.
#[must_use]
pub fn logarithm(dtype: Dtype, value: f64) -> f64 {
    4.0 * epsilon(dtype) * (1.0 + value.abs())
}

/// Error bound of max + log(sum of exponentials) over `n` terms.
#[must_use]
pub fn log_sum_exp(dtype: Dtype, n: usize, max: f64) -> f64 {
    let eps = epsilon(dtype);
    sum_relative(dtype, n) + eps * (8.0 + 2.0 * (n.max(1) as f64).ln() + 2.0 * max.abs())
}

/// Error bound of a variance, from the root mean square `rms` of the data and the variance itself.
///
/// First order: the terms and their sum. Second order: the mean is itself rounded, which Welford's
/// update and the two-pass form feel by deviation times eps * rms, and by its square. A difference
/// of two sums (mean of squares less the square of the mean) is off by eps * rms^2 and fails
/// wherever the data lies far from zero.
#[must_use]
pub fn variance(dtype: Dtype, n: usize, variance: f64, rms: f64) -> f64 {
    let eps = sum_relative(dtype, n) + 4.0 * epsilon(dtype);
    let tiny = dtype.accumulator().format().min_normal();
    if n <= 1 { 0.0 } else { eps * (variance + variance.sqrt() * rms) + (eps * rms).powi(2) + tiny }
}

/// Error bound of a subsequent square root or division: `count` units of the result.
#[must_use]
pub fn units(dtype: Dtype, count: f64, value: f64) -> f64 {
    count * epsilon(dtype) * value.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_element_is_summed_exactly() {
        assert_eq!(sum(Dtype::F32, 1, 5.0), 0.0);
        assert_eq!(sum(Dtype::F32, 0, 0.0), 0.0);
    }

    #[test]
    fn the_bound_grows_with_the_logarithm_of_the_length() {
        assert_eq!(sum(Dtype::F32, 1024, 1.0), 20.0 * f64::from(f32::EPSILON));
        assert_eq!(sum(Dtype::F16, 1024, 1.0), sum(Dtype::F32, 1024, 1.0));
        assert_eq!(sum(Dtype::F64, 2, 3.0), 6.0 * f64::EPSILON);
        assert_eq!(sum(Dtype::F32, 2, 1e39), f64::INFINITY);
    }

    #[test]
    fn a_difference_of_two_sums_is_no_variance() {
        // A thousand numbers around 1000, a tenth apart.
        let allowed = variance(Dtype::F32, 1000, 0.01, 1000.0);
        assert!(allowed < f64::from(f32::EPSILON) * 1000.0 * 1000.0);
    }
}

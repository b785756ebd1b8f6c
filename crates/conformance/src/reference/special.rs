//! The error function and its complement, to a few units of an `f64`.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.
#[must_use]
pub fn erf(x: f64) -> f64 {
    if x.abs() > 2.0 {
        return (1.0 - erfc(x.abs())).copysign(x);
    }
    if x == 0.0 || x.is_nan() {
        return x;
    }
    // A series of positive terms: nothing cancels.
    let (mut term, mut sum) = (x, x);
    for k in 1..80 {
        term *= 2.0 * x * x / f64::from(2 * k + 1);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// 1 - erf(x), without cancellation for large x.
#[must_use]
pub fn erfc(x: f64) -> f64 {
    if x <= 2.0 || x.is_nan() {
        return if x < -2.0 { 2.0 - erfc(-x) } else { 1.0 - erf(x) };
    }
    if x > 27.3 {
        return 0.0;
    }
    // Laplace's continued fraction, from its far end.
    let tail = (1..200).rev().fold(x, |rest, k| x + 0.5 * f64::from(k) / rest);
    (-x * x).exp() / (PI.sqrt() * tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(got: f64, want: f64) {
        assert!((got - want).abs() <= 4e-15 * want.abs(), "{got:e}, expected {want:e}");
    }

    /// Values from Abramowitz and Stegun, table 7.1, and from the definition.
    #[test]
    fn values_are_those_of_the_tables() {
        near(erf(0.5), 0.520_499_877_813_046_5);
        near(erf(1.0), 0.842_700_792_949_714_9);
        near(erf(-2.0), -0.995_322_265_018_952_7);
        near(erf(3.0), 0.999_977_909_503_001_4);
        near(erfc(3.0), 2.209_049_699_858_544e-5);
        near(erfc(0.5), 0.479_500_122_186_953_5);
        near(erfc(-3.0), 1.999_977_909_503_001_4);
        near(erf(1e-300), FRAC_2_SQRT_PI * 1e-300);
        assert_eq!((erf(f64::INFINITY), erfc(f64::NEG_INFINITY), erf(-0.0).to_bits()), (1.0, 2.0, (-0.0f64).to_bits()));
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    }

    #[test]
    fn both_forms_meet_where_they_change() {
        near(1.0 - erfc(2f64.next_up()), erf(2.0));
    }
}

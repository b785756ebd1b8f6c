//! The error function, as the host's library has none.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// To about 1e-15 of its value.
pub(crate) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size > 2.5 {
        return (1.0 - tail(size)).copysign(x);
    }
    // The series of positive terms, in which nothing cancels (Abramowitz and Stegun, 7.1.6).
    let mut term = x;
    let mut sum = x;
    for n in 1..120 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    if x.is_nan() || x == 0.0 { x } else { FRAC_2_SQRT_PI * (-x * x).exp() * sum }
}

/// `1 - erf(x)` for large `x`, by a continued fraction (Abramowitz and Stegun, 7.1.14).
fn tail(x: f64) -> f64 {
    if x > 27.0 {
        return 0.0;
    }
    let fraction = (1..160).rev().fold(x, |rest, k| x + f64::from(k) / 2.0 / rest);
    (-x * x).exp() / (PI.sqrt() * fraction)
}

#[test]
fn both_forms_agree_with_the_tables() {
    for (x, value) in [(0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (3.0, 0.999_977_909_503_001_4)] {
        assert!((erf(x) - value).abs() < 2e-15 && erf(-x) == -erf(x), "{x}");
    }
}

//! The error bounds that the mathematical functions document, checked on the PTX that they emit:
//! every approximate instruction errs as badly as the PTX ISA allows, in every combination of
//! directions.

mod evaluate;

use evaluate::Function;
use warpfold_lang::Val;

/// Arguments over all bit patterns of f32, and the special ones.
fn arguments() -> impl Iterator<Item = f32> {
    let special = [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX];
    // Three in four are between 2^-10 and 2^8, where the functions have their shape.
    let everywhere = (0..u32::MAX).step_by(170_003).map(f32::from_bits);
    let shapely = (0x3a80_0000_u32..0x4380_0000).step_by(4_001).flat_map(|b| [f32::from_bits(b), -f32::from_bits(b)]);
    special.into_iter().chain(everywhere).chain(shapely)
}

/// The distance from f32 to its neighbour, for the magnitude of `exact`.
fn ulp(exact: f64) -> f64 {
    let exponent = exact.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (exponent - 23.0).exp2()
}

/// Every combination of -1, 0 and 1.
fn directions(n: usize) -> Vec<Vec<i32>> {
    (0..n).fold(vec![Vec::new()], |all, _| {
        all.iter().flat_map(|head| [-1, 0, 1].map(|last| [&head[..], &[last]].concat())).collect()
    })
}

#[track_caller]
fn check(f: fn(Val<f32>) -> Val<f32>, reference: fn(f64) -> f64, max_ulp: f64, smallest: f64) {
    let function = Function::record(f);
    let directions = directions(function.num_approximate);
    let (mut worst, mut at) = (0.0, 0.0);
    for x in arguments() {
        let exact = reference(f64::from(x));
        for errors in &directions {
            let result = function.evaluate(x, errors);
            if exact.is_nan() || !((exact as f32).is_finite()) {
                // At the end of the range the error may already reach infinity, or just not.
                let near = exact.abs() < f64::from(f32::MAX) * 1.000_001;
                assert!(
                    near || result.to_bits() == (exact as f32).to_bits() || result.is_nan() && exact.is_nan(),
                    "f({x:e}) = {result:e}, expected {exact:e}"
                );
                continue;
            }
            if result.is_infinite() && exact > f64::from(f32::MAX) * 0.999_999 {
                continue;
            }
            let error = (f64::from(result) - exact).abs() / ulp(exact);
            if exact.abs() >= smallest && (error > worst || error.is_nan()) {
                (worst, at) = (error, x);
            }
        }
    }
    assert!(worst <= max_ulp, "off by {worst} ulp at {at:e}, documented are {max_ulp}");
    assert!(worst > max_ulp - 1.5, "off by {worst} ulp at most: document less than {max_ulp}");
}

const NORMAL: f64 = f32::MIN_POSITIVE as f64;

#[test]
fn exp_keeps_its_bound() {
    check(Val::exp, f64::exp, 5.0, 0.0);
}

#[test]
fn ln_keeps_its_bound() {
    check(Val::ln, f64::ln, 1.0, 0.0);
}

#[test]
fn tanh_keeps_its_bound() {
    check(Val::tanh, f64::tanh, 4.0, 0.0);
}

#[test]
fn sigmoid_keeps_its_bound() {
    check(Val::sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 8.0, NORMAL);
}

#[test]
fn erf_keeps_its_bound() {
    check(Val::erf, erf, 2.0, 0.0);
}

/// The series near zero, the continued fraction of the complement elsewhere.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    let magnitude = x.abs();
    let value = if magnitude < 2.5 {
        let mut term = magnitude;
        let mut sum = magnitude;
        for n in 1..100_u32 {
            term *= -magnitude * magnitude / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if magnitude < 7.0 {
        let fraction = (1..=80_u32).rev().fold(magnitude, |below, k| magnitude + f64::from(k) / 2.0 / below);
        1.0 - (-magnitude * magnitude).exp() / fraction / std::f64::consts::PI.sqrt()
    } else {
        1.0
    };
    value.copysign(x)
}

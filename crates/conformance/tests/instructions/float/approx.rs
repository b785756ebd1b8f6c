//! `sin`, `cos`, `lg2`, `ex2` and `tanh`: within the errors that the ISA states, special values by
//! its tables.

use std::f64::consts::PI;

use warpfold_conformance::instructions::{Kind, combinations, run};

use crate::instructions::float::reference::{all_16, random};

const INFINITY: u32 = 0x7f80_0000;
const NEGATIVE: u32 = 0x8000_0000;
const NAN: u32 = 0x7fff_ffff;
const ONE: u32 = 0x3f80_0000;

/// Edge values, random ones, and magnitudes spread evenly over those of all numbers, and over [-8,
/// 8].
fn inputs() -> Vec<[u64; 1]> {
    let mut inputs = combinations([Kind::F32]);
    inputs.extend(random([Kind::F32], 20_000));
    inputs.extend((0..200_000).map(|n| [n * 21_397]));
    inputs.extend((0..200_000).map(|n| [u64::from((((f64::from(n) - 1e5) / 12_500.0) as f32).to_bits())]));
    inputs
}

/// Checks `.approx` of an `f32` function, given a bound on the distance from the exact result at
/// each input.
#[track_caller]
fn check(name: &str, ftz: bool, exact: fn(f64) -> f64, bound: fn(f64) -> f64, special: &[(u32, u32)]) {
    let text = format!("{name}.approx{}.f32 x, a;", if ftz { ".ftz" } else { "" });
    let flushed = |x: f32| if ftz && x.is_subnormal() { 0f32.copysign(x) } else { x };
    let inputs = inputs();
    for ([a], [x]) in inputs.iter().zip(run(&text, [Kind::F32], [Kind::F32], &inputs).unwrap()) {
        let input = flushed(f32::from_bits(*a as u32));
        let (found, expected) = (f32::from_bits(x as u32), exact(input.into()));
        let is_right = match special.iter().find(|(input_bits, _)| *input_bits == input.to_bits()) {
            Some((_, result)) => found.to_bits() == *result,
            None if expected.is_nan() => found.to_bits() == NAN,
            None if ftz && expected.abs() < f32::MIN_POSITIVE.into() && found == 0.0 => true,
            None if found.is_infinite() => expected >= f32::MAX.into(),
            None => (f64::from(found) - expected).abs() <= bound(input.into()),
        };
        let is_right = is_right && !(ftz && found.is_subnormal());
        assert!(is_right, "`{text}` of {a:#010x} ({input:e}): {x:#010x} ({found:e}), not {expected:e}");
    }
}

/// The bound of `sin` and `cos`; none is stated beyond 100 pi. The ISA says 2^-20.5 up to 2 pi;
/// hardware, whose bits these are, is a little beyond that.
fn circular_bound(x: f64) -> f64 {
    match x.abs() {
        x if x <= 2.0 * PI => 2f64.powf(-20.4),
        x if x <= 100.0 * PI => 2f64.powf(-14.7),
        _ => 2.0,
    }
}

#[test]
fn sin_and_cos_are_within_the_stated_error() {
    let infinities = [(INFINITY, NAN), (INFINITY | NEGATIVE, NAN)];
    for ftz in [false, true] {
        check("sin", ftz, f64::sin, circular_bound, &[&[(0, 0), (NEGATIVE, NEGATIVE)][..], &infinities].concat());
        check("cos", ftz, f64::cos, circular_bound, &[&[(0, ONE), (NEGATIVE, ONE)][..], &infinities].concat());
    }
}

#[test]
fn lg2_is_within_the_stated_error() {
    // "Maximum absolute error is 2^-22 in (0.5, 2); outside, the maximum relative error is 2^-22."
    let bound = |x: f64| 2f64.powi(-22) * if x > 0.5 && x < 2.0 { 1.0 } else { x.log2().abs() };
    let below_zero = INFINITY | NEGATIVE;
    let special = [(below_zero, NAN), (NEGATIVE, below_zero), (0, below_zero), (INFINITY, INFINITY)];
    for ftz in [false, true] {
        check("lg2", ftz, f64::log2, bound, &special);
    }
}

/// The unit in the last place of the `f32` nearest to a number.
fn ulp(x: f64) -> f64 {
    let bits = (x as f32).to_bits() & 0x7fff_ffff;
    let exponent = (bits >> 23).max(1);
    2f64.powi(i32::try_from(exponent).expect("eight bits") - 127 - 23)
}

#[test]
fn ex2_is_within_two_units_of_the_last_place() {
    // Two from the rounded result, which is half of one from the exact result.
    let special = [(INFINITY | NEGATIVE, 0), (NEGATIVE, ONE), (0, ONE), (INFINITY, INFINITY)];
    for ftz in [false, true] {
        check("ex2", ftz, f64::exp2, |x| 2.5 * ulp(x.exp2()), &special);
    }
}

#[test]
fn tanh_is_within_the_stated_error_and_passes_subnormal_numbers_through() {
    let special = [
        (INFINITY | NEGATIVE, ONE | NEGATIVE),
        (NEGATIVE, NEGATIVE),
        (0, 0),
        (INFINITY, ONE),
        (1, 1),
        (0x7f_ffff, 0x7f_ffff),
    ];
    check("tanh", false, f64::tanh, |x| 2f64.powi(-11) * x.tanh().abs(), &special);
}

/// A 16-bit format: how to read it, and the distance between its numbers near zero.
struct Format {
    name: &'static str,
    kind: Kind,
    pair: Kind,
    read: fn(u64) -> f64,
    smallest: f64,
    infinity: u64,
}

const F16: Format = Format {
    name: "f16",
    kind: Kind::F16,
    pair: Kind::F16x2,
    read: |bits| {
        let (exponent, mantissa) = (bits >> 10 & 31, (bits & 0x3ff) as f64);
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + mantissa) * 2f64.powi(exponent as i32 - 25),
        };
        if bits >> 15 != 0 { -magnitude } else { magnitude }
    },
    smallest: 5.960_464_477_539_063e-8,
    infinity: 0x7c00,
};

const BF16: Format = Format {
    name: "bf16",
    kind: Kind::Bf16,
    pair: Kind::Bf16x2,
    read: |bits| f64::from(f32::from_bits((bits as u32) << 16)),
    smallest: 9.183_549_615_799_121e-41,
    infinity: 0x7f80,
};

/// Checks `.approx` of a 16-bit function at every input, alone and packed.
#[track_caller]
fn check_half(format: &Format, text: &str, flush: bool, exact: fn(f64) -> f64, bound: impl Fn(f64) -> f64) {
    let inputs = all_16();
    let words: Vec<_> = inputs.iter().map(|[a]| [a | (a.rotate_left(5) & 0xffff ^ a >> 11) << 16]).collect();
    let single = format!("{text}.{} x, a;", format.name);
    let double = format!("{text}.{}x2 x, a;", format.name);
    let found = run(&single, [format.kind], [format.kind], &inputs).unwrap();
    let found_pairs = run(&double, [format.pair], [format.pair], &words).unwrap();
    for ([a], [x]) in inputs.iter().zip(&found) {
        let is_subnormal = |bits: u64| bits & format.infinity == 0 && bits & 0x7fff != 0;
        let input = (format.read)(if flush && is_subnormal(*a) { a & 0x8000 } else { *a });
        let (number, expected) = ((format.read)(*x), exact(input));
        let is_right = match () {
            () if expected.is_nan() => *x == 0x7fff,
            () if expected == 0.0 || expected.is_infinite() || expected.abs() == 1.0 => number == expected,
            () if number.is_infinite() => expected > (format.read)(format.infinity - 1) * (1.0 - bound(expected)),
            () if flush && number == 0.0 => expected < format.smallest * 128.0,
            () => (number - expected).abs() <= bound(expected).max(format.smallest) && !(flush && is_subnormal(*x)),
        };
        let is_signed = expected.to_bits() << 1 != 0 || expected.is_sign_negative() == (*x >= 0x8000);
        assert!(is_right && is_signed, "`{single}` of {a:#06x}: {x:#06x} ({number:e}), not {expected:e}");
    }
    for ([a], [x]) in words.iter().zip(&found_pairs) {
        let half = |bits: u64| found[usize::try_from(bits & 0xffff).expect("16 bits")][0];
        let expected = half(*a) | half(a >> 16) << 16;
        assert!(*x == expected, "`{double}` of {a:#010x}: {x:#010x}, not {expected:#010x}");
    }
}

#[test]
fn ex2_of_16_bits_is_within_the_stated_error_for_every_input() {
    check_half(&F16, "ex2.approx", false, f64::exp2, |y| y * 2f64.powf(-9.9));
    check_half(&BF16, "ex2.approx.ftz", true, f64::exp2, |y| y * 2f64.powi(-7));
}

#[test]
fn tanh_of_16_bits_is_within_the_stated_error_for_every_input() {
    check_half(&F16, "tanh.approx", false, f64::tanh, |_| 2f64.powf(-10.987));
    // The ISA says 2^-8; hardware cuts what is already a little too small.
    check_half(&BF16, "tanh.approx", false, f64::tanh, |_| 2f64.powf(-7.99));
}

//! Mathematical functions on every device at hand, against the same to 100 bits: the bounds that
//! they document, and what C says of zeros, infinities and NaN.

use warpfold_device::{Device, LaunchConfig};
use warpfold_lang::{Global, Val, WideFloat, block_dim, block_idx, kernel, thread_idx, when};

use crate::language::harness::Value;
use crate::language::quad::Q;

/// A type with what the tests need to know about it.
trait Real: Value + WideFloat + Into<f64> {
    const DIGITS: i32;
    const MIN_EXPONENT: i32;
    const MAX: f64;
    fn nearest(value: f64) -> Self;
    /// The number with the high bits of a pattern.
    fn from_pattern(pattern: u64) -> Self;
}

impl Real for f32 {
    const DIGITS: i32 = 24;
    const MIN_EXPONENT: i32 = -126;
    const MAX: f64 = f32::MAX as f64;
    fn nearest(value: f64) -> Self {
        value as Self
    }
    fn from_pattern(pattern: u64) -> Self {
        Self::from_bits((pattern >> 32) as u32)
    }
}

impl Real for f64 {
    const DIGITS: i32 = 53;
    const MIN_EXPONENT: i32 = -1022;
    const MAX: f64 = f64::MAX;
    fn nearest(value: f64) -> Self {
        value
    }
    fn from_pattern(pattern: u64) -> Self {
        Self::from_bits(pattern)
    }
}

/// Pairs of results and arguments on each device.
fn run<T: Real>(
    name: &str,
    left: &[T],
    right: &[T],
    f: impl Fn(Val<T>, Val<T>) -> Val<T> + Copy + Send + Sync + 'static,
) -> Vec<(String, Vec<T>)> {
    let apply = kernel(name, move |a: Global<T>, b: Global<T>, out: Global<T>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || out.at(i).set(f(a.at(i).get(), b.at(i).get())));
    });
    let len = left.len();
    let on = |device: Device| {
        let (a, b) = (device.upload(left)?, device.upload(right)?);
        let mut out = device.alloc::<T>(len)?;
        device.launch(&apply, LaunchConfig::for_elements(len, 128), (&a, &b, &mut out, len as u32))?;
        Ok((device.to_string(), out.download()?))
    };
    let results: Result<_, warpfold_device::Error> = Device::all().into_iter().map(on).collect();
    results.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The error of a result in units of the last place of the exact one.
fn ulps<T: Real>(result: T, exact: Q) -> f64 {
    let magnitude = exact.to_f64().abs();
    let exponent =
        if magnitude == 0.0 { T::MIN_EXPONENT } else { (magnitude.log2().floor() as i32).max(T::MIN_EXPONENT) };
    let error = Q::from(result.into()) - exact;
    // In two steps, as the unit may be less than any f64.
    let half = (T::DIGITS - 1 - exponent) / 2;
    let rest = T::DIGITS - 1 - exponent - half;
    (error * f64::from(half).exp2() * f64::from(rest).exp2()).to_f64().abs()
}

/// Checks a function of two arguments, and that its documented bound is not much more than what is
/// seen.
#[track_caller]
fn check_both<T: Real>(
    name: &str,
    arguments: &[(T, T)],
    bound: f64,
    f: impl Fn(Val<T>, Val<T>) -> Val<T> + Copy + Send + Sync + 'static,
    reference: impl Fn(Q, Q) -> Q,
) {
    let (left, right): (Vec<T>, Vec<T>) = arguments.iter().copied().unzip();
    let exact: Vec<Q> = arguments.iter().map(|(a, b)| reference(Q::from((*a).into()), Q::from((*b).into()))).collect();
    for (device, results) in run(name, &left, &right, f) {
        let (mut worst, mut at) = (0.0, 0);
        for (i, (result, exact)) in results.iter().zip(&exact).enumerate() {
            let (a, b, result): (f64, f64, f64) = (left[i].into(), right[i].into(), (*result).into());
            let rounded: f64 = T::nearest(exact.to_f64()).into();
            if !rounded.is_finite() {
                // At the end of the range an error of a unit decides.
                let near = exact.to_f64().abs() < T::MAX * (1.0 + 4.0 * (-f64::from(T::DIGITS)).exp2())
                    && result.abs() == T::MAX;
                let same = result.to_bits() == rounded.to_bits() || result.is_nan() && rounded.is_nan();
                assert!(same || near, "{name}({a:e}, {b:e}) on {device} is {result:e}, expected {rounded:e}");
                continue;
            }
            if rounded == 0.0 && result == 0.0 {
                continue;
            }
            let near = result.is_infinite() && rounded.abs() >= T::MAX;
            let error = if near { 0.0 } else { ulps(T::nearest(result), *exact) };
            if error > worst || error.is_nan() {
                (worst, at) = (error, i);
            }
        }
        let (a, b): (f64, f64) = (left[at].into(), right[at].into());
        assert!(worst <= bound, "{name}({a:e}, {b:e}) on {device} is off by {worst} ulp, documented are {bound}");
        assert!(worst > bound - 1.0, "{name} on {device} is off by {worst} ulp at most: document less than {bound}");
    }
}

/// The same for a function of one argument.
#[track_caller]
fn check_one<T: Real>(
    name: &str,
    arguments: &[T],
    bound: f64,
    f: impl Fn(Val<T>) -> Val<T> + Copy + Send + Sync + 'static,
    reference: impl Fn(Q) -> Q,
) {
    let arguments: Vec<(T, T)> = arguments.iter().map(|a| (*a, *a)).collect();
    check_both(name, &arguments, bound, move |a, _| f(a), |a, _| reference(a));
}

/// Patterns that look random.
fn patterns(num: u64) -> impl Iterator<Item = u64> {
    (1..=num).map(|i| {
        let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 27)
    })
}

/// Numbers of all magnitudes and signs.
fn everywhere<T: Real>(num: u64) -> Vec<T> {
    let special = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, T::MAX, -T::MAX];
    let tiny = [1.0, -1.0, 3.0].map(|x| x * f64::from(T::MIN_EXPONENT).exp2() * (1.0 - f64::from(T::DIGITS)).exp2());
    let numbers = patterns(num).map(T::from_pattern);
    special.into_iter().chain(tiny).map(T::nearest).chain(numbers).collect()
}

/// Numbers evenly between two.
fn between<T: Real>(low: f64, high: f64, num: u64) -> Vec<T> {
    patterns(num).map(|x| T::nearest(low + (high - low) * (x as f64 / u64::MAX as f64))).collect()
}

/// The same with each sign and, within the bounds, of every magnitude down to 2^-40.
fn up_to<T: Real>(high: f64, num: u64) -> Vec<T> {
    let mut numbers = between::<T>(-high, high, num);
    numbers.extend(patterns(num).map(|x| {
        let exponent = -40.0 * ((x >> 32) as f64 / f64::from(u32::MAX));
        let sign = if x & 1 == 0 { high } else { -high };
        T::nearest(sign * exponent.exp2())
    }));
    numbers
}

fn joined<T: Real>(parts: &[Vec<T>]) -> Vec<T> {
    parts.concat()
}

macro_rules! functions {
    ($type:ident $($bounds:tt)*) => {
        mod $type {
            use super::*;
            const N: u64 = 2000;
            functions!(@each $type $($bounds)*);
        }
    };
    (@each $type:ident $($name:ident $bound:literal: $arguments:expr;)*) => {$(
        #[test]
        fn $name() {
            check_one::<$type>(stringify!($name), &joined(&$arguments), $bound, Val::$name, Q::$name);
        }
    )*};
}

functions! { f64
    exp2 1.5: [everywhere(N), up_to(1100.0, N)];
    exp 1.5: [everywhere(N), up_to(750.0, N)];
    expm1 2.0: [everywhere(N), up_to(750.0, N), up_to(2.0, N)];
    ln 1.0: [everywhere(N), between(0.5, 2.0, N)];
    log2 1.0: [everywhere(N), between(0.5, 2.0, N)];
    log10 1.0: [everywhere(N), between(0.5, 2.0, N)];
    log1p 1.5: [everywhere(N), between(-1.0, 2.0, N), up_to(1.0, N)];
    cbrt 1.0: [everywhere(N), up_to(10.0, N)];
    sinh 2.0: [everywhere(N), up_to(715.0, N), up_to(30.0, N)];
    cosh 2.0: [everywhere(N), up_to(715.0, N), up_to(30.0, N)];
    tanh 2.5: [everywhere(N), up_to(30.0, N), up_to(1.0, N)];
    sigmoid 2.0: [everywhere(N), up_to(750.0, N), up_to(40.0, N)];
    erf 1.0: [everywhere(N), up_to(6.5, N), up_to(1.0, N)];
    atan 2.0: [everywhere(N), up_to(4.0, N)];
    asin 2.5: [up_to(1.0, N), up_to(0.6, N)];
    acos 1.5: [up_to(1.0, N), up_to(0.6, N)];
    tan 2.0: [up_to(10.0, N), up_to(1e6, N)];
}

functions! { f32
    expm1 2.0: [everywhere(N), up_to(110.0, N), up_to(2.0, N)];
    log2 1.0: [everywhere(N), between(0.5, 2.0, N)];
    log10 1.0: [everywhere(N), between(0.5, 2.0, N)];
    log1p 1.5: [everywhere(N), between(-1.0, 2.0, N), up_to(1.0, N)];
    cbrt 1.0: [everywhere(N), up_to(10.0, N)];
    sinh 2.0: [everywhere(N), up_to(100.0, N), up_to(12.0, N)];
    cosh 2.0: [everywhere(N), up_to(100.0, N), up_to(12.0, N)];
    atan 2.0: [everywhere(N), up_to(4.0, N)];
    asin 2.5: [up_to(1.0, N), up_to(0.6, N)];
    acos 1.5: [up_to(1.0, N), up_to(0.6, N)];
    tan 2.0: [up_to(10.0, N), up_to(1e6, N)];
}

#[test]
fn powers_keep_their_bound() {
    fn check<T: Real>(exponent_range: f64) {
        let bases: Vec<T> = [everywhere(1000), between(0.0, 10.0, 3000), between(0.99, 1.01, 1000)].concat();
        let exponents: Vec<T> = [between(-20.0, 20.0, 4000), up_to(exponent_range, 500)].concat();
        let positive = |x: &T| -> bool {
            let x: f64 = (*x).into();
            x > 0.0 && x.is_finite()
        };
        let pairs: Vec<(T, T)> = bases.into_iter().filter(positive).zip(exponents).collect();
        check_both("pow", &pairs, 1.0, |x, y| x.pow(y), Q::pow);
        // Close to 1, to powers that use the whole range.
        let near_one = between::<T>(0.9, 1.1, 3000);
        let pairs: Vec<(T, T)> = near_one
            .into_iter()
            .zip(between(0.0, T::MAX.ln(), 3000))
            .map(|(x, y): (T, T)| {
                let (base, logarithm): (f64, f64) = (x.into(), y.into());
                (x, T::nearest(logarithm / base.ln()))
            })
            .collect();
        check_both("pow", &pairs, 1.0, |x, y| x.pow(y), Q::pow);
    }
    check::<f64>(200.0);
    check::<f32>(30.0);
}

#[test]
fn powers_have_the_special_cases_of_c() {
    fn check<T: Real>(reference: impl Fn(T, T) -> T) {
        let values =
            [0.0, 0.5, 1.0, 2.0, 3.0, 1.5, 4_503_599_627_370_497.0, 16_777_215.0, 1e30, f64::INFINITY, f64::NAN];
        let signed: Vec<T> = values.iter().flat_map(|x| [*x, -*x]).map(T::nearest).collect();
        let pairs: Vec<(T, T)> = signed.iter().flat_map(|x| signed.iter().map(|y| (*x, *y))).collect();
        let (left, right): (Vec<T>, Vec<T>) = pairs.into_iter().unzip();
        for (device, results) in run("pow", &left, &right, |x, y| x.pow(y)) {
            for ((x, y), result) in left.iter().zip(&right).zip(results) {
                let expected: f64 = reference(*x, *y).into();
                let result: f64 = result.into();
                let special = expected == 0.0 || !expected.is_finite();
                let close = (result - expected).abs() <= expected.abs() * 3e-7;
                let same = result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan();
                assert!(same || !special && close, "{x:?}^{y:?} on {device} is {result:e}, expected {expected:e}");
            }
        }
    }
    check(f64::powf);
    check(f32::powf);
}

#[test]
fn powers_of_two_are_exact() {
    let integers: Vec<f64> = (-1074..1024).map(f64::from).collect();
    for (device, results) in run("exp2", &integers, &integers, |x, _| x.exp2()) {
        for (integer, result) in integers.iter().zip(results) {
            assert_eq!(result, integer.exp2(), "2^{integer} on {device}");
        }
        for (device, exponents) in run("log2", &integers, &integers, |x, _| x.exp2().log2()) {
            assert_eq!(exponents, integers, "on {device}");
        }
    }
}

#[test]
fn sines_and_cosines_keep_their_bound() {
    fn check<T: Real>(limit: f64, beyond: f64, angles_of_reference: fn(Q) -> (Q, Q)) {
        let angles = [up_to::<T>(10.0, 1000), up_to(limit, 1000), up_to(beyond, 1000)].concat();
        check_one("sin", &angles, 1.0, Val::sin, |x| angles_of_reference(x).0);
        check_one("cos", &angles, 1.0, Val::cos, |x| angles_of_reference(x).1);
        let both = run("sin_cos", &angles, &angles, |x, _| {
            let (sine, cosine) = x.sin_cos();
            sine.eq(x.sin()).select(cosine, Val::constant(T::nearest(f64::NAN)))
        });
        assert_eq!(both, run("cos", &angles, &angles, |x, _| x.cos()));
    }
    check::<f64>(1.1e9, 1e14, Q::sin_cos);
    // The host reduces any angle; its f64 is exact enough for an f32.
    check::<f32>(70_000.0, 3.4e38, |x| {
        let (sine, cosine) = x.to_f64().sin_cos();
        (Q::from(sine), Q::from(cosine))
    });
    check::<f32>(1e6, 1e12, Q::sin_cos);
}

#[test]
fn huge_angles_are_reduced_with_all_the_digits_they_need() {
    // From an arithmetic of 2400 bits. The second angle is the double nearest to a multiple of π/2.
    let known: [(f64, f64, f64); 7] = [
        (1e+22, -0.8522008497671888, 0.523214785395139),
        (5.319372648326541e+255, 1.0, -4.687165924254628e-19),
        (1.7976931348623157e+308, 0.004961954789184062, -0.9999876894265599),
        (1073741824.0, -0.6173264150460421, 0.7867071229411882),
        (3.802951800684688e+30, 0.03734425598969816, -0.999302459991256),
        (1e+300, -0.8178819121159085, -0.5753861119575491),
        (1073741825.25, 0.5519161360473517, 0.8338996215196175),
    ];
    let angles: Vec<f64> = known.iter().map(|(angle, ..)| *angle).collect();
    let close = |result: f64, expected: f64| ((result - expected) / expected).abs() < 2.3e-16;
    for (device, results) in run("sin", &angles, &angles, |x, _| x.sin()) {
        for ((angle, expected, _), result) in known.iter().zip(results) {
            assert!(close(result, *expected), "sin({angle:e}) on {device} is {result:e}");
        }
    }
    for (device, results) in run("cos", &angles, &angles, |x, _| -(-x).cos()) {
        for ((angle, _, expected), result) in known.iter().zip(results) {
            assert!(close(-result, *expected), "cos({angle:e}) on {device} is {result:e}");
        }
    }
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for (_, results) in run("sin", &special, &special, |x, _| x.sin()) {
        assert_eq!(results[..2].iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0, 1 << 63]);
        assert!(results[2..].iter().all(|x| x.is_nan()));
    }
}

#[test]
fn remainders_are_exact() {
    fn check<T: Real>(reference: impl Fn(T, T) -> T) {
        let left = [everywhere::<T>(3000), between(-100.0, 100.0, 1000), everywhere(1000)].concat();
        let right = [everywhere::<T>(1000), between(-10.0, 10.0, 1000), everywhere(3000)].concat();
        let rotated = right.iter().cycle().skip(17).copied();
        let right: Vec<T> = rotated.take(left.len()).collect();
        for (device, results) in run("fmod", &left, &right, |x, y| x.fmod(y)) {
            for ((x, y), result) in left.iter().zip(&right).zip(results) {
                let (expected, result): (f64, f64) = (reference(*x, *y).into(), result.into());
                let same = result.to_bits() == expected.to_bits() || result.is_nan() && expected.is_nan();
                assert!(same, "{x:?} % {y:?} on {device} is {result:e}, expected {expected:e}");
            }
        }
    }
    check::<f64>(|x, y| x % y);
    check::<f32>(|x, y| x % y);
}

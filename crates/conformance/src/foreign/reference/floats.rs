//! Float functions, roundings and conversions.

use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round};

use super::{erf, row};
use crate::foreign::expect::{Outcome, close, exact, ulps32, ulps64, wide};
use crate::foreign::run::Run;

/// A function by name, and the error that it may have at `x` with the right answer `y`.
type Function = (&'static str, fn(f64) -> f64, fn(f64, f64) -> f64);

/// Row by row: the k-th function of every input.
fn functions(input: &[f64], output: &[f64], list: &[Function]) -> Outcome {
    let n = input.len();
    for (k, (name, f, bound)) in list.iter().enumerate() {
        let want: Vec<f64> = input.iter().map(|&x| f(x)).collect();
        close(name, row(output, k, n), &want, |i| bound(input[i], want[i]))?;
    }
    Ok(())
}

/// The positive argument that the single-precision kernels derive from x.
fn p32(x: f64) -> f64 {
    f64::from((x as f32).abs() + f32::from_bits(0x3a80_0000))
}

fn p64(x: f64) -> f64 {
    x.abs() + 2f64.powi(-20)
}

const EXACT: fn(f64, f64) -> f64 = |_, _| 0.0;

fn steps32(x: f64) -> f64 {
    x.floor() + 4.0 * x.trunc() + 16.0 * x.round_ties_even() + 64.0 * x.ceil()
}

/// `(input, output, n)`: within four units in the last place, which is what the compiler's library
/// promises or better.
pub(super) fn float_functions(run: &Run<'_>) -> Outcome {
    let four = |_: f64, y: f64| ulps32(4.0, y);
    functions(
        &wide(&run.before::<f32>(0)),
        &wide(&run.after::<f32>(1)),
        &[
            ("sinf", f64::sin, four),
            ("cosf", f64::cos, four),
            ("expf", f64::exp, four),
            ("logf", |x| p32(x).ln(), four),
            ("powf", |x| p32(x).powf(f64::from(1.7f32)), four),
            ("sqrtf", |x| p32(x).sqrt(), |_, y| ulps32(0.5, y)),
            ("tanhf", f64::tanh, four),
            ("div", |x| x / f64::from(3.7f32), |_, y| ulps32(0.5, y)),
            ("rcp", |x| 1.0 / p32(x), |_, y| ulps32(0.5, y)),
            ("rsqrtf", |x| 1.0 / p32(x).sqrt(), four),
            ("floor, trunc, rint, ceil", steps32, EXACT),
            ("fmodf", |x| x % 0.75, EXACT),
            ("exp2f + log2f", |x| x.exp2() + p32(x).log2(), |x, _| ulps32(4.0, x.exp2() + p32(x).log2().abs())),
            ("atanf", f64::atan, four),
        ],
    )
}

/// Absolute error of the approximate sine and cosine on [-pi, pi].
const TRIGONOMETRIC: fn(f64, f64) -> f64 = |_, _| 2.0 * 0.000_000_672;
/// Error of the approximate exponential: the argument times log2(e) is rounded, then two units.
const EXPONENTIAL: fn(f64, f64) -> f64 = |x, y| ulps32(4.0 + 2.0 * x.abs(), y);
/// Error of the approximate logarithm: absolute near 1.
const LOGARITHM: fn(f64, f64) -> f64 = |_, y| 2f64.powi(-21) + ulps32(2.0, y);
/// Error of x^1.7 through both.
const POWER: fn(f64, f64) -> f64 = |x, y| ulps32(16.0 + 8.0 * p32(x).ln().abs(), y);

/// The same source with `-use_fast_math`: approximations, denormals flushed.
pub(super) fn float_functions_fast(run: &Run<'_>) -> Outcome {
    let two = |_: f64, y: f64| ulps32(2.0, y);
    functions(
        &wide(&run.before::<f32>(0)),
        &wide(&run.after::<f32>(1)),
        &[
            ("sinf", f64::sin, TRIGONOMETRIC),
            ("cosf", f64::cos, TRIGONOMETRIC),
            ("expf", f64::exp, EXPONENTIAL),
            ("logf", |x| p32(x).ln(), LOGARITHM),
            ("powf", |x| p32(x).powf(f64::from(1.7f32)), POWER),
            ("sqrtf", |x| p32(x).sqrt(), two),
            ("tanhf", f64::tanh, |_, y| 2f64.powi(-10) * y.abs()),
            ("div", |x| x / f64::from(3.7f32), two),
            ("rcp", |x| 1.0 / p32(x), two),
            ("rsqrtf", |x| 1.0 / p32(x).sqrt(), two),
            ("floor, trunc, rint, ceil", steps32, EXACT),
            ("fmodf", |x| x % 0.75, EXACT),
            ("exp2f + log2f", |x| x.exp2() + p32(x).log2(), |x, y| LOGARITHM(x, y) + ulps32(4.0, x.exp2())),
            ("atanf", f64::atan, |_, y| ulps32(8.0, y)),
        ],
    )
}

/// `(input, output, n)`: the intrinsics.
pub(super) fn float_fast(run: &Run<'_>) -> Outcome {
    functions(
        &wide(&run.before::<f32>(0)),
        &wide(&run.after::<f32>(1)),
        &[
            ("__sinf", f64::sin, TRIGONOMETRIC),
            ("__cosf", f64::cos, TRIGONOMETRIC),
            ("__expf", f64::exp, EXPONENTIAL),
            ("__logf", |x| p32(x).ln(), LOGARITHM),
            ("__powf", |x| p32(x).powf(f64::from(1.7f32)), POWER),
            ("__fdividef", |x| x / p32(x), |_, y| ulps32(2.0, y)),
            ("__saturatef", |x| x.clamp(0.0, 1.0), EXACT),
            ("__frsqrt_rn", |x| 1.0 / p32(x).sqrt(), |_, y| ulps32(0.5, y)),
            ("__frcp_rn", |x| 1.0 / p32(x), |_, y| ulps32(0.5, y)),
            ("__fsqrt_rn", |x| p32(x).sqrt(), |_, y| ulps32(0.5, y)),
        ],
    )
}

/// `(input, output, n)`: within four units of the platform's own functions.
pub(super) fn double_functions(run: &Run<'_>) -> Outcome {
    let four = |_: f64, y: f64| ulps64(4.0, y);
    functions(
        &run.before::<f64>(0),
        &run.after::<f64>(1),
        &[
            ("sin", f64::sin, four),
            ("cos", f64::cos, four),
            ("exp", f64::exp, four),
            ("log", |x| p64(x).ln(), four),
            ("pow", |x| p64(x).powf(1.7), four),
            ("sqrt", |x| p64(x).sqrt(), EXACT),
            ("cbrt", f64::cbrt, four),
            ("tanh", f64::tanh, four),
            ("atan2", |x| x.atan2(2.0), four),
            ("rcp", |x| 1.0 / p64(x), EXACT),
            ("div", |x| x / 3.7, EXACT),
            ("fma", |x| x.mul_add(x, -1.0), EXACT),
            ("floor, trunc, rint", |x| x.floor() + 4.0 * x.trunc() + 16.0 * x.round_ties_even(), EXACT),
            ("fmod", |x| x % 0.75, EXACT),
            ("hypot", |x| x.hypot(3.0), four),
            ("expm1 + log1p", |x| x.exp_m1() + p64(x).ln_1p(), |x, _| ulps64(4.0, x.exp_m1().abs() + p64(x).ln_1p())),
            ("rsqrt", |x| 1.0 / p64(x).sqrt(), four),
        ],
    )
}

/// `(input, output, n)`.
pub(super) fn double_erf(run: &Run<'_>) -> Outcome {
    functions(&run.before::<f64>(0), &run.after::<f64>(1), &[("erf", erf, |_, y| ulps64(32.0, y))])
}

/// `(input, output, n)`: angles of about 1e15.
pub(super) fn double_large_angles(run: &Run<'_>) -> Outcome {
    let four = |_: f64, y: f64| ulps64(4.0, y);
    let list: [Function; 2] = [("sin", |x| (x * 1e15).sin(), four), ("cos", |x| (x * 1e15).cos(), four)];
    functions(&run.before::<f64>(0), &run.after::<f64>(1), &list)
}

const ROUNDS: [Round; 4] = [Round::NearestTiesToEven, Round::TowardZero, Round::TowardPositive, Round::TowardNegative];

/// Returns the answers of both precisions: four sums, the distance between the directed products,
/// the quotient.
fn roundings<F: Float>(x: F, y: F) -> [F; 6] {
    let sum = |round| x.add_r(y, round).value;
    let product = |round| x.mul_r(y, round).value;
    let gap = (product(Round::TowardPositive) - product(Round::TowardNegative)).value;
    let [nearest, zero, up, down] = ROUNDS.map(sum);
    [nearest, zero, up, down, gap, x.div_r(y, Round::NearestTiesToEven).value]
}

/// `(a, b, output, n)`.
pub(super) fn float_roundings(run: &Run<'_>) -> Outcome {
    let (a, b, output) = (run.before::<f32>(0), run.before::<f32>(1), run.after::<f32>(2));
    let n = a.len();
    let soft = |x: f32| Single::from_bits(u128::from(x.to_bits()));
    let got = |k: usize| row(&output, k, n).iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    for k in 0..6 {
        let want: Vec<u32> = (0..n).map(|i| roundings(soft(a[i]), soft(b[i]))[k].to_bits() as u32).collect();
        exact(&format!("row {k}"), &got(k), &want)?;
    }
    let fused: Vec<u32> = (0..n).map(|i| soft(a[i]).mul_add(soft(b[i]), soft(a[i])).value.to_bits() as u32).collect();
    exact("fma", &got(6), &fused)?;
    let gaps: Vec<u32> = (0..n).map(|i| (a[i].min(b[i]) - a[i].max(b[i])).to_bits()).collect();
    exact("min - max", &got(7), &gaps)
}

/// `(a, b, output, n)`.
pub(super) fn double_roundings(run: &Run<'_>) -> Outcome {
    let (a, b, output) = (run.before::<f64>(0), run.before::<f64>(1), run.after::<f64>(2));
    let n = a.len();
    let soft = |x: f64| Double::from_bits(u128::from(x.to_bits()));
    for k in 0..6 {
        let want: Vec<u64> = (0..n).map(|i| roundings(soft(a[i]), soft(b[i]))[k].to_bits() as u64).collect();
        let got: Vec<u64> = row(&output, k, n).iter().map(|x| x.to_bits()).collect();
        exact(&format!("row {k}"), &got, &want)?;
    }
    Ok(())
}

/// `(input, output, n)`: saturating conversions, then truncating ones.
pub(super) fn float_to_integer(run: &Run<'_>) -> Outcome {
    let (input, output) = (run.before::<f32>(0), run.after::<i64>(1));
    let n = input.len();
    type Question = fn(f32) -> i64;
    let questions: [(&str, Question); 10] = [
        ("s32.rzi", |x| (x.trunc() as i32).into()),
        ("s32.rni", |x| (x.round_ties_even() as i32).into()),
        ("s32.rpi", |x| (x.ceil() as i32).into()),
        ("s32.rmi", |x| (x.floor() as i32).into()),
        ("u32.rzi", |x| (x.trunc() as u32).into()),
        ("s64.rni", |x| x.round_ties_even() as i64),
        ("u64.rzi", |x| x.trunc() as u64 as i64),
        ("s8 of s32", |x| (x as i32 as i8).into()),
        ("u16 of s32", |x| (x as i32 as u16).into()),
        ("bits", |x| (x.to_bits() as i32).into()),
    ];
    for (k, (name, f)) in questions.into_iter().enumerate() {
        let want: Vec<i64> = input.iter().map(|&x| f(x)).collect();
        exact(name, row(&output, k, n), &want)?;
    }
    Ok(())
}

/// `(input, output, n)`.
pub(super) fn integer_to_float(run: &Run<'_>) -> Outcome {
    let (input, output) = (run.before::<i64>(0), run.after::<f64>(1));
    let n = input.len();
    let toward_zero = |x: i64| {
        let soft = Single::from_i128_r(x.into(), Round::TowardZero).value;
        f64::from(f32::from_bits(soft.to_bits() as u32))
    };
    let answer = |k: usize, x: i64| match k {
        0 => f64::from(x as f32),
        1 => toward_zero(x),
        2 => x as f64,
        3 => f64::from(x as u64 as f32),
        4 => f64::from(x as i32 as f32),
        5 => f64::from(x as u8),
        6 => f64::from(x as i16),
        _ => f64::from((x as f64 * 1e-3) as f32),
    };
    for k in 0..8 {
        let want: Vec<u64> = input.iter().map(|&x| answer(k, x).to_bits()).collect();
        let got: Vec<u64> = row(&output, k, n).iter().map(|x| x.to_bits()).collect();
        exact(&format!("row {k}"), &got, &want)?;
    }
    Ok(())
}

//! f16 and bf16 through a soft-float library.

use rustc_apfloat::ieee::{BFloat, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

use super::row;
use crate::foreign::expect::{Outcome, close, exact, sum_error, wide};
use crate::foreign::run::Run;

/// Compares bits; one NaN is as good as another.
fn same<F: Float>(what: &str, got: &[u16], want: &[F]) -> Outcome {
    same_within::<F>(what, got, want, 0)
}

/// Compares bits up to `units` in the last place.
fn same_within<F: Float>(what: &str, got: &[u16], want: &[F], units: i32) -> Outcome {
    let order = |bits: u16| if bits & 0x8000 == 0 { i32::from(bits) } else { -i32::from(bits & 0x7fff) };
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let w_bits = w.to_bits() as u16;
        let both_nan = w.is_nan() && F::from_bits(u128::from(g)).is_nan();
        let near = units > 0 && !w.is_nan() && (order(g) - order(w_bits)).abs() <= units;
        if !(g == w_bits || both_nan || near) {
            return Err(format!("{what}[{i}] is {g:#06x}, expected {w_bits:#06x} ({w}) within {units}"));
        }
    }
    Ok(())
}

/// `max` and `min` of the PTX ISA: a NaN loses, and +0 is larger than -0.
fn larger<F: Float>(x: F, y: F) -> F {
    match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if x == y => {
            if x.is_negative() {
                y
            } else {
                x
            }
        }
        _ => {
            if x > y {
                x
            } else {
                y
            }
        }
    }
}

fn smaller<F: Float>(x: F, y: F) -> F {
    if x.is_nan() || y.is_nan() { larger(x, y) } else { -larger(-x, -y) }
}

/// Both inputs, and the output as bits.
type Decoded<F> = (Vec<F>, Vec<F>, Vec<u16>);

/// A name and what it does.
type Question<F> = (&'static str, fn(F, F) -> F);

/// The eight questions that both half types answer.
fn common<F: Float>(run: &Run<'_>) -> Result<Decoded<F>, String> {
    let decode = |bits: Vec<u16>| bits.into_iter().map(|b| F::from_bits(u128::from(b))).collect::<Vec<F>>();
    let (a, b) = (decode(run.before(0)), decode(run.before(1)));
    let output = run.after::<u16>(2);
    let n = a.len();
    let questions: [Question<F>; 8] = [
        ("add", |x, y| (x + y).value),
        ("sub", |x, y| (x - y).value),
        ("mul", |x, y| (x * y).value),
        ("fma", |x, y| x.mul_add(y, x).value),
        ("neg", |x, _| -x),
        ("abs", |_, y| y.abs()),
        ("max", larger),
        ("min", smaller),
    ];
    for (k, (name, f)) in questions.into_iter().enumerate() {
        let want: Vec<F> = a.iter().zip(&b).map(|(&x, &y)| f(x, y)).collect();
        same(name, row(&output, k, n), &want)?;
    }
    Ok((a, b, output))
}

fn to_f64<F: Float + FloatConvert<Single>>(x: F) -> f64 {
    f64::from(f32::from_bits(x.convert(&mut false).value.to_bits() as u32))
}

fn half_from(x: f64) -> Half {
    // Through f64, whose 53 bits make the second rounding harmless for quotients and roots of
    // 11-bit numbers.
    rustc_apfloat::ieee::Double::from_bits(u128::from(x.to_bits())).convert(&mut false).value
}

/// `(a, b, output, n)`, all as bits.
pub(super) fn f16_ops(run: &Run<'_>) -> Outcome {
    let (a, b, output) = common::<Half>(run)?;
    let n = a.len();
    let pairs = || a.iter().copied().zip(b.iter().copied());
    let order =
        |x: Half, y: Half| u16::from(x < y) + 2 * u16::from(x == y) + 4 * u16::from(x >= y) + 8 * u16::from(x != y);
    exact("compare", row(&output, 8, n), &pairs().map(|(x, y)| order(x, y)).collect::<Vec<u16>>())?;
    let want: Vec<Half> = pairs().map(|(x, y)| half_from(to_f64(x) / to_f64(y))).collect();
    same_within("div", row(&output, 9, n), &want, 1)?;
    let want: Vec<Half> = a.iter().map(|&x| half_from(to_f64(x.abs()).sqrt())).collect();
    same_within("sqrt", row(&output, 10, n), &want, 1)?;
    let saturate = |x: Half| if x.is_nan() { Half::ZERO } else { half_from(to_f64(x).clamp(0.0, 1.0) + 0.0) };
    let want: Vec<Half> = pairs().map(|(x, y)| saturate((x + y).value)).collect();
    same("add.sat", row(&output, 11, n), &want)
}

/// `(a, b, output, n)`, all as bits.
pub(super) fn bf16_ops(run: &Run<'_>) -> Outcome {
    common::<BFloat>(run).map(|_| ())
}

/// `(a, b, sums in f16x2, sums in f32, rows)`: the f16 chain step by step, the f32 sum within its
/// bound.
pub(super) fn f16x2_dot(run: &Run<'_>) -> Outcome {
    let decode = |bits: Vec<u16>| bits.into_iter().map(|b| Half::from_bits(u128::from(b))).collect::<Vec<Half>>();
    let (a, b) = (decode(run.before(0)), decode(run.before(1)));
    let rows = run.size(4);
    let chain = |r: usize, part: usize| {
        (0..8).map(|i| r * 16 + 2 * i + part).fold(Half::ZERO, |sum, i| a[i].mul_add(b[i], sum).value)
    };
    let want: Vec<Half> = (0..rows).flat_map(|r| [chain(r, 0), chain(r, 1)]).collect();
    same("f16x2", &run.after::<u16>(2), &want)?;
    let products = |r: usize| (r * 16..(r + 1) * 16).map(|i| to_f64(a[i]) * to_f64(b[i])).collect::<Vec<f64>>();
    let want: Vec<f64> = (0..rows).map(|r| products(r).iter().sum()).collect();
    close("f32", &wide(&run.after::<f32>(3)), &want, |r| sum_error(18, products(r).iter().map(|p| p.abs()).sum()))
}

/// `(input, output, n)`: f32 to the half types under every rounding.
pub(super) fn half_conversions(run: &Run<'_>) -> Outcome {
    let input: Vec<Single> = run.before::<f32>(0).iter().map(|x| Single::from_bits(u128::from(x.to_bits()))).collect();
    let output = run.after::<u16>(1);
    let n = input.len();
    let f16 = |round: Round| -> Vec<Half> { input.iter().map(|x| x.convert_r(round, &mut false).value).collect() };
    let bf16 = |round: Round| -> Vec<BFloat> { input.iter().map(|x| x.convert_r(round, &mut false).value).collect() };
    same("f16.rn", row(&output, 0, n), &f16(Round::NearestTiesToEven))?;
    same("f16.rz", row(&output, 1, n), &f16(Round::TowardZero))?;
    same("f16.rp", row(&output, 2, n), &f16(Round::TowardPositive))?;
    same("f16.rm", row(&output, 3, n), &f16(Round::TowardNegative))?;
    same("bf16.rn", row(&output, 4, n), &bf16(Round::NearestTiesToEven))?;
    same("bf16.rz", row(&output, 5, n), &bf16(Round::TowardZero))?;
    let negated: Vec<Half> = f16(Round::NearestTiesToEven).into_iter().map(|x| -x).collect();
    same("packed high half", row(&output, 6, n), &negated)?;
    let nearest = |x: &Half| to_f64(*x).round_ties_even() as i32 as u16;
    let want: Vec<u16> = f16(Round::NearestTiesToEven).iter().map(nearest).collect();
    exact("s32.rni.f16", row(&output, 7, n), &want)
}

/// `(a, b, c, n, …)`, all as bits: c = a + b.
pub(super) fn f16_add(run: &Run<'_>) -> Outcome {
    let decode = |bits: Vec<u16>| bits.into_iter().map(|b| Half::from_bits(u128::from(b)));
    let want: Vec<Half> = decode(run.before(0)).zip(decode(run.before(1))).map(|(x, y)| (x + y).value).collect();
    same("c", &run.after::<u16>(2), &want)
}

/// `(a, b, c, n, scale, …)`, arrays as bits: c = a + scale b, fused in f32 and rounded once more to
/// bf16.
pub(super) fn bf16_scale_add(run: &Run<'_>) -> Outcome {
    let decode = |bits: Vec<u16>| bits.into_iter().map(|b| Single::from_bits(u128::from(b) << 16));
    let scale = Single::from_bits(u128::from(run.f32(4).to_bits()));
    let fused = |x: Single, y: Single| y.mul_add(scale, x).value.convert(&mut false).value;
    let want: Vec<BFloat> = decode(run.before(0)).zip(decode(run.before(1))).map(|(x, y)| fused(x, y)).collect();
    same("c", &run.after::<u16>(2), &want)
}

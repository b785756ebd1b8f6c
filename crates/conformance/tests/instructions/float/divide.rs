//! `div`, `rcp`, `sqrt` and `rsqrt`.

use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status};
use warpfold_conformance::instructions::{Kind, check_on, combinations, run};

use crate::instructions::float::reference::{Format, Modifiers, bits, flushed, random, rounded, value};

const ROUNDINGS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];

/// Each rounding, with and without `.ftz`.
fn with_ftz() -> Vec<Modifiers> {
    ROUNDINGS.into_iter().flat_map(|r| [rounded(r), Modifiers { ftz: true, ..rounded(r) }]).collect()
}

fn elements<F: Format, const I: usize>() -> Vec<[u64; I]> {
    let mut elements = combinations([F::KIND; I]);
    elements.extend(random([F::KIND; I], 8000));
    elements
}

#[track_caller]
fn check_division<F: Format>(modifiers: &[Modifiers]) {
    for m in modifiers {
        let text = format!("div{}.{} x, a, b;", m.text(), F::NAME);
        check_on(&text, [F::KIND; 2], [F::KIND], &elements::<F, 2>(), |[a, b]| {
            let dividend: F = m.operand(a);
            [m.finish(dividend.div_r(m.operand(b), m.round()), &[a, b])]
        });
        let text = format!("rcp{}.{} x, a;", m.text(), F::NAME);
        check_on(&text, [F::KIND], [F::KIND], &elements::<F, 1>(), |[a]| {
            [m.finish(F::from_u128(1).value.div_r(m.operand(a), m.round()), &[a])]
        });
    }
}

/// The square root: the largest number whose square, exact in 113 bits, is not above `x`, or the
/// next one.
fn square_root<F: Format + FloatConvert<Quad>>(x: F, round: Round) -> F {
    if x.is_nan() || x.is_zero() || x.is_pos_infinity() {
        return x;
    }
    if x.is_negative() {
        return F::NAN;
    }
    let exact = |y: F| y.convert(&mut false).value;
    let target: Quad = exact(x);
    let square = |y: Quad| (y * y).value;
    let guess = f64::from_bits(bits::<Double>(target.convert(&mut false).value));
    let mut root: F = F::from_str_r(&format!("{:e}", guess.sqrt()), Round::TowardZero).expect("a number").value;
    while square(exact(root)) > target {
        root = root.next_down().value;
    }
    while square(exact(root.next_up().value)) <= target {
        root = root.next_up().value;
    }
    let up = root.next_up().value;
    let middle = ((exact(root) + exact(up)).value / Quad::from_u128(2).value).value;
    match round {
        _ if square(exact(root)) == target => root,
        Round::TowardPositive => up,
        Round::NearestTiesToEven if square(middle) < target => up,
        _ => root,
    }
}

#[track_caller]
fn check_root<F: Format + FloatConvert<Quad>>(modifiers: &[Modifiers]) {
    for m in modifiers {
        let text = format!("sqrt{}.{} x, a;", m.text(), F::NAME);
        check_on(&text, [F::KIND], [F::KIND], &elements::<F, 1>(), |[a]| {
            [m.finish(Status::OK.and(square_root::<F>(m.operand(a), m.round())), &[a])]
        });
    }
}

#[test]
fn quotients_of_f32_are_rounded_as_asked() {
    check_division::<Single>(&with_ftz());
}

#[test]
fn quotients_of_f64_are_rounded_as_asked() {
    check_division::<Double>(&ROUNDINGS.map(rounded));
}

#[test]
fn square_roots_of_f32_are_rounded_as_asked() {
    check_root::<Single>(&with_ftz());
}

#[test]
fn square_roots_of_f64_are_rounded_as_asked() {
    check_root::<Double>(&ROUNDINGS.map(rounded));
}

/// Distance in units of the last place, signs and zeros ordered.
fn ulps(found: u64, expected: u64) -> u64 {
    let line = |bits: u64| {
        let magnitude = i64::try_from(bits & 0x7fff_ffff).expect("31 bits");
        if bits >> 31 != 0 { -magnitude } else { magnitude }
    };
    line(found).abs_diff(line(expected))
}

#[test]
fn approximate_quotients_of_f32_are_within_two_units_of_the_last_place() {
    for ftz in [false, true] {
        let m = Modifiers { ftz, ..rounded("") };
        for kind in ["approx", "full"] {
            let text = format!("div.{kind}{}.f32 x, a, b;", m.text());
            let elements = elements::<Single, 2>();
            for ([a, b], [x]) in elements.iter().zip(run(&text, [Kind::F32; 2], [Kind::F32], &elements).unwrap()) {
                let (dividend, divisor): (Single, Single) = (m.operand(*a), m.operand(*b));
                let magnitude = f32::from_bits(bits(divisor) as u32).abs();
                let beyond = magnitude > 2f32.powi(126) && magnitude.is_finite();
                let in_range = (2f32.powi(-126)..=2f32.powi(126)).contains(&magnitude);
                let expected = match kind {
                    // "if a is infinity, div.approx.f32 returns NaN, otherwise it returns a
                    // sign-preserving zero"
                    "approx" if beyond && dividend.is_infinite() => 0x7fff_ffff,
                    "approx" if beyond && !dividend.is_nan() => (a ^ b) & 0x8000_0000,
                    "approx" if magnitude > 0.0 && magnitude < 2f32.powi(-126) => continue,
                    _ => m.finish((dividend / divisor).value.into_ok(), &[]),
                };
                let is_near = in_range || kind == "full";
                let is_flushed = ftz && expected & 0x7fff_ffff <= 0x0080_0001 && x & 0x7fff_ffff <= 0x0080_0001;
                let allowed = if is_near && expected != 0x7fff_ffff { 2 } else { 0 };
                assert!(
                    ulps(x, expected) <= allowed || is_flushed,
                    "`{text}` of {a:#010x} {b:#010x}: {x:#010x}, not {expected:#010x}"
                );
            }
        }
    }
}

trait IntoOk: Sized {
    fn into_ok(self) -> rustc_apfloat::StatusAnd<Self> {
        Status::OK.and(self)
    }
}
impl IntoOk for Single {}

/// Checks a function of one positive `f32` against a relative error, and its special values.
#[track_caller]
fn check_relative(name: &str, error: f64, exact: fn(f64) -> f64, special: &[(u64, u64)]) {
    for ftz in [false, true] {
        let text = format!("{name}.approx{}.f32 x, a;", if ftz { ".ftz" } else { "" });
        let mut elements = elements::<Single, 1>();
        elements.extend((0..100_000).map(|n| [n * 21_397]));
        for ([a], [x]) in elements.iter().zip(run(&text, [Kind::F32], [Kind::F32], &elements).unwrap()) {
            let operand: Single = if ftz { flushed(value(*a)) } else { value(*a) };
            if let Some((_, expected)) = special.iter().find(|(input, _)| *input == bits(operand)) {
                assert!(x == *expected, "`{text}` of {a:#010x}: {x:#010x}, not {expected:#010x}");
                continue;
            }
            let expected = exact(f64::from(f32::from_bits(bits(operand) as u32)));
            let found = f64::from(f32::from_bits(x as u32));
            let is_right = match () {
                () if expected.is_nan() => x == 0x7fff_ffff,
                () if expected.abs() >= 2f64.powi(128) => found.is_infinite() && found.signum() == expected.signum(),
                () if ftz && expected.abs() < 2f64.powi(-126) => found == 0.0 && found.signum() == expected.signum(),
                () => ((found - expected) / expected).abs() <= error || (found - expected).abs() <= 2f64.powi(-149),
            };
            assert!(is_right, "`{text}` of {a:#010x}: {x:#010x}, not {expected:e}");
        }
    }
}

const INFINITY: u64 = 0x7f80_0000;
const NEGATIVE: u64 = 0x8000_0000;
const NAN: u64 = 0x7fff_ffff;

#[test]
fn approximate_reciprocals_and_roots_of_f32_are_within_the_stated_error() {
    // One unit in the last place is at most 2^-23 of the number.
    let reciprocal = [(INFINITY | NEGATIVE, NEGATIVE), (NEGATIVE, INFINITY | NEGATIVE), (0, INFINITY), (INFINITY, 0)];
    check_relative("rcp", 2f64.powi(-23), |x| 1.0 / x, &reciprocal);
    let root = [(INFINITY | NEGATIVE, NAN), (NEGATIVE, NEGATIVE), (0, 0), (INFINITY, INFINITY)];
    check_relative("sqrt", 2f64.powi(-23), f64::sqrt, &root);
    let both = [(INFINITY | NEGATIVE, NAN), (NEGATIVE, INFINITY | NEGATIVE), (0, INFINITY), (INFINITY, 0)];
    check_relative("rsqrt", 2f64.powf(-22.9), |x| 1.0 / x.sqrt(), &both);
}

/// Checks a function of one `f64` against a relative error; subnormal inputs and results may be
/// flushed.
#[track_caller]
fn check_double(text: &str, error: f64, gross: bool, exact: fn(f64) -> f64, special: &[(u64, u64)]) {
    let mut elements = elements::<Double, 1>();
    elements.extend(special.iter().map(|(input, _)| [*input]));
    for ([a], [x]) in elements.iter().zip(run(text, [Kind::F64], [Kind::F64], &elements).unwrap()) {
        if let Some((_, expected)) = special.iter().find(|(input, _)| input == a) {
            assert!(x == *expected, "`{text}` of {a:#018x}: {x:#018x}, not {expected:#018x}");
            continue;
        }
        let read = f64::from_bits(if gross { a & !0xffff_ffff } else { *a });
        let expected = exact(if gross && read.is_subnormal() { 0f64.copysign(read) } else { read });
        let found = f64::from_bits(x);
        let nan = if gross { 0x7fff_ffff_0000_0000 } else { Double::nan(&[*a]) };
        let is_right = match () {
            () if expected.is_nan() => x == nan,
            () if expected.is_infinite() || expected == 0.0 => x == expected.to_bits(),
            () if gross && expected.is_subnormal() => x == expected.to_bits() & 1 << 63,
            () => ((found - expected) / expected).abs() <= error,
        };
        assert!(is_right && !(gross && x & 0xffff_ffff != 0), "`{text}` of {a:#018x}: {x:#018x}, not {expected:e}");
    }
}

#[test]
fn approximate_functions_of_f64_keep_their_tables_and_read_and_write_what_they_say() {
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const NEGATIVE: u64 = 1 << 63;
    const NAN: u64 = 0x7fff_ffff_0000_0000;
    // The lower half of the operand is ignored: this NaN reads as infinity.
    let hidden = (INFINITY | 1, 0);
    let reciprocal = [
        (INFINITY | NEGATIVE, NEGATIVE),
        (1 << 40 | NEGATIVE, INFINITY | NEGATIVE),
        (NEGATIVE, INFINITY | NEGATIVE),
        (0, INFINITY),
        (1 << 40, INFINITY),
        (INFINITY, 0),
        (INFINITY | 1 << 51, NAN),
        hidden,
    ];
    check_double("rcp.approx.ftz.f64 x, a;", 2f64.powi(-20), true, |x| 1.0 / x, &reciprocal);
    let root = [
        (INFINITY | NEGATIVE, NAN),
        (1 << 40 | NEGATIVE, INFINITY | NEGATIVE),
        (NEGATIVE, INFINITY | NEGATIVE),
        (0, INFINITY),
        (1 << 40, INFINITY),
        (INFINITY, 0),
        (INFINITY | 1 << 51, NAN),
        hidden,
    ];
    check_double("rsqrt.approx.ftz.f64 x, a;", 2f64.powi(-20), true, |x| 1.0 / x.sqrt(), &root);
    let exact = [(NEGATIVE, INFINITY | NEGATIVE), (0, INFINITY), (INFINITY, 0)];
    check_double("rsqrt.approx.f64 x, a;", 2f64.powi(-51), false, |x| 1.0 / x.sqrt(), &exact);
}

//! `abs`, `neg`, `copysign` and `testp`.

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use warpfold_conformance::instructions::{Kind, check, check_on, combinations};

use crate::instructions::float::reference::{Format, all_16, bits, flushed, value};

fn reference<F: Format>(name: &str, ftz: bool, a: u64) -> u64 {
    let x: F = if ftz { flushed(value(a)) } else { value(a) };
    match name {
        _ if x.is_nan() && F::KIND != Kind::F64 => F::nan(&[]),
        // "For abs.f64, NaN input is passed through unchanged."
        "abs" if x.is_nan() => a,
        "abs" => bits(x.abs()),
        _ if x.is_nan() => a ^ 1 << 63,
        _ => bits(-x),
    }
}

#[track_caller]
fn check_sign<F: Format>(pair: Option<Kind>, flushes: &[bool]) {
    let elements = if pair.is_some() { all_16() } else { combinations([F::KIND]) };
    for name in ["abs", "neg"] {
        for ftz in flushes {
            let modifier = if *ftz { ".ftz" } else { "" };
            let text = format!("{name}{modifier}.{} x, a;", F::NAME);
            check_on(&text, [F::KIND], [F::KIND], &elements, |[a]| [reference::<F>(name, *ftz, a)]);
            let Some(pair) = pair else { continue };
            let text = format!("{name}{modifier}.{}x2 x, a;", F::NAME);
            let half = |a| reference::<F>(name, *ftz, a);
            check(&text, [pair], [pair], |[a]| [half(a & 0xffff) | half(a >> 16) << 16]);
        }
    }
}

#[test]
fn abs_and_neg_change_the_sign_alone() {
    check_sign::<Single>(None, &[false, true]);
    check_sign::<Double>(None, &[false]);
    check_sign::<Half>(Some(Kind::F16x2), &[false, true]);
    check_sign::<BFloat>(Some(Kind::Bf16x2), &[false]);
}

#[test]
fn copysign_takes_the_sign_of_the_first_and_the_value_of_the_second() {
    check("copysign.f32 x, a, b;", [Kind::F32; 2], [Kind::F32], |[a, b]| [a >> 31 << 31 | b & 0x7fff_ffff]);
    check("copysign.f64 x, a, b;", [Kind::F64; 2], [Kind::F64], |[a, b]| [a >> 63 << 63 | b & (u64::MAX >> 1)]);
}

#[track_caller]
fn check_property<F: Format>() {
    let properties: [(&str, fn(F) -> bool); 6] = [
        ("finite", |x| x.is_finite()),
        ("infinite", |x| x.is_infinite()),
        ("number", |x| !x.is_nan()),
        ("notanumber", |x| x.is_nan()),
        ("normal", |x| x.is_normal() || x.is_zero()),
        ("subnormal", |x| x.is_denormal()),
    ];
    for (name, holds) in properties {
        let text = format!("testp.{name}.{} x, a;", F::NAME);
        check(&text, [F::KIND], [Kind::Pred], |[a]| [holds(value(a)).into()]);
    }
}

#[test]
fn testp_tells_every_property_of_f32_and_f64() {
    check_property::<Single>();
    check_property::<Double>();
}

//! Conversions to floats.

use warpfold_conformance::instructions::check_on;

use crate::instructions::convert::reference::{Modifiers, rounded};
use crate::instructions::convert::types::{Conversion, FLOATS, INTEGERS, Type};

const ROUNDINGS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];

#[track_caller]
fn check(conversion: Conversion, samples: &[[u64; 1]]) {
    let Conversion { to, from, .. } = conversion;
    check_on(&conversion.line(), [from.kind()], [to.kind()], samples, |[a]| [conversion.result(a)]);
}

/// Checks a conversion in each rounding, with each combination of the flags.
#[track_caller]
fn check_all(to: Type, from: Type, roundings: &[&'static str], ftz: bool, sat: bool) {
    let samples = from.samples();
    for m in Modifiers::all(roundings) {
        if (ftz || !m.ftz) && (sat || !m.sat) {
            check(Conversion::new(to, from, m), &samples);
        }
    }
}

#[test]
fn integers_become_the_float_that_the_rounding_asks_for() {
    for from in INTEGERS {
        for to in FLOATS {
            check_all(to, from, &ROUNDINGS, false, from == Type::Signed(32));
        }
    }
}

#[test]
fn floats_are_narrowed_as_the_rounding_asks() {
    for (to, from) in [
        (Type::F16, Type::F32),
        (Type::F16, Type::F64),
        (Type::F16, Type::Bf16),
        (Type::Bf16, Type::F16),
        (Type::Bf16, Type::F32),
        (Type::Bf16, Type::F64),
        (Type::F32, Type::F64),
    ] {
        let has_f32 = to == Type::F32 || from == Type::F32;
        check_all(to, from, &ROUNDINGS, has_f32, true);
    }
}

#[test]
fn the_types_of_16_bits_become_each_other_to_nearest_without_a_rounding() {
    check_all(Type::Bf16, Type::F16, &[""], false, true);
    check_all(Type::F16, Type::Bf16, &[""], false, true);
}

#[test]
fn floats_are_widened_exactly() {
    for (to, from) in [
        (Type::F32, Type::F16),
        (Type::F32, Type::Bf16),
        (Type::F64, Type::F16),
        (Type::F64, Type::Bf16),
        (Type::F64, Type::F32),
    ] {
        let has_f32 = to == Type::F32 || from == Type::F32;
        check_all(to, from, &[""], has_f32, true);
    }
    check_all(Type::F64, Type::Bf16, &[".rp"], false, false);
}

#[test]
fn relu_and_satfinite_clamp_what_comes_from_f32() {
    for to in [Type::F16, Type::Bf16, Type::Tf32] {
        let samples = Type::F32.samples();
        for rounding in [".rn", ".rz", ".rna"] {
            if (rounding == ".rna") != (to == Type::Tf32) && rounding == ".rna" {
                continue;
            }
            for (relu, satfinite) in [(false, false), (false, true), (true, false), (true, true)] {
                if relu && rounding == ".rna" {
                    continue;
                }
                let modifiers = Modifiers { relu, ..rounded(rounding) };
                check(Conversion { to, from: Type::F32, modifiers, satfinite }, &samples);
            }
        }
    }
}

#[test]
fn floats_are_rounded_to_integral_values_of_their_own_type() {
    for ty in FLOATS {
        check_all(ty, ty, &["", ".rni", ".rzi", ".rmi", ".rpi"], ty == Type::F32, true);
    }
}

//! Conversions to integers, into registers of their width and wider ones.

use warpfold_conformance::instructions::{Kind, check_on};

use crate::instructions::convert::reference::{Modifiers, rounded};
use crate::instructions::convert::types::{Conversion, FLOATS, INTEGERS, Type};

/// Checks a conversion to an integer, in every register that the ISA allows: a wider one is filled
/// with the sign of a signed result.
#[track_caller]
fn check(conversion: Conversion, samples: &[[u64; 1]]) {
    let Conversion { to, from, .. } = conversion;
    for register in [16, 32, 64] {
        if register < to.bits() {
            continue;
        }
        check_on(&conversion.line(), [from.kind()], [Kind::Int(register)], samples, |[a]| {
            [to.integer(conversion.result(a)) as u64]
        });
    }
}

#[test]
fn integers_are_extended_cut_or_saturated() {
    for from in INTEGERS {
        let samples = from.samples();
        for to in INTEGERS {
            check(Conversion::new(to, from, rounded("")), &samples);
            check(Conversion::new(to, from, Modifiers { sat: true, ..rounded("") }), &samples);
        }
    }
}

#[test]
fn a_source_register_may_be_wider_than_its_type() {
    for from in INTEGERS {
        let conversion = Conversion::new(Type::Signed(64), from, rounded(""));
        check_on(&conversion.line(), [Kind::Int(64)], [Kind::Int(64)], &Type::Unsigned(64).samples(), |[a]| {
            [conversion.result(a)]
        });
    }
}

#[test]
fn floats_are_rounded_and_clamped_to_integers() {
    for from in FLOATS {
        let samples = from.samples();
        for to in INTEGERS {
            for rounding in [".rni", ".rzi", ".rmi", ".rpi"] {
                let line = Conversion::new(to, from, rounded(rounding));
                check_on(&line.line(), [from.kind()], [to.kind()], &samples, |[a]| [to.integer(line.result(a)) as u64]);
            }
        }
    }
}

#[test]
fn flushing_comes_before_rounding_to_an_integer() {
    let samples = Type::F32.samples();
    for to in INTEGERS {
        for rounding in [".rni", ".rzi", ".rmi", ".rpi"] {
            let modifiers = Modifiers { ftz: true, sat: to == Type::Unsigned(8), ..rounded(rounding) };
            let sat_is_the_default = Conversion::new(to, Type::F32, Modifiers { sat: false, ..modifiers });
            let line = Conversion::new(to, Type::F32, modifiers).line();
            check_on(
                &line,
                [Kind::F32],
                [to.kind()],
                &samples,
                |[a]| [to.integer(sat_is_the_default.result(a)) as u64],
            );
        }
    }
}

#[test]
fn a_narrow_result_of_a_float_fills_a_wider_register() {
    let samples = Type::F32.samples();
    for to in INTEGERS {
        check(Conversion::new(to, Type::F32, rounded(".rzi")), &samples);
    }
}

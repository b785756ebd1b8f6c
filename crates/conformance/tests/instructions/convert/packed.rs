//! Conversions to and from pairs.

use warpfold_conformance::instructions::{Kind, check_on};

use crate::instructions::convert::reference::{Modifiers, all_16, random, rounded};
use crate::instructions::convert::types::{Conversion, Type};

const RELU: [bool; 2] = [false, true];

/// Pairs of samples of `.f32`, in which each is beside another.
fn pairs() -> Vec<[u64; 2]> {
    let samples = Type::F32.samples();
    samples.iter().zip(samples.iter().rev()).map(|([a], [b])| [*a, *b]).collect()
}

#[track_caller]
fn check_pair(to: Type, kind: Kind, modifiers: Modifiers, satfinite: bool) {
    let conversion = Conversion { to, from: Type::F32, modifiers, satfinite };
    let text = format!("cvt{}.{}x2.f32 x, a, b;", conversion.text(), to.name());
    check_on(&text, [Kind::F32; 2], [kind], &pairs(), |[a, b]| {
        [conversion.result(a) << to.bits() | conversion.result(b)]
    });
}

#[test]
fn two_f32_become_a_pair_of_halves_the_first_above() {
    for (to, kind) in [(Type::F16, Kind::F16x2), (Type::Bf16, Kind::Bf16x2)] {
        for rounding in [".rn", ".rz"] {
            for relu in RELU {
                for satfinite in [false, true] {
                    check_pair(to, kind, Modifiers { relu, ..rounded(rounding) }, satfinite);
                }
            }
        }
    }
}

#[test]
fn two_f32_become_a_pair_of_bytes_the_first_above() {
    for to in [Type::E4m3, Type::E5m2] {
        for relu in RELU {
            check_pair(to, Kind::Int(16), Modifiers { relu, ..rounded(".rn") }, true);
        }
    }
}

#[test]
fn a_pair_of_f16_becomes_a_pair_of_bytes() {
    let mut words: Vec<[u64; 1]> = all_16().iter().map(|[a]| [a | (a.wrapping_mul(40_503) & 0xffff) << 16]).collect();
    words.extend(random([Kind::F16x2], 10_000));
    for to in [Type::E4m3, Type::E5m2] {
        for relu in RELU {
            let modifiers = Modifiers { relu, ..rounded(".rn") };
            let conversion = Conversion { to, from: Type::F16, modifiers, satfinite: true };
            let text = format!("cvt{}.{}x2.f16x2 x, a;", conversion.text(), to.name());
            check_on(&text, [Kind::F16x2], [Kind::Int(16)], &words, |[a]| {
                [conversion.result(a >> 16) << 8 | conversion.result(a & 0xffff)]
            });
        }
    }
}

#[test]
fn every_pair_of_bytes_becomes_the_pair_of_f16_of_the_same_values() {
    for from in [Type::E4m3, Type::E5m2] {
        for relu in RELU {
            let conversion = Conversion::new(Type::F16, from, Modifiers { relu, ..rounded(".rn") });
            let text = format!("cvt{}.f16x2.{}x2 x, a;", conversion.text(), from.name());
            check_on(&text, [Kind::Int(16)], [Kind::F16x2], &all_16(), |[a]| {
                [conversion.result(a >> 8) << 16 | conversion.result(a & 0xff)]
            });
        }
    }
}

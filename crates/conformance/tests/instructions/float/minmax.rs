//! `min` and `max`, after the pseudocode of the ISA.

use std::cmp::Ordering;

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use warpfold_conformance::instructions::{Kind, check, check_on, combinations};

use crate::instructions::float::reference::{Format, bits, flushed, random, value};

#[derive(Clone, Copy)]
struct Modifiers {
    is_max: bool,
    ftz: bool,
    nan: bool,
    xorsign: bool,
}

impl Modifiers {
    fn all(can_flush: bool) -> Vec<Self> {
        let bools = [false, true];
        let mut all = Vec::new();
        for is_max in bools {
            for ftz in if can_flush { &bools[..] } else { &bools[..1] } {
                for nan in bools {
                    all.extend(bools.map(|xorsign| Self { is_max, ftz: *ftz, nan, xorsign }));
                }
            }
        }
        all
    }

    fn text(self) -> String {
        let name = if self.is_max { "max" } else { "min" };
        let flag = |name, written| if written { name } else { "" };
        [name, flag(".ftz", self.ftz), flag(".NaN", self.nan), flag(".xorsign.abs", self.xorsign)].concat()
    }

    fn reference<F: Format>(self, [a, b]: [u64; 2]) -> u64 {
        let operand = |bits: u64| {
            let x: F = if self.ftz { flushed(value(bits)) } else { value(bits) };
            if self.xorsign { x.abs() } else { x }
        };
        let (x, y) = (operand(a), operand(b));
        if (x.is_nan() && y.is_nan()) || (self.nan && (x.is_nan() || y.is_nan())) {
            return F::nan(&[a, b]);
        }
        let x_first = match x.partial_cmp(&y) {
            None => y.is_nan(),
            Some(Ordering::Equal) => x.is_negative() != self.is_max,
            Some(order) => (order == Ordering::Greater) == self.is_max,
        };
        let result = if x_first { x } else { y };
        if self.xorsign && value::<F>(a).is_negative() != value::<F>(b).is_negative() {
            bits(-result)
        } else {
            bits(result)
        }
    }
}

#[test]
fn minima_and_maxima_of_f32_follow_the_pseudocode() {
    let mut elements = combinations([Kind::F32; 2]);
    elements.extend(random([Kind::F32; 2], 4000));
    for m in Modifiers::all(true) {
        let text = format!("{}.f32 x, a, b;", m.text());
        check_on(&text, [Kind::F32; 2], [Kind::F32], &elements, |ab| [m.reference::<Single>(ab)]);
    }
}

#[test]
fn minima_and_maxima_of_f64_follow_the_pseudocode() {
    for is_max in [false, true] {
        let m = Modifiers { is_max, ftz: false, nan: false, xorsign: false };
        let text = format!("{}.f64 x, a, b;", m.text());
        check(&text, [Kind::F64; 2], [Kind::F64], |ab| [m.reference::<Double>(ab)]);
    }
}

#[track_caller]
fn check_half<F: Format>(pair: Kind, can_flush: bool) {
    let mut elements = combinations([F::KIND; 2]);
    elements.extend(random([F::KIND; 2], 20_000));
    let mut words = combinations([pair; 2]);
    words.extend(random([pair; 2], 20_000));
    for m in Modifiers::all(can_flush) {
        let text = format!("{}.{} x, a, b;", m.text(), F::NAME);
        check_on(&text, [F::KIND; 2], [F::KIND], &elements, |ab| [m.reference::<F>(ab)]);
        let text = format!("{}.{}x2 x, a, b;", m.text(), F::NAME);
        check_on(&text, [pair; 2], [pair], &words, |ab| {
            [m.reference::<F>(ab.map(|w| w & 0xffff)) | m.reference::<F>(ab.map(|w| w >> 16)) << 16]
        });
    }
}

#[test]
fn minima_and_maxima_of_f16_follow_the_pseudocode() {
    check_half::<Half>(Kind::F16x2, true);
}

#[test]
fn minima_and_maxima_of_bf16_follow_the_pseudocode() {
    check_half::<BFloat>(Kind::Bf16x2, false);
}

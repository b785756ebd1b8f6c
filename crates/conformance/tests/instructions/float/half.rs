//! `add`, `sub`, `mul` and `fma` of the 16-bit formats and their packed forms.

use rustc_apfloat::ieee::{BFloat, Half};
use rustc_apfloat::{Float, Round, StatusAnd};
use warpfold_conformance::instructions::{Kind, Random, check_on, combinations};

use crate::instructions::float::reference::{Format, Modifiers, random, rounded};

type Binary<F> = fn(F, F, Round) -> StatusAnd<F>;

fn operations<F: Format>() -> [(&'static str, Binary<F>); 3] {
    [("add", F::add_r), ("sub", F::sub_r), ("mul", F::mul_r)]
}

/// Every value with eight others.
fn dense(seed: u64) -> Vec<[u64; 2]> {
    let mut random = Random::new(seed);
    (0..0x8_0000).map(|n| [n & 0xffff, random.bits() & 0xffff]).collect()
}

/// Two elements as one of packed registers.
fn packed<const I: usize>(elements: &[[u64; I]]) -> Vec<[u64; I]> {
    elements.windows(2).step_by(2).map(|pair| std::array::from_fn(|i| pair[0][i] | pair[1][i] << 16)).collect()
}

/// A function of packed registers from one of their halves.
fn by_halves<const I: usize>(words: [u64; I], f: impl Fn([u64; I]) -> u64) -> [u64; 1] {
    [f(words.map(|w| w & 0xffff)) | f(words.map(|w| w >> 16)) << 16]
}

#[track_caller]
fn check_binary<F: Format>(pair: Kind, modifiers: &[Modifiers]) {
    let mut elements = combinations([F::KIND; 2]);
    elements.extend(dense(1));
    let words = packed(&elements);
    for (name, operation) in operations::<F>() {
        for m in modifiers {
            let reference = |[a, b]: [u64; 2]| m.finish(operation(m.operand(a), m.operand(b), m.round()), &[]);
            let text = format!("{name}{}.{} x, a, b;", m.text(), F::NAME);
            check_on(&text, [F::KIND; 2], [F::KIND], &elements[..0x4_0000], |operands| [reference(operands)]);
            let text = format!("{name}{}.{}x2 x, a, b;", m.text(), F::NAME);
            check_on(&text, [pair; 2], [pair], &words, |words| by_halves(words, reference));
        }
    }
}

#[track_caller]
fn check_fused<F: Format>(pair: Kind, modifiers: &[Modifiers]) {
    let mut elements = combinations([F::KIND; 3]);
    elements.extend(random([F::KIND; 3], 200_000));
    // Sums of a product and a number near its rounding boundary, where rounding twice goes wrong.
    let near_ties = dense(2).into_iter().step_by(4).flat_map(|[a, b]| {
        let value = crate::instructions::float::reference::value::<F>;
        let product = value(a).mul_r(value(b), Round::NearestTiesToEven).value;
        let bits = crate::instructions::float::reference::bits(product);
        [[a, b, bits ^ 0x8000], [a, b, (bits + (12 << 7)) & 0xffff], [a, b, 1], [a, b, 0x8001]]
    });
    elements.extend(near_ties);
    let words = packed(&elements);
    for m in modifiers {
        let reference = |[a, b, c]: [u64; 3]| {
            let product: F = m.operand(a);
            m.finish(product.mul_add_r(m.operand(b), m.operand(c), m.round()), &[])
        };
        let text = format!("fma{}.{} x, a, b, c;", m.text(), F::NAME);
        check_on(&text, [F::KIND; 3], [F::KIND], &elements, |operands| [reference(operands)]);
        let text = format!("fma{}.{}x2 x, a, b, c;", m.text(), F::NAME);
        check_on(&text, [pair; 3], [pair], &words, |words| by_halves(words, reference));
    }
}

const RELU: Modifiers = Modifiers { rounding: ".rn", ftz: false, sat: false, relu: true };

#[test]
fn sums_and_products_of_f16_are_right_under_every_modifier() {
    check_binary::<Half>(Kind::F16x2, &Modifiers::all(&["", ".rn"]));
}

#[test]
fn sums_and_products_of_bf16_are_right() {
    check_binary::<BFloat>(Kind::Bf16x2, &[rounded(""), rounded(".rn")]);
}

#[test]
fn products_of_bf16_around_half_of_the_smallest_number_are_rounded_once() {
    // Every pair of significands, one at 2^-126, the other at 2^-11 to 2^1.
    let significands = (0..0x4000).map(|n| (n & 0x7f, n >> 7));
    let elements: Vec<_> =
        significands.flat_map(|(x, y)| (116..=128).map(move |exponent| [1 << 7 | x, exponent << 7 | y])).collect();
    let m = rounded("");
    check_on("mul.bf16 x, a, b;", [Kind::Bf16; 2], [Kind::Bf16], &elements, |[a, b]| {
        [m.finish(m.operand::<BFloat>(a).mul_r(m.operand(b), m.round()), &[])]
    });
}

#[test]
fn fused_multiply_adds_of_f16_are_rounded_once_under_every_modifier() {
    let mut modifiers = Modifiers::all(&[".rn"]);
    modifiers.extend([RELU, Modifiers { ftz: true, ..RELU }]);
    check_fused::<Half>(Kind::F16x2, &modifiers);
}

#[test]
fn fused_multiply_adds_of_bf16_are_rounded_once() {
    check_fused::<BFloat>(Kind::Bf16x2, &[rounded(".rn"), RELU]);
}

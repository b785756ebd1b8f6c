//! `add`, `sub`, `mul`, `fma` and `mad` of `.f32` and `.f64`.

use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Round, Status, StatusAnd};
use warpfold_conformance::instructions::{check_on, combinations};

use crate::instructions::float::reference::{Format, Modifiers, random, rounded};

const ROUNDINGS: [&str; 5] = ["", ".rn", ".rz", ".rm", ".rp"];

type Binary<F> = fn(F, F, Round) -> StatusAnd<F>;

fn operations<F: Format>() -> [(&'static str, Binary<F>); 3] {
    [("add", F::add_r), ("sub", F::sub_r), ("mul", F::mul_r)]
}

/// `.ftz` decides before it rounds: a result that is subnormal when cut off is flushed.
fn early<F: Format>(m: &Modifiers, result: StatusAnd<F>, cut: F) -> StatusAnd<F> {
    if m.ftz && cut.is_denormal() { Status::OK.and(cut) } else { result }
}

#[track_caller]
fn check_binary<F: Format>(modifiers: &[Modifiers]) {
    let mut elements = combinations([F::KIND; 2]);
    elements.extend(random([F::KIND; 2], 4000));
    for (name, operation) in operations::<F>() {
        for m in modifiers {
            let text = format!("{name}{}.{} x, a, b;", m.text(), F::NAME);
            check_on(&text, [F::KIND; 2], [F::KIND], &elements, |[a, b]| {
                let [x, y] = [a, b].map(|bits| m.operand::<F>(bits));
                let cut = operation(x, y, Round::TowardZero).value;
                [m.finish(early(m, operation(x, y, m.round()), cut), &[a, b])]
            });
        }
    }
}

#[track_caller]
fn check_fused<F: Format>(name: &str, modifiers: &[Modifiers]) {
    let mut elements = combinations([F::KIND; 3]);
    elements.extend(random([F::KIND; 3], 8000));
    elements.extend(cancelling::<F>());
    for m in modifiers {
        let text = format!("{name}{}.{} x, a, b, c;", m.text(), F::NAME);
        check_on(&text, [F::KIND; 3], [F::KIND], &elements, |[a, b, c]| {
            let [x, y, z] = [a, b, c].map(|bits| m.operand::<F>(bits));
            let cut = x.mul_add_r(y, z, Round::TowardZero).value;
            [m.finish(early(m, x.mul_add_r(y, z, m.round()), cut), &[a, b, c])]
        });
    }
}

/// Products with the negated rounded product, and its neighbours: all that is left is the rounding
/// error.
fn cancelling<F: Format>() -> Vec<[u64; 3]> {
    let sign = F::KIND.mask() / 2 + 1;
    let with_product = |[a, b]: [u64; 2]| {
        let value = crate::instructions::float::reference::value::<F>;
        let product =
            crate::instructions::float::reference::bits(value(a).mul_r(value(b), Round::NearestTiesToEven).value)
                ^ sign;
        [[a, b, product], [a, b, product.wrapping_add(1) & F::KIND.mask()]]
    };
    random([F::KIND; 2], 2000).into_iter().flat_map(with_product).collect()
}

#[test]
fn sums_and_products_of_f32_are_right_under_every_modifier() {
    check_binary::<Single>(&Modifiers::all(&ROUNDINGS));
}

#[test]
fn sums_and_products_of_f64_are_right_in_every_rounding() {
    check_binary::<Double>(&ROUNDINGS.map(rounded));
}

#[test]
fn fused_multiply_adds_of_f32_are_rounded_once_under_every_modifier() {
    check_fused::<Single>("fma", &Modifiers::all(&ROUNDINGS[1..]));
    check_fused::<Single>("mad", &[rounded(".rn"), rounded(".rz")]);
}

#[test]
fn fused_multiply_adds_of_f64_are_rounded_once_in_every_rounding() {
    let modifiers: Vec<_> = ROUNDINGS[1..].iter().map(|rounding| rounded(rounding)).collect();
    check_fused::<Double>("fma", &modifiers);
    check_fused::<Double>("mad", &modifiers);
}

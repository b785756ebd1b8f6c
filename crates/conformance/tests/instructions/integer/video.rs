//! Scalar and SIMD video instructions.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, check};

use crate::instructions::integer::reference::{S32, Ty, U32, part, raw};

const TYPES: [Ty; 2] = [U32, S32];

/// Selectors of the scalar instructions: offset and width.
const PARTS: [(&str, u32, u32); 7] =
    [("", 0, 32), (".b0", 0, 8), (".b1", 8, 8), (".b2", 16, 8), (".b3", 24, 8), (".h0", 0, 16), (".h1", 16, 16)];

type Binary = fn(i128, i128) -> i128;

const ARITHMETIC: [(&str, Binary); 5] = [
    ("vadd", |a, b| a + b),
    ("vsub", |a, b| a - b),
    ("vabsdiff", |a, b| (a - b).abs()),
    ("vmin", |a, b| a.min(b)),
    ("vmax", |a, b| a.max(b)),
];

const COMPARISONS: [(&str, Binary); 6] = [
    ("eq", |a, b| (a == b).into()),
    ("ne", |a, b| (a != b).into()),
    ("lt", |a, b| (a < b).into()),
    ("le", |a, b| (a <= b).into()),
    ("gt", |a, b| (a > b).into()),
    ("ge", |a, b| (a >= b).into()),
];

const SECONDARY: [(&str, Binary); 3] = [("add", |t, c| t + c), ("min", |t, c| t.min(c)), ("max", |t, c| t.max(c))];

/// What an intermediate result of 34 bits keeps of a number.
fn s34(value: i128) -> i128 {
    part(raw(value), 0, 34, true)
}

fn clamp(value: i128, width: u32, signed: bool) -> i128 {
    let (low, high) = Ty { bits: width, signed }.range();
    value.clamp(low, high)
}

/// All types, parts and stages of one primary operation; `modifier` stands between the types and
/// the stages.
fn scalar(mnemonic: &str, modifier: &str, types: &[(Ty, Ty, Ty)], primary: Binary) {
    let compares = mnemonic == "vset";
    for (n, &(of_d, of_a, of_b)) in types.iter().enumerate() {
        let names = if compares { format!("{of_a}.{of_b}") } else { format!("{of_d}.{of_a}.{of_b}") };
        // Each combination of types meets other parts: all of them are met in turn.
        for shift in 0..7 {
            let (a_name, a_offset, a_width) = PARTS[(n + shift) % 7];
            let (b_name, b_offset, b_width) = PARTS[(n + 3 * shift + 1) % 7];
            let (d_name, d_offset, d_width) = PARTS[1 + (n + shift) % 6];
            let sources = format!("a{a_name}, b{b_name}");
            let value =
                |a, b| primary(part(a, a_offset, a_width, of_a.signed), part(b, b_offset, b_width, of_b.signed));
            for saturates in [false, true] {
                if saturates && compares {
                    continue;
                }
                let sat = if saturates { ".sat" } else { "" };
                let limit = |value, width| if saturates { clamp(value, width, of_d.signed) } else { value };
                let head = format!("{mnemonic}.{names}{sat}{modifier}");
                check(&format!("{head} x, {sources};"), [B32; 2], [B32], |[a, b]| [raw(limit(value(a, b), 32))]);
                check(&format!("{head} x{d_name}, {sources}, c;"), [B32; 3], [B32], |[a, b, c]| {
                    let field = (1 << d_width) - 1;
                    let merged = raw(limit(value(a, b), d_width)) & field;
                    [merged << d_offset | c & !(field << d_offset)]
                });
                let (name, second) = SECONDARY[shift % 3];
                check(&format!("{head}.{name} x, {sources}, c;"), [B32; 3], [B32], |[a, b, c]| {
                    [raw(second(limit(value(a, b), 32), of_d.value(c)))]
                });
            }
        }
    }
}

/// All combinations of types of destination and sources.
fn all_types() -> Vec<(Ty, Ty, Ty)> {
    TYPES.iter().flat_map(|&d| TYPES.iter().flat_map(move |&a| TYPES.iter().map(move |&b| (d, a, b)))).collect()
}

#[test]
fn scalar_arithmetic_takes_parts_clamps_and_merges() {
    for (mnemonic, primary) in ARITHMETIC {
        scalar(mnemonic, "", &all_types(), primary);
    }
}

#[test]
fn scalar_shifts_clamp_or_wrap_their_amount() {
    let types: Vec<_> = all_types().into_iter().filter(|(_, _, b)| *b == U32).collect();
    scalar("vshl", ".clamp", &types, |a, b| s34(a << b.min(32)));
    scalar("vshl", ".wrap", &types, |a, b| s34(a << (b % 32)));
    scalar("vshr", ".clamp", &types, |a, b| a >> b.min(32));
    scalar("vshr", ".wrap", &types, |a, b| a >> (b % 32));
}

#[test]
fn scalar_comparisons_give_one_or_zero() {
    let types: Vec<_> = all_types().into_iter().filter(|(d, _, _)| *d == U32).collect();
    for (name, primary) in COMPARISONS {
        scalar("vset", &format!(".{name}"), &types, primary);
    }
}

#[test]
fn products_can_be_negated_scaled_and_clamped() {
    for of_a in TYPES {
        for of_b in TYPES {
            for (scale, shift) in [("", 0), (".shr7", 7), (".shr15", 15)] {
                for sat in ["", ".sat"] {
                    let forms =
                        [("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"), ("-", "-", ""), ("po", "", "")];
                    for (negate_a, negate_b, negate_c) in forms {
                        let (po, negate_a) = if negate_a == "po" { (true, "") } else { (false, negate_a) };
                        let (po_name, negated) = (if po { ".po" } else { "" }, negate_a != negate_b);
                        let line = format!(
                            "vmad.s32.{of_a}.{of_b}{po_name}{sat}{scale} x, {negate_a}a.h1, {negate_b}b, {negate_c}c;"
                        );
                        let signed = of_a.signed || of_b.signed || negated || negate_c == "-";
                        check(&line, [B32; 3], [B32], |[a, b, c]| {
                            let product = part(a, 16, 16, of_a.signed) * of_b.value(b);
                            let product = if negated { -product } else { product };
                            // The ISA inverts a negated summand before it extends it.
                            let c =
                                if negate_c == "-" { S32.value(!c & 0xffff_ffff) + 1 } else { part(c, 0, 32, signed) };
                            let sum = (product + c + i128::from(po)) >> shift;
                            [raw(if sat.is_empty() { sum } else { clamp(sum, 32, signed) })]
                        });
                    }
                }
            }
        }
    }
}

/// An instruction on halves or bytes, with selectors, masks and accumulation.
fn simd(mnemonic: &str, modifier: &str, of: (Ty, Ty, Ty), primary: Binary) {
    let (of_d, of_a, of_b) = of;
    let compares = mnemonic.starts_with("vset");
    let count: u32 = if mnemonic.ends_with('4') { 4 } else { 2 };
    let width = 32 / count;
    let kind = if count == 4 { Kind::Int8x4 } else { Kind::Int16x2 };
    let names = if compares { format!("{of_a}.{of_b}") } else { format!("{of_d}.{of_a}.{of_b}") };
    // Selectors with the elements that they name, lowest first; the default takes `a` and `b` as
    // they are.
    let selectors: &[(&str, &str, &str, [u32; 4], [u32; 4], u32)] = if count == 4 {
        &[
            ("", "", "", [0, 1, 2, 3], [4, 5, 6, 7], 0b1111),
            (".b20", ".b3705", ".b1116", [5, 0, 7, 3], [6, 1, 1, 1], 0b0101),
            (".b3", ".b7654", ".b0123", [4, 5, 6, 7], [3, 2, 1, 0], 0b1000),
        ]
    } else {
        &[
            ("", "", "", [0, 1, 0, 0], [2, 3, 0, 0], 0b11),
            (".h1", ".h03", ".h22", [3, 0, 0, 0], [2, 2, 0, 0], 0b10),
            (".h0", ".h31", ".h10", [1, 3, 0, 0], [0, 1, 0, 0], 0b01),
        ]
    };
    for (d_name, a_name, b_name, a_elements, b_elements, mask) in selectors {
        let operands = format!("x{d_name}, a{a_name}, b{b_name}, c");
        let value = |a: u64, b: u64, i: u32| {
            let element = |index: u32, signed| part(b << 32 | a, index * width, width, signed);
            primary(element(a_elements[i as usize], of_a.signed), element(b_elements[i as usize], of_b.signed))
        };
        let merge = |[a, b, c]: [u64; 3], saturates: bool| {
            (0..count).fold(0, |word, i| {
                let result = value(a, b, i);
                let result = if saturates { clamp(result, width, of_d.signed) } else { result };
                let element = if mask >> i & 1 != 0 { result } else { part(c, i * width, width, false) };
                word | (raw(element) & ((1 << width) - 1)) << (i * width)
            })
        };
        let head = format!("{mnemonic}.{names}");
        check(&format!("{head}{modifier} {operands};"), [kind; 3], [kind], |inputs| [merge(inputs, false)]);
        if !compares {
            check(&format!("{head}.sat {operands};"), [kind; 3], [kind], |inputs| [merge(inputs, true)]);
        }
        check(&format!("{head}{modifier}.add {operands};"), [kind; 3], [kind], |[a, b, c]| {
            let sum: i128 = (0..count).filter(|i| mask >> i & 1 != 0).map(|i| value(a, b, i)).sum();
            [raw(sum + i128::from(c))]
        });
    }
}

#[test]
fn simd_arithmetic_selects_masks_and_accumulates() {
    for types in all_types() {
        for count in [2, 4] {
            for (mnemonic, primary) in ARITHMETIC {
                simd(&format!("{mnemonic}{count}"), "", types, primary);
            }
            simd(&format!("vavrg{count}"), "", types, |a, b| if a + b >= 0 { (a + b + 1) >> 1 } else { (a + b) >> 1 });
        }
    }
}

#[test]
fn simd_comparisons_give_one_or_zero_in_each_element() {
    for types in all_types().into_iter().filter(|(d, _, _)| *d == U32) {
        for (name, primary) in COMPARISONS {
            simd("vset2", &format!(".{name}"), types, primary);
            simd("vset4", &format!(".{name}"), types, primary);
        }
    }
}

//! `add sub mul mad mul24 mad24 sad div rem abs neg min max dp4a dp2a`.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, Random, check, check_on};

use crate::instructions::integer::reference::{ALL, S16, S32, SIGNED, Ty, U16, U32, part, raw};

#[track_caller]
fn binary(mnemonic: &str, types: &[Ty], reference: impl Fn(Ty, i128, i128) -> i128) {
    for &ty in types {
        let line = format!("{mnemonic}.{ty} x, a, b;");
        check(&line, [ty.kind(); 2], [ty.kind()], |[a, b]| [raw(reference(ty, ty.value(a), ty.value(b)))]);
    }
}

#[track_caller]
fn packed(line: &str, ty: Ty, reference: impl Fn(i128, i128) -> i128) {
    check(line, [Kind::Int16x2; 2], [Kind::Int16x2], |[a, b]| {
        let half = |i| raw(reference(part(a, i, 16, ty.signed), part(b, i, 16, ty.signed))) & 0xffff;
        [half(0) | half(16) << 16]
    });
}

#[test]
fn sums_and_differences_wrap() {
    binary("add", &ALL, |_, a, b| a + b);
    binary("sub", &ALL, |_, a, b| a - b);
    packed("add.u16x2 x, a, b;", U16, |a, b| a + b);
    packed("add.s16x2 x, a, b;", S16, |a, b| a + b);
}

#[test]
fn saturating_sums_and_differences_stop_at_the_ends_of_the_range() {
    let to_range = |value: i128| i128::from(S32.saturate(value));
    binary("add.sat", &[S32], |_, a, b| to_range(a + b));
    binary("sub.sat", &[S32], |_, a, b| to_range(a - b));
}

#[test]
fn either_half_of_a_product_can_be_had() {
    binary("mul.lo", &ALL, |_, a, b| a.wrapping_mul(b));
    binary("mul.hi", &ALL, |ty, a, b| a.wrapping_mul(b) >> ty.bits);
}

#[test]
fn wide_products_are_exact() {
    for ty in [U16, crate::instructions::integer::reference::S16, U32, S32] {
        let wide = Kind::Int(2 * ty.bits);
        let product = |a, b| ty.value(a) * ty.value(b);
        check(&format!("mul.wide.{ty} x, a, b;"), [ty.kind(); 2], [wide], |[a, b]| [raw(product(a, b))]);
        check(&format!("mad.wide.{ty} x, a, b, c;"), [ty.kind(), ty.kind(), wide], [wide], |[a, b, c]| {
            [raw(product(a, b) + i128::from(c))]
        });
    }
}

#[test]
fn a_summand_joins_either_half_of_a_product() {
    for ty in ALL {
        let product = |a, b| ty.value(a).wrapping_mul(ty.value(b));
        check(&format!("mad.lo.{ty} x, a, b, c;"), [ty.kind(); 3], [ty.kind()], |[a, b, c]| {
            [raw(product(a, b)).wrapping_add(c)]
        });
        check(&format!("mad.hi.{ty} x, a, b, c;"), [ty.kind(); 3], [ty.kind()], |[a, b, c]| {
            [raw(product(a, b) >> ty.bits).wrapping_add(c)]
        });
    }
    check("mad.hi.sat.s32 x, a, b, c;", [B32; 3], [B32], |[a, b, c]| {
        [S32.saturate(((S32.value(a) * S32.value(b)) >> 32) + S32.value(c))]
    });
}

#[test]
fn products_of_24_bits_use_only_those() {
    for ty in [U32, S32] {
        let product = |a, b| part(a, 0, 24, ty.signed) * part(b, 0, 24, ty.signed);
        let high = |a, b| part(raw(product(a, b)), 16, 32, ty.signed);
        check(&format!("mul24.lo.{ty} x, a, b;"), [B32; 2], [B32], |[a, b]| [raw(product(a, b))]);
        check(&format!("mul24.hi.{ty} x, a, b;"), [B32; 2], [B32], |[a, b]| [raw(high(a, b))]);
        check(&format!("mad24.lo.{ty} x, a, b, c;"), [B32; 3], [B32], |[a, b, c]| [raw(product(a, b) + i128::from(c))]);
        check(&format!("mad24.hi.{ty} x, a, b, c;"), [B32; 3], [B32], |[a, b, c]| [raw(high(a, b) + i128::from(c))]);
        if ty.signed {
            check("mad24.hi.sat.s32 x, a, b, c;", [B32; 3], [B32], |[a, b, c]| [ty.saturate(high(a, b) + ty.value(c))]);
        }
    }
}

#[test]
fn absolute_differences_are_added_up() {
    for ty in ALL {
        check(&format!("sad.{ty} x, a, b, c;"), [ty.kind(); 3], [ty.kind()], |[a, b, c]| {
            [raw((ty.value(a) - ty.value(b)).abs() + ty.value(c))]
        });
    }
}

#[test]
fn division_rounds_towards_zero_and_by_zero_gives_all_ones() {
    binary("div", &ALL, |_, a, b| if b == 0 { -1 } else { a / b });
    binary("rem", &ALL, |_, a, b| if b == 0 { -1 } else { a % b });
}

#[test]
fn division_is_exact_next_to_multiples_of_the_divisor() {
    let mut random = Random::new(17);
    for ty in ALL {
        let mask = ty.kind().mask();
        let elements: Vec<_> = (0..6000)
            .map(|n| {
                let divisor = random.bits() & (mask >> (n / 3 % ty.bits));
                let quotient = random.bits() & mask;
                let multiple = (mask / divisor.max(1)).min(quotient).wrapping_mul(divisor);
                [multiple.wrapping_add(n as u64 % 3).wrapping_sub(1) & mask, divisor]
            })
            .collect();
        for (mnemonic, pick) in [("div", (|a, b| a / b) as fn(i128, i128) -> i128), ("rem", |a, b| a % b)] {
            check_on(&format!("{mnemonic}.{ty} x, a, b;"), [ty.kind(); 2], [ty.kind()], &elements, |[a, b]| {
                [if b == 0 { u64::MAX } else { raw(pick(ty.value(a), ty.value(b))) }]
            });
        }
    }
}

#[test]
fn the_least_number_has_no_absolute_value() {
    for ty in SIGNED {
        check(&format!("abs.{ty} x, a;"), [ty.kind()], [ty.kind()], |[a]| [raw(ty.value(a).abs())]);
        check(&format!("neg.{ty} x, a;"), [ty.kind()], [ty.kind()], |[a]| [raw(-ty.value(a))]);
    }
}

#[test]
fn minimum_and_maximum_know_signs() {
    binary("min", &ALL, |_, a, b| a.min(b));
    binary("max", &ALL, |_, a, b| a.max(b));
    binary("min.relu", &[S32], |_, a, b| a.min(b).max(0));
    binary("max.relu", &[S32], |_, a, b| a.max(b).max(0));
    packed("min.u16x2 x, a, b;", U16, i128::min);
    packed("max.u16x2 x, a, b;", U16, i128::max);
    packed("min.s16x2 x, a, b;", S16, i128::min);
    packed("max.s16x2 x, a, b;", S16, i128::max);
    packed("min.relu.s16x2 x, a, b;", S16, |a, b| a.min(b).max(0));
    packed("max.relu.s16x2 x, a, b;", S16, |a, b| a.max(b).max(0));
}

#[test]
fn dot_products_of_bytes_extend_each_side_by_its_type() {
    for (of_a, of_b) in [(U32, U32), (U32, S32), (S32, U32), (S32, S32)] {
        let dot = |n: u32, a: u64, a_width: u32, b: u64, c: u64| {
            let term = |i| part(a, i * a_width, a_width, of_a.signed) * part(b, i * 8, 8, of_b.signed);
            [raw((0..n).map(term).sum::<i128>() + i128::from(c))]
        };
        check(&format!("dp4a.{of_a}.{of_b} x, a, b, c;"), [Kind::Int8x4, Kind::Int8x4, B32], [B32], |[a, b, c]| {
            dot(4, a, 8, b, c)
        });
        let inputs = [Kind::Int16x2, Kind::Int8x4, B32];
        check(&format!("dp2a.lo.{of_a}.{of_b} x, a, b, c;"), inputs, [B32], |[a, b, c]| dot(2, a, 16, b, c));
        check(&format!("dp2a.hi.{of_a}.{of_b} x, a, b, c;"), inputs, [B32], |[a, b, c]| dot(2, a, 16, b >> 16, c));
    }
}

#[test]
fn literals_are_operands() {
    check("add.u16 x, a, -5;", [U16.kind()], [U16.kind()], |[a]| [a.wrapping_sub(5)]);
    check("sub.s64 x, -1, a;", [Kind::Int(64)], [Kind::Int(64)], |[a]| [!a]);
    check("mad.lo.u32 x, a, 0x10001, 4294967295;", [B32], [B32], |[a]| {
        [a.wrapping_mul(0x1_0001).wrapping_add(0xffff_ffff)]
    });
    check("mul.wide.s32 x, a, -7;", [B32], [Kind::Int(64)], |[a]| [raw(S32.value(a) * -7)]);
}

#[test]
fn a_register_can_be_source_and_result() {
    check("mad.lo.u32 a, a, a, a; add.u32 x, a, a;", [B32], [B32], |[a]| {
        [a.wrapping_mul(a).wrapping_add(a).wrapping_mul(2)]
    });
}

#[test]
fn lanes_without_the_guard_keep_what_they_had() {
    check("add.u32 x, a, 0; @c add.u32 x, a, b;", [B32, B32, Kind::Pred], [B32], |[a, b, c]| {
        [if c == 1 { a.wrapping_add(b) } else { a }]
    });
    let wide = Kind::Int(64);
    check("add.u64 x, a, 0; @!c mul.lo.u64 x, a, b;", [wide, wide, Kind::Pred], [wide], |[a, b, c]| {
        [if c == 0 { a.wrapping_mul(b) } else { a }]
    });
}

//! `add.cc addc sub.cc subc mad.cc madc`.

use warpfold_conformance::instructions::kind::{B32, B64};
use warpfold_conformance::instructions::{Kind, check};

use crate::instructions::integer::reference::{FROM_32, raw};

#[test]
fn carries_go_through_chains_of_sums() {
    for ty in FROM_32 {
        let line = format!("add.cc.{ty} x, a, c; addc.cc.{ty} y, b, d; addc.{ty} z, 0, 0;");
        check(&line, [ty.kind(); 4], [ty.kind(); 3], |[a, b, c, d]| {
            let low = u128::from(a) + u128::from(c);
            let high = u128::from(b) + u128::from(d) + (low >> ty.bits);
            [low, high, high >> ty.bits].map(|v| v as u64)
        });
    }
}

#[test]
fn borrows_go_through_chains_of_differences() {
    for ty in FROM_32 {
        let line = format!("sub.cc.{ty} x, a, c; subc.cc.{ty} y, b, d; subc.{ty} z, 0, 0;");
        check(&line, [ty.kind(); 4], [ty.kind(); 3], |[a, b, c, d]| {
            let low = i128::from(a) - i128::from(c);
            let high = i128::from(b) - i128::from(d) - i128::from(low < 0);
            [raw(low), raw(high), raw(-i128::from(high < 0))]
        });
    }
}

#[test]
fn a_difference_leaves_the_carry_of_the_adder_that_made_it_as_hardware_does() {
    check("sub.cc.u32 x, a, b; addc.u32 y, 0, 0;", [B32; 2], [B32; 2], |[a, b]| [a.wrapping_sub(b), u64::from(a >= b)]);
    check("add.cc.u32 x, a, b; subc.u32 y, 0, 0;", [B32; 2], [B32; 2], |[a, b]| {
        [a + b, ((a + b) >> 32).wrapping_sub(1)]
    });
}

#[test]
fn carries_go_through_sums_of_products() {
    for ty in FROM_32 {
        let line = format!("mad.lo.cc.{ty} x, a, b, c; madc.hi.cc.{ty} y, a, b, d; addc.{ty} z, 0, 0;");
        check(&line, [ty.kind(); 4], [ty.kind(); 3], |[a, b, c, d]| {
            let product = ty.value(a).wrapping_mul(ty.value(b)) as u128;
            let field = |value: u128| value & u128::from(ty.kind().mask());
            let low = field(product) + u128::from(c);
            let high = field(product >> ty.bits) + u128::from(d) + (low >> ty.bits);
            [low, high, high >> ty.bits].map(|v| v as u64)
        });
        let line = format!("mad.hi.cc.{ty} x, a, b, c; madc.lo.cc.{ty} y, a, b, d; madc.lo.{ty} z, 0, 0, 0;");
        check(&line, [ty.kind(); 4], [ty.kind(); 3], |[a, b, c, d]| {
            let product = ty.value(a).wrapping_mul(ty.value(b)) as u128;
            let field = |value: u128| value & u128::from(ty.kind().mask());
            let first = field(product >> ty.bits) + u128::from(c);
            let second = field(product) + u128::from(d) + (first >> ty.bits);
            [first, second, second >> ty.bits].map(|v| v as u64)
        });
    }
}

#[test]
fn products_of_two_words_need_four_multiplications() {
    let line = "mul.lo.u32 x, a, c; mul.hi.u32 y, a, c; \
                mad.lo.cc.u32 y, a, d, y; madc.hi.u32 z, a, d, 0; \
                mad.lo.cc.u32 y, b, c, y; madc.hi.u32 z, b, c, z; mad.lo.u32 z, b, d, z;";
    check(line, [B32; 4], [B32; 3], |[a, b, c, d]| {
        let product = u128::from(a | b << 32) * u128::from(c | d << 32);
        [product as u64, (product >> 32) as u64, (product >> 64) as u64]
    });
}

#[test]
fn what_does_not_carry_leaves_the_flag_alone() {
    check(
        "add.cc.u32 x, a, b; add.u32 y, a, -1; mul.lo.u32 y, a, b; addc.u32 z, 0, 0;",
        [B32; 2],
        [B32; 3],
        |[a, b]| [a + b, a.wrapping_mul(b), (a + b) >> 32],
    );
    check("add.cc.u64 x, a, b; addc.u64 y, 1, 1; addc.u32 z, 0, 0;", [B64; 2], [B64, B64, B32], |[a, b]| {
        let (sum, carry) = a.overflowing_add(b);
        [sum, 2 + u64::from(carry), u64::from(carry)]
    });
}

#[test]
fn a_difference_takes_the_flag_of_a_sum_for_no_borrow() {
    check("add.cc.u32 x, a, b; subc.u32 y, c, 0;", [B32; 3], [B32; 2], |[a, b, c]| {
        [a + b, c.wrapping_sub(u64::from(a + b < 1 << 32))]
    });
}

#[test]
fn lanes_without_the_guard_keep_their_flag() {
    check(
        "add.cc.u32 x, a, 0; @c add.cc.u32 x, a, b; addc.u32 y, 0, 0;",
        [B32, B32, Kind::Pred],
        [B32; 2],
        |[a, b, c]| {
            let sum = if c == 1 { a + b } else { a };
            [sum, sum >> 32]
        },
    );
}

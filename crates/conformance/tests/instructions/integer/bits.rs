//! `popc clz bfind fns brev bfe bfi szext bmsk`.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, check};

use crate::instructions::integer::reference::{FROM_32, S32, U32, bit, word};

const AMOUNT: Kind = Kind::Amount;

#[test]
fn ones_and_leading_zeros_are_counted() {
    for width in [32, 64] {
        let kind = Kind::Int(width);
        check(&format!("popc.b{width} x, a;"), [kind], [B32], |[a]| [(0..width).filter(|&i| bit(a, i)).count() as u64]);
        check(&format!("clz.b{width} x, a;"), [kind], [B32], |[a]| {
            [(0..width).rev().take_while(|&i| !bit(a, i)).count() as u64]
        });
        check(&format!("brev.b{width} x, a;"), [kind], [kind], |[a]| [word(width, |i| bit(a, width - 1 - i))]);
    }
}

#[test]
fn the_highest_bit_that_is_no_sign_is_found() {
    for ty in FROM_32 {
        let find = |a: u64| (0..ty.bits).rev().find(|&i| bit(a, i) != (ty.signed && bit(a, ty.bits - 1)));
        check(&format!("bfind.{ty} x, a;"), [ty.kind()], [B32], |[a]| [find(a).map_or(u64::MAX, u64::from)]);
        check(&format!("bfind.shiftamt.{ty} x, a;"), [ty.kind()], [B32], |[a]| {
            [find(a).map_or(u64::MAX, |i| u64::from(ty.bits - 1 - i))]
        });
    }
}

#[test]
fn the_nth_set_bit_is_found_in_both_directions() {
    check("fns.b32 x, a, b, c;", [B32, AMOUNT, AMOUNT], [B32], |[mask, base, offset]| {
        let offset = S32.value(offset);
        if offset == 0 {
            return [if base < 32 && bit(mask, base as u32) { base } else { u64::MAX }];
        }
        let (mut position, mut left) = (base as i64, offset.abs() - 1);
        while (0..32).contains(&position) {
            if bit(mask, position as u32) {
                if left == 0 {
                    return [position as u64];
                }
                left -= 1;
            }
            position += offset.signum() as i64;
        }
        [u64::MAX]
    });
    check("fns.b32 x, a, 31, -2;", [B32], [B32], |[mask]| {
        [(0..32).rev().filter(|&i| bit(mask, i)).nth(1).map_or(u64::MAX, u64::from)]
    });
    check("fns.b32 x, a, 4, 3;", [B32], [B32], |[mask]| {
        [(4..32).filter(|&i| bit(mask, i)).nth(2).map_or(u64::MAX, u64::from)]
    });
}

#[test]
fn extracted_fields_are_extended_from_their_own_highest_bit() {
    for ty in FROM_32 {
        check(&format!("bfe.{ty} x, a, b, c;"), [ty.kind(), AMOUNT, AMOUNT], [ty.kind()], |[a, b, c]| {
            let (position, length) = (b as u32 & 0xff, c as u32 & 0xff);
            let sign = ty.signed && length != 0 && bit(a, (position + length - 1).min(ty.bits - 1));
            [word(ty.bits, |i| if i < length && position + i < ty.bits { bit(a, position + i) } else { sign })]
        });
        check(&format!("bfe.{ty} x, a, 5, 9;"), [ty.kind()], [ty.kind()], |[a]| {
            [word(ty.bits, |i| if i < 9 { bit(a, 5 + i) } else { ty.signed && bit(a, 13) })]
        });
    }
}

#[test]
fn inserted_fields_leave_the_other_bits() {
    for width in [32, 64] {
        let kind = Kind::Int(width);
        check(&format!("bfi.b{width} x, a, b, c, d;"), [kind, kind, AMOUNT, AMOUNT], [kind], |[a, b, c, d]| {
            let (position, length) = (c as u32 & 0xff, d as u32 & 0xff);
            [word(width, |i| if i >= position && i - position < length { bit(a, i - position) } else { bit(b, i) })]
        });
    }
}

#[test]
fn numbers_of_n_bits_are_extended() {
    for ty in [U32, S32] {
        let extend = |a: u64, n: u32| word(32, |i| if i < n { bit(a, i) } else { ty.signed && n > 0 && bit(a, n - 1) });
        check(&format!("szext.clamp.{ty} x, a, b;"), [B32, AMOUNT], [B32], |[a, b]| [extend(a, b.min(32) as u32)]);
        check(&format!("szext.wrap.{ty} x, a, b;"), [B32, AMOUNT], [B32], |[a, b]| [extend(a, b as u32 % 32)]);
    }
}

#[test]
fn masks_have_ones_from_a_position_on() {
    let mask = |start: u64, length: u64| [word(32, |i| (start..start + length).contains(&u64::from(i)))];
    check("bmsk.clamp.b32 x, a, b;", [AMOUNT; 2], [B32], |[a, b]| mask(a, b));
    check("bmsk.wrap.b32 x, a, b;", [AMOUNT; 2], [B32], |[a, b]| mask(a % 32, b % 32));
}

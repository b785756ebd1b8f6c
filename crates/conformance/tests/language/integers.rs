//! Integers of every width and sign.

use half::{bf16, f16};
use warpfold_lang::Val;

use crate::language::harness::{check, check_one, to_bf16, to_f16};

macro_rules! integers {
    ($($rust:ident $wide:ident $module:ident)*) => {$(
        mod $module {
            use super::*;

            const VALUES: &[$rust] = &[
                0, 1, 2, 3, 5, 7, 10, 31, 32, 63, 100, 0x55,
                $rust::MAX, $rust::MAX - 1, $rust::MAX / 2, $rust::MAX / 3, $rust::MIN, $rust::MIN + 1, $rust::MIN / 2,
                (0 as $rust).wrapping_sub(1), (0 as $rust).wrapping_sub(7),
            ];

            #[test]
            fn arithmetic_wraps() {
                let both = (VALUES, VALUES);
                check("add", both, |a, b| a + b, |a, b| Some(a.wrapping_add(b)));
                check("sub", both, |a, b| a - b, |a, b| Some(a.wrapping_sub(b)));
                check("mul", both, |a, b| a * b, |a, b| Some(a.wrapping_mul(b)));
                check("div", both, |a, b| a / b, |a, b| (b != 0).then(|| a.wrapping_div(b)));
                check("rem", both, |a, b| a % b, |a, b| (b != 0).then(|| a.wrapping_rem(b)));
                check("min", both, |a, b| a.min(b), |a, b| Some(a.min(b)));
                check("max", both, |a, b| a.max(b), |a, b| Some(a.max(b)));
                check("mad", both, |a, b| a.mul_add(b, a), |a, b| Some(a.wrapping_mul(b).wrapping_add(a)));
                check("constant", both, |a, b| 100 - a + b * 3, |a, b| {
                    Some((100 as $rust).wrapping_sub(a).wrapping_add(b.wrapping_mul(3)))
                });
            }

            #[test]
            fn bits_and_shifts_match_rust() {
                let both = (VALUES, VALUES);
                check("and", both, |a, b| a & b, |a, b| Some(a & b));
                check("or", both, |a, b| a | b, |a, b| Some(a | b));
                check("xor", both, |a, b| a ^ b, |a, b| Some(a ^ b));
                check_one("not", VALUES, |a| !a, |a: $rust| Some(!a));
                let amounts: &[u32] = &[0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 1000];
                check("shl", (VALUES, amounts), |a, n| a << n, |a, n| Some(a.checked_shl(n).unwrap_or(0)));
                check("shr", (VALUES, amounts), |a, n| a >> n, |a, n| {
                    Some(a.checked_shr(n).unwrap_or(if (a as i128) < 0 { (0 as $rust).wrapping_sub(1) } else { 0 }))
                });
            }

            #[test]
            fn comparisons_match_rust() {
                let both = (VALUES, VALUES);
                check("eq", both, |a, b| a.eq(b).cast::<u32>(), |a, b| Some(u32::from(a == b)));
                check("ne", both, |a, b| a.ne(b).cast::<u32>(), |a, b| Some(u32::from(a != b)));
                check("lt", both, |a, b| a.lt(b).cast::<u32>(), |a, b| Some(u32::from(a < b)));
                check("le", both, |a, b| a.le(b).cast::<u32>(), |a, b| Some(u32::from(a <= b)));
                check("gt", both, |a, b| a.gt(b).cast::<u32>(), |a, b| Some(u32::from(a > b)));
                check("ge", both, |a, b| a.ge(b).cast::<u32>(), |a, b| Some(u32::from(a >= b)));
                check("select", both, |a, b| (a.lt(b) & !a.eq(3)).select(a, b), |a, b| {
                    Some(if a < b && a != 3 { a } else { b })
                });
            }

            #[test]
            fn casts_are_those_of_rust() {
                check_one("cast", VALUES, |a| a.cast::<u8>(), |a| Some(a as u8));
                check_one("cast", VALUES, |a| a.cast::<u16>(), |a| Some(a as u16));
                check_one("cast", VALUES, |a| a.cast::<u32>(), |a| Some(a as u32));
                check_one("cast", VALUES, |a| a.cast::<u64>(), |a| Some(a as u64));
                check_one("cast", VALUES, |a| a.cast::<i8>(), |a| Some(a as i8));
                check_one("cast", VALUES, |a| a.cast::<i16>(), |a| Some(a as i16));
                check_one("cast", VALUES, |a| a.cast::<i32>(), |a| Some(a as i32));
                check_one("cast", VALUES, |a| a.cast::<i64>(), |a| Some(a as i64));
                check_one("cast", VALUES, |a| a.cast::<f32>(), |a| Some(a as f32));
                check_one("cast", VALUES, |a| a.cast::<f64>(), |a| Some(a as f64));
                check_one("cast", VALUES, |a| a.cast::<f16>(), |a| Some(to_f16(a as f64)));
                // f64 does not hold every 64-bit integer, but those that it loses lie far from a
                // tie of bf16.
                check_one("cast", VALUES, |a| a.cast::<bf16>(), |a| Some(to_bf16(a as f64)));
                check_one("cast", VALUES, |a| a.cast::<bool>().cast::<u32>(), |a: $rust| Some(u32::from(a != 0)));
            }

            #[test]
            fn upper_halves_of_products_match_rust() {
                if $rust::BITS > 8 {
                    check("mul_hi", (VALUES, VALUES), |a, b| a.mul_hi(b), |a, b| {
                        Some(((a as $wide * b as $wide) >> $rust::BITS) as $rust)
                    });
                }
            }
        }
    )*};
}

integers! {
    u8 u16 u8s
    u16 u32 u16s
    u32 u64 u32s
    u64 u128 u64s
    i8 i16 i8s
    i16 i32 i16s
    i32 i64 i32s
    i64 i128 i64s
}

macro_rules! signed {
    ($($rust:ident)*) => {$(
        let values = [0, 1, -1, 5, -5, $rust::MAX, $rust::MIN, $rust::MIN + 1];
        check_one("neg", &values, |a| -a, |a: $rust| Some(a.wrapping_neg()));
        check_one("abs", &values, |a| a.abs(), |a: $rust| Some(a.wrapping_abs()));
        check_one("sign", &values, |a| a.sign(), |a: $rust| Some(a.signum()));
    )*};
}

#[test]
fn signs_change_as_in_rust() {
    signed!(i8 i16 i32 i64);
}

macro_rules! words {
    ($($rust:ident)*) => {$(
        let values = [0, 1, 2, 0x50, 0x1234_5678, $rust::MAX, $rust::MIN, $rust::MAX / 3, !0, !5];
        check_one("popc", &values, |a| a.popc(), |a: $rust| Some(a.count_ones()));
        check_one("clz", &values, |a| a.clz(), |a: $rust| Some(a.leading_zeros()));
        check_one("ctz", &values, |a| a.ctz(), |a: $rust| Some(a.trailing_zeros()));
        check_one("brev", &values, |a| a.brev(), |a: $rust| Some(a.reverse_bits()));
        check("bfe", (&values, &[0_u32, 1, 4, 20]), |a, n| a.bfe(n, 5), |a, n| {
            Some((a >> n) << ($rust::BITS - 5) >> ($rust::BITS - 5))
        });
        check("bfi", (&values, &[0_u32, 1, 4, 20]), |a, n| a.bfi(Val::constant(21), n, 5), |a, n| {
            Some(a & !(31 << n) | 21 << n)
        });
    )*};
}

#[test]
fn bit_operations_match_rust() {
    words!(u32 u64 i32 i64);
}

const WORDS: &[u32] = &[0, 1, 0x0102_0304, 0xf0f1_f2f3, 0x80ff_7f01, u32::MAX, 0x1234_5678];

#[test]
fn operations_on_words_match_their_definition() {
    let both = (WORDS, WORDS);
    let amounts = (WORDS, &[0_u32, 1, 8, 31][..]);
    check("rotate", amounts, |a, n| a.rotate_left(n), |a, n| Some(a.rotate_left(n)));
    check(
        "funnel_left",
        amounts,
        |a, n| a.funnel_left(7, n),
        |a, n| Some(((u64::from(a) | 7 << 32) << n >> 32) as u32),
    );
    check("funnel_right", amounts, |a, n| a.funnel_right(7, n), |a, n| Some(((u64::from(a) | 7 << 32) >> n) as u32));
    check(
        "prmt",
        both,
        |a, b| a.prmt(b, 0x7_2_5_0),
        |a, b| {
            let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
            Some(u32::from_le_bytes([a[0], b[1], a[2], b[3]]))
        },
    );
    check("lop3", both, |a, b| a.lop3(b, 0x0f0f_0f0f, |a, b, c| (a & c) ^ !b), |a, b| Some((a & 0x0f0f_0f0f) ^ !b));
    check("mul_wide", both, |a, b| a.mul_wide(b), |a, b| Some(u64::from(a) * u64::from(b)));
    check(
        "dp4a",
        both,
        |a, b| a.dp4a(b, 9),
        |a, b| {
            let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a) * u32::from(b));
            Some(products.sum::<u32>() + 9)
        },
    );
    let signed: Vec<i32> = WORDS.iter().map(|word| word.cast_signed()).collect();
    check(
        "dp4a_signed",
        (&signed, &signed),
        |a, b| a.dp4a(b, -9),
        |a, b| {
            let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            Some(pairs.map(|(a, b)| i32::from(a.cast_signed()) * i32::from(b.cast_signed())).sum::<i32>() - 9)
        },
    );
    check("mul_wide_signed", (&signed, &signed), |a, b| a.mul_wide(b), |a, b| Some(i64::from(a) * i64::from(b)));
}

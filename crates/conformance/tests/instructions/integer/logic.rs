//! `and or xor not cnot lop3 shf shl shr prmt`.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, Random, check, check_on};

use crate::instructions::integer::reference::{S16, S32, S64, U16, U32, U64, bit, word};

const PRED: Kind = Kind::Pred;

#[test]
fn bits_and_predicates_are_combined_alike() {
    for (ty, kind) in [("pred", PRED), ("b16", Kind::Int(16)), ("b32", B32), ("b64", Kind::Int(64))] {
        let all = |f: fn(bool, bool) -> bool| move |[a, b]: [u64; 2]| [word(kind.bits(), |i| f(bit(a, i), bit(b, i)))];
        check(&format!("and.{ty} x, a, b;"), [kind; 2], [kind], all(|a, b| a && b));
        check(&format!("or.{ty} x, a, b;"), [kind; 2], [kind], all(|a, b| a || b));
        check(&format!("xor.{ty} x, a, b;"), [kind; 2], [kind], all(|a, b| a != b));
        check(&format!("not.{ty} x, a;"), [kind; 2], [kind], all(|a, _| !a));
        if kind != PRED {
            check(&format!("cnot.{ty} x, a;"), [kind], [kind], |[a]| [u64::from(a == 0)]);
        }
    }
}

#[test]
fn lanes_without_the_guard_keep_their_predicate() {
    check("and.pred x, a, a; @c xor.pred x, a, b;", [PRED; 3], [PRED], |[a, b, c]| [if c == 1 { a ^ b } else { a }]);
    check("and.pred x, a, a; @!c not.pred x, b;", [PRED; 3], [PRED], |[a, b, c]| [if c == 0 { 1 - b } else { a }]);
}

#[test]
fn each_of_the_256_functions_of_three_bits_is_right() {
    let mut random = Random::new(3);
    let mut elements = vec![[0xf0, 0xcc, 0xaa], [0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa]];
    elements.extend((0..62).map(|_| [(); 3].map(|()| random.bits() & 0xffff_ffff)));
    for table in 0..256u64 {
        let entry =
            |a: u64, b: u64, c: u64, i| 4 * u32::from(bit(a, i)) + 2 * u32::from(bit(b, i)) + u32::from(bit(c, i));
        check_on(&format!("lop3.b32 x, a, b, c, {table};"), [B32; 3], [B32], &elements, |[a, b, c]| {
            [word(32, |i| bit(table, entry(a, b, c, i)))]
        });
    }
}

#[test]
fn a_lookup_can_be_tested_for_zero() {
    let inputs = [B32, B32, B32, PRED];
    for (negation, flip) in [("", 0), ("!", 1)] {
        check(&format!("lop3.and.b32 x|y, a, b, c, 0x80, {negation}d;"), inputs, [B32, PRED], |[a, b, c, d]| {
            [a & b & c, u64::from(a & b & c != 0) & (d ^ flip)]
        });
        check(&format!("lop3.or.b32 x|y, a, b, c, 0x40, {negation}d;"), inputs, [B32, PRED], |[a, b, c, d]| {
            [a & b & !c, u64::from(a & b & !c != 0) | (d ^ flip)]
        });
        check(&format!("lop3.or.b32 _|x, a, b, c, 0x81, {negation}d;"), inputs, [PRED], |[a, b, c, d]| {
            let ones = a & b & c | !(a | b | c) & 0xffff_ffff;
            [u64::from(ones != 0) | (d ^ flip)]
        });
    }
}

#[test]
fn shift_amounts_beyond_the_width_shift_everything_out() {
    for width in [16, 32, 64] {
        let kind = Kind::Int(width);
        check(&format!("shl.b{width} x, a, b;"), [kind, Kind::Amount], [kind], |[a, b]| {
            [word(width, |i| u64::from(i) >= b && bit(a, i - b as u32))]
        });
        check(&format!("shr.b{width} x, a, b;"), [kind, Kind::Amount], [kind], |[a, b]| {
            [word(width, |i| u64::from(i) + b < u64::from(width) && bit(a, i + b as u32))]
        });
    }
    for ty in [U16, S16, U32, S32, U64, S64] {
        let right = |a: u64, b: u64| {
            let sign = ty.signed && bit(a, ty.bits - 1);
            word(ty.bits, |i| if u64::from(i) + b < u64::from(ty.bits) { bit(a, i + b as u32) } else { sign })
        };
        check(&format!("shr.{ty} x, a, b;"), [ty.kind(), Kind::Amount], [ty.kind()], |[a, b]| [right(a, b)]);
        check(&format!("shr.{ty} x, a, 7;"), [ty.kind()], [ty.kind()], |[a]| [right(a, 7)]);
        check(&format!("shr.{ty} x, a, 64;"), [ty.kind()], [ty.kind()], |[a]| [right(a, 64)]);
    }
}

#[test]
fn funnel_shifts_move_bits_across_two_words() {
    let pair = |a: u64, b: u64, i: i64| (0..64).contains(&i) && bit(b << 32 | a, i as u32);
    for (mode, limit) in [("clamp", (|c| c.min(32)) as fn(i64) -> i64), ("wrap", |c| c % 32)] {
        let inputs = [B32, B32, Kind::Amount];
        check(&format!("shf.l.{mode}.b32 x, a, b, c;"), inputs, [B32], |[a, b, c]| {
            [word(32, |i| pair(a, b, i64::from(i) + 32 - limit(c as i64)))]
        });
        check(&format!("shf.r.{mode}.b32 x, a, b, c;"), inputs, [B32], |[a, b, c]| {
            [word(32, |i| pair(a, b, i64::from(i) + limit(c as i64)))]
        });
    }
}

/// Source bytes of `d.b3 d.b2 d.b1 d.b0` for the selectors 0 to 3 (PTX ISA, the table of `prmt`).
const MODES: [(&str, [[u32; 4]; 4]); 6] = [
    ("f4e", [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]),
    ("b4e", [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]]),
    ("rc8", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
    ("ecl", [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]]),
    ("ecr", [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]]),
    ("rc16", [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]]),
];

fn source_byte(a: u64, b: u64, index: u32) -> u64 {
    (b << 32 | a) >> (8 * index) & 0xff
}

#[test]
fn bytes_are_permuted_by_nibbles() {
    let permute = |a: u64, b: u64, c: u64| {
        (0..4).fold(0, |result, i| {
            let control = c >> (4 * i) & 0xf;
            let value = source_byte(a, b, control as u32 % 8);
            let value = if control < 8 { value } else { 0xff * (value >> 7) };
            result | value << (8 * i)
        })
    };
    check("prmt.b32 x, a, b, c;", [B32; 3], [B32], |[a, b, c]| [permute(a, b, c)]);
    check("prmt.b32 x, a, b, 0x9a3f;", [B32; 2], [B32], |[a, b]| [permute(a, b, 0x9a3f)]);
}

#[test]
fn bytes_are_permuted_by_modes() {
    for (mode, table) in MODES {
        check(&format!("prmt.b32.{mode} x, a, b, c;"), [B32; 3], [B32], |[a, b, c]| {
            [table[c as usize % 4].iter().fold(0, |word, &index| word << 8 | source_byte(a, b, index))]
        });
    }
}

//! Infinities, NaNs and overflow in `mma.sync`, as the literature has them: not measured here.
//!
//! MMA-Sim (arXiv 2511.10909): a sum whose exact terms give a NaN, or an infinity, is that; a NaN is
//! 0x7fffffff, of `.f16` 0x7fff, whatever it was; only sums of infinite factors are infinite before
//! they are rounded; `.tf32` is the upper 19 bits of its register, NaNs included.

use crate::instructions::tensor::harness::{Proof, Register};

const NAN: u32 = 0x7fff_ffff;
const INF: u32 = 0x7f80_0000;
const MINUS_INF: u32 = 0xff80_0000;
/// The largest `.f32`.
const LARGEST: u32 = 0x7f7f_ffff;

/// Every element of the sum `c + a * b`, where each row of A and column of B has one element, or
/// one register of them, that is not zero: `a` and `b` are its registers.
#[track_caller]
fn check(line: &str, registers: [usize; 3], [a, b, c]: [u32; 3], expected: u32) {
    let [a_count, b_count, c_count] = registers;
    let register = |name: &str, i: usize, bits: u32| {
        // The first register of the first lane of four has the first elements of its row.
        let is_first = |lane: usize| name == "c" || (i == 0 || name == "a" && i == 1) && lane.is_multiple_of(4);
        let values = (0..32).map(|lane| u64::from(if is_first(lane) { bits } else { 0 })).collect();
        Register { name: format!("{name}{i}"), bits: 32, values }
    };
    let list = |name: &str, count| {
        let names: Vec<_> = (0..count).map(|i| format!("{name}{i}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    let operands = [("d", c_count), ("a", a_count), ("b", b_count), ("c", c_count)].map(|(name, n)| list(name, n));
    let inputs = [("a", a_count, a), ("b", b_count, b), ("c", c_count, c)];
    let inputs = inputs.into_iter().flat_map(|(name, count, bits)| (0..count).map(move |i| (name, i, bits)));
    let outcome = Proof {
        lines: format!("mma.sync.aligned.{line} {};", operands.join(", ")),
        inputs: inputs.map(|(name, i, bits)| register(name, i, bits)).collect(),
        outputs: (0..c_count).map(|i| (format!("d{i}"), 32)).collect(),
        ..Proof::default()
    }
    .run();
    for (i, values) in outcome.values.iter().enumerate() {
        for (lane, &found) in values.iter().enumerate() {
            assert_eq!(found, u64::from(expected), "{line}: {a:#x} * {b:#x} + {c:#x}: register {i} of lane {lane}");
        }
    }
}

/// By halves of a register: the first two elements of a row.
const fn pair(first: u16, second: u16) -> u32 {
    first as u32 | (second as u32) << 16
}

#[test]
fn sums_of_f32_have_one_nan_and_keep_infinities() {
    let f16 = |a, b, c, expected| check("m16n8k8.row.col.f32.f16.f16.f32", [2, 1, 4], [a, b, c], expected);
    let (inf, one, minus) = (pair(0x7c00, 0), pair(0x3c00, 0), pair(0xbc00, 0));
    f16(inf, one, 0, INF);
    f16(inf, minus, 0, MINUS_INF);
    f16(inf, 0, 0, NAN);
    f16(inf, one, MINUS_INF, NAN);
    f16(inf, one, INF, INF);
    f16(one, one, MINUS_INF, MINUS_INF);
    // Products of both signs.
    f16(pair(0x7c00, 0x7c00), pair(0x3c00, 0xbc00), 0, NAN);
    // Payload and sign are lost.
    f16(pair(0xfe01, 0), one, 0, NAN);
    f16(one, one, 0xffc1_2345, NAN);
    f16(one, one, 0x7f80_0001, NAN);
}

#[test]
fn sums_of_f16_have_one_nan_and_overflow_to_infinity() {
    let f16 = |a, b, c, expected: u16| {
        check("m16n8k8.row.col.f16.f16.f16.f16", [2, 1, 2], [a, b, pair(c, c)], pair(expected, expected));
    };
    let (one, minus) = (pair(0x3c00, 0), pair(0xbc00, 0));
    f16(pair(0x7c00, 0), 0, 0, 0x7fff);
    f16(pair(0x7c00, 0), minus, 0, 0xfc00);
    f16(one, one, 0xfe01, 0x7fff);
    // 256 * 256 is beyond 65504; less 32 it is just that.
    f16(pair(0x5c00, 0), pair(0x5c00, 0), 0, 0x7c00);
    f16(pair(0xdc00, 0), pair(0x5c00, 0), 0, 0xfc00);
    f16(pair(0x5c00, 0), pair(0x5c00, 0), 0xd000, 0x7bff);
}

#[test]
fn finite_products_beyond_f32_are_no_infinities_until_they_are_rounded() {
    let bf16 = |a, b, c, expected| check("m16n8k8.row.col.f32.bf16.bf16.f32", [2, 1, 4], [a, b, c], expected);
    let (huge, minus_huge) = (0x7f7f, 0xff7f);
    bf16(pair(huge, 0), pair(huge, 0), 0, INF);
    bf16(pair(minus_huge, 0), pair(huge, 0), 0, MINUS_INF);
    // Two that cancel, and absorb what is added: no NaN.
    bf16(pair(huge, minus_huge), pair(huge, huge), 0x3f80_0000, 0);
    // Toward zero: the largest number plus half of its last place, 2^51 * 2^52, stays; plus a whole
    // one it is 2^128.
    bf16(pair(0x5900, 0), pair(0x5980, 0), LARGEST, LARGEST);
    bf16(pair(0x5980, 0), pair(0x5980, 0), LARGEST, INF);
}

#[test]
fn a_nan_of_tf32_is_one_by_its_upper_bits() {
    let tf32 = |a, c, expected| check("m16n8k4.row.col.f32.tf32.tf32.f32", [2, 1, 4], [a, 0x3f80_0000, c], expected);
    tf32(0x7fc0_0000, 0, NAN);
    tf32(0xff80_2000, 0, NAN);
    // A payload in the 13 bits that do not count: an infinity.
    tf32(0x7f80_0001, 0, INF);
    tf32(0xff80_1fff, 0, MINUS_INF);
    tf32(0x3f80_1fff, 0, 0x3f80_0000);
}

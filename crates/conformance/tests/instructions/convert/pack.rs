//! `cvt.pack`.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, check};

/// Both numbers clamped, `a` above `b`.
fn packed(size: u32, is_signed: bool, [a, b]: [u64; 2]) -> u64 {
    let clamp = |bits: u64| {
        let value = i64::from(bits as i32);
        let (min, max) = if is_signed { (-(1 << (size - 1)), (1 << (size - 1)) - 1) } else { (0, (1 << size) - 1) };
        (value.clamp(min, max) as u64) & ((1 << size) - 1)
    };
    clamp(a) << size | clamp(b)
}

#[test]
fn two_integers_are_saturated_and_packed_in_front_of_a_third() {
    for (letter, is_signed) in [("u", false), ("s", true)] {
        check(&format!("cvt.pack.sat.{letter}16.s32 x, a, b;"), [B32; 2], [B32], |ab| [packed(16, is_signed, ab)]);
        for size in [2, 4, 8] {
            let text = format!("cvt.pack.sat.{letter}{size}.s32.b32 x, a, b, c;");
            check(&text, [B32, Kind::Int(32), B32], [B32], |[a, b, c]| {
                [c << (2 * size) | packed(size, is_signed, [a, b])]
            });
        }
    }
}

//! `selp slct`.

use warpfold_conformance::instructions::{Kind, check};

const TYPES: [(&str, u32); 11] = [
    ("b16", 16),
    ("u16", 16),
    ("s16", 16),
    ("b32", 32),
    ("u32", 32),
    ("s32", 32),
    ("f32", 32),
    ("b64", 64),
    ("u64", 64),
    ("s64", 64),
    ("f64", 64),
];

#[test]
fn a_predicate_selects() {
    for (ty, bits) in TYPES {
        let kind = Kind::Int(bits);
        check(&format!("selp.{ty} x, a, b, c;"), [kind, kind, Kind::Pred], [kind], |[a, b, c]| {
            [if c == 1 { a } else { b }]
        });
    }
    check("selp.s32 x, -1, 7, a;", [Kind::Pred], [Kind::Int(32)], |[a]| [if a == 1 { u64::MAX } else { 7 }]);
}

#[test]
fn a_sign_selects() {
    for (ty, bits) in TYPES {
        let kind = Kind::Int(bits);
        check(&format!("slct.{ty}.s32 x, a, b, c;"), [kind, kind, Kind::Int(32)], [kind], |[a, b, c]| {
            [if c >> 31 == 0 { a } else { b }]
        });
        // Minus zero selects the first, a NaN the second.
        let nan = |c: u64| c & 0x7fff_ffff > 0x7f80_0000;
        check(&format!("slct.{ty}.f32 x, a, b, c;"), [kind, kind, Kind::F32], [kind], |[a, b, c]| {
            [if !nan(c) && c <= 0x8000_0000 { a } else { b }]
        });
        check(&format!("slct.ftz.{ty}.f32 x, a, b, c;"), [kind, kind, Kind::F32], [kind], |[a, b, c]| {
            [if !nan(c) && c < 0x8080_0000 { a } else { b }]
        });
    }
}

//! `set setp`.

use std::cmp::Ordering;

use warpfold_conformance::instructions::{Kind, check};

use crate::instructions::integer::reference::{ALL, Ty};

const PRED: Kind = Kind::Pred;

/// Whether an operator holds for an order; none means that one side is a NaN (PTX ISA, tables of
/// "Comparisons").
fn holds(operator: &str, order: Option<Ordering>) -> bool {
    use Ordering::{Equal, Greater, Less};
    match (operator, order) {
        ("num", order) => order.is_some(),
        ("nan", order) => order.is_none(),
        (_, None) => operator.ends_with('u'),
        ("eq" | "equ", Some(order)) => order == Equal,
        ("ne" | "neu", Some(order)) => order != Equal,
        ("lt" | "ltu" | "lo", Some(order)) => order == Less,
        ("le" | "leu" | "ls", Some(order)) => order != Greater,
        ("gt" | "gtu" | "hi", Some(order)) => order == Greater,
        ("ge" | "geu" | "hs", Some(order)) => order != Less,
        (other, _) => panic!("no operator {other}"),
    }
}

const SIGNED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNSIGNED: [&str; 10] = ["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"];
const FLOAT: [&str; 14] = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

fn operators(ty: Ty) -> &'static [&'static str] {
    if ty.signed { &SIGNED } else { &UNSIGNED }
}

/// A floating-point type, perhaps with subnormals taken as zero.
#[derive(Debug, Clone, Copy)]
struct Float {
    name: &'static str,
    kind: Kind,
    fraction: u32,
    flush: bool,
}

const fn float(name: &'static str, kind: Kind, fraction: u32, flush: bool) -> Float {
    Float { name, kind, fraction, flush }
}

const FLOATS: [Float; 6] = [
    float("f16", Kind::F16, 10, false),
    float("ftz.f16", Kind::F16, 10, true),
    float("bf16", Kind::Bf16, 7, false),
    float("f32", Kind::F32, 23, false),
    float("ftz.f32", Kind::F32, 23, true),
    float("f64", Kind::F64, 52, false),
];

const PACKED: [Float; 3] = [
    float("f16x2", Kind::F16x2, 10, false),
    float("ftz.f16x2", Kind::F16x2, 10, true),
    float("bf16x2", Kind::Bf16x2, 7, false),
];

impl Float {
    /// A number that is ordered as the float of `bits` bits is; none for a NaN.
    fn rank(self, raw: u64, bits: u32) -> Option<i128> {
        let magnitude = i128::from(raw & ((1 << (bits - 1)) - 1));
        let infinity = ((1 << (bits - 1 - self.fraction)) - 1) << self.fraction;
        let magnitude = if self.flush && magnitude < 1 << self.fraction { 0 } else { magnitude };
        let negative = raw >> (bits - 1) & 1 != 0;
        (magnitude <= infinity).then_some(if negative { -magnitude } else { magnitude })
    }

    fn order(self, a: u64, b: u64, bits: u32) -> Option<Ordering> {
        Some(self.rank(a, bits)?.cmp(&self.rank(b, bits)?))
    }

    /// Each half's order.
    fn orders(self, a: u64, b: u64) -> [Option<Ordering>; 2] {
        [self.order(a & 0xffff, b & 0xffff, 16), self.order(a >> 16, b >> 16, 16)]
    }
}

fn combine(operator: &str, test: bool, c: bool) -> bool {
    match operator {
        "and" => test && c,
        "or" => test || c,
        _ => test != c,
    }
}

#[test]
fn integers_compare_by_sign() {
    for ty in ALL {
        for op in operators(ty) {
            check(&format!("setp.{op}.{ty} x|y, a, b;"), [ty.kind(); 2], [PRED; 2], |[a, b]| {
                let test = holds(op, Some(ty.value(a).cmp(&ty.value(b))));
                [test.into(), (!test).into()]
            });
        }
    }
    for bits in [16, 32, 64] {
        for op in ["eq", "ne"] {
            check(&format!("setp.{op}.b{bits} x, a, b;"), [Kind::Int(bits); 2], [PRED], |[a, b]| {
                [u64::from((a == b) == (op == "eq"))]
            });
        }
    }
    check("setp.lt.s32 x, a, -3;", [Kind::Int(32)], [PRED], |[a]| [u64::from((0x8000_0000..0xffff_fffd).contains(&a))]);
}

#[test]
fn floats_compare_with_and_without_order() {
    for ty in FLOATS {
        for op in FLOAT {
            let test = |a, b| holds(op, ty.order(a, b, ty.kind.bits()));
            check(&format!("setp.{op}.{} x, a, b;", ty.name), [ty.kind; 2], [PRED], |[a, b]| [test(a, b).into()]);
            if ty.kind.bits() > 16 {
                check(&format!("setp.{op}.{} _|x, a, b;", ty.name), [ty.kind; 2], [PRED], |[a, b]| {
                    [(!test(a, b)).into()]
                });
            }
        }
    }
}

#[test]
fn packed_floats_compare_into_two_predicates() {
    for ty in PACKED {
        for op in FLOAT {
            check(&format!("setp.{op}.{} x|y, a, b;", ty.name), [ty.kind; 2], [PRED; 2], |[a, b]| {
                ty.orders(a, b).map(|order| holds(op, order).into())
            });
        }
        check(&format!("setp.ltu.xor.{} x|y, a, b, c;", ty.name), [ty.kind, ty.kind, PRED], [PRED; 2], |[a, b, c]| {
            ty.orders(a, b).map(|order| combine("xor", holds("ltu", order), c == 1).into())
        });
    }
}

#[test]
fn a_predicate_joins_the_comparison_and_its_complement() {
    for boolean in ["and", "or", "xor"] {
        for (negation, flip) in [("", false), ("!", true)] {
            for ty in ALL {
                let line = format!("setp.gt.{boolean}.{ty} x|y, a, b, {negation}c;");
                check(&line, [ty.kind(), ty.kind(), PRED], [PRED; 2], |[a, b, c]| {
                    let test = ty.value(a) > ty.value(b);
                    [test, !test].map(|test| combine(boolean, test, (c == 1) != flip).into())
                });
            }
            for ty in FLOATS {
                let line = format!("setp.leu.{boolean}.{} x, a, b, {negation}c;", ty.name);
                check(&line, [ty.kind, ty.kind, PRED], [PRED], |[a, b, c]| {
                    let test = holds("leu", ty.order(a, b, ty.kind.bits()));
                    [combine(boolean, test, (c == 1) != flip).into()]
                });
            }
        }
    }
}

#[test]
fn destinations_can_be_left_out_or_overlap_sources() {
    let kind = Kind::Int(32);
    check("setp.lt.u32 _|x, a, b;", [kind; 2], [PRED], |[a, b]| [u64::from(a >= b)]);
    check("setp.lt.and.u32 x|_, a, b, c;", [kind, kind, PRED], [PRED], |[a, b, c]| [u64::from(a < b) & c]);
    check("setp.lt.xor.u32 c|x, a, b, c; and.pred y, c, c;", [kind, kind, PRED], [PRED; 2], |[a, b, c]| {
        [u64::from(a >= b) ^ c, u64::from(a < b) ^ c]
    });
    check("setp.ne.u32 x, 0, 0; @c setp.lt.u32 c|x, a, b;", [kind, kind, PRED], [PRED], |[a, b, c]| {
        [u64::from(a >= b) & c]
    });
    // The guard is overwritten by the instruction that it guards.
    check(
        "setp.ne.u32 x, 0, 0; @c setp.ltu.f16x2 c|x, a, b;",
        [Kind::F16x2, Kind::F16x2, PRED],
        [PRED],
        |[a, b, c]| [u64::from(holds("ltu", PACKED[0].orders(a, b)[1])) & c],
    );
}

#[test]
fn set_writes_ones_or_one() {
    let results = [("u32", 0xffff_ffff), ("s32", 0xffff_ffff), ("f32", 0x3f80_0000)];
    for (result, truth) in results {
        for ty in ALL {
            for op in operators(ty) {
                check(&format!("set.{op}.{result}.{ty} x, a, b;"), [ty.kind(); 2], [Kind::Int(32)], |[a, b]| {
                    [if holds(op, Some(ty.value(a).cmp(&ty.value(b)))) { truth } else { 0 }]
                });
            }
        }
        check(&format!("set.neu.ftz.{result}.f32 x, a, b;"), [Kind::F32; 2], [Kind::Int(32)], |[a, b]| {
            [if holds("neu", FLOATS[4].order(a, b, 32)) { truth } else { 0 }]
        });
        check(
            &format!("set.le.and.{result}.f64 x, a, b, !c;"),
            [Kind::F64, Kind::F64, PRED],
            [Kind::Int(32)],
            |[a, b, c]| [if holds("le", FLOATS[5].order(a, b, 64)) && c == 0 { truth } else { 0 }],
        );
    }
}

#[test]
fn set_of_halves_writes_ones_or_one() {
    let half = Kind::Int(16);
    for ty in &FLOATS[..3] {
        let (flush, source) = ty.name.split_once('.').map_or(("", ty.name), |(_, name)| (".ftz", name));
        let results = [
            ("u16", half, 0xffff),
            ("s16", half, 0xffff),
            ("u32", Kind::Int(32), 0xffff_ffff),
            ("f16", half, 0x3c00),
            ("bf16", half, 0x3f80),
        ];
        for (result, kind, truth) in results {
            if result == "bf16" && ty.flush || result == "f16" && source == "bf16" {
                continue;
            }
            for op in FLOAT {
                check(&format!("set.{op}{flush}.{result}.{source} x, a, b;"), [ty.kind; 2], [kind], |[a, b]| {
                    [if holds(op, ty.order(a, b, 16)) { truth } else { 0 }]
                });
            }
        }
    }
    check("set.hs.f16.u64 x, a, b;", [Kind::Int(64); 2], [half], |[a, b]| [if a >= b { 0x3c00 } else { 0 }]);
}

#[test]
fn set_of_packed_halves_writes_each_half() {
    for ty in PACKED {
        let (flush, source) = ty.name.split_once('.').map_or(("", ty.name), |(_, name)| (".ftz", name));
        let one = if source == "f16x2" { 0x3c00 } else { 0x3f80 };
        for (result, truth) in [(source, one), ("u32", 0xffff), ("s32", 0xffff)] {
            for op in FLOAT {
                check(
                    &format!("set.{op}{flush}.{result}.{source} x, a, b;"),
                    [ty.kind; 2],
                    [Kind::Int(32)],
                    |[a, b]| {
                        let [low, high] = ty.orders(a, b).map(|order| if holds(op, order) { truth } else { 0 });
                        [low | high << 16]
                    },
                );
            }
            let line = format!("set.gt.or{flush}.{result}.{source} x, a, b, c;");
            check(&line, [ty.kind, ty.kind, PRED], [Kind::Int(32)], |[a, b, c]| {
                let [low, high] = ty.orders(a, b).map(|order| if holds("gt", order) || c == 1 { truth } else { 0 });
                [low | high << 16]
            });
        }
    }
}

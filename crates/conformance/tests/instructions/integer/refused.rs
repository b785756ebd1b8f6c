//! What the ISA does not have is refused with a typed error, never skipped.

use warpfold_conformance::instructions::kind::B32;
use warpfold_conformance::instructions::{Kind, run};
use warpfold_sim::Error;

#[track_caller]
fn refused(line: &str) {
    let pair = [B32, B32, Kind::Pred];
    match run(line, pair, [B32, Kind::Pred], &[[0; 3]]) {
        Err(Error::Unsupported { .. } | Error::Invalid { .. }) => {}
        other => panic!("`{line}` gave {other:?}"),
    }
}

#[test]
fn modifiers_and_types_that_do_not_go_together_are_refused() {
    for line in [
        "add.sat.u32 x, a, b;",
        "add.b32 x, a, b;",
        "sub.u16x2 x, a, b;",
        "add.cc.u16 x, a, b;",
        "add.cc.sat.s32 x, a, b;",
        "mul.u32 x, a, b;",
        "mul.lo.hi.u32 x, a, b;",
        "mul.wide.u64 x, a, b;",
        "mad.lo.sat.s32 x, a, b, a;",
        "mad.wide.cc.u32 x, a, b, a;",
        "mul24.wide.u32 x, a, b;",
        "abs.u32 x, a;",
        "min.relu.u32 x, a, b;",
        "popc.u32 x, a;",
        "szext.u32 x, a, b;",
        "bmsk.clamp.wrap.b32 x, a, b;",
        "shl.u32 x, a, b;",
        "shf.clamp.b32 x, a, b, a;",
        "prmt.b32.f5e x, a, b, a;",
        "lop3.b32 x, a, b, a, 256;",
        "lop3.and.b32 x, a, b, a, 1, c;",
        "setp.lt.b32 y, a, b;",
        "setp.lo.s32 y, a, b;",
        "setp.equ.s32 y, a, b;",
        "setp.ftz.eq.s32 y, a, b;",
        "setp.eq.ftz.s32 y, a, b;",
        "setp.eq.ftz.bf16 y, a, b;",
        "setp.eq.f16 y|y, a, b;",
        "setp.eq.bf16 y|y, a, b;",
        "set.eq.ftz.bf16.f16 x, a, b;",
        "set.eq.f16.bf16 x, a, b;",
        "setp.eq.and.or.s32 y, a, b, c;",
        "setp.eq.and.s32 y, a, b;",
        "set.eq.u16.u32 x, a, b;",
        "set.eq.f32.f16x2 x, a, b;",
        "selp.b8 x, a, b, c;",
        "slct.b32.f64 x, a, b, a;",
        "dp4a.u32.b32 x, a, b, a;",
        "dp2a.u32.u32 x, a, b, a;",
        "vadd.u32.u32.u32 x.h0, a, b;",
        "vadd.u32.u32.u32 x, a.h10, b;",
        "vadd2.u32.u32.u32.sat.add x, a, b, a;",
        "vset.u32.u32 x, a, b;",
        "vshl.u32.u32.s32.clamp x, a, b;",
        "vmad.u32.u32.u32.po x, -a, b, a;",
    ] {
        refused(line);
    }
}

#[test]
fn operands_of_other_types_are_refused_as_ptxas_refuses_them() {
    for line in [
        "add.f32 x, a, 1;",
        "add.u32 x, a, 0f3F800000;",
        "add.u64 x, a, b;",
        "add.u16 x, a, b;",
        "add.u32 x, a.x, b;",
        "add.u32 x, %tid.x, b;",
        "cvt.rn.f32.u32 x, {a, b};",
        "ld.global.u32 x, [64];",
        "{ .reg .f32 f; add.u32 x, a, f; }",
        "{ .reg .u32 u; add.f32 x, a, u; }",
        "{ .reg .u32 u; add.f16x2 x, a, u; }",
        "{ .reg .f32 f; mov.u32 x, f; }",
        "{ .reg .f32 f; ld.global.u32 x, [f]; }",
        "{ .reg .u32 u<6>; .reg .f32 f<4>; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0, f1, f2, f3}, \
         {u0, u1, u2, u3}, {u4, u5}, {f0, f1, f2, f3}; }",
    ] {
        refused(line);
    }
}

#[test]
fn qualifiers_that_do_not_go_together_are_refused() {
    for line in [
        "ld.global.shared.u32 x, [d];",
        "ld.relaxed.global.u32 x, [d];",
        "ld.gpu.global.u32 x, [d];",
        "ld.acquire.cta.gpu.global.u32 x, [d];",
        "ld.shared.nc.u32 x, [d];",
        "add.ftz.ftz.f32 x, a, b;",
        "red.exch.b32 [d], a;",
        "red.acquire.gpu.global.add.u32 [d], a;",
        "atom.global.add.v2.u32 {x, x}, [d], {a, b};",
    ] {
        refused(&format!("{{ .reg .b64 d; {line} }}"));
    }
}

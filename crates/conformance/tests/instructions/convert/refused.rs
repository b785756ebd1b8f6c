//! Conversions that the ISA does not have, or only for later targets, are refused with a typed
//! error.

use warpfold_conformance::instructions::kind::{B16, B32, B64};
use warpfold_conformance::instructions::run;
use warpfold_sim::Error;

/// Sources of 16, 32 and 64 bits are `a b c`, results `x y z`.
#[track_caller]
fn refused(line: &str) {
    match run(line, [B16, B32, B64], [B16, B32, B64], &[[0; 3]]) {
        Err(Error::Unsupported { .. } | Error::Invalid { .. }) => {}
        other => panic!("`{line}` gave {other:?}"),
    }
}

#[test]
fn conversions_without_the_rounding_that_they_need_are_refused() {
    for line in [
        "cvt.f16.f32 x, b;",
        "cvt.f32.f64 y, c;",
        "cvt.f32.s32 y, b;",
        "cvt.s32.f32 y, b;",
        "cvt.rn.s32.f32 y, b;",
        "cvt.rni.f32.s32 y, b;",
        "cvt.rni.f16.f32 x, b;",
        "cvt.rn.rz.f16.f32 x, b;",
        "cvt.rni.rzi.s32.f32 y, b;",
        "cvt.tf32.f32 y, b;",
        "cvt.f16x2.f32 y, b, b;",
        "cvt.satfinite.e4m3x2.f32 x, b, b;",
    ] {
        refused(line);
    }
}

#[test]
fn modifiers_that_a_conversion_does_not_have_are_refused() {
    for line in [
        "cvt.rn.s32.u32 y, b;",
        "cvt.ftz.s32.u32 y, b;",
        "cvt.rna.f16.f32 x, b;",
        "cvt.rn.ftz.f64.f16 z, a;",
        "cvt.rn.relu.f32.f64 y, c;",
        "cvt.rn.satfinite.f32.f64 y, c;",
        "cvt.rn.ftz.tf32.f32 y, b;",
        "cvt.rna.tf32.f64 y, c;",
        "cvt.rm.f16x2.f32 y, b, b;",
        "cvt.rn.sat.f16x2.f32 y, b, b;",
        "cvt.rn.e4m3x2.f32 x, b, b;",
        "cvt.rz.satfinite.e5m2x2.f32 x, b, b;",
        "cvt.rn.satfinite.f16x2.e4m3x2 y, a;",
        "cvt.rn.f16.tf32 x, b;",
        "cvt.u32 y, b;",
        "cvt.pack.u16.s32 y, b, b;",
        "cvt.pack.sat.u8.s32 y, b, b;",
    ] {
        refused(line);
    }
}

#[test]
fn what_needs_a_later_target_is_refused() {
    for line in [
        "cvt.rs.f16x2.f32 y, b, b, b;",
        "cvt.rn.satfinite.e4m3x2.bf16x2 x, b;",
        "cvt.rn.satfinite.e2m1x2.f32 x, b, b;",
        "cvt.rn.satfinite.e2m3x2.f32 x, b, b;",
        "cvt.rz.satfinite.ue8m0x2.f32 x, b, b;",
        "cvt.rn.bf16x2.ue8m0x2 y, a;",
        "cvt.rn.bf16x2.e4m3x2 y, a;",
    ] {
        refused(line);
    }
}

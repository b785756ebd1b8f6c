//! What the ISA does not have, or only for later targets, is refused with a typed error.

use warpfold_conformance::instructions::{Kind, run};
use warpfold_sim::Error;

#[track_caller]
fn refused(kind: Kind, line: &str) {
    match run(line, [kind; 4], [kind, Kind::Pred], &[[0; 4]]) {
        Err(Error::Unsupported { .. } | Error::Invalid { .. }) => {}
        other => panic!("`{line}` gave {other:?}"),
    }
}

#[test]
fn modifiers_that_an_instruction_does_not_have_are_refused() {
    for line in [
        "add.rn.rz.f32 x, a, b;",
        "add.relu.f32 x, a, b;",
        "add.rna.f32 x, a, b;",
        "fma.f32 x, a, b, c;",
        "mad.ftz.f32 x, a, b, c;",
        "div.f32 x, a, b;",
        "div.approx.rn.f32 x, a, b;",
        "div.full.sat.f32 x, a, b;",
        "rcp.full.f32 x, a;",
        "sqrt.f32 x, a;",
        "rsqrt.rn.f32 x, a;",
        "sin.f32 x, a;",
        "tanh.approx.ftz.f32 x, a;",
        "min.xorsign.f32 x, a, b;",
        "max.abs.f32 x, a, b;",
        "abs.sat.f32 x, a;",
        "copysign.ftz.f32 x, a, b;",
        "testp.f32 y, a;",
        "testp.finite.number.f32 y, a;",
    ] {
        refused(Kind::F32, line);
    }
    for line in [
        "add.ftz.f64 x, a, b;",
        "mul.sat.f64 x, a, b;",
        "fma.f64 x, a, b, c;",
        "div.approx.f64 x, a, b;",
        "div.full.f64 x, a, b;",
        "rcp.approx.f64 x, a;",
        "sqrt.approx.f64 x, a;",
        "min.NaN.f64 x, a, b;",
        "neg.ftz.f64 x, a;",
        "sin.approx.f64 x, a;",
    ] {
        refused(Kind::F64, line);
    }
    for line in [
        "add.rz.f16 x, a, b;",
        "add.relu.f16 x, a, b;",
        "fma.rn.sat.relu.f16 x, a, b, c;",
        "fma.f16 x, a, b, c;",
        "add.ftz.bf16 x, a, b;",
        "fma.rn.sat.bf16 x, a, b, c;",
        "min.ftz.bf16 x, a, b;",
        "abs.ftz.bf16 x, a;",
        "ex2.approx.bf16 x, a;",
        "ex2.approx.ftz.f16 x, a;",
        "div.rn.f16 x, a, b;",
        "sin.approx.f16 x, a;",
        "testp.finite.f16 y, a;",
        "mad.rn.f16 x, a, b, c;",
    ] {
        refused(Kind::F16, line);
    }
}

#[test]
fn what_needs_a_later_target_is_refused() {
    refused(Kind::F32, "min.f32 x, a, b, c;");
    refused(Kind::F32, "max.NaN.abs.f32 x, a, b, c;");
    refused(Kind::F64, "add.rn.f32x2 x, a, b;");
    refused(Kind::F64, "fma.rn.f32x2 x, a, b, c;");
    refused(Kind::F32, "add.f32.f16 x, a, b;");
    refused(Kind::F32, "fma.rn.f32.bf16 x, a, b, c;");
    refused(Kind::F16, "fma.rn.oob.f16 x, a, b, c;");
}

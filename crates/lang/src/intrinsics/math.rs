//! Roots, reciprocals, exponentials and the other functions that the hardware evaluates (PTX ISA,
//! "Floating Point Instructions", "Half Precision Floating Point Instructions").

use warpfold_ptx::Opcode;

use crate::ErrorKind;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// A function of one operand, at the accuracy that the PTX ISA states for its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// Correctly rounded.
    Sqrt,
    SqrtApprox,
    /// Correctly rounded.
    Rcp,
    RcpApprox,
    RsqrtApprox,
    Ex2Approx,
    /// Subnormal operands and results are zero; for `f32`.
    Ex2Flushed,
    Lg2Approx,
    SinApprox,
    CosApprox,
    TanhApprox,
}

impl Function {
    const fn opcode(self) -> Opcode {
        match self {
            Self::Sqrt | Self::SqrtApprox => Opcode::Sqrt,
            Self::Rcp | Self::RcpApprox => Opcode::Rcp,
            Self::RsqrtApprox => Opcode::Rsqrt,
            Self::Ex2Approx | Self::Ex2Flushed => Opcode::Ex2,
            Self::Lg2Approx => Opcode::Lg2,
            Self::SinApprox => Opcode::Sin,
            Self::CosApprox => Opcode::Cos,
            Self::TanhApprox => Opcode::Tanh,
        }
    }
}

/// `function(a)`.
pub(crate) fn function(r: &mut Recorder, function: Function, ty: Type, a: Raw) -> Raw {
    let bf16 = matches!(ty, Type::Bf16 | Type::Bf16x2);
    let modifiers: &[_] = match (function, ty) {
        (Function::Sqrt | Function::Rcp, Type::F32 | Type::F64) => &["rn"],
        (Function::RsqrtApprox, Type::F64) => &["approx"],
        (Function::Ex2Flushed, Type::F32) => &["approx", "ftz"],
        (Function::Ex2Approx, _) if bf16 => &["approx", "ftz"],
        (Function::Ex2Approx | Function::TanhApprox, _) if ty.is_half() => &["approx"],
        (Function::Sqrt | Function::Rcp | Function::Ex2Flushed, _) | (_, Type::F64) => return missing(r, function, ty),
        (_, Type::F32) => &["approx"],
        _ => return missing(r, function, ty),
    };
    if bf16 {
        r.require("exponentials and tanh of bf16", 90, (7, 8));
    }
    let operand = r.operand(ty, a);
    let modifiers = [modifiers, &[ty.arithmetic().name()]].concat();
    r.define(ty.register(), function.opcode(), &modifiers, vec![operand])
}

fn missing(r: &mut Recorder, function: Function, ty: Type) -> Raw {
    r.fail(ErrorKind::NoSuchOperation { what: format!("{function:?}"), ty });
    Raw::Const(0)
}

/// `div.full.f32`: at most 2 ulp.
pub(crate) fn div_full(r: &mut Recorder, a: Raw, b: Raw) -> Raw {
    let operands = vec![r.operand(Type::F32, a), r.operand(Type::F32, b)];
    r.define(Type::F32.register(), Opcode::Div, &["full", "f32"], operands)
}

/// The magnitude of `a` with the sign of `sign`.
pub(crate) fn copysign(r: &mut Recorder, ty: Type, a: Raw, sign: Raw) -> Raw {
    let operands = vec![r.operand(ty, sign), r.operand(ty, a)];
    r.define(ty.register(), Opcode::Copysign, &[ty.memory().name()], operands)
}

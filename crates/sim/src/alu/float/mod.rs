//! Floating point (PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point
//! Instructions").
//!
//! Start with [`decode`], then [`arithmetic`] for how an operation and its modifiers meet. What the
//! ISA leaves open is decided once, here and in [`finish`]:
//! - a NaN of `.f32`, `.f16` or `.bf16` is the canonical one (`0x7fffffff`, `0x7fff`); `.f64` keeps
//!   the payload of the first NaN operand, quieted, and an invalid operation gives
//!   `0xfff8000000000000`;
//! - `.ftz` of products and fused multiply-adds looks at the result before it is rounded;
//! - `.sat` and `.relu` turn -0 into +0;
//! - an `.approx` function has the bits of an H200 ([`unit`]).
//!
//! Absent: what needs `sm_100` (`.f32x2`, mixed precision, `min`/`max` of three) and the `.oob`
//! modifier of `fma`.

pub(crate) mod approx;
pub(crate) mod arithmetic;
pub(crate) mod divide;
pub(crate) mod exact;
pub(crate) mod finish;
pub(crate) mod half;
pub(crate) mod lanes;
pub(crate) mod minmax;
pub(crate) mod sign;
pub(crate) mod soft;
pub(crate) mod unit;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use self::soft::Rounding;
use crate::Error;
use crate::decode::Decoder;

/// `.ftz` in [`Op::imm`](crate::exec::op::Op), for handlers that read their modifiers when they
/// run.
pub(super) const FTZ: i64 = 1;
/// `.sat` in `Op::imm`.
pub(super) const SAT: i64 = 2;
/// `.relu` in `Op::imm`.
pub(super) const RELU: i64 = 4;

/// Decodes the mnemonics of this family.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    if inst.types().nth(1).is_some() {
        return Err(d.unsupported(inst, "arithmetic of mixed precision needs sm_100"));
    }
    match (inst.opcode, ty) {
        (Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Fma | Opcode::Mad, T::F32 | T::F64) => {
            arithmetic::decode(d, inst, ty)
        }
        (Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Fma, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2) => {
            half::decode(d, inst, ty)
        }
        (Opcode::Div | Opcode::Rcp | Opcode::Sqrt | Opcode::Rsqrt, T::F32 | T::F64) => divide::decode(d, inst, ty),
        (Opcode::Sin | Opcode::Cos | Opcode::Lg2 | Opcode::Ex2 | Opcode::Tanh, _) => approx::decode(d, inst, ty),
        (Opcode::Min | Opcode::Max, _) => minmax::decode(d, inst, ty),
        (Opcode::Abs | Opcode::Neg | Opcode::Copysign | Opcode::Testp, _) => sign::decode(d, inst, ty),
        _ => Err(d.unsupported(inst, format!("{} is not defined for .{}", inst.opcode.mnemonic(), ty.name()))),
    }
}

/// Returns the one modifier of the group that is written; two of them are an error.
pub(crate) fn one_of<V: Copy>(d: &Decoder, inst: &Instruction, group: &[(&str, V)]) -> Result<Option<V>, Error> {
    let mut written = inst.modifiers.iter().filter_map(|m| group.iter().find(|(name, _)| m == name));
    match (written.next(), written.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(d.invalid(inst, format!("'.{first}' and '.{second}' exclude each other")))
        }
        (first, _) => Ok(first.map(|(_, value)| *value)),
    }
}

/// The rounding modifier, if one is written.
pub(crate) fn rounding(d: &Decoder, inst: &Instruction) -> Result<Option<Rounding>, Error> {
    let group = [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];
    one_of(d, inst, &group)
}

/// The modifiers that change how operands and results are finished, as bits of `Op::imm`.
pub(super) fn flags(inst: &Instruction) -> i64 {
    let flag = |name, bit| if inst.has(name) { bit } else { 0 };
    flag("ftz", FTZ) | flag("sat", SAT) | flag("relu", RELU)
}

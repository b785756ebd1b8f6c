//! Arithmetic, logic, comparison and conversion: one zero-sized [`LaneOp`](crate::exec::op::LaneOp)
//! per operation.
//!
//! Each file pairs the operations of a family with the function that decodes its mnemonics. To add
//! an instruction: write the operation, add its mnemonic to the family's decoder, and prove it in
//! the conformance suite against an independent reference.

pub(crate) mod compare;
pub(crate) mod convert;
mod define;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod logic;
pub(crate) mod video;

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;

/// Mnemonics that integers and floats share: `add sub mul mad div abs neg min max`.
pub(crate) fn shared_mnemonic(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if is_float(d.ty(inst, 0)?) { float::decode(d, inst) } else { integer::decode(d, inst) }
}

/// Returns true for floating-point types, including packed ones.
pub(crate) fn is_float(ty: T) -> bool {
    matches!(ty, T::F16 | T::F16x2 | T::Bf16 | T::Bf16x2 | T::F32 | T::F32x2 | T::F64)
}

/// The error for a type that the instruction does not support here.
pub(crate) fn wrong_type(d: &Decoder, inst: &Instruction, ty: T) -> Error {
    d.unsupported(inst, format!("type .{}", ty.name()))
}

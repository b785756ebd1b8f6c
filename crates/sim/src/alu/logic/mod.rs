//! Logic and shifts (PTX ISA, "Logic and Shift Instructions"), and `prmt`.

mod lop3;
mod permute;
mod predicates;
mod shift;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::define::{for_type, lane_ops};
use crate::Error;
use crate::decode::Decoder;

lane_ops! {
    And<N: Bitwise>(a: N, b: N) -> N = a & b;
    Or<N: Bitwise>(a: N, b: N) -> N = a | b;
    Xor<N: Bitwise>(a: N, b: N) -> N = a ^ b;
    Not<N: Bitwise>(a: N) -> N = !a;
    Cnot<N: Bitwise>(a: N) -> N = N::from(a == N::default());
}

/// Unsigned integers of every width.
trait Bitwise:
    super::integer::int::Int
    + From<bool>
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
    + std::ops::Not<Output = Self>
{
}
impl Bitwise for u16 {}
impl Bitwise for u32 {}
impl Bitwise for u64 {}

/// Decodes the family's mnemonics.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Lop3 => return lop3::decode(d, inst),
        Opcode::Shf | Opcode::Shl | Opcode::Shr => return shift::decode(d, inst),
        Opcode::Prmt => return permute::decode(d, inst),
        _ => {}
    }
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(inst, &[])?;
    match inst.opcode {
        Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Not if ty == T::Pred => predicates::decode(d, inst),
        Opcode::And => d.emit3(inst, for_type!(d, inst, ty, And: B16 = u16, B32 = u32, B64 = u64), ty, ty, ty),
        Opcode::Or => d.emit3(inst, for_type!(d, inst, ty, Or: B16 = u16, B32 = u32, B64 = u64), ty, ty, ty),
        Opcode::Xor => d.emit3(inst, for_type!(d, inst, ty, Xor: B16 = u16, B32 = u32, B64 = u64), ty, ty, ty),
        Opcode::Not => d.emit2(inst, for_type!(d, inst, ty, Not: B16 = u16, B32 = u32, B64 = u64), ty, ty),
        Opcode::Cnot => d.emit2(inst, for_type!(d, inst, ty, Cnot: B16 = u16, B32 = u32, B64 = u64), ty, ty),
        _ => Err(d.unsupported(inst, "not a logic instruction")),
    }
}

//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision
//! Arithmetic Instructions").

mod arithmetic;
pub(super) mod bits;
mod carry;
mod divide;
pub(super) mod int;
mod multiply;

use warpfold_ptx::{Instruction, Opcode};

use crate::Error;
use crate::decode::Decoder;

/// Decodes integer arithmetic.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        _ if carry::uses_carry(inst) => carry::decode(d, inst),
        Opcode::Mul | Opcode::Mad => multiply::decode(d, inst),
        Opcode::Mul24 | Opcode::Mad24 => multiply::decode24(d, inst),
        Opcode::Dp4a | Opcode::Dp2a => multiply::decode_dot(d, inst),
        Opcode::Popc
        | Opcode::Clz
        | Opcode::Bfind
        | Opcode::Fns
        | Opcode::Brev
        | Opcode::Bfe
        | Opcode::Bfi
        | Opcode::Szext
        | Opcode::Bmsk => bits::decode(d, inst),
        _ => arithmetic::decode(d, inst),
    }
}

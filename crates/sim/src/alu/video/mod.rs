//! Video instructions (PTX ISA, "Scalar Video Instructions", "SIMD Video Instructions").
//!
//! All share their stages: parts of the sources are extracted and extended, a primary operation
//! gives an intermediate result, which may be clamped and then combined with a third source.
//! Handlers exist for each primary operation; the other stages are numbers packed into `imm`, the
//! same for all lanes, applied without branches.

mod mad;
mod primary;
mod scalar;
mod simd;

use warpfold_ptx::{Instruction, Name, Opcode, Operand, ScalarType as T};

use crate::Error;
use crate::alu::wrong_type;
use crate::decode::Decoder;

/// Decodes the family's mnemonics.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Vmad => mad::decode(d, inst),
        Opcode::Vadd
        | Opcode::Vsub
        | Opcode::Vabsdiff
        | Opcode::Vmin
        | Opcode::Vmax
        | Opcode::Vshl
        | Opcode::Vshr
        | Opcode::Vset => scalar::decode(d, inst),
        _ => simd::decode(d, inst),
    }
}

/// An operand with its selector (`.h1`), if it has one.
fn selected<'i>(d: &Decoder, inst: &'i Instruction, index: usize) -> Result<(Operand, Option<&'i Name>), Error> {
    Ok(match d.operand(inst, index)? {
        Operand::Selected { name, selector } => (Operand::Name { name: name.clone(), component: None }, Some(selector)),
        other => (other.clone(), None),
    })
}

/// Returns true for a signed source or destination type; only `.u32` and `.s32` exist.
fn signed(d: &Decoder, inst: &Instruction, n: usize) -> Result<bool, Error> {
    match d.ty(inst, n)? {
        T::S32 => Ok(true),
        T::U32 => Ok(false),
        other => Err(wrong_type(d, inst, other)),
    }
}

/// The first of `names` among the modifiers.
fn first_of<'n>(inst: &Instruction, names: &[&'n str]) -> Option<&'n str> {
    names.iter().copied().find(|name| inst.has(name))
}

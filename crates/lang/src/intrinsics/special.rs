//! Special registers (PTX ISA, "Special Registers").

use warpfold_ptx::{self as ptx, Name, Opcode};

use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// A special register that keeps its value while the thread runs: read once, at the start.
pub(crate) fn constant(r: &mut Recorder, name: &'static str, component: Option<char>, ty: Type) -> Raw {
    let reg = r.special(name, component, |r| match read(r, name, component, ty) {
        Raw::Reg(reg) => reg,
        Raw::Const(_) => unreachable!("a special register is read into a register"),
    });
    Raw::Reg(reg)
}

/// A special register that changes: read here.
pub(crate) fn read(r: &mut Recorder, name: &'static str, component: Option<char>, ty: Type) -> Raw {
    let source = ptx::Operand::Name { name: Name::new_static(name), component };
    r.define(ty.register(), Opcode::Mov, &[ty.memory().name()], vec![source])
}

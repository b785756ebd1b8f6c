//! Labels, branches and the ends of a thread (PTX ISA, "Control Flow Instructions").

use warpfold_ptx::{self as ptx, Name, Opcode, Statement};

use crate::recorder::{Raw, Recorder};

/// `name:`
pub(crate) fn label(r: &mut Recorder, name: &str) {
    r.statement(Statement::Label { name: name.into(), span: ptx::Span::default() });
}

/// Jumps to a label.
pub(crate) fn branch(r: &mut Recorder, label: &str) {
    r.push(Opcode::Bra, &[], vec![label_operand(label)]);
}

/// Jumps to a label where the condition is `when`.
pub(crate) fn branch_if(r: &mut Recorder, condition: Raw, when: bool, label: &str) {
    match condition {
        Raw::Const(bits) if (bits == 1) == when => branch(r, label),
        Raw::Const(_) => {}
        Raw::Reg(_) => {
            let guard = r.guard(condition, !when);
            r.push_guarded(Some(guard), Opcode::Bra, &[], vec![label_operand(label)]);
        }
    }
}

fn label_operand(label: &str) -> ptx::Operand {
    ptx::Operand::Name { name: Name::from(label), component: None }
}

/// Ends the kernel for this thread.
pub(crate) fn ret(r: &mut Recorder) {
    r.push(Opcode::Ret, &[], vec![]);
}

/// Ends this thread.
pub(crate) fn exit(r: &mut Recorder) {
    r.push(Opcode::Exit, &[], vec![]);
}

/// Stops the whole grid with an error.
pub(crate) fn trap(r: &mut Recorder) {
    r.push(Opcode::Trap, &[], vec![]);
}

//! From a PTX tree to [`Code`]: names resolved, operands turned into rows, control flow into basic
//! blocks.
//!
//! Start with [`program::decode`]. [`Decoder`] is what a family's decoding function sees; the
//! `match` over [`Opcode`] in [`dispatch`] is the one table of what runs where, and has no `_` arm.

mod builder;
mod calls;
mod cfg;
mod control;
mod dispatch;
mod liveness;
mod names;
mod operands;
pub(crate) mod program;
mod qualifiers;
mod scope;
mod sync;
mod typing;

use std::collections::HashMap;
use std::sync::Arc;

use warpfold_ptx::{Instruction, ScalarType};

use crate::exec::code::Code;
use crate::exec::op::{Handler, LaneOp, Level, NONE, Op};
use crate::tensor_ops::Tables;
use crate::{Arch, Error};

pub(crate) use builder::{Event, EventKind, FunctionBuilder, Resource};
pub(crate) use scope::{Place, Symbol};

/// Decodes one module; families of instructions see the current function through it.
pub(crate) struct Decoder<'a> {
    /// CPU features for which handlers are chosen.
    level: Level,
    /// True for handlers that call the checker.
    pub(crate) checked: bool,
    /// The architecture that the module is written for (`.target`), 0 if it names none, and whether
    /// for that one alone.
    target: (u32, bool),
    /// The architecture of the device.
    pub(crate) arch: Arch,
    /// The code decoded so far.
    pub(crate) code: Code,
    /// Addresses and sizes of `.global` and `.const` variables.
    globals: &'a HashMap<String, (u64, u64)>,
    /// Module-scope names.
    module_scope: HashMap<warpfold_ptx::Name, Symbol>,
    /// Places of shared variables that function bodies declare.
    shared_places: HashMap<program::SharedKey, Place>,
    /// The source files that the module names.
    sources: warpfold_ptx::Sources,
    /// The current source line, from `.loc`.
    source: Option<Arc<warpfold_ptx::Source>>,
    /// The function being decoded.
    pub(crate) f: FunctionBuilder,
}

impl Decoder<'_> {
    /// Operand tables of tensor-core instructions.
    pub(crate) fn tensor_tables(&mut self) -> &mut Tables {
        Arc::make_mut(&mut self.code.tensor)
    }

    /// The handler of `F` for this host.
    pub(crate) fn handler<F: LaneOp>(&self) -> Handler {
        self.level.handler::<F>()
    }

    /// The `n`-th scalar type among the modifiers.
    pub(crate) fn ty(&self, inst: &Instruction, n: usize) -> Result<ScalarType, Error> {
        inst.types().nth(n).ok_or_else(|| self.invalid(inst, "a type is missing"))
    }

    /// The error for valid PTX that is not executed here.
    #[allow(clippy::unused_self, reason = "reads as what the decoder says")]
    pub(crate) fn unsupported(&self, inst: &Instruction, reason: impl Into<String>) -> Error {
        Error::Unsupported { line: inst.span.line, text: inst.to_string(), reason: reason.into() }
    }

    /// The error for invalid PTX.
    #[allow(clippy::unused_self, reason = "reads as what the decoder says")]
    pub(crate) fn invalid(&self, inst: &Instruction, reason: impl Into<String>) -> Error {
        Error::Invalid { line: inst.span.line, text: inst.to_string(), reason: reason.into() }
    }

    /// Requires that the module is written for `sm_<number>` or later, as ptxas does.
    pub(crate) fn require(&self, inst: &Instruction, number: u32) -> Result<(), Error> {
        if self.target.0 >= number {
            return Ok(());
        }
        Err(self.invalid(inst, format!("the instruction needs .target sm_{number} or later")))
    }

    /// Requires that the module is written for `sm_<number>a`.
    pub(crate) fn require_specific(&self, inst: &Instruction, number: u32) -> Result<(), Error> {
        if self.target == (number, true) {
            return Ok(());
        }
        Err(self.invalid(inst, format!("the instruction needs .target sm_{number}a")))
    }

    /// Requires exactly `n` operands.
    pub(crate) fn expect_operands(&self, inst: &Instruction, n: usize) -> Result<(), Error> {
        if inst.operands.len() == n {
            Ok(())
        } else {
            Err(self.invalid(inst, format!("expected {n} operands, found {}", inst.operands.len())))
        }
    }

    /// Requires that all modifiers are in `known` or scalar types: nothing is ignored silently.
    pub(crate) fn expect_modifiers(&self, inst: &Instruction, known: &[&str]) -> Result<(), Error> {
        match inst.modifiers.iter().find(|m| ScalarType::from_modifier(m).is_none() && !known.contains(&m.as_str())) {
            Some(m) => Err(self.unsupported(inst, format!("modifier .{m}"))),
            None => Ok(()),
        }
    }

    /// Appends an operation to the current block; its guard and instruction are set when the
    /// instruction ends.
    pub(crate) fn push(&mut self, op: Op) {
        self.f.pending.push(op);
    }

    /// `dst = handler(a)`.
    pub(crate) fn emit2(
        &mut self,
        inst: &Instruction,
        handler: Handler,
        d: ScalarType,
        a: ScalarType,
    ) -> Result<(), Error> {
        self.expect_operands(inst, 2)?;
        let a = self.src(inst, 1, a)?;
        let dst = self.dst(inst, 0, d)?;
        self.push(Op { dst, a, ..Op::new(handler) });
        Ok(())
    }

    /// `dst = handler(a, b)`.
    pub(crate) fn emit3(
        &mut self,
        inst: &Instruction,
        handler: Handler,
        d: ScalarType,
        a: ScalarType,
        b: ScalarType,
    ) -> Result<(), Error> {
        self.expect_operands(inst, 3)?;
        let (a, b) = (self.src(inst, 1, a)?, self.src(inst, 2, b)?);
        let dst = self.dst(inst, 0, d)?;
        self.push(Op { dst, a, b, ..Op::new(handler) });
        Ok(())
    }

    /// `dst = handler(a, b, c)`.
    pub(crate) fn emit4(
        &mut self,
        inst: &Instruction,
        handler: Handler,
        d: ScalarType,
        sources: [ScalarType; 3],
    ) -> Result<(), Error> {
        self.expect_operands(inst, 4)?;
        let a = self.src(inst, 1, sources[0])?;
        let b = self.src(inst, 2, sources[1])?;
        let c = self.src(inst, 3, sources[2])?;
        let dst = self.dst(inst, 0, d)?;
        self.push(Op { dst, a, b, c, ..Op::new(handler) });
        Ok(())
    }

    /// Finishes an instruction: gives its operations their guard and instruction index.
    fn finish(&mut self, inst: &Instruction, index: u32) -> Result<(), Error> {
        let (guard, negated) = match &inst.guard {
            Some(guard) => (self.predicate_named(inst, &guard.predicate)?, guard.negated),
            None => (NONE, false),
        };
        self.f.note_guard(guard);
        let mut leads = true;
        for mut op in self.f.pending.drain(..).chain(self.f.after.drain(..)) {
            op.guard = guard;
            op.guard_negated = negated;
            op.instruction = index;
            op.leads = std::mem::take(&mut leads);
            self.code.ops.push(op);
        }
        Ok(())
    }
}

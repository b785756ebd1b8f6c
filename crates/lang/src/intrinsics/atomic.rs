//! Atomic read-modify-write (PTX ISA, `atom`, `red`).

use warpfold_ptx::Opcode;

use super::memory::{self, Location};
use super::sync::scope_name;
use crate::memory::{Order, Scope};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// The operation of an atomic instruction on the old value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Inc,
    Dec,
    Exch,
    Cas,
}

impl AtomicOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Min => "min",
            Self::Max => "max",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Inc => "inc",
            Self::Dec => "dec",
            Self::Exch => "exch",
            Self::Cas => "cas",
        }
    }

    /// The type as the instruction names it, and `noftz` where halves demand it.
    fn modifiers(self, ty: Type) -> Vec<&'static str> {
        let mut modifiers = vec![self.name()];
        match (self, ty) {
            (Self::Add, Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2) => {
                modifiers.extend(["noftz", ty.arithmetic().name()]);
            }
            // Wrapping addition has no sign, and `s64` no name.
            (Self::Add, Type::I64) => modifiers.push("u64"),
            (Self::And | Self::Or | Self::Xor | Self::Exch | Self::Cas, _) => modifiers.push(ty.untyped().name()),
            _ => modifiers.push(ty.memory().name()),
        }
        modifiers
    }
}

/// Memory order and scope of an atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Semantics {
    pub(crate) order: Order,
    pub(crate) scope: Scope,
}

impl Semantics {
    fn names(self, r: &mut Recorder) -> [&'static str; 2] {
        let order = match self.order {
            Order::Relaxed => "relaxed",
            Order::Acquire => "acquire",
            Order::Release => "release",
            Order::AcqRel => "acq_rel",
        };
        [order, scope_name(r, self.scope)]
    }
}

fn require(r: &mut Recorder, op: AtomicOp, ty: Type) {
    if op == AtomicOp::Add && matches!(ty, Type::Bf16 | Type::Bf16x2) {
        r.require("atomic addition of bf16", 90, (7, 8));
    }
}

/// `atom`: returns the value from before. `operands` follow the address: one, or two for `Cas`.
pub(crate) fn atom(
    r: &mut Recorder,
    op: AtomicOp,
    semantics: Semantics,
    location: Location,
    ty: Type,
    operands: &[Raw],
) -> Raw {
    require(r, op, ty);
    let mut all = vec![memory::address(r, location)];
    all.extend(operands.iter().map(|operand| r.in_register(ty, *operand)).collect::<Vec<_>>());
    let modifiers = [&semantics.names(r)[..], &[memory::space_name(location.space)], &op.modifiers(ty)].concat();
    r.define(ty.register(), Opcode::Atom, &modifiers, all)
}

/// `red`: the same without a result.
pub(crate) fn red(r: &mut Recorder, op: AtomicOp, semantics: Semantics, location: Location, ty: Type, operand: Raw) {
    require(r, op, ty);
    if matches!(semantics.order, Order::Acquire | Order::AcqRel) {
        r.fail(crate::ErrorKind::Misuse(format!(
            "an atomic without a result cannot be {:?}: expected Relaxed or Release",
            semantics.order
        )));
    }
    let operands = vec![memory::address(r, location), r.in_register(ty, operand)];
    let modifiers = [&semantics.names(r)[..], &[memory::space_name(location.space)], &op.modifiers(ty)].concat();
    r.push(Opcode::Red, &modifiers, operands);
}

//! Scopes: the meaning of names in the text.

use warpfold_ptx::{Name, ScalarType};

use crate::exec::code::{BlockId, CallSlot};

/// Meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// A scalar register; its row is allocated at its first use.
    Register {
        /// Index into the builder's registers.
        register: u32,
    },
    /// A vector register: one register per element.
    Vector(Vec<u32>),
    /// A predicate.
    Predicate(u32),
    /// A variable.
    Variable(Place),
    /// A function.
    Function(Name),
    /// A texture.
    Texture,
    /// A label.
    Label(BlockId),
    /// `.branchtargets`: labels.
    BranchTargets(Vec<Name>),
    /// `.callprototype` or `.calltargets`.
    Prototype,
}

/// Location of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Global (or constant) memory, at an address.
    Global(u64),
    /// Shared memory, at an offset.
    Shared(u32),
    /// The start of dynamic shared memory.
    DynamicShared,
    /// The frame's local memory, at an offset, with a size.
    Local(u32, u32),
    /// A kernel parameter, at an offset, with a size.
    KernelParam(u32, u32),
}

/// A declared register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisterInfo {
    /// Its declared type.
    pub ty: ScalarType,
    /// Its first row, once used.
    pub row: Option<u32>,
}

impl RegisterInfo {
    /// Slot of the register as an argument or result of a call.
    pub(crate) fn slot(row: u32, ty: ScalarType) -> CallSlot {
        CallSlot::Register { row, rows: ty.bits().div_ceil(32).max(1) }
    }
}

//! Builder of the function being decoded: its scopes, rows and blocks, and the reads and writes of
//! each operation.

use std::collections::{HashMap, HashSet};

use warpfold_ptx::{Name, ScalarType};

use super::scope::{RegisterInfo, Symbol};
use crate::exec::code::{BlockId, Fill};
use crate::exec::op::{NONE, Op};
use crate::memory_ops::access::Space;

/// A register or predicate read or written by an operation, for the liveness analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// The block.
    pub block: BlockId,
    /// The resource.
    pub what: Resource,
    /// The event.
    pub kind: EventKind,
}

/// A resource that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Resource {
    /// A register, by its index in the builder.
    Register(u32),
    /// A predicate.
    Predicate(u32),
}

/// Event of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Read.
    Use,
    /// Written in every active lane.
    Define,
    /// Written in some lanes.
    MayDefine,
}

/// State of the function being decoded.
#[derive(Debug, Default)]
pub(crate) struct FunctionBuilder {
    /// Innermost scope last.
    pub scopes: Vec<HashMap<Name, Symbol>>,
    /// True for a kernel.
    pub is_kernel: bool,
    /// Index in the program's functions.
    pub index: u32,
    /// Registers declared so far.
    pub registers: Vec<RegisterInfo>,
    /// Rows allocated so far.
    pub rows: u32,
    /// Predicates allocated so far.
    pub predicates: u32,
    /// Constant and special rows.
    pub fills: HashMap<Fill, u32>,
    /// Constant and special rows, in the order of their first use.
    pub fill_list: Vec<(u32, Fill)>,
    /// Bytes of local memory allocated so far.
    pub local_bytes: u32,
    /// The variables in local memory.
    pub locals: Vec<crate::exec::code::Placed>,
    /// Operations of the instruction being decoded.
    pub pending: Vec<Op>,
    /// Operations that follow them (conversions of destinations).
    pub after: Vec<Op>,
    /// The block being filled.
    pub block: BlockId,
    /// First operation of that block.
    pub block_start: u32,
    /// Source instructions in that block.
    pub block_count: u32,
    /// True if the block has ended and no new one was begun.
    pub ended: bool,
    /// Reads and writes in order.
    pub events: Vec<Event>,
    /// True if the instruction being decoded has a guard.
    pub guarded: bool,
    /// State space that the load or store being decoded accesses.
    pub accessed: Option<Space>,
    /// Names of registers that products in flight use, in a checked program.
    pub watched: HashSet<Name>,
    /// Declared registers and predicates with their names, in order.
    pub named: Vec<(Name, ScalarType, Resource)>,
    /// The predicate that stands for the carry flag `CC.CF`, once used.
    pub carry: Option<u32>,
}

impl FunctionBuilder {
    /// Allocates `n` rows.
    pub(crate) fn fresh_rows(&mut self, n: u32) -> u32 {
        let row = self.rows;
        self.rows += n;
        row
    }

    /// Allocates the row (or rows) for a value of `ty`.
    pub(crate) fn temporary(&mut self, ty: ScalarType) -> u32 {
        self.fresh_rows(ty.bits().div_ceil(32).max(1))
    }

    /// Allocates a predicate.
    pub(crate) fn fresh_predicate(&mut self) -> u32 {
        self.predicates += 1;
        self.predicates - 1
    }

    /// The predicate of the carry flag, to be read.
    pub(crate) fn read_carry(&mut self) -> u32 {
        let carry = self.carry();
        self.note_use(Resource::Predicate(carry));
        carry
    }

    /// The predicate of the carry flag, to be written.
    pub(crate) fn write_carry(&mut self) -> u32 {
        let carry = self.carry();
        self.note_define(Resource::Predicate(carry));
        carry
    }

    fn carry(&mut self) -> u32 {
        let carry = self.carry.unwrap_or_else(|| self.fresh_predicate());
        self.carry = Some(carry);
        carry
    }

    /// The row of a constant or special register.
    pub(crate) fn fill(&mut self, fill: Fill) -> u32 {
        if let Some(&row) = self.fills.get(&fill) {
            return row;
        }
        let row = self.fresh_rows(match fill {
            Fill::Constant64(_) => 2,
            Fill::Constant128(_) => 4,
            Fill::Special(crate::exec::code::Special::GridId) => 2,
            Fill::Constant32(_) | Fill::Special(_) => 1,
        });
        self.fills.insert(fill, row);
        self.fill_list.push((row, fill));
        row
    }

    /// A new register of a type.
    pub(crate) fn declare_register(&mut self, ty: ScalarType) -> u32 {
        self.registers.push(RegisterInfo { ty, row: None });
        u32::try_from(self.registers.len() - 1).expect("fewer than 2^32 registers")
    }

    /// The row of a register, given at its first use.
    pub(crate) fn register_row(&mut self, register: u32) -> u32 {
        let info = self.registers[register as usize];
        if let Some(row) = info.row {
            return row;
        }
        let row = self.temporary(info.ty);
        self.registers[register as usize].row = Some(row);
        row
    }

    /// Notes a read.
    pub(crate) fn note_use(&mut self, what: Resource) {
        self.events.push(Event { block: self.block, what, kind: EventKind::Use });
    }

    /// Notes a write; a guarded one does not end what was there.
    pub(crate) fn note_define(&mut self, what: Resource) {
        let kind = if self.guarded { EventKind::MayDefine } else { EventKind::Define };
        self.events.push(Event { block: self.block, what, kind });
    }

    /// Notes the read of a guard.
    pub(crate) fn note_guard(&mut self, predicate: u32) {
        if predicate != NONE {
            // The guard is read before anything is written; its order within the instruction does
            // not matter, because a guarded write never ends a live range.
            self.note_use(Resource::Predicate(predicate));
        }
    }
}

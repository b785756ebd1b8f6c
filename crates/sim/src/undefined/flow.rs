//! Reads and writes of each instruction of a checked program, and its effect on undefined bits.

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use crate::decode::{Decoder, Event, EventKind, Resource};
use crate::exec::code::CallSlot;
use crate::memory_ops::access::Space;

/// Effect of an instruction on undefined bits that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Moves them.
    Moves,
    /// Computes with them.
    Computes,
    /// Compares them.
    Compares,
    /// Reads only an address and a guard; the loaded value may be undefined.
    Loads,
    /// Stores them, except for an address and a guard.
    Stores,
    /// Passes them to other lanes: that is a use.
    Uses,
    /// No effect.
    Ignores,
}

/// Data flow of one instruction.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(super) role: Role,
    /// True if the terminator of its block runs its main operation.
    pub(super) ends_block: bool,
    /// Index of the main operation among those of the instruction.
    pub(super) main: u32,
    /// State space that it loads from or stores to.
    pub(super) space: Option<Space>,
    pub(super) reads: Box<[CallSlot]>,
    pub(super) writes: Box<[CallSlot]>,
}

fn role_of(inst: &Instruction) -> Role {
    use Opcode as O;
    let is_integer = |ty: T| matches!(ty, T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64);
    match inst.opcode {
        O::Ld | O::Ldu | O::Ldmatrix => Role::Loads,
        O::St if !inst.has("async") => Role::Stores,
        O::Stmatrix => Role::Stores,
        O::Mov
        | O::Cvta
        | O::Shfl
        | O::Selp
        | O::Slct
        | O::Prmt
        | O::Bfe
        | O::Bfi
        | O::Shl
        | O::Shr
        | O::Shf
        | O::And
        | O::Or
        | O::Lop3
        | O::Brev
        | O::Szext
        | O::Movmatrix => Role::Moves,
        O::Cvt if inst.types().all(is_integer) && !inst.has("sat") => Role::Moves,
        O::Setp | O::Set | O::Testp => Role::Compares,
        O::St | O::Atom | O::Red | O::Cp | O::Mbarrier | O::Tensormap | O::Wgmma | O::Bar | O::Barrier => Role::Uses,
        O::Wmma if !inst.has("mma") => Role::Uses,
        O::Bra
        | O::Brx
        | O::Call
        | O::Ret
        | O::Exit
        | O::Trap
        | O::Membar
        | O::Fence
        | O::Activemask
        | O::Elect
        | O::Nanosleep
        | O::Griddepcontrol
        | O::Setmaxnreg
        | O::Pmevent
        | O::Prefetch
        | O::Prefetchu
        | O::Applypriority
        | O::Discard
        | O::Createpolicy => Role::Ignores,
        _ => Role::Computes,
    }
}

impl Decoder<'_> {
    /// Notes the flow of the instruction just decoded, by its reads and writes: the events since
    /// the first `before`.
    pub(crate) fn note_flow(&mut self, inst: &Instruction, before: usize, main: usize, ends_block: bool) {
        let slot = |what: Resource| match what {
            Resource::Predicate(p) => Some(CallSlot::Predicate(p)),
            Resource::Register(register) => {
                let info = self.f.registers[register as usize];
                info.row.map(|row| CallSlot::Register { row, rows: info.ty.bits().div_ceil(32).max(1) })
            }
        };
        let mut reads: Vec<CallSlot> = Vec::new();
        let mut writes: Vec<CallSlot> = Vec::new();
        for &Event { what, kind, .. } in &self.f.events[before..] {
            let list = if kind == EventKind::Use { &mut reads } else { &mut writes };
            if let Some(slot) = slot(what).filter(|slot| !list.contains(slot)) {
                list.push(slot);
            }
        }
        if inst.opcode == Opcode::Wgmma {
            // Accumulators that the instruction does not add to are not used.
            reads.retain(|slot| !writes.contains(slot));
        }
        let space = self.f.accessed.take();
        let main = u32::try_from(main).expect("an instruction has few operations");
        let (reads, writes) = (reads.into(), writes.into());
        self.code.flows.push(Flow { role: role_of(inst), ends_block, main, space, reads, writes });
    }
}

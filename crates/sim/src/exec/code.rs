//! A decoded program: basic blocks of operations, each ended by a terminator.

use std::collections::HashMap;
use std::sync::Arc;

use warpfold_ptx::{Name, ScalarType, Source};

use super::op::Op;
use crate::Error;
use crate::asynchronous::reduce::Reduction;
use crate::report::Shapes;
use crate::tensor_ops::Tables;
use crate::undefined::flow::Flow;

/// Index into [`Code::blocks`].
pub(crate) type BlockId = u32;

/// No block: the join of a branch whose sides only meet at the end of the function.
pub(crate) const NO_BLOCK: BlockId = u32::MAX;

/// Everything a launch needs, decoded for one CPU level and one check mode.
#[derive(Debug, Default)]
pub(crate) struct Code {
    /// Straight-line operations and the operations of warp exchanges.
    pub ops: Vec<Op>,
    /// Basic blocks of all functions.
    pub blocks: Vec<Block>,
    /// Functions that have a body.
    pub functions: Vec<FunctionCode>,
    /// Functions by name.
    pub function_index: HashMap<String, u32>,
    /// Source instructions; operations and terminators refer to them by index.
    pub instructions: Vec<InstructionInfo>,
    /// Propagation of undefined bits by each instruction, in a checked program.
    pub flows: Vec<Flow>,
    /// Operands of tensor-core instructions.
    pub tensor: Arc<Tables>,
    /// Side lists of rows, targets and copies.
    pub lists: Vec<u32>,
    /// Reductions that bulk copies name, by index.
    pub reductions: Vec<Reduction>,
    /// Warp exchanges that lanes may reach at different instructions.
    pub exchanges: Vec<Exchange>,
    /// Shared variables of the module, for the names of addresses.
    pub shared: Vec<Placed>,
    /// Elements and dimensions of the module's variables.
    pub shapes: Shapes,
    /// Name of the variable for dynamic shared memory, if one is declared.
    pub dynamic_shared: Option<String>,
    /// The largest alignment of a variable for dynamic shared memory; 0 without any.
    pub dynamic_align: u32,
    /// Bytes of static shared memory, as laid out here.
    pub static_shared: u32,
    /// Bytes at the start of those that the system reserves, if the program asks for their address.
    pub reserved_shared: u32,
    /// True if the program calls `malloc` or `free`.
    pub allocates: bool,
    /// True if the program calls `vprintf` or asserts.
    pub prints: bool,
    /// True if the program has an instruction that could order one block after another.
    pub orders_blocks: bool,
    /// True if it has any `fence.sc`.
    pub has_fence_sc: bool,
    /// True if it has any fence or access whose scope ends at the cluster.
    pub has_cluster_scope: bool,
}

/// A variable and its place in its space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its name.
    pub name: String,
    /// Offset in its space.
    pub offset: u32,
    /// Size.
    pub bytes: u32,
}

/// A source instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstructionInfo {
    /// Line in the text.
    pub line: u32,
    /// Its text.
    pub text: String,
    /// The line of source that it comes from.
    pub source: Option<Arc<Source>>,
    /// Index into [`Code::functions`].
    pub function: u32,
    /// The basic block that counts its executions.
    pub block: BlockId,
    /// Class of totals for its memory counters and executions.
    pub class: Class,
}

/// Bytes of shared memory that the system reserves in each block (CUDA programming guide, compute
/// capability 8.0 and later).
pub(crate) const RESERVED_SHARED: u32 = 1024;
/// Offset in them of the memory that cooperative groups of several warps use to synchronise.
const RESERVED_FOR_GROUPS: u32 = 512;

impl Code {
    /// Moves static shared memory after the system's reserve, as on hardware.
    pub(crate) fn reserve_shared(&mut self) {
        self.reserved_shared = RESERVED_SHARED;
        self.static_shared = RESERVED_SHARED;
        self.shared.push(Placed { name: "reserved shared memory".to_owned(), offset: 0, bytes: RESERVED_SHARED });
    }

    /// The alignment of dynamic shared memory.
    pub(crate) fn dynamic_align(&self) -> u32 {
        self.dynamic_align.max(16)
    }

    /// Offset of dynamic shared memory: after the static variables.
    pub(crate) fn dynamic_shared_start(&self) -> u32 {
        self.static_shared.next_multiple_of(self.dynamic_align())
    }
}

/// Class of totals that an instruction counts towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Class {
    /// Only instruction counts.
    #[default]
    Other,
    /// `bra` or `brx`.
    Branch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// `atom` or `red`.
    Atomic,
    /// A block barrier.
    Barrier,
    /// A warp-level synchronising instruction.
    WarpSync,
    /// A copy from global to shared memory.
    Copy,
}

/// A basic block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// First operation.
    pub start: u32,
    /// One past the last operation.
    pub end: u32,
    /// Source instructions that one execution counts, terminator included.
    pub count: u32,
    /// Terminator of the block.
    pub terminator: Terminator,
}

/// Terminator of a basic block.
#[derive(Debug, Clone)]
pub(crate) enum Terminator {
    /// Continues at another block.
    Jump(BlockId),
    /// Continues at `taken` if the predicate is true (or false, if negated), else at `next`.
    Branch {
        /// Predicate index.
        predicate: u32,
        /// True if the branch is taken for a false predicate.
        negated: bool,
        /// Target if the predicate is true.
        taken: BlockId,
        /// Target if the predicate is false.
        next: BlockId,
        /// Immediate post-dominator, or [`NO_BLOCK`].
        join: BlockId,
        /// The `bra`; `None` for the guard of a synchronising instruction.
        instruction: Option<u32>,
    },
    /// `brx.idx`.
    Switch {
        /// Row of the index.
        index: u32,
        /// First target in [`Code::lists`].
        targets: u32,
        /// Number of targets.
        count: u32,
        /// Immediate post-dominator, or [`NO_BLOCK`].
        join: BlockId,
        /// The instruction.
        instruction: u32,
    },
    /// `call`.
    Call(Box<Call>),
    /// `ret`; at the outermost level the same as `exit`.
    Return,
    /// `exit`.
    Exit,
    /// `trap`.
    Trap {
        /// The instruction.
        instruction: u32,
    },
    /// A warp-level synchronising instruction: runs `op` once every lane of the member mask has
    /// arrived.
    WarpSync {
        /// Operation that does the exchange; none for `bar.warp.sync`.
        op: Option<u32>,
        /// Row of the member mask.
        members: u32,
        /// Exchange between lanes at different instructions: index into [`Code::exchanges`].
        exchange: Option<u32>,
        /// The instruction.
        instruction: u32,
        /// The block after it.
        next: BlockId,
    },
    /// A block barrier.
    Barrier(Box<Barrier>),
    /// A wait at an mbarrier: runs `op`, and continues unless it must wait for the phase.
    MbarrierWait {
        /// The test.
        op: u32,
        /// The instruction.
        instruction: u32,
        /// The block after it.
        next: BlockId,
    },
    /// The barrier of the cluster.
    ClusterBarrier(ClusterBarrier),
    /// `setmaxnreg`.
    SetRegisters(SetRegisters),
}

/// A call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The callee.
    pub target: CallTarget,
    /// Slots of the arguments in the caller.
    pub arguments: Vec<CallSlot>,
    /// Slots of the results in the caller.
    pub returns: Vec<CallSlot>,
    /// The block after it.
    pub next: BlockId,
    /// The instruction.
    pub instruction: u32,
}

/// The callee of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallTarget {
    /// A function of the module.
    Direct(u32),
    /// An address in a 64-bit register.
    Indirect(u32),
    /// `vprintf` of the device runtime.
    Vprintf,
    /// `malloc` of the device runtime.
    Malloc,
    /// `free` of the device runtime.
    Free,
    /// `__assertfail` of the device runtime.
    AssertFail,
}

/// Location of an argument, parameter or result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallSlot {
    /// `.param` bytes in the frame's local memory.
    Local {
        /// Byte offset in the frame.
        offset: u32,
        /// Size.
        bytes: u32,
    },
    /// A register (or a constant row).
    Register {
        /// First row.
        row: u32,
        /// Rows.
        rows: u32,
    },
    /// A predicate register.
    Predicate(u32),
}

/// A warp exchange by one instruction, for lanes that meet others at another instruction: PTX
/// requires the same qualifiers and the same member mask, not the same instruction (PTX ISA,
/// "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync").
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// The instruction and its qualifiers: only exchanges with equal ones meet.
    pub qualifiers: String,
    /// The operation on rows and predicates of its own ([`meeting`](super::meeting)).
    pub op: Op,
    /// Slots that it reads.
    pub sources: [Option<CallSlot>; 3],
    /// The predicate that it reads is negated.
    pub negated: bool,
    /// Slots that it writes.
    pub results: [Option<CallSlot>; 2],
}

/// A block barrier.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    /// Row of the barrier's number.
    pub id: u32,
    /// Row of the thread count; all threads of the block without one.
    pub threads: Option<u32>,
    /// Operation of the barrier.
    pub kind: BarrierKind,
    /// All threads of a warp must execute it together.
    pub aligned: bool,
    /// The block after it.
    pub next: BlockId,
    /// The instruction.
    pub instruction: u32,
}

/// `barrier.cluster.arrive` or `.wait`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterBarrier {
    /// True for the `wait`.
    pub waits: bool,
    /// True for an arrive without `.relaxed`, which releases earlier accesses to the waiting
    /// threads.
    pub releases: bool,
    /// All threads of a warp must execute it together.
    pub aligned: bool,
    /// The block after it.
    pub next: BlockId,
    /// The instruction.
    pub instruction: u32,
}

/// `setmaxnreg.inc` or `.dec`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetRegisters {
    /// True for the `inc`.
    pub takes: bool,
    /// Registers per thread afterwards.
    pub count: u32,
    /// The block after it.
    pub next: BlockId,
    /// The instruction.
    pub instruction: u32,
}

/// Operation of a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    /// Waits.
    Sync,
    /// Does not wait.
    Arrive,
    /// Waits, and counts the threads whose predicate is true.
    Popc {
        /// Predicate index.
        predicate: u32,
        /// `!p`.
        negated: bool,
        /// Row of the result.
        dst: u32,
    },
    /// Waits, and tells if the predicate is true for all threads.
    And {
        /// Predicate index.
        predicate: u32,
        /// `!p`.
        negated: bool,
        /// Predicate index of the result.
        dst: u32,
    },
    /// Waits, and tells if the predicate is true for any thread.
    Or {
        /// Predicate index.
        predicate: u32,
        /// `!p`.
        negated: bool,
        /// Predicate index of the result.
        dst: u32,
    },
}

/// A function that has a body.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionCode {
    /// Its name.
    pub name: String,
    /// First block.
    pub entry: BlockId,
    /// Rows of its frame, predicates included.
    pub rows: u32,
    /// Row where the predicates start.
    pub predicate_row: u32,
    /// Rows that hold constants and special registers.
    pub fills: Vec<(u32, Fill)>,
    /// Rows (of registers that may be read before they are written) to clear when a frame starts.
    pub clear_rows: Vec<u32>,
    /// Predicates to clear when a frame starts.
    pub clear_predicates: Vec<u32>,
    /// Bytes of `.local` and `.param` variables of its frame.
    pub local_bytes: u32,
    /// The variables among them, for the names of addresses.
    pub locals: Vec<Placed>,
    /// Its parameters (device functions only).
    pub params: Vec<CallSlot>,
    /// Its return values (device functions only).
    pub returns: Vec<CallSlot>,
    /// Maximum number of live 32-bit registers.
    pub registers: u32,
    /// Its declared registers and predicates, as far as they are used.
    pub named: Vec<NamedSlot>,
    /// Error for a function without code: an instruction that is not executed here.
    pub refusal: Option<Error>,
}

/// A declared register with its place.
#[derive(Debug, Clone)]
pub(crate) struct NamedSlot {
    /// Its name: `%r1`.
    pub name: Name,
    /// Its declared type.
    pub ty: ScalarType,
    /// Rows or predicate.
    pub slot: CallSlot,
}

/// Contents of a constant row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    /// The same 32 bits in each lane.
    Constant32(u32),
    /// The same 64 bits in each lane.
    Constant64(u64),
    /// The same 128 bits in each lane.
    Constant128(u128),
    /// A special register that does not change while a thread runs.
    Special(Special),
}

/// Special registers that do not change while a thread runs (PTX ISA, "Special Registers").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each variant is the special register of the same name")]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    NWarpId,
    SmId,
    NSmId,
    GridId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    ClusterId(u8),
    NClusterId(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    DynamicSmemSize,
    TotalSmemSize,
    AggrSmemSize,
    /// `%envreg0` to `%envreg31`, which a driver fills.
    EnvReg(u8),
    ReservedSmem(Reserved),
}

impl Special {
    /// Returns true if the lanes of a warp see different values.
    pub(crate) const fn differs_by_lane(self) -> bool {
        matches!(
            self,
            Self::Tid(_)
                | Self::LaneId
                | Self::LaneMaskEq
                | Self::LaneMaskLe
                | Self::LaneMaskLt
                | Self::LaneMaskGe
                | Self::LaneMaskGt
        )
    }
}

/// Registers for the shared memory reserved for the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reserved {
    /// Start of the memory, or its first part.
    Begin,
    /// End of the memory, or its size.
    End,
    /// Start of the part for cooperative groups.
    Groups,
}

impl Reserved {
    /// Value of the register.
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Begin => 0,
            Self::End => RESERVED_SHARED,
            Self::Groups => RESERVED_FOR_GROUPS,
        }
    }
}

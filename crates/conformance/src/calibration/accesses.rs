//! Cases that the cost of an access decides: wavefronts of shared memory, sectors of global memory.
//!
//! NVIDIA publishes neither the phases of wide accesses to shared memory nor their order. A pattern
//! gives each lane's offset in bytes; the two marks of an access are patterns on which all models
//! agree, and cycles are read off between them.

use super::case::{Case, Model, Probe, Rule};

/// An access under question, with a ruler for its cycles.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    /// The instruction, space and width.
    pub kind: Kind,
    /// The offset of each lane; [`IDLE`] for a lane that takes no part.
    pub pattern: fn(u32) -> u32,
}

/// The offset of a lane that takes no part.
pub const IDLE: u32 = u32::MAX;

/// Kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `ld.shared.u8`
    SharedLoad8,
    /// `ld.shared.b32`
    SharedLoad32,
    /// `ld.shared.v2.b32`
    SharedLoad64,
    /// `ld.shared.v4.b32`
    SharedLoad128,
    /// `st.shared.b32`
    SharedStore32,
    /// `st.shared.v4.b32`
    SharedStore128,
    /// `ld.global.b32`
    GlobalLoad32,
    /// `ld.global.v4.b32`
    GlobalLoad128,
    /// `st.global.b32`
    GlobalStore32,
}

/// A pattern whose cost every model agrees on.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The offset of each lane.
    pub pattern: fn(u32) -> u32,
    /// Cost of the access.
    pub cost: u64,
}

impl Kind {
    /// Returns whether it accesses global memory, which costs sectors; shared memory costs
    /// wavefronts.
    #[must_use]
    pub fn is_global(self) -> bool {
        match self {
            Self::GlobalLoad32 | Self::GlobalLoad128 | Self::GlobalStore32 => true,
            Self::SharedLoad8
            | Self::SharedLoad32
            | Self::SharedLoad64
            | Self::SharedLoad128
            | Self::SharedStore32
            | Self::SharedStore128 => false,
        }
    }

    /// The instruction, with `#` for the number of the copy. Volatile and relaxed accesses, which
    /// the assembler may neither drop nor merge; the relaxed ones are served by the L2.
    #[must_use]
    pub(super) fn instruction(self) -> &'static str {
        match self {
            Self::SharedLoad8 => "ld.volatile.shared.u8 a#, [at];",
            Self::SharedLoad32 => "ld.volatile.shared.b32 a#, [at];",
            Self::SharedLoad64 => "ld.volatile.shared.v2.b32 {a#, b#}, [at];",
            Self::SharedLoad128 => "ld.volatile.shared.v4.b32 {a#, b#, c#, d#}, [at];",
            Self::SharedStore32 => "st.volatile.shared.b32 [at], lane;",
            Self::SharedStore128 => "st.volatile.shared.v4.b32 [at], {lane, thread, offset, left};",
            Self::GlobalLoad32 => "ld.relaxed.gpu.global.b32 a#, [at + PLACE];",
            Self::GlobalLoad128 => "ld.relaxed.gpu.global.v4.b32 {a#, b#, c#, d#}, [at + PLACE];",
            Self::GlobalStore32 => "st.relaxed.gpu.global.b32 [at + PLACE], lane;",
        }
    }

    /// Registers that the access fills.
    pub(super) fn results(self) -> &'static [&'static str] {
        match self {
            Self::SharedLoad8 | Self::SharedLoad32 | Self::GlobalLoad32 => &["a#"],
            Self::SharedLoad64 => &["a#", "b#"],
            Self::SharedLoad128 | Self::GlobalLoad128 => &["a#", "b#", "c#", "d#"],
            Self::SharedStore32 | Self::SharedStore128 | Self::GlobalStore32 => &[],
        }
    }

    /// A cheap and a dear pattern.
    #[must_use]
    pub fn marks(self) -> [Mark; 2] {
        let mark = |pattern, cost| Mark { pattern, cost };
        match self {
            Self::SharedLoad8 | Self::SharedLoad32 | Self::SharedStore32 => [mark(|l| l * 4, 1), mark(|l| l * 128, 32)],
            Self::SharedLoad64 => [mark(|l| l * 8, 2), mark(|l| l * 128, 32)],
            Self::SharedLoad128 | Self::SharedStore128 => [mark(|l| l * 16, 4), mark(|l| l * 512, 32)],
            Self::GlobalLoad32 | Self::GlobalStore32 => [mark(|l| l * 4, 4), mark(|l| l * 32, 32)],
            Self::GlobalLoad128 => [mark(|l| l * 16, 16), mark(|l| l / 2 * 64 + l % 2 * 32, 32)],
        }
    }
}

const fn model(name: &'static str, predicts: u64) -> Model {
    Model { name, predicts }
}

/// A case whose first model is the one of the virtual GPU.
const fn case(
    name: &'static str,
    question: &'static str,
    kind: Kind,
    pattern: fn(u32) -> u32,
    models: &'static [Model],
) -> Case {
    Case {
        name,
        question,
        probe: Probe::Access(Access { kind, pattern }),
        models,
        virtual_gpu: models[0].name,
        source: "crates/sim/src/memory_ops/pattern.rs",
        rule: Rule::Hardware,
    }
}

/// Shared memory: how lanes are split into phases, and what a bank can serve at once.
pub const SHARED: &[Case] = &[
    case(
        "v4-quarters-apart",
        "16-byte loads where each quarter-warp meets in four banks, other quarters in other banks: split or whole?",
        Kind::SharedLoad128,
        |l| l % 8 * 512 + l / 8 * 16,
        &[model("quarter-warps in turn", 32), model("the warp as a whole", 8)],
    ),
    case(
        "v4-store-quarters-apart",
        "The same for 16-byte stores",
        Kind::SharedStore128,
        |l| l % 8 * 512 + l / 8 * 16,
        &[model("quarter-warps in turn", 32), model("the warp as a whole", 8)],
    ),
    case(
        "v4-four-addresses",
        "16-byte loads of four addresses, (lane % 4) * 16: do the quarter-warps share their words?",
        Kind::SharedLoad128,
        |l| l % 4 * 16,
        &[model("quarter-warps in turn", 4), model("the warp as a whole", 1)],
    ),
    case(
        "v4-neighbours-equal",
        "16-byte loads where lanes n and n ^ 1 read the same: do pairs merge?",
        Kind::SharedLoad128,
        |l| l / 2 * 16,
        &[model("pairs merge", 2), model("no merge", 4)],
    ),
    case(
        "v4-second-neighbours-equal",
        "16-byte loads where lanes n and n ^ 2 read the same: do pairs merge?",
        Kind::SharedLoad128,
        |l| (l / 4 * 2 + l % 2) * 16,
        &[model("pairs merge", 2), model("no merge", 4)],
    ),
    case(
        "v4-one-lane-a-quarter",
        "16-byte loads of lanes 0, 8, 16 and 24 alone: is a phase spent on each quarter-warp?",
        Kind::SharedLoad128,
        |l| if l % 8 == 0 { l * 16 } else { IDLE },
        &[model("a phase a quarter", 4), model("active lanes packed", 1)],
    ),
    case(
        "v4-one-quarter",
        "16-byte loads of lanes 0 to 7 alone: do empty quarter-warps cost?",
        Kind::SharedLoad128,
        |l| if l < 8 { l * 16 } else { IDLE },
        &[model("empty phases are free", 1), model("four phases always", 4)],
    ),
    case(
        "v2-halves-apart",
        "8-byte loads where each half-warp meets in two banks, the other half in two others: split or whole?",
        Kind::SharedLoad64,
        |l| l % 16 * 256 + l / 16 * 8,
        &[model("half-warps in turn", 32), model("the warp as a whole", 16)],
    ),
    case(
        "v2-neighbours-equal",
        "8-byte loads where lanes n and n ^ 1 read the same: do pairs merge?",
        Kind::SharedLoad64,
        |l| l / 2 * 8,
        &[model("pairs merge", 1), model("no merge", 2)],
    ),
    case(
        "stride-two",
        "4-byte loads of every second word: are banks four or eight bytes wide?",
        Kind::SharedLoad32,
        |l| l * 8,
        &[model("four bytes", 2), model("eight bytes", 1)],
    ),
    case(
        "several-broadcasts",
        "4-byte loads of eight words by four lanes each: are several words broadcast at once?",
        Kind::SharedLoad32,
        |l| l / 4 * 4,
        &[model("all at once", 1), model("one word at a time", 8)],
    ),
    case(
        "bytes-of-a-word",
        "1-byte loads of consecutive bytes: do lanes that share a word conflict?",
        Kind::SharedLoad8,
        |l| l,
        &[model("words count", 1), model("bytes conflict", 4)],
    ),
    case(
        "stores-to-one-word",
        "4-byte stores of all lanes to one word: one wavefront or one a lane?",
        Kind::SharedStore32,
        |_| 64,
        &[model("one, a lane wins", 1), model("one a lane", 32)],
    ),
];

/// Global memory: what moves between L1 and L2.
pub const GLOBAL: &[Case] = &[
    case(
        "one-sector-a-line",
        "4-byte loads that touch one sector of each of eight lines: do sectors or lines move?",
        Kind::GlobalLoad32,
        |l| l / 4 * 128 + l % 4 * 4,
        &[model("sectors", 8), model("whole lines", 32)],
    ),
    case(
        "one-sector-a-line-store",
        "The same for stores",
        Kind::GlobalStore32,
        |l| l / 4 * 128 + l % 4 * 4,
        &[model("sectors", 8), model("whole lines", 32)],
    ),
    case(
        "misaligned-row",
        "128 bytes that start 4 bytes behind a line: one sector more, or a line more?",
        Kind::GlobalLoad32,
        |l| l * 4 + 4,
        &[model("one sector more", 5), model("one line more", 8)],
    ),
    case(
        "half-sectors",
        "16-byte loads that use half of each of 32 sectors: do sectors or bytes count?",
        Kind::GlobalLoad128,
        |l| l * 32,
        &[model("sectors", 32), model("bytes", 16)],
    ),
];

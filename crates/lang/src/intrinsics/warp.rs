//! Instructions over the lanes of a warp: shuffles, votes, matches, reductions, election.

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use super::convert;
use crate::ErrorKind;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// Mode of a shuffle: the lane it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shuffle {
    /// `lane - b`
    Up,
    /// `lane + b`
    Down,
    /// `lane ^ b`
    Bfly,
    /// `b`
    Idx,
}

impl Shuffle {
    const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Bfly => "bfly",
            Self::Idx => "idx",
        }
    }
}

/// Participants of a shuffle: a lane mask, and the width of the segments that shuffle separately.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members {
    pub(crate) mask: Raw,
    pub(crate) width: u32,
}

/// `shfl.sync` of a value of any type: 64-bit values travel as two halves, 8- and 16-bit ones
/// widened.
pub(crate) fn shuffle(r: &mut Recorder, mode: Shuffle, ty: Type, a: Raw, lane: Raw, members: Members) -> Raw {
    match ty.bits() {
        64 => {
            let halves = convert::unpack(r, ty, Type::U32, a);
            let moved = halves.map(|half| shuffle_word(r, mode, Type::U32, half, lane, members));
            convert::pack(r, Type::U32, ty, moved)
        }
        32 => shuffle_word(r, mode, ty, a, lane, members),
        _ => {
            // The 16-bit register as a whole: a byte in it is extended, and stays so.
            let wide = convert::convert(r, Type::U16, Type::U32, bits_of(ty, a), None);
            let moved = shuffle_word(r, mode, Type::U32, wide, lane, members);
            convert::convert(r, Type::U32, Type::U16, moved, None)
        }
    }
}

/// A constant as it stands in its 16-bit register: a signed byte is extended.
fn bits_of(ty: Type, a: Raw) -> Raw {
    match a {
        Raw::Const(bits) if ty == Type::I8 => Raw::Const(crate::fold::integer_cast(Type::I8, Type::U16, bits)),
        Raw::Const(_) | Raw::Reg(_) => a,
    }
}

fn shuffle_word(r: &mut Recorder, mode: Shuffle, ty: Type, a: Raw, lane: Raw, members: Members) -> Raw {
    // PTX ISA, `shfl.sync`: the segment mask in bits 8 to 12, the clamp in bits 0 to 4.
    let clamp = if mode == Shuffle::Up { 0 } else { 31 };
    let segments = (32 - u64::from(members.width)) << 8 | clamp;
    let operands = vec![
        r.in_register(ty, a),
        r.operand(Type::U32, lane),
        r.operand(Type::U32, Raw::Const(segments)),
        r.operand(Type::U32, members.mask),
    ];
    r.define(ty.register(), Opcode::Shfl, &["sync", mode.name(), "b32"], operands)
}

/// Mode of a warp vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    /// True if the predicate is true in all lanes.
    All,
    /// True if the predicate is true in any lane.
    Any,
    /// Mask of the lanes in which the predicate is true.
    Ballot,
}

/// `vote.sync`
pub(crate) fn vote(r: &mut Recorder, vote: Vote, condition: Raw, mask: Raw) -> Raw {
    let (mode, ty, name) = match vote {
        Vote::All => ("all", ScalarType::Pred, "pred"),
        Vote::Any => ("any", ScalarType::Pred, "pred"),
        Vote::Ballot => ("ballot", ScalarType::B32, "b32"),
    };
    let operands = vec![r.in_register(Type::Bool, condition), r.operand(Type::U32, mask)];
    r.define(ty, Opcode::Vote, &["sync", mode, name], operands)
}

/// `match.any.sync`: the lanes with the same value.
pub(crate) fn match_any(r: &mut Recorder, ty: Type, a: Raw, mask: Raw) -> Raw {
    let operands = vec![r.in_register(ty, a), r.operand(Type::U32, mask)];
    r.define(ScalarType::B32, Opcode::Match, &["any", "sync", ty.untyped().name()], operands)
}

/// `match.all.sync`: the mask if all lanes have the same value, else 0; and whether they do.
pub(crate) fn match_all(r: &mut Recorder, ty: Type, a: Raw, mask: Raw) -> (Raw, Raw) {
    let lanes = r.register(ScalarType::B32);
    let same = r.register(ScalarType::Pred);
    let destination = ptx::Operand::Pair(Box::new(r.reg(lanes)), Box::new(r.reg(same)));
    let operands = vec![destination, r.in_register(ty, a), r.operand(Type::U32, mask)];
    r.push(Opcode::Match, &["all", "sync", ty.untyped().name()], operands);
    (Raw::Reg(lanes), Raw::Reg(same))
}

/// `activemask`
pub(crate) fn active_mask(r: &mut Recorder) -> Raw {
    r.define(ScalarType::B32, Opcode::Activemask, &["b32"], vec![])
}

/// Reduction operation of `redux.sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// `redux.sync` of a 32-bit integer.
pub(crate) fn redux(r: &mut Recorder, combine: Combine, ty: Type, a: Raw, mask: Raw) -> Raw {
    let (op, name) = match combine {
        Combine::Add => ("add", ty.memory().name()),
        Combine::Min => ("min", ty.memory().name()),
        Combine::Max => ("max", ty.memory().name()),
        Combine::And => ("and", "b32"),
        Combine::Or => ("or", "b32"),
        Combine::Xor => ("xor", "b32"),
    };
    let operands = vec![r.in_register(ty, a), r.operand(Type::U32, mask)];
    r.define(ScalarType::B32, Opcode::Redux, &["sync", op, name], operands)
}

/// `elect.sync`: true in one lane of the mask.
pub(crate) fn elect(r: &mut Recorder, mask: Raw) -> Raw {
    r.require("elect.sync", 90, (8, 0));
    let leader = r.register(ScalarType::Pred);
    let destination = ptx::Operand::Pair(Box::new(ptx::Operand::Sink), Box::new(r.reg(leader)));
    let mask = r.operand(Type::U32, mask);
    r.push(Opcode::Elect, &["sync"], vec![destination, mask]);
    Raw::Reg(leader)
}

/// Checks the width of shuffle segments.
pub(crate) fn check_width(r: &mut Recorder, width: u32) {
    if !width.is_power_of_two() || width > 32 {
        let (what, value) = ("the width of a shuffle".to_owned(), width.to_string());
        r.fail(ErrorKind::OutOfRange { what, value, expected: "1, 2, 4, 8, 16 or 32".to_owned() });
    }
}

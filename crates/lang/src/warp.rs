//! The lanes of a warp: shuffles, votes, matches, reductions.

use crate::intrinsics::sync;
use crate::intrinsics::warp::{self, Combine, Members, Shuffle, Vote};
use crate::recorder::with;
use crate::registers::Registers;
use crate::types::Word;
use crate::{Operand, Val, untyped};

/// A set of lanes that execute warp operations together: by default all 32, in one segment.
///
/// Every lane of the mask must come to the same operation, with the same mask.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    mask: Val<u32>,
    width: u32,
}

impl Lanes {
    /// All 32 lanes.
    #[must_use]
    pub fn all_lanes() -> Self {
        Self { mask: Val::constant(u32::MAX), width: 32 }
    }

    /// The lanes of a mask.
    #[must_use]
    pub fn of(mask: impl Operand<u32>) -> Self {
        Self { mask: mask.val(), width: 32 }
    }

    /// Limits shuffles to segments of this many lanes: 1, 2, 4, 8, 16 or 32.
    #[must_use]
    #[track_caller]
    pub fn width(mut self, width: u32) -> Self {
        with(|r| warp::check_width(r, width));
        self.width = width;
        self
    }

    #[track_caller]
    fn shuffle<R: Registers>(self, mode: Shuffle, value: R, lane: Val<u32>) -> R {
        let members = Members { mask: self.mask.raw(), width: self.width };
        value.each(&mut |ty, value| Val::from_raw(untyped::shuffle(mode, ty, value.raw(), lane.raw(), members)))
    }

    /// Value of the given lane; in a segment, the lane is counted from the segment's start.
    #[track_caller]
    pub fn shfl<R: Registers>(self, value: R, lane: impl Operand<u32>) -> R {
        self.shuffle(Shuffle::Idx, value, lane.val())
    }

    /// Value of the lane `delta` further down; the first `delta` lanes keep their own.
    #[track_caller]
    pub fn shfl_up<R: Registers>(self, value: R, delta: impl Operand<u32>) -> R {
        self.shuffle(Shuffle::Up, value, delta.val())
    }

    /// Value of the lane `delta` further up; the last `delta` lanes keep their own.
    #[track_caller]
    pub fn shfl_down<R: Registers>(self, value: R, delta: impl Operand<u32>) -> R {
        self.shuffle(Shuffle::Down, value, delta.val())
    }

    /// Value of the lane whose number differs in these bits (`__shfl_xor_sync`).
    #[track_caller]
    pub fn shfl_xor<R: Registers>(self, value: R, bits: impl Operand<u32>) -> R {
        self.shuffle(Shuffle::Bfly, value, bits.val())
    }

    /// Waits for the lanes, and makes their earlier writes visible to each other (`__syncwarp`).
    #[track_caller]
    pub fn sync(self) {
        with(|r| sync::warp_sync(r, self.mask.raw()));
    }

    /// Returns true if the condition holds in all of the lanes.
    #[must_use]
    #[track_caller]
    pub fn all(self, condition: impl Operand<bool>) -> Val<bool> {
        let condition = condition.val().raw();
        Val::from_raw(with(|r| warp::vote(r, Vote::All, condition, self.mask.raw())))
    }

    /// Returns true if the condition holds in any of the lanes.
    #[must_use]
    #[track_caller]
    pub fn any(self, condition: impl Operand<bool>) -> Val<bool> {
        let condition = condition.val().raw();
        Val::from_raw(with(|r| warp::vote(r, Vote::Any, condition, self.mask.raw())))
    }

    /// The mask of the lanes in which the condition holds.
    #[must_use]
    #[track_caller]
    pub fn ballot(self, condition: impl Operand<bool>) -> Val<u32> {
        let condition = condition.val().raw();
        Val::from_raw(with(|r| warp::vote(r, Vote::Ballot, condition, self.mask.raw())))
    }

    /// The mask of the lanes with the same value as this one; values of 32 or 64 bits.
    #[must_use]
    #[track_caller]
    pub fn match_any<T: Word>(self, value: impl Operand<T>) -> Val<u32> {
        let value = value.val().raw();
        Val::from_raw(untyped::match_any(T::TYPE, value, self.mask.raw()))
    }

    /// The mask if all lanes have the same value, else 0; and a predicate that is true in the first
    /// case.
    #[must_use]
    #[track_caller]
    pub fn match_all<T: Word>(self, value: impl Operand<T>) -> (Val<u32>, Val<bool>) {
        let value = value.val().raw();
        let (lanes, same) = untyped::match_all(T::TYPE, value, self.mask.raw());
        (Val::from_raw(lanes), Val::from_raw(same))
    }

    #[track_caller]
    fn redux<T: Redux>(self, combine: Combine, value: Val<T>) -> Val<T> {
        Val::from_raw(untyped::redux(combine, T::TYPE, value.raw(), self.mask.raw()))
    }

    /// The sum over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_add<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::Add, value)
    }

    /// The minimum over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_min<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::Min, value)
    }

    /// The maximum over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_max<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::Max, value)
    }

    /// The bitwise and over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_and<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::And, value)
    }

    /// The bitwise or over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_or<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::Or, value)
    }

    /// The bitwise exclusive or over the lanes, returned to all of them, in one instruction.
    #[must_use]
    #[track_caller]
    pub fn redux_xor<T: Redux>(self, value: Val<T>) -> Val<T> {
        self.redux(Combine::Xor, value)
    }

    /// True in exactly one of the lanes; sm_90.
    #[must_use]
    #[track_caller]
    pub fn elect(self) -> Val<bool> {
        Val::from_raw(with(|r| warp::elect(r, self.mask.raw())))
    }
}

/// Types that `redux.sync` reduces: 32-bit integers.
pub trait Redux: Word {}

impl Redux for u32 {}
impl Redux for i32 {}

/// [`Lanes::shfl`] over the whole warp.
#[track_caller]
pub fn shfl<R: Registers>(value: R, lane: impl Operand<u32>) -> R {
    Lanes::all_lanes().shfl(value, lane)
}

/// [`Lanes::shfl_up`] over the whole warp.
#[track_caller]
pub fn shfl_up<R: Registers>(value: R, delta: impl Operand<u32>) -> R {
    Lanes::all_lanes().shfl_up(value, delta)
}

/// [`Lanes::shfl_down`] over the whole warp.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, halving, kernel, lane_id, shfl_down};
/// let warp_sum = kernel("warp_sum", |data: Global<f32>| {
///     let mut sum = data.at(lane_id()).get();
///     for stride in halving(16) {
///         sum += shfl_down(sum, stride);
///     }
///     data.at(lane_id()).set(sum);
/// });
/// assert!(warp_sum.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[track_caller]
pub fn shfl_down<R: Registers>(value: R, delta: impl Operand<u32>) -> R {
    Lanes::all_lanes().shfl_down(value, delta)
}

/// [`Lanes::shfl_xor`] over the whole warp.
#[track_caller]
pub fn shfl_xor<R: Registers>(value: R, bits: impl Operand<u32>) -> R {
    Lanes::all_lanes().shfl_xor(value, bits)
}

/// [`Lanes::ballot`] over the whole warp.
#[must_use]
#[track_caller]
pub fn ballot(condition: impl Operand<bool>) -> Val<u32> {
    Lanes::all_lanes().ballot(condition)
}

/// [`Lanes::sync`] over the whole warp.
#[track_caller]
pub fn sync_warp() {
    Lanes::all_lanes().sync();
}

/// The lanes that are currently active. A hint only: nothing guarantees convergence.
#[must_use]
#[track_caller]
pub fn active_mask() -> Val<u32> {
    Val::from_raw(with(warp::active_mask))
}

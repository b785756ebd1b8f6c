//! Packed pairs of halves: two numbers per register and per instruction.

use half::{bf16, f16};

use super::{Operand, Val};
use crate::types::{Bf16x2, F16x2, Float, Scalar, ScalarFloat};
use crate::untyped;

/// A packed pair, [`F16x2`] or [`Bf16x2`].
pub trait Pair: Float {
    /// The type of each element.
    type Half: ScalarFloat;
}

impl Pair for F16x2 {
    type Half = f16;
}

impl Pair for Bf16x2 {
    type Half = bf16;
}

/// `f16` or `bf16`: types that can be packed in pairs.
pub trait HalfOfPair: ScalarFloat {
    /// The packed type.
    type Pair: Pair<Half = Self>;
}

impl HalfOfPair for f16 {
    type Pair = F16x2;
}

impl HalfOfPair for bf16 {
    type Pair = Bf16x2;
}

impl<P: Pair> Val<P> {
    /// Two halves, the first in the low bits.
    #[track_caller]
    #[must_use]
    pub fn pack(low: impl Operand<P::Half>, high: impl Operand<P::Half>) -> Self {
        let halves = [low.val().raw(), high.val().raw()];
        Self::from_raw(untyped::pack(P::Half::TYPE, P::TYPE, halves))
    }

    /// The same half twice.
    #[track_caller]
    #[must_use]
    pub fn splat(half: impl Operand<P::Half>) -> Self {
        let half = half.val();
        Self::pack(half, half)
    }

    /// Two `f32` rounded to nearest even, by one instruction.
    #[track_caller]
    #[must_use]
    pub fn from_f32(low: impl Operand<f32>, high: impl Operand<f32>) -> Self {
        let (low, high) = (low.val().raw(), high.val().raw());
        Self::from_raw(untyped::pair_from_f32(P::TYPE, low, high))
    }

    /// Both halves, the low one first.
    #[track_caller]
    #[must_use]
    pub fn unpack(self) -> [Val<P::Half>; 2] {
        untyped::unpack(P::TYPE, P::Half::TYPE, self.raw()).map(Val::from_raw)
    }

    /// Both halves as `f32`, which is exact.
    #[track_caller]
    #[must_use]
    pub fn to_f32(self) -> [Val<f32>; 2] {
        self.unpack().map(Val::cast)
    }
}

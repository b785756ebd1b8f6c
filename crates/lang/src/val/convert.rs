//! Conversions: all explicit.

use super::Val;
use crate::intrinsics::convert;
use crate::recorder::with;
use crate::types::{Scalar, ScalarFloat};

/// How a result that does not fit exactly is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// To the nearest, ties to even.
    NearestEven,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

impl<T: Scalar> Val<T> {
    /// The value in another type, as Rust's `as`: integers wrap or extend, floats become integers towards zero and
    /// saturating, and round to nearest even otherwise; `bool` is 0 or 1, and anything but zero is `true`.
    ///
    /// NOTE: a NaN becomes 0, but `1 << 63` when the source is `f64` or the result has 64 bits (PTX ISA, `cvt`).
    #[track_caller]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Val<U> {
        Val::from_raw(with(|r| convert::convert(r, T::TYPE, U::TYPE, self.raw(), None)))
    }

    /// Like [`Self::cast`], with a rounding mode where the result is not exact.
    #[track_caller]
    #[must_use]
    pub fn cast_rounded<U: Scalar>(self, rounding: Rounding) -> Val<U> {
        Val::from_raw(with(|r| convert::convert(r, T::TYPE, U::TYPE, self.raw(), Some(rounding))))
    }

    /// The same bits as another type of the same width.
    #[track_caller]
    #[must_use]
    pub fn bitcast<U: Scalar>(self) -> Val<U> {
        const { assert!(T::TYPE.bits() == U::TYPE.bits(), "a bitcast keeps the width") };
        Val::from_raw(with(|r| convert::bitcast(r, T::TYPE, U::TYPE, self.raw())))
    }
}

impl<T: ScalarFloat> Val<T> {
    /// The integral value that the rounding mode chooses, in the same type.
    #[track_caller]
    #[must_use]
    pub fn round(self, rounding: Rounding) -> Self {
        Self::from_raw(with(|r| convert::round(r, T::TYPE, self.raw(), rounding)))
    }
}

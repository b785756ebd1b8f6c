//! Explicit conversions.

use super::Val;
use crate::intrinsics::f8::Overflow;
use crate::types::{EightBitFloat, Scalar, ScalarFloat};
use crate::untyped;

/// Rounding mode of an inexact result.
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
    /// The value in another type, as Rust's `as`: integers wrap or extend, floats become integers
    /// towards zero and saturating, and round to nearest even otherwise; `bool` is 0 or 1, and
    /// anything but zero is `true`. To an [`EightBitFloat`] it saturates, infinities included:
    /// [`Val::cast_unsaturated`] does not.
    ///
    /// NOTE: a NaN becomes 0, but `1 << 63` when the source is `f64` or the result has 64 bits (PTX
    /// ISA, `cvt`).
    #[track_caller]
    #[must_use]
    pub fn cast<U: Scalar>(self) -> Val<U> {
        Val::from_raw(untyped::convert(T::TYPE, U::TYPE, self.raw(), None))
    }

    /// Like [`Self::cast`], with a rounding mode for inexact results.
    #[track_caller]
    #[must_use]
    pub fn cast_rounded<U: Scalar>(self, rounding: Rounding) -> Val<U> {
        Val::from_raw(untyped::convert(T::TYPE, U::TYPE, self.raw(), Some(rounding)))
    }

    /// The same bits as another type of the same width.
    #[track_caller]
    #[must_use]
    pub fn bitcast<U: Scalar>(self) -> Val<U> {
        const { assert!(T::TYPE.bits() == U::TYPE.bits(), "a bitcast keeps the width") };
        Val::from_raw(untyped::bitcast(T::TYPE, U::TYPE, self.raw()))
    }
}

impl Val<f32> {
    /// The nearest number of an 8-bit format, ties to even. Results above the largest number become
    /// infinity, or NaN where the format has none.
    ///
    /// ```
    /// use warpfold_lang::{Arch, F8E5M2, Global, Target, kernel, thread_idx};
    /// let narrow = kernel("narrow", |input: Global<f32>, output: Global<F8E5M2>| {
    ///     let i = thread_idx().x;
    ///     output.at(i).set(input.at(i).get().cast_unsaturated::<F8E5M2>());
    /// });
    /// assert!(narrow.ptx(&Target::new(Arch::SM_90A, (8, 0))).unwrap().contains("cvt.rn.satfinite.e5m2x2.f32"));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cast_unsaturated<F: EightBitFloat>(self) -> Val<F> {
        Val::from_raw(untyped::encode(F::FORMAT, self.raw(), Overflow::Leave))
    }
}

impl Val<u32> {
    /// The 8-bit floats in the four bytes of a word, the lowest first: fewer instructions than four
    /// casts.
    ///
    /// ```
    /// use warpfold_lang::{Arch, F8E4M3, Global, Target, Val, kernel, thread_idx};
    /// let double = kernel("double", |data: Global<F8E4M3>| {
    ///     let four = data.at(thread_idx().x * 4).reinterpret::<u32>();
    ///     let values = four.get().unpack_eight_bits::<F8E4M3>();
    ///     four.set(Val::pack_eight_bits::<F8E4M3>(values.map(|x| x * 2.0)));
    /// });
    /// assert!(double.ptx(&Target::new(Arch::SM_90A, (8, 0))).unwrap().contains("cvt.rn.f16x2.e4m3x2"));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn unpack_eight_bits<F: EightBitFloat>(self) -> [Val<f32>; 4] {
        untyped::decode_word(F::FORMAT, self.raw()).map(Val::from_raw)
    }

    /// Packs four numbers into the bytes of a word, the first one lowest, with the results of four
    /// casts.
    #[track_caller]
    #[must_use]
    pub fn pack_eight_bits<F: EightBitFloat>(values: [Val<f32>; 4]) -> Self {
        Self::from_raw(untyped::encode_word(F::FORMAT, values.map(Val::raw)))
    }
}

impl<T: ScalarFloat> Val<T> {
    /// The integral value that the rounding mode chooses, in the same type.
    #[track_caller]
    #[must_use]
    pub fn round(self, rounding: Rounding) -> Self {
        Self::from_raw(untyped::round(T::TYPE, self.raw(), rounding))
    }
}

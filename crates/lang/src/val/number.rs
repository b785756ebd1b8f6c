//! Comparison, selection, minimum and maximum, multiply-add.

use super::operators::binary;
use super::{Operand, Val};
use crate::intrinsics::{Binary, Comparison};
use crate::types::{Integer, Number, Ordered, Scalar, ScalarFloat, Signed};
use crate::untyped;

macro_rules! comparisons {
    ($($(#[$doc:meta])* $method:ident $comparison:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $method(self, right: impl Operand<T>) -> Val<bool> {
            let right = right.val();
            Val::from_raw(untyped::compare(Comparison::$comparison, T::TYPE, self.raw(), right.raw()))
        }
    )*};
}

/// Comparisons with Rust's semantics: with a NaN all are false but `ne`.
#[allow(clippy::should_implement_trait, reason = "a comparison gives a `Val<bool>`, which Rust's traits cannot")]
impl<T: Ordered> Val<T> {
    comparisons! {
        /// `self == right`
        eq Eq;
        /// `self != right`
        ne Ne;
        /// `self < right`
        lt Lt;
        /// `self <= right`
        le Le;
        /// `self > right`
        gt Gt;
        /// `self >= right`
        ge Ge;
    }
}

#[allow(clippy::should_implement_trait, reason = "a comparison gives a `Val<bool>`, which Rust's traits cannot")]
impl Val<bool> {
    /// Returns true if both are true or both are false.
    #[track_caller]
    pub fn eq(self, right: impl Operand<bool>) -> Self {
        let right = right.val();
        Self::from_raw(untyped::compare(Comparison::Eq, bool::TYPE, self.raw(), right.raw()))
    }

    /// `yes` where this is true, else `no`; both are computed.
    ///
    /// ```
    /// # use warpfold_lang::{Global, Val, kernel, Target, Arch};
    /// let relu = kernel("relu", |x: Global<f32>| x.set(x.get().gt(0.0).select(x.get(), 0.0_f32)));
    /// # relu.build(&Target::new(Arch::SM_80, (8, 0))).unwrap();
    /// ```
    #[track_caller]
    pub fn select<T: Scalar>(self, yes: impl Operand<T>, no: impl Operand<T>) -> Val<T> {
        let (yes, no) = (yes.val(), no.val());
        Val::from_raw(untyped::select(T::TYPE, self.raw(), yes.raw(), no.raw()))
    }
}

impl<T: ScalarFloat> Val<T> {
    /// Returns true for NaN.
    #[track_caller]
    #[must_use]
    pub fn is_nan(self) -> Val<bool> {
        Val::from_raw(untyped::unordered(T::TYPE, self.raw(), self.raw()))
    }

    /// Returns true for positive or negative infinity.
    #[track_caller]
    #[must_use]
    pub fn is_inf(self) -> Val<bool> {
        self.abs().eq(Val::constant(T::HIGHEST))
    }

    /// Returns true for values that are neither infinite nor NaN.
    #[track_caller]
    #[must_use]
    pub fn is_finite(self) -> Val<bool> {
        self.abs().lt(Val::constant(T::HIGHEST))
    }
}

impl<T: Number> Val<T> {
    /// The smaller value, or the number if one operand is NaN (IEEE 754-2008 `minNum`).
    #[track_caller]
    #[must_use]
    pub fn min(self, right: impl Operand<T>) -> Self {
        binary(Binary::Min, self, right.val())
    }

    /// The larger value, or the number if one operand is NaN (IEEE 754-2008 `maxNum`).
    #[track_caller]
    #[must_use]
    pub fn max(self, right: impl Operand<T>) -> Self {
        binary(Binary::Max, self, right.val())
    }

    /// The smaller value, NaN if either is NaN.
    #[track_caller]
    #[must_use]
    pub fn min_nan(self, right: impl Operand<T>) -> Self {
        binary(Binary::MinNan, self, right.val())
    }

    /// The larger value, NaN if either is NaN.
    #[track_caller]
    #[must_use]
    pub fn max_nan(self, right: impl Operand<T>) -> Self {
        binary(Binary::MaxNan, self, right.val())
    }

    /// `self * factor + addend`: rounded once for floats, wrapping for integers.
    #[track_caller]
    #[must_use]
    pub fn mul_add(self, factor: impl Operand<T>, addend: impl Operand<T>) -> Self {
        let (factor, addend) = (factor.val(), addend.val());
        Self::from_raw(untyped::fma(T::TYPE, self.raw(), factor.raw(), addend.raw()))
    }
}

impl<T: Signed> Val<T> {
    /// `|self|`; the smallest integer stays itself.
    #[track_caller]
    #[must_use]
    pub fn abs(self) -> Self {
        Self::from_raw(untyped::abs(T::TYPE, self.raw()))
    }
}

impl<T: Signed + Ordered> Val<T> {
    /// 1 with the sign of the value; zeros and NaN stay as they are.
    #[track_caller]
    #[must_use]
    pub fn sign(self) -> Self {
        let [zero, one] = [T::ZERO, T::ONE].map(Val::constant);
        self.gt(zero).select(one, self.lt(zero).select(zero - one, self))
    }
}

impl<T: Integer> Val<T> {
    /// The upper half of the double-width product, for 16 bits and more.
    #[track_caller]
    #[must_use]
    pub fn mul_hi(self, right: impl Operand<T>) -> Self {
        let right = right.val();
        Self::from_raw(untyped::mul_hi(T::TYPE, self.raw(), right.raw()))
    }

    /// `self / divisor` rounded up. The sum `self + divisor - 1` must fit the type.
    #[track_caller]
    #[must_use]
    pub fn div_ceil(self, divisor: impl Operand<T>) -> Self {
        let divisor = divisor.val();
        (self + (divisor - Val::constant(T::ONE))) / divisor
    }
}

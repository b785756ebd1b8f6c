//! Mathematical functions of `f32` and `f64`, built from arithmetic and PTX's approximations
//! without any library.
//!
//! Errors are in units in the last place of the exact result, over all inputs unless said. NaN
//! gives NaN, and the functions' limits, zeros and signs of zero are those of C's library. What
//! uses no approximation gives the same bits on every device. Halves compute in `f32`:
//! `x.cast::<f32>().exp().cast::<f16>()`.
//!
//! Each family is written once for both types, in [`exponential`], [`logarithm`], [`power`] and
//! [`circle`], over the tables of [`single`] and [`double`]; `f32` has faster forms of some of its
//! own. The coefficients are minimax (Remez), with the error that stands beside them; what the
//! functions promise is checked by `tests/all/accuracy.rs` and by the conformance suite.

mod circle;
mod double;
mod exponential;
mod logarithm;
mod power;
mod reduction;
mod remainder;
mod single;
mod twofold;

use super::{Operand, Val};
use crate::intrinsics::math::Function;
use crate::recorder::Raw;
use crate::types::{Float, ScalarFloat, Type, WideFloat};
use crate::{Rounding, untyped};

/// Constants of the math functions for `f32` and `f64`, and the functions that differ between them.
///
/// [`WideFloat::Math`] leads here: were it a supertrait, its names would stand in the way of those
/// that users give to functions of their own traits.
pub trait Functions: WideFloat {
    /// Bits of the significand.
    const DIGITS: u32;
    /// The exponent of the smallest normal number.
    const MIN_EXPONENT: i32;
    /// The largest number whose exponential is finite.
    const EXP_OVERFLOW: f64;
    /// From here on `e^x` is infinite, of its negative zero, and products overflow by themselves up
    /// to here.
    const EXP_LIMIT: f64;
    /// From here on `tanh(x)` rounds to 1, and `sinh(x)` to `e^x / 2`.
    const TANH_LIMIT: f64;
    /// From here on angles are reduced with as many digits of π as they need.
    const ANGLE_LIMIT: f64;
    /// `(e^r - 1 - r) / r²` for |r| up to ln(2) / 2.
    const EXP: &'static [Self];
    /// `(ln((1 + s) / (1 - s)) - 2s) / s³` as a polynomial in `s²`, for |s| up to 3 - √8.
    const LN: &'static [Self];
    /// The same after its constant term, 2/3.
    const LN_TAIL: &'static [Self];
    /// `(sin(r) / r - 1) / r²` in `r²`, for |r| up to π/4.
    const SIN: &'static [Self];
    /// `(cos(r) - 1 + r²/2) / r⁴` in `r²`, for |r| up to π/4.
    const COS: &'static [Self];
    /// `(atan(x) / x - 1) / x²` in `x²`, for |x| up to tan(π/8).
    const ATAN: &'static [Self];
    /// `(asin(x) / x - 1) / x²` in `x²`, for |x| up to 1/2.
    const ASIN: &'static [Self];

    /// The nearest constant.
    fn real(value: f64) -> Val<Self>;
    /// The sum of three `f64` as a sum of three of this type, each what the ones before it lack.
    fn parts(sum: [f64; 3]) -> [Val<Self>; 3];
    /// `2^exponent`, a normal number.
    fn power_of_two(exponent: Val<i32>) -> Val<Self>;
    /// The nearest integer of a magnitude up to `2^(DIGITS - 3)`, and its lowest 32 bits. Of
    /// others, anything.
    fn nearest_integer(x: Val<Self>) -> (Val<Self>, Val<i32>);
    /// `x = 2^exponent * fraction` with a fraction in [√½, √2), for a normal positive `x`.
    fn split(x: Val<Self>) -> (Val<i32>, Val<Self>);
    /// The significand of a normal number as an integer, and the exponent of its last place.
    fn integer_significand(x: Val<Self>) -> (Val<u64>, Val<i32>);

    /// See [`Val::exp`].
    fn exp(x: Val<Self>) -> Val<Self>;
    /// See [`Val::exp2`].
    fn exp2(x: Val<Self>) -> Val<Self>;
    /// See [`Val::ln`].
    fn ln(x: Val<Self>) -> Val<Self>;
    /// See [`Val::tanh`].
    fn tanh(x: Val<Self>) -> Val<Self>;
    /// See [`Val::sigmoid`].
    fn sigmoid(x: Val<Self>) -> Val<Self>;
    /// See [`Val::erf`].
    fn erf(x: Val<Self>) -> Val<Self>;
}

/// Sums of `f64` that hold constants to some 160 bits.
mod constants {
    use std::f64::consts;

    pub(super) const LN_2: [f64; 3] = [consts::LN_2, 2.319_046_813_846_299_6e-17, 5.707_708_438_416_212e-34];
    pub(super) const LOG2_E: [f64; 3] = [consts::LOG2_E, 2.035_527_374_093_103_3e-17, -1.061_465_995_611_725_8e-33];
    pub(super) const LOG10_2: [f64; 3] = [consts::LOG10_2, -2.803_728_127_785_170_4e-18, 5.471_948_402_314_639e-35];
    pub(super) const LOG10_E: [f64; 3] = [consts::LOG10_E, 1.098_319_650_216_765e-17, 3.717_181_233_110_959e-34];
    pub(super) const HALF_PI: [f64; 3] = [consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];
    pub(super) const THIRD: [f64; 3] = [1.0 / 3.0, 1.850_371_707_708_594e-17, 1.027_162_637_006_525_7e-33];
    pub(super) const TWO_THIRDS: [f64; 3] =
        [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17, 2.054_325_274_013_051_5e-33];
}

#[track_caller]
fn function<T: Float>(function: Function, a: Val<T>) -> Val<T> {
    Val::from_raw(untyped::function(function, T::TYPE, a.raw()))
}

/// Applies an algorithm to a value of the type that it knows as [`Functions`]: in a function that
/// gets the type as a value, so that the algorithm is compiled in this crate alone.
macro_rules! by {
    ($algorithm:path, $x:expr) => {{
        #[track_caller]
        #[inline(never)]
        fn of_type(is_double: bool, x: Raw) -> Raw {
            if is_double {
                $algorithm(Val::<f64>::from_raw(x)).raw()
            } else {
                $algorithm(Val::<f32>::from_raw(x)).raw()
            }
        }
        Val::from_raw(of_type(T::TYPE == Type::F64, $x.raw()))
    }};
}

/// The same for two.
macro_rules! by_both {
    ($algorithm:path, $x:expr, $y:expr) => {{
        #[track_caller]
        #[inline(never)]
        fn of_type(is_double: bool, x: Raw, y: Raw) -> Raw {
            if is_double {
                $algorithm(Val::<f64>::from_raw(x), Val::from_raw(y)).raw()
            } else {
                $algorithm(Val::<f32>::from_raw(x), Val::from_raw(y)).raw()
            }
        }
        Val::from_raw(of_type(T::TYPE == Type::F64, $x.raw(), $y.val().raw()))
    }};
}

/// A polynomial with the lowest coefficient first.
#[track_caller]
fn polynomial<T: Float>(x: Val<T>, coefficients: &[T]) -> Val<T> {
    let (highest, lower) = coefficients.split_last().expect("a polynomial has a coefficient");
    let constant = |coefficient: &T| Val::constant(*coefficient);
    lower.iter().rev().fold(constant(highest), |sum, coefficient| sum.mul_add(x, constant(coefficient)))
}

impl<T: WideFloat> Val<T> {
    /// The square root, correctly rounded.
    #[track_caller]
    #[must_use]
    pub fn sqrt(self) -> Self {
        function(Function::Sqrt, self)
    }

    /// `1 / self`, correctly rounded.
    #[track_caller]
    #[must_use]
    pub fn recip(self) -> Self {
        function(Function::Rcp, self)
    }

    /// `1 / sqrt(self)` with a relative error of at most 2^-22.9 (`f32`; the PTX ISA states none
    /// for `f64`).
    #[track_caller]
    #[must_use]
    pub fn rsqrt(self) -> Self {
        function(Function::RsqrtApprox, self)
    }

    /// The magnitude of this and the sign of the other.
    #[track_caller]
    #[must_use]
    pub fn copysign(self, sign: impl Operand<T>) -> Self {
        let sign = sign.val();
        Self::from_raw(untyped::copysign(T::TYPE, self.raw(), sign.raw()))
    }

    /// `e^self`: at most 5 ulp (`f32`; of 2^-149 where the result is subnormal), 1.5 ulp
    /// (`f64`).
    #[track_caller]
    #[must_use]
    pub fn exp(self) -> Self {
        by!(Functions::exp, self)
    }

    /// `2^self`: at most 2 ulp (`f32`), 1.5 ulp (`f64`), exact for integers.
    #[track_caller]
    #[must_use]
    pub fn exp2(self) -> Self {
        by!(Functions::exp2, self)
    }

    /// `e^self - 1`, also where that is small: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn expm1(self) -> Self {
        by!(exponential::expm1, self)
    }

    /// The natural logarithm: at most 1 ulp.
    #[track_caller]
    #[must_use]
    pub fn ln(self) -> Self {
        by!(Functions::ln, self)
    }

    /// The logarithm to base 2: at most 1 ulp, exact for powers of 2.
    #[track_caller]
    #[must_use]
    pub fn log2(self) -> Self {
        by!(logarithm::log2, self)
    }

    /// The logarithm to base 10: at most 1 ulp.
    #[track_caller]
    #[must_use]
    pub fn log10(self) -> Self {
        by!(logarithm::log10, self)
    }

    /// `ln(1 + self)`, also where `self` is small: at most 1.5 ulp.
    #[track_caller]
    #[must_use]
    pub fn log1p(self) -> Self {
        by!(logarithm::log1p, self)
    }

    /// `self^exponent` with the special cases of C's `pow` (`x^0` and `1^y` are 1 even for NaN): at
    /// most 1 ulp.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Param, Target, Val, WideFloat, kernel};
    /// /// A kernel that is written once for both types.
    /// fn gamma<T: WideFloat + Param>(pixel: Global<T>, exponent: Val<T>) {
    ///     pixel.set(pixel.get().pow(exponent).tanh());
    /// }
    /// let target = Target::new(Arch::SM_80, (7, 0));
    /// assert!(kernel("single", gamma::<f32>).build(&target).is_ok());
    /// assert!(kernel("double", gamma::<f64>).build(&target).is_ok());
    /// ```
    #[track_caller]
    #[must_use]
    pub fn pow(self, exponent: impl Operand<T>) -> Self {
        by_both!(power::pow, self, exponent)
    }

    /// The cube root: at most 1 ulp.
    #[track_caller]
    #[must_use]
    pub fn cbrt(self) -> Self {
        by!(power::cbrt, self)
    }

    /// The hyperbolic sine: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn sinh(self) -> Self {
        by!(exponential::sinh, self)
    }

    /// The hyperbolic cosine: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn cosh(self) -> Self {
        by!(exponential::cosh, self)
    }

    /// The hyperbolic tangent: at most 4 ulp (`f32`), 2.5 ulp (`f64`).
    #[track_caller]
    #[must_use]
    pub fn tanh(self) -> Self {
        by!(Functions::tanh, self)
    }

    /// `1 / (1 + e^-self)`: at most 8 ulp (`f32`; results below 2^-126 may be 0), 2 ulp (`f64`).
    #[track_caller]
    #[must_use]
    pub fn sigmoid(self) -> Self {
        by!(Functions::sigmoid, self)
    }

    /// The error function: at most 2 ulp (`f32`), 1 ulp (`f64`).
    #[track_caller]
    #[must_use]
    pub fn erf(self) -> Self {
        by!(Functions::erf, self)
    }

    /// The sine of an angle in radians, whatever its size: at most 1 ulp.
    ///
    /// Angles beyond 2^16 (`f32`) or 2^30 (`f64`) take a branch that multiplies by as many bits of
    /// 2/π as they need (Payne & Hanek 1983); others subtract a multiple of π/2 in three parts
    /// (Cody & Waite 1980).
    #[track_caller]
    #[must_use]
    pub fn sin(self) -> Self {
        by!(circle::sin, self)
    }

    /// The cosine: as [`Self::sin`].
    #[track_caller]
    #[must_use]
    pub fn cos(self) -> Self {
        by!(circle::cos, self)
    }

    /// Sine and cosine by one reduction: as [`Self::sin`].
    #[track_caller]
    #[must_use]
    pub fn sin_cos(self) -> (Self, Self) {
        #[track_caller]
        #[inline(never)]
        fn of_type(is_double: bool, x: Raw) -> (Raw, Raw) {
            if is_double {
                let (sine, cosine) = circle::sin_cos::<f64>(Val::from_raw(x));
                (sine.raw(), cosine.raw())
            } else {
                let (sine, cosine) = circle::sin_cos::<f32>(Val::from_raw(x));
                (sine.raw(), cosine.raw())
            }
        }
        let (sine, cosine) = of_type(T::TYPE == Type::F64, self.raw());
        (Val::from_raw(sine), Val::from_raw(cosine))
    }

    /// The tangent: at most 2 ulp, reduced as [`Self::sin`].
    #[track_caller]
    #[must_use]
    pub fn tan(self) -> Self {
        by!(circle::tan, self)
    }

    /// The angle in [-π/2, π/2] with this sine: at most 2.5 ulp.
    #[track_caller]
    #[must_use]
    pub fn asin(self) -> Self {
        by!(circle::asin, self)
    }

    /// The angle in [0, π] with this cosine: at most 1.5 ulp.
    #[track_caller]
    #[must_use]
    pub fn acos(self) -> Self {
        by!(circle::acos, self)
    }

    /// The angle in [-π/2, π/2] with this tangent: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn atan(self) -> Self {
        by!(circle::atan, self)
    }

    /// Exact remainder of a division by `divisor` whose quotient is rounded towards zero: C's
    /// `fmod`, with the sign of `self`.
    #[track_caller]
    #[must_use]
    pub fn fmod(self, divisor: impl Operand<T>) -> Self {
        by_both!(remainder::fmod, self, divisor)
    }
}

impl<T: ScalarFloat> Val<T> {
    /// The next integral value not above it.
    #[track_caller]
    #[must_use]
    pub fn floor(self) -> Self {
        self.round(Rounding::Down)
    }

    /// The next integral value not below it.
    #[track_caller]
    #[must_use]
    pub fn ceil(self) -> Self {
        self.round(Rounding::Up)
    }
}

impl<T: Float> Val<T> {
    /// The hyperbolic tangent as one instruction: relative error at most 2^-11 (`f32`), absolute
    /// error at most 2^-10.987 (`f16`) or 2^-8 (`bf16`, sm_90). Not for `f64`.
    #[track_caller]
    #[must_use]
    pub fn tanh_approx(self) -> Self {
        function(Function::TanhApprox, self)
    }

    /// `2^self` as one instruction: at most 2 ulp (`f32`), relative error at most 2^-9.9 (`f16`) or
    /// 2^-7 (`bf16`, sm_90). Not for `f64`.
    #[track_caller]
    #[must_use]
    pub fn exp2_approx(self) -> Self {
        function(Function::Ex2Approx, self)
    }
}

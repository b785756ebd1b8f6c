//! Mathematical functions of `f32` (and roots of `f64`), built from PTX's approximations without any library.
//!
//! Errors are in units in the last place of the correctly rounded result, over all inputs unless said; the accuracy
//! test evaluates the emitted PTX with the worst errors that the PTX ISA allows its instructions. NaN gives NaN.
//! Halves compute in `f32`: `x.cast::<f32>().exp().cast::<f16>()`. `f64` has no exponentials.

use super::{Operand, Val};
use crate::Rounding;
use crate::intrinsics::math::{self, Function};
use crate::recorder::with;
use crate::types::{Float, WideFloat};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// What [`LOG2_E`] lacks.
#[allow(clippy::cast_possible_truncation, reason = "the leading bits of a small rest")]
const LOG2_E_REST: f32 = (std::f64::consts::LOG2_E - LOG2_E as f64) as f32;
const LN_2: f32 = std::f32::consts::LN_2;

#[track_caller]
fn function<T: Float>(function: Function, a: Val<T>) -> Val<T> {
    Val::from_raw(with(|r| math::function(r, function, T::TYPE, a.raw())))
}

/// A polynomial with the lowest coefficient first.
#[track_caller]
fn polynomial(x: Val<f32>, coefficients: &[f32]) -> Val<f32> {
    let (highest, lower) = coefficients.split_last().expect("a polynomial has a coefficient");
    lower.iter().rev().fold(Val::constant(*highest), |sum, coefficient| sum.mul_add(x, *coefficient))
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

    /// `1 / sqrt(self)` with a relative error of at most 2^-22.9 (`f32`; the PTX ISA states none for `f64`).
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
        Self::from_raw(with(|r| math::copysign(r, T::TYPE, self.raw(), sign.raw())))
    }
}

impl Val<f32> {
    /// `e^self`: at most 5 ulp (of 2^-149 where the result is subnormal).
    #[track_caller]
    #[must_use]
    pub fn exp(self) -> Self {
        // Beyond these bounds the result is infinite or zero, and the products below stay finite.
        let x = self.min_nan(89.0).max_nan(-105.0);
        let high = x * LOG2_E;
        let low = x.mul_add(LOG2_E_REST, x.mul_add(LOG2_E, -high));
        // 2^(high + low) = 2^high * (1 + low * ln 2) for a small `low`.
        high.exp2() * low.mul_add(LN_2, 1.0)
    }

    /// `2^self`: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn exp2(self) -> Self {
        function(Function::Ex2Approx, self)
    }

    /// The natural logarithm: at most 1 ulp.
    #[track_caller]
    #[must_use]
    pub fn ln(self) -> Self {
        /// ln(1 + f) = f + f² p(f) for f in [-1/3, 1/3], relative error 2^-30.
        const P: [f32; 10] = [
            -0.5,
            3.333_333_4e-1,
            -2.499_982_7e-1,
            1.999_968_1e-1,
            -1.667_929_6e-1,
            1.430_271_7e-1,
            -1.219_941_8e-1,
            1.076_955_6e-1,
            -1.283_011e-1,
            1.195_846e-1,
        ];
        const TWO_THIRDS: i32 = 0x3f2a_aaab;
        let is_subnormal = self.lt(f32::MIN_POSITIVE);
        let x = is_subnormal.select(self * 8_388_608.0, self).bitcast::<i32>();
        // x = 2^exponent * (1 + f)
        let exponent_bits = (x - TWO_THIRDS) & (0xff80_0000_u32.cast_signed());
        let f = (x - exponent_bits).bitcast::<f32>() - 1.0;
        let scale = is_subnormal.select::<f32>(-23.0, 0.0);
        let exponent = exponent_bits.cast::<f32>().mul_add(1.0 / 8_388_608.0, scale);
        let fraction = (f * f).mul_add(polynomial(f, &P), f);
        let result = exponent.mul_add(LN_2, fraction);
        // Zero, negative numbers, infinity and NaN: the instruction knows them.
        let is_ordinary = self.gt(0.0) & self.lt(f32::INFINITY);
        is_ordinary.select(result, function(Function::Lg2Approx, self))
    }

    /// The hyperbolic tangent: at most 4 ulp.
    #[track_caller]
    #[must_use]
    pub fn tanh(self) -> Self {
        /// tanh(x) = x + x³ p(x²) for |x| below 0.6, relative error 2^-28.
        const P: [f32; 5] = [-3.333_33e-1, 1.333_193_6e-1, -5.378_471_7e-2, 2.079_862_5e-2, -5.897_966_7e-3];
        let magnitude = self.abs();
        // tanh(x) = 1 - 2 / (e^2x + 1); an infinite exponential gives 1.
        let exponential = (magnitude * (2.0 * LOG2_E)).exp2();
        let large = (exponential + 1.0).recip_approx().mul_add(-2.0, 1.0);
        let square = self * self;
        let small = (square * polynomial(square, &P)).mul_add(self, self);
        magnitude.lt(0.6).select(small, large.copysign(self))
    }

    /// `1 / (1 + e^-self)`: at most 8 ulp; results below 2^-126 may be 0.
    #[track_caller]
    #[must_use]
    pub fn sigmoid(self) -> Self {
        ((-self).exp() + 1.0).recip_approx()
    }

    /// The error function: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn erf(self) -> Self {
        /// erf(x) = x + x p(x²) for |x| up to 1, relative error 2^-29.
        const SMALL: [f32; 7] = [
            1.283_791_7e-1,
            -3.761_262_6e-1,
            1.128_357_9e-1,
            -2.685_334_7e-2,
            5.187_162e-3,
            -7.997_853e-4,
            7.806_903e-5,
        ];
        /// log2(1 - erf(x)) = p(x) for x in [1, 4], relative error of erf 2^-35.
        const LARGE: [f32; 8] = [
            2.719_015_5e-4,
            -1.629_639_9,
            -9.135_383_4e-1,
            -1.564_197_5e-1,
            3.637_062e-2,
            -6.066_853e-3,
            6.368_907_6e-4,
            -3.130_135e-5,
        ];
        // erf rounds to 1 from here on.
        let magnitude = self.abs().min_nan(4.0);
        let large = -(polynomial(magnitude, &LARGE).exp2() - 1.0);
        let square = self * self;
        let small = polynomial(square, &SMALL).mul_add(self, self);
        magnitude.lt(1.0).select(small, large.copysign(self))
    }

    /// `e^self` by one product and one approximation: relative error at most 2^-22 + |self| 2^-23.
    #[track_caller]
    #[must_use]
    pub fn exp_approx(self) -> Self {
        (self * LOG2_E).exp2()
    }

    /// The logarithm to base 2: absolute error at most 2^-22 between 0.5 and 2, relative error at most 2^-22 elsewhere.
    #[track_caller]
    #[must_use]
    pub fn log2_approx(self) -> Self {
        function(Function::Lg2Approx, self)
    }

    /// `1 / self`: at most 1 ulp.
    #[track_caller]
    #[must_use]
    pub fn recip_approx(self) -> Self {
        function(Function::RcpApprox, self)
    }

    /// `self / divisor`: at most 2 ulp.
    #[track_caller]
    #[must_use]
    pub fn div_approx(self, divisor: impl Operand<f32>) -> Self {
        let divisor = divisor.val();
        Self::from_raw(with(|r| math::div_full(r, self.raw(), divisor.raw())))
    }

    /// The square root: relative error at most 2^-23.
    #[track_caller]
    #[must_use]
    pub fn sqrt_approx(self) -> Self {
        function(Function::SqrtApprox, self)
    }

    /// The sine: absolute error at most 2^-20.5 for |self| up to 2π, 2^-14.7 up to 100π, none stated beyond.
    #[track_caller]
    #[must_use]
    pub fn sin_approx(self) -> Self {
        function(Function::SinApprox, self)
    }

    /// The cosine: absolute error as [`Self::sin_approx`].
    #[track_caller]
    #[must_use]
    pub fn cos_approx(self) -> Self {
        function(Function::CosApprox, self)
    }

    /// The nearest integral value not above.
    #[track_caller]
    #[must_use]
    pub fn floor(self) -> Self {
        self.round(Rounding::Down)
    }

    /// The nearest integral value not below.
    #[track_caller]
    #[must_use]
    pub fn ceil(self) -> Self {
        self.round(Rounding::Up)
    }
}

impl<T: Float> Val<T> {
    /// The hyperbolic tangent as one instruction: relative error at most 2^-11 (`f32`), absolute error at most
    /// 2^-10.987 (`f16`) or 2^-8 (`bf16`, sm_90). Not for `f64`.
    #[track_caller]
    #[must_use]
    pub fn tanh_approx(self) -> Self {
        function(Function::TanhApprox, self)
    }

    /// `2^self` as one instruction: at most 2 ulp (`f32`), relative error at most 2^-9.9 (`f16`) or 2^-7 (`bf16`,
    /// sm_90). Not for `f64`.
    #[track_caller]
    #[must_use]
    pub fn exp2_approx(self) -> Self {
        function(Function::Ex2Approx, self)
    }
}

//! `f32`: tables, functions of its bit layout, and forms that use PTX's approximate instructions.

use super::{Functions, function, polynomial};
use crate::intrinsics::math::{self, Function};
use crate::recorder::with;
use crate::{Operand, Val};

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The low-order part of log2(e) that [`LOG2_E`] lacks.
#[allow(clippy::cast_possible_truncation, reason = "the leading bits of a small rest")]
const LOG2_E_REST: f32 = (std::f64::consts::LOG2_E - LOG2_E as f64) as f32;
const LN_2: f32 = std::f32::consts::LN_2;

/// The bits of √½.
const SQRT_HALF: i32 = 0x3f35_04f3;

impl Functions for f32 {
    const DIGITS: u32 = Self::MANTISSA_DIGITS;
    const MIN_EXPONENT: i32 = Self::MIN_EXP - 1;
    const EXP_OVERFLOW: f64 = 88.722_831_726_074_22;
    const EXP_LIMIT: f64 = 110.0;
    const TANH_LIMIT: f64 = 10.0;
    const ANGLE_LIMIT: f64 = 65_536.0;
    /// Error 2^-28.
    const EXP: &'static [Self] = &[0.499_999_94, 0.166_665_23, 0.041_668_36, 0.008_368_577, 0.001_381_532_6];
    /// Error 2^-30.
    const LN: &'static [Self] = &[0.666_667_76, 0.399_777_4, 0.298_673_57];
    /// Error 2^-37.
    const LN_TAIL: &'static [Self] = &[0.400_001_44, 0.285_478_92, 0.234_028_64];
    /// Error 2^-28.
    const SIN: &'static [Self] = &[-0.166_666_54, 0.008_332_143, -1.951_259_3e-4];
    /// Error 2^-33.
    const COS: &'static [Self] = &[0.041_666_646, -0.001_388_732_3, 2.443_324e-5];
    /// Error 2^-30.
    const ATAN: &'static [Self] = &[-0.333_333_16, 0.199_985_5, -0.142_447_11, 0.106_010_29, -0.060_937_457];
    /// Error 2^-28.
    const ASIN: &'static [Self] = &[0.166_667_48, 0.074_954_56, 0.045_454_808, 0.024_241_472, 0.042_080_253];

    #[allow(clippy::cast_possible_truncation, reason = "the nearest number is wanted")]
    fn real(value: f64) -> Val<Self> {
        Val::constant(value as Self)
    }

    #[allow(clippy::cast_possible_truncation, reason = "each part takes what it can hold")]
    fn parts(sum: [f64; 3]) -> [Val<Self>; 3] {
        let first = sum[0] as Self;
        // Exact: the parts have 24 bits each.
        let rest = sum[0] - f64::from(first);
        let second = rest as Self;
        let third = (rest - f64::from(second) + sum[1]) as Self;
        [first, second, third].map(Val::constant)
    }

    fn power_of_two(exponent: Val<i32>) -> Val<Self> {
        ((exponent + 127) << 23).bitcast()
    }

    fn nearest_integer(x: Val<Self>) -> (Val<Self>, Val<i32>) {
        /// 1.5 * 2^23, a unit of whose last place is 1.
        const SHIFT: f32 = 12_582_912.0;
        let shifted = x + SHIFT;
        (shifted - SHIFT, shifted.bitcast::<i32>() - SHIFT.to_bits().cast_signed())
    }

    fn split(x: Val<Self>) -> (Val<i32>, Val<Self>) {
        let bits = x.bitcast::<i32>();
        let exponent = (bits - SQRT_HALF) >> 23;
        (exponent, (bits - (exponent << 23)).bitcast())
    }

    fn integer_significand(x: Val<Self>) -> (Val<u64>, Val<i32>) {
        let bits = x.bitcast::<u32>();
        (((bits & 0x007f_ffff) | 0x0080_0000).cast(), (bits >> 23).cast::<i32>() - 150)
    }

    fn exp(x: Val<Self>) -> Val<Self> {
        // Beyond these bounds the result is infinite or zero, and the products below stay finite.
        let x = x.min_nan(89.0).max_nan(-105.0);
        let high = x * LOG2_E;
        let low = x.mul_add(LOG2_E_REST, x.mul_add(LOG2_E, -high));
        // 2^(high + low) = 2^high * (1 + low * ln 2) for a small `low`.
        high.exp2() * low.mul_add(LN_2, 1.0)
    }

    fn exp2(x: Val<Self>) -> Val<Self> {
        function(Function::Ex2Approx, x)
    }

    fn ln(x: Val<Self>) -> Val<Self> {
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
        let is_subnormal = x.lt(f32::MIN_POSITIVE);
        let bits = is_subnormal.select(x * 8_388_608.0, x).bitcast::<i32>();
        // The bits of 2^exponent * (1 + f)
        let exponent_bits = (bits - TWO_THIRDS) & (0xff80_0000_u32.cast_signed());
        let f = (bits - exponent_bits).bitcast::<f32>() - 1.0;
        let scale = is_subnormal.select::<f32>(-23.0, 0.0);
        let exponent = exponent_bits.cast::<f32>().mul_add(1.0 / 8_388_608.0, scale);
        let fraction = (f * f).mul_add(polynomial(f, &P), f);
        let result = exponent.mul_add(LN_2, fraction);
        // Zero, negative numbers, infinity and NaN: the instruction knows them.
        let is_ordinary = x.gt(0.0) & x.lt(f32::INFINITY);
        is_ordinary.select(result, function(Function::Lg2Approx, x))
    }

    fn tanh(x: Val<Self>) -> Val<Self> {
        /// tanh(x) = x + x³ p(x²) for |x| below 0.6, relative error 2^-28.
        const P: [f32; 5] = [-3.333_33e-1, 1.333_193_6e-1, -5.378_471_7e-2, 2.079_862_5e-2, -5.897_966_7e-3];
        let magnitude = x.abs();
        // tanh(x) = 1 - 2 / (e^2x + 1); an infinite exponential gives 1.
        let exponential = (magnitude * (2.0 * LOG2_E)).exp2();
        let large = (exponential + 1.0).recip_approx().mul_add(-2.0, 1.0);
        let square = x * x;
        let small = (square * polynomial(square, &P)).mul_add(x, x);
        magnitude.lt(0.6).select(small, large).copysign(x)
    }

    fn sigmoid(x: Val<Self>) -> Val<Self> {
        ((-x).exp() + 1.0).recip_approx()
    }

    fn erf(x: Val<Self>) -> Val<Self> {
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
        let magnitude = x.abs().min_nan(4.0);
        let large = -(polynomial(magnitude, &LARGE).exp2() - 1.0);
        let square = x * x;
        let small = polynomial(square, &SMALL).mul_add(x, x);
        magnitude.lt(1.0).select(small, large.copysign(x))
    }
}

impl Val<f32> {
    /// `e^self` by one product and one approximation: relative error at most 2^-22 + |self| 2^-23;
    /// 0 below 2^-126.
    #[track_caller]
    #[must_use]
    pub fn exp_approx(self) -> Self {
        (self * LOG2_E).exp2_flushed()
    }

    /// `2^self` by one approximation: relative error at most 2^-22; 0 below 2^-126.
    #[track_caller]
    #[must_use]
    pub fn exp2_flushed(self) -> Self {
        // To keep subnormal results would take three instructions more.
        function(Function::Ex2Flushed, self)
    }

    /// The logarithm to base 2: absolute error at most 2^-22 between 0.5 and 2, relative error at
    /// most 2^-22 elsewhere.
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

    /// The sine: absolute error at most 2^-20.5 for |self| up to 2π, 2^-14.7 up to 100π, none
    /// stated beyond.
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
}

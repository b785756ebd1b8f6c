//! Sine, cosine, logarithm, exponential and hyperbolic tangent of `f32`, in arithmetic and
//! selection only: they vectorise, and give the same bits on every host. Coefficients are minimax
//! fits made for this file.

/// `c[0] + c[1] * x + c[2] * x^2 + …`
#[inline(always)]
fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = f32::mul_add(sum, x, c[i]);
    }
    sum
}

/// The nearest integer to a number below 2^22 in magnitude, and to a larger one something within 1
/// in 2^22 of it.
#[inline(always)]
fn nearest(x: f32) -> f32 {
    x.round_ties_even()
}

/// `x` in revolutions, less the whole ones: at most 1/2 in magnitude, and exact to a few bits while
/// `x` is below some thousands. Beyond, the ISA promises nothing; the result stays an angle.
#[inline(always)]
fn revolutions(x: f32) -> f32 {
    const PER_RADIAN: f32 = 0.159_154_94;
    /// What `PER_RADIAN` lacks of 1/(2 pi).
    const REST: f32 = 6.420_638_4e-9;
    let whole = nearest(x * PER_RADIAN);
    let part = f32::mul_add(x, REST, f32::mul_add(x, PER_RADIAN, -whole));
    part - nearest(part)
}

/// The sine of `x` revolutions, at most 1/4 in magnitude; error below 2^-23.
#[inline(always)]
fn sine_of_quarter(x: f32) -> f32 {
    x * polynomial(x * x, [6.283_185_5, -41.341_7, 81.605_225, -76.704_17, 42.007_797, -14.381_391])
}

/// The sine; NaN for infinities.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    let turn = revolutions(x);
    let folded = if turn.abs() > 0.25 { f32::copysign(0.5, turn) - turn } else { turn };
    let result = sine_of_quarter(folded);
    if x == 0.0 { x } else { result }
}

/// The cosine; NaN for infinities.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    let turn = revolutions(x);
    let result = sine_of_quarter(0.25 - turn.abs());
    if x == 0.0 { 1.0 } else { result }
}

/// The logarithm to base 2; NaN below zero, -infinity at zero.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    // A subnormal number is scaled up first.
    let small = x < f32::MIN_POSITIVE;
    let scaled = if small { x * 16_777_216.0 } else { x };
    // The mantissa comes to lie in [sqrt(1/2), sqrt(2)): subtracting the bits of sqrt(1/2) tells
    // the exponent.
    let offset = scaled.to_bits().wrapping_sub(0x3f35_04f3).cast_signed() >> 23;
    let mantissa = f32::from_bits(scaled.to_bits().wrapping_sub((offset << 23).cast_unsigned()));
    #[allow(clippy::cast_precision_loss, reason = "an exponent has few bits")]
    let exponent = offset as f32 - if small { 24.0 } else { 0.0 };
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    // 2/ln(2) * atanh(s)
    let fraction = s * polynomial(s * s, [2.885_39, 0.961_796_7, 0.577_083_6, 0.411_671_76, 0.340_749]);
    let result = exponent + fraction;
    let result = if x == f32::INFINITY { f32::INFINITY } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x >= 0.0 { result } else { f32::NAN }
}

/// 2 to the power `x`; within 2 units in the last place, subnormal results included.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    // Beyond these bounds the result is infinite or zero; a NaN passes both comparisons.
    let x = if x > 130.0 { 130.0 } else { x };
    let x = if x < -152.0 { -152.0 } else { x };
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    let shifted = x + 12_582_912.0;
    let part = x - (shifted - 12_582_912.0);
    let exponent = shifted.to_bits().wrapping_sub(0x4b40_0000).cast_signed();
    let c = [std::f32::consts::LN_2, 0.240_226_5, 0.055_503_28, 0.009_618_004, 0.001_340_027, 0.000_154_763_02];
    let mantissa = f32::mul_add(part, polynomial(part, c), 1.0);
    // In two steps, so that a subnormal result is rounded once and 2^128 overflows.
    let first = exponent >> 1;
    let second = exponent.wrapping_sub(first);
    mantissa * power_of_two(first) * power_of_two(second)
}

/// 2 to the power of a small integer.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// The hyperbolic tangent; subnormal numbers pass through.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = magnitude * magnitude;
    let c = [-0.333_332_84, 0.133_314_91, -0.053_743_5, 0.020_650_592, -0.005_717_05];
    let near_zero = f32::mul_add(magnitude * square, polynomial(square, c), magnitude);
    // 1 - 2 / (e^(2|x|) + 1)
    let far = 1.0 - 2.0 / (exp2(magnitude * 2.885_39) + 1.0);
    f32::copysign(if magnitude < 0.625 { near_zero } else { far }, x)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const FUNCTIONS: [fn(f32) -> f32; 5] = [sin, cos, log2, exp2, tanh];

    /// # Safety
    /// The host has the features.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn with_fma(function: usize, x: f32) -> f32 {
        match function {
            0 => sin(x),
            1 => cos(x),
            2 => log2(x),
            3 => exp2(x),
            _ => tanh(x),
        }
    }

    #[test]
    fn functions_give_the_same_bits_with_and_without_the_features_of_the_host() {
        if !std::arch::is_x86_feature_detected!("avx2") || !std::arch::is_x86_feature_detected!("fma") {
            return;
        }
        for bits in (0..=u32::MAX).step_by(40_009) {
            let x = f32::from_bits(bits);
            for (n, function) in FUNCTIONS.iter().enumerate() {
                // SAFETY: the features were detected.
                let fast = unsafe { with_fma(n, x) };
                let is_same = function(x).to_bits() == fast.to_bits() || (fast.is_nan() && function(x).is_nan());
                assert!(is_same, "function {n} of {bits:#010x}: {:e} and {fast:e}", function(x));
            }
        }
    }
}

//! Exact results as a sum of two `f64`, and their rounding to `f32` in a direction.
//!
//! The sum, product, quotient or root of `f32` numbers lies far inside the range of `f64`, so the
//! error of the nearest `f64` is itself an `f64` (Knuth's two-sum; a fused multiply-add gives the
//! remainder of a division). Its sign is all that rounding needs, and everything here is arithmetic
//! and selection: it vectorises.

/// A real number: `hi` is the nearest `f64`, `lo` has the sign of the error (NaN if `hi` is not
/// finite).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exact {
    hi: f64,
    lo: f64,
    /// True if a sum of zero is -0 when rounding down: unless both terms are +0.
    any_negative: bool,
}

impl Exact {
    /// `x * y + z` for numbers that were `f32`.
    #[inline(always)]
    pub(crate) fn fused(x: f64, y: f64, z: f64) -> Self {
        let product = x * y;
        let hi = product + z;
        let z_part = hi - product;
        let lo = (product - (hi - z_part)) + (z - z_part);
        Self { hi, lo, any_negative: product.is_sign_negative() || z.is_sign_negative() }
    }

    /// `a / b` for numbers that were `f32`.
    #[inline(always)]
    pub(crate) fn quotient(a: f64, b: f64) -> Self {
        let hi = a / b;
        let remainder = f64::mul_add(-hi, b, a);
        let lo = if b.is_sign_negative() { -remainder } else { remainder };
        Self { hi, lo, any_negative: hi.is_sign_negative() }
    }

    /// The square root of a number that was an `f32`.
    #[inline(always)]
    pub(crate) fn root(a: f64) -> Self {
        let hi = a.sqrt();
        Self { hi, lo: f64::mul_add(-hi, hi, a), any_negative: hi.is_sign_negative() }
    }

    /// Rounds it; a NaN stays some NaN.
    #[inline(always)]
    pub(crate) fn round<D: Direction>(self) -> f32 {
        let hi = if D::ZERO_IS_NEGATIVE && self.hi == 0.0 && self.any_negative { -0.0 } else { self.hi };
        #[allow(clippy::cast_possible_truncation, reason = "rounds to nearest; corrected below")]
        let nearest = hi as f32;
        let back = f64::from(nearest);
        let above = back > hi || (back == hi && self.lo < 0.0);
        let below = back < hi || (back == hi && self.lo > 0.0);
        let negative = hi.is_sign_negative();
        let (long, short) = if negative { (below, above) } else { (above, below) };
        let bits = nearest.to_bits();
        f32::from_bits(D::step(bits, negative, long, short))
    }
}

/// A rounding other than to nearest.
pub(crate) trait Direction: 'static {
    /// An exact zero of terms that are not both +0 is -0.
    const ZERO_IS_NEGATIVE: bool = false;
    /// The bits of the result, from those of the nearest number, and whether its magnitude is too
    /// long or too short.
    fn step(bits: u32, negative: bool, long: bool, short: bool) -> u32;
}

/// Towards zero.
#[derive(Debug)]
pub(crate) struct TowardZero;
impl Direction for TowardZero {
    #[inline(always)]
    fn step(bits: u32, _: bool, long: bool, _: bool) -> u32 {
        bits - u32::from(long)
    }
}

/// Towards negative infinity.
#[derive(Debug)]
pub(crate) struct Downward;
impl Direction for Downward {
    const ZERO_IS_NEGATIVE: bool = true;
    #[inline(always)]
    fn step(bits: u32, negative: bool, long: bool, short: bool) -> u32 {
        if negative { bits + u32::from(short) } else { bits - u32::from(long) }
    }
}

/// Towards positive infinity.
#[derive(Debug)]
pub(crate) struct Upward;
impl Direction for Upward {
    #[inline(always)]
    fn step(bits: u32, negative: bool, long: bool, short: bool) -> u32 {
        if negative { bits - u32::from(long) } else { bits + u32::from(short) }
    }
}

/// To the neighbour whose last bit is one: a second rounding, to at least two bits fewer, is then
/// as if there had been no first one.
#[derive(Debug)]
pub(crate) struct ToOdd;
impl Direction for ToOdd {
    #[inline(always)]
    fn step(bits: u32, _: bool, long: bool, short: bool) -> u32 {
        if bits & 1 == 0 { bits.wrapping_add(u32::from(short)).wrapping_sub(u32::from(long)) } else { bits }
    }
}

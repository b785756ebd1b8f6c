//! Functions of the circle, from polynomials on an eighth of it.

use super::constants::HALF_PI;
use super::twofold::Twofold;
use super::{Functions, polynomial, reduction};
use crate::Val;

/// The sine of an angle up to π/4.
fn sin_of_rest<T: Functions>(rest: Twofold<T>) -> Val<T> {
    let Twofold { high, low } = rest;
    let square = high * high;
    // sin(h + l) = sin(h) + l cos(h)
    let low = low.mul_add(square * T::real(-0.5), low);
    high + (high * square).mul_add(polynomial(square, T::SIN), low)
}

/// The cosine of an angle up to π/4.
fn cos_of_rest<T: Functions>(rest: Twofold<T>) -> Val<T> {
    let Twofold { high, low } = rest;
    let square = high * high;
    let half = square * T::real(0.5);
    let first = T::real(1.0) - half;
    // What the difference lost, and cos(h + l) = cos(h) - l sin(h).
    let lost = (T::real(1.0) - first) - half;
    first + (square * square).mul_add(polynomial(square, T::COS), (-high).mul_add(low, lost))
}

/// Sine and cosine, and whether the angle's quadrant is an odd one, which exchanges them.
fn of_rest<T: Functions>(angle: Val<T>) -> (Val<i32>, Val<bool>, Val<T>, Val<T>) {
    let (quadrant, rest) = reduction::quadrant(angle);
    // -0 stays -0.
    let sine = angle.eq(T::real(0.0)).select(angle, sin_of_rest(rest));
    (quadrant, (quadrant & 1).eq(1), sine, cos_of_rest(rest))
}

/// Negative in the second half of the turn.
fn signed<T: Functions>(x: Val<T>, quadrant: Val<i32>) -> Val<T> {
    (quadrant & 2).ne(0).select(-x, x)
}

/// The sine.
pub(super) fn sin<T: Functions>(angle: Val<T>) -> Val<T> {
    let (quadrant, is_odd, sine, cosine) = of_rest(angle);
    signed(is_odd.select(cosine, sine), quadrant)
}

/// The cosine.
pub(super) fn cos<T: Functions>(angle: Val<T>) -> Val<T> {
    let (quadrant, is_odd, sine, cosine) = of_rest(angle);
    signed(is_odd.select(sine, cosine), quadrant + 1)
}

/// Both by one reduction.
pub(super) fn sin_cos<T: Functions>(angle: Val<T>) -> (Val<T>, Val<T>) {
    let (quadrant, is_odd, sine, cosine) = of_rest(angle);
    (signed(is_odd.select(cosine, sine), quadrant), signed(is_odd.select(sine, cosine), quadrant + 1))
}

/// The tangent.
pub(super) fn tan<T: Functions>(angle: Val<T>) -> Val<T> {
    let (_, is_odd, sine, cosine) = of_rest(angle);
    is_odd.select(-cosine, sine) / is_odd.select(sine, cosine)
}

/// `asin(x)` for a magnitude up to 1/2, with more digits of `x`.
fn asin_of_half<T: Functions>(x: Val<T>) -> Val<T> {
    let square = x * x;
    (x * square).mul_add(polynomial(square, T::ASIN), x)
}

/// `√((1 - x) / 2)`: half the angle whose cosine is `x` has this sine.
fn sine_of_half_angle<T: Functions>(magnitude: Val<T>) -> Val<T> {
    magnitude.mul_add(T::real(-0.5), T::real(0.5)).sqrt()
}

/// The angle with this sine.
pub(super) fn asin<T: Functions>(x: Val<T>) -> Val<T> {
    let magnitude = x.abs();
    let is_small = magnitude.lt(T::real(0.5));
    let small = asin_of_half(is_small.select(magnitude, sine_of_half_angle(magnitude)));
    let [high, low, _] = T::parts(HALF_PI);
    let large = high - (small + small - low);
    is_small.select(small, large).copysign(x)
}

/// The angle with this cosine.
pub(super) fn acos<T: Functions>(x: Val<T>) -> Val<T> {
    let magnitude = x.abs();
    let is_small = magnitude.lt(T::real(0.5));
    let small = asin_of_half(is_small.select(magnitude, sine_of_half_angle(magnitude)));
    let [high, low, _] = T::parts(HALF_PI);
    let is_negative = x.lt(T::real(0.0));
    let middle = high - (is_negative.select(-small, small) - low);
    let twice = small + small;
    let outer = is_negative.select((high + high) - (twice - (low + low)), twice);
    is_small.select(middle, outer)
}

/// The angle with this tangent.
pub(super) fn atan<T: Functions>(x: Val<T>) -> Val<T> {
    let (one, magnitude) = (T::real(1.0), x.abs());
    // tan(π/8) and tan(3π/8) are where the nearest multiple of π/4 changes.
    let is_middle = magnitude.gt(T::real(std::f64::consts::SQRT_2 - 1.0));
    let is_large = magnitude.gt(T::real(std::f64::consts::SQRT_2 + 1.0));
    let choose = |small: Val<T>, middle: Val<T>, large: Val<T>| is_large.select(large, is_middle.select(middle, small));
    // tan(α - π/4) = (t - 1) / (t + 1), tan(α - π/2) = -1 / t
    let tangent = choose(magnitude, magnitude - one, -one) / choose(one, magnitude + one, magnitude);
    let square = tangent * tangent;
    let [high, low, _] = T::parts(HALF_PI);
    let half = T::real(0.5);
    let zero = T::real(0.0);
    let low = choose(zero, low * half, low);
    let tail = (tangent * square).mul_add(polynomial(square, T::ATAN), low);
    (choose(zero, high * half, high) + (tangent + tail)).copysign(x)
}

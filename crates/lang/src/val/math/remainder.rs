//! The remainder of a division, exactly.

use super::Functions;
use crate::{Rounding, Val, var, when_else, while_loop};

/// `x - trunc(x / y) y`
pub(super) fn fmod<T: Functions>(x: Val<T>, y: Val<T>) -> Val<T> {
    let (dividend, divisor) = (x.abs(), y.abs());
    let quotient = dividend / divisor;
    let is_small = quotient.lt(T::real(f64::from(T::DIGITS - 2).exp2()));
    let remainder = when_else(is_small, || by_quotient(dividend, divisor, quotient), || by_digits(dividend, divisor));
    // A zero divisor, an infinite dividend and NaN give NaN; an infinite divisor leaves the
    // dividend.
    let infinity = Val::constant(T::HIGHEST);
    let is_defined = dividend.lt(infinity) & divisor.gt(T::real(0.0));
    let remainder = divisor.eq(infinity).select(dividend, remainder);
    is_defined.select(remainder, T::real(f64::NAN)).copysign(x)
}

/// Remainder from one division, if the quotient has fewer digits than the type: rounded it may be 1
/// too much, and the difference is exact.
fn by_quotient<T: Functions>(dividend: Val<T>, divisor: Val<T>, quotient: Val<T>) -> Val<T> {
    let remainder = (-quotient.round(Rounding::Zero)).mul_add(divisor, dividend);
    remainder.lt(T::real(0.0)).select(remainder + divisor, remainder)
}

/// Long division of the significands, as many digits at a time as fit in 64 bits.
fn by_digits<T: Functions>(dividend: Val<T>, divisor: Val<T>) -> Val<T> {
    let (dividend, dividend_exponent) = significand(dividend);
    let (divisor, divisor_exponent) = significand(divisor);
    // A divisor of 0 is answered elsewhere.
    let divisor = divisor.max(1);
    let remainder = var(dividend % divisor);
    let digits = var(dividend_exponent - divisor_exponent);
    while_loop(
        || digits.get().gt(0),
        || {
            let now = digits.get().min((64 - T::DIGITS).cast_signed());
            remainder.set((remainder.get() << now.cast::<u32>()) % divisor);
            digits.set(digits.get() - now);
        },
    );
    // Exact: the remainder has no more digits than the divisor, and the same last place.
    let half = divisor_exponent >> 1;
    remainder.get().cast::<T>() * T::power_of_two(half) * T::power_of_two(divisor_exponent - half)
}

/// The significand as an integer, and the exponent of its last place.
fn significand<T: Functions>(x: Val<T>) -> (Val<u64>, Val<i32>) {
    let digits = T::DIGITS.cast_signed();
    let is_subnormal = x.lt(T::real(f64::from(T::MIN_EXPONENT).exp2()));
    let normal = is_subnormal.select(x * T::real(f64::from(digits).exp2()), x);
    let (integer, exponent) = T::integer_significand(normal);
    (integer, exponent - is_subnormal.select(digits, 0))
}

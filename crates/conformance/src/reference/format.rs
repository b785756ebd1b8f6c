//! Binary float formats: rounding a number to one, and its bits.
//!
//! One formula for all of them, as IEEE 754 states it: the distance of neighbours is 2^(exponent -
//! mantissa bits), no smaller than at the lowest exponent; a number goes to the nearest multiple,
//! ties to even.

/// A float format of at most 64 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent_bits: u32,
    /// Bits of the mantissa, without the hidden one.
    pub mantissa_bits: u32,
    /// Reserves the highest exponent for infinity and NaN; e4m3 has numbers there and one NaN.
    pub has_infinity: bool,
}

impl Format {
    /// Four exponent bits, three mantissa bits, no infinity (`e4m3fn`).
    pub const F8E4M3: Self = Self { exponent_bits: 4, mantissa_bits: 3, has_infinity: false };
    /// Five exponent bits, two mantissa bits.
    pub const F8E5M2: Self = Self { exponent_bits: 5, mantissa_bits: 2, has_infinity: true };
    /// IEEE 754 binary16.
    pub const F16: Self = Self { exponent_bits: 5, mantissa_bits: 10, has_infinity: true };
    /// The upper half of a binary32.
    pub const BF16: Self = Self { exponent_bits: 8, mantissa_bits: 7, has_infinity: true };
    /// IEEE 754 binary32.
    pub const F32: Self = Self { exponent_bits: 8, mantissa_bits: 23, has_infinity: true };
    /// IEEE 754 binary64.
    pub const F64: Self = Self { exponent_bits: 11, mantissa_bits: 52, has_infinity: true };

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The distance from one to the next number.
    #[must_use]
    pub fn epsilon(self) -> f64 {
        exp2(-(self.mantissa_bits as i32))
    }

    /// The smallest positive number with all mantissa bits.
    #[must_use]
    pub fn min_normal(self) -> f64 {
        exp2(1 - self.bias())
    }

    /// The distance of neighbours around zero.
    #[must_use]
    pub fn min_denormal(self) -> f64 {
        exp2(1 - self.bias() - self.mantissa_bits as i32)
    }

    /// The largest finite number.
    #[must_use]
    pub fn max(self) -> f64 {
        // e4m3 has one more exponent, whose last mantissa is its NaN.
        let (exponent, missing) = if self.has_infinity { (self.bias(), 1.0) } else { (self.bias() + 1, 2.0) };
        (2.0 - missing * self.epsilon()) * exp2(exponent)
    }

    /// The nearest number, ties to even. What lies beyond the largest becomes an infinity, or NaN
    /// where there is none.
    #[must_use]
    pub fn round(self, value: f64) -> f64 {
        if self == Self::F64 || value == 0.0 || !value.is_finite() {
            return if value.is_infinite() && !self.has_infinity { f64::NAN } else { value };
        }
        let exponent = exponent_of(value).max(1 - self.bias());
        let unit = exp2(exponent - self.mantissa_bits as i32);
        let rounded = (value / unit).round_ties_even() * unit;
        match (rounded.abs() > self.max(), self.has_infinity) {
            (false, _) => rounded,
            (true, true) => f64::INFINITY.copysign(value),
            (true, false) => f64::NAN,
        }
    }

    /// The nearest number, where the largest ones stand for all beyond them.
    #[must_use]
    pub fn round_saturating(self, value: f64) -> f64 {
        if value.is_nan() { value } else { self.round(value.clamp(-self.max(), self.max())) }
    }

    /// The bits of a number that the format has.
    #[must_use]
    pub fn bits(self, value: f64) -> u64 {
        let sign = u64::from(value.is_sign_negative()) << (self.exponent_bits + self.mantissa_bits);
        if self == Self::F64 {
            return value.to_bits();
        }
        let all_ones = ((1 << self.exponent_bits) - 1) << self.mantissa_bits;
        if value.is_nan() {
            let quiet = if self.has_infinity { 1 << (self.mantissa_bits - 1) } else { (1 << self.mantissa_bits) - 1 };
            return sign | all_ones | quiet;
        }
        if value.is_infinite() {
            return sign | all_ones;
        }
        let magnitude = value.abs();
        let multiples = |unit: f64| (magnitude / unit) as u64;
        if magnitude < self.min_normal() {
            return sign | multiples(self.min_denormal());
        }
        let exponent = exponent_of(magnitude);
        let mantissa = multiples(exp2(exponent - self.mantissa_bits as i32)) & ((1 << self.mantissa_bits) - 1);
        sign | ((exponent + self.bias()) as u64) << self.mantissa_bits | mantissa
    }

    /// The number that bits stand for.
    #[must_use]
    pub fn value(self, bits: u64) -> f64 {
        if self == Self::F64 {
            return f64::from_bits(bits);
        }
        let mantissa = (bits & ((1 << self.mantissa_bits) - 1)) as f64;
        let exponent = (bits >> self.mantissa_bits) & ((1 << self.exponent_bits) - 1);
        let sign = if bits >> (self.mantissa_bits + self.exponent_bits) & 1 == 1 { -1.0 } else { 1.0 };
        let is_top = exponent == (1 << self.exponent_bits) - 1;
        let is_all_ones = is_top && mantissa == exp2(self.mantissa_bits as i32) - 1.0;
        if self.has_infinity && is_top {
            return sign * if mantissa == 0.0 { f64::INFINITY } else { f64::NAN };
        }
        if is_all_ones {
            return f64::NAN;
        }
        if exponent == 0 {
            return sign * mantissa * self.min_denormal();
        }
        sign * (1.0 + mantissa * self.epsilon()) * exp2(exponent as i32 - self.bias())
    }
}

/// Two to a power, exactly; zero or infinity where an `f64` has it no more. (`powi` divides by an
/// infinity on the way.)
#[must_use]
pub fn exp2(exponent: i32) -> f64 {
    match exponent {
        1024.. => f64::INFINITY,
        -1022.. => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074.. => f64::from_bits(1 << (exponent + 1074)),
        _ => 0.0,
    }
}

/// The `e` for which 2^e <= |value| < 2^(e+1).
fn exponent_of(value: f64) -> i32 {
    let stored = ((value.to_bits() >> 52) & 0x7ff) as i32;
    if stored == 0 { exponent_of(value * exp2(64)) - 64 } else { stored - 1023 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn same(left: f64, right: f64) {
        assert!(left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan(), "{left:e} and {right:e}");
    }

    #[test]
    fn every_half_has_the_value_that_the_half_crate_gives_it() {
        for bits in 0..=u16::MAX {
            same(Format::F16.value(u64::from(bits)), half::f16::from_bits(bits).to_f64());
            same(Format::BF16.value(u64::from(bits)), half::bf16::from_bits(bits).to_f64());
        }
    }

    #[test]
    fn bits_are_the_inverse_of_value() {
        for format in [Format::F8E4M3, Format::F8E5M2, Format::F16, Format::BF16] {
            for bits in 0..1u64 << (1 + format.exponent_bits + format.mantissa_bits) {
                let value = format.value(bits);
                if !value.is_nan() {
                    assert_eq!(format.bits(value), bits, "{format:?}");
                    same(format.round(value), value);
                }
                assert_eq!(format.value(format.bits(value)).is_nan(), value.is_nan());
            }
        }
    }

    #[test]
    fn rounding_to_single_is_what_the_language_does() {
        let mut random = crate::instructions::Random::new(7);
        for _ in 0..100_000 {
            let value = f64::from_bits(random.bits());
            same(Format::F32.round(value), f64::from(value as f32));
            let near = f64::from(f32::from_bits(random.bits() as u32)) * (1.0 + 2f64.powi(-24));
            same(Format::F32.round(near), f64::from(near as f32));
            if !near.is_nan() {
                let single = near as f32;
                assert_eq!(Format::F32.bits(f64::from(single)), u64::from(single.to_bits()));
                same(Format::F32.value(u64::from(single.to_bits())), f64::from(single));
            }
        }
    }

    #[test]
    fn limits_are_those_of_the_formats() {
        assert_eq!(Format::F16.max(), 65504.0);
        assert_eq!(Format::F8E4M3.max(), 448.0);
        assert_eq!(Format::F8E5M2.max(), 57344.0);
        assert_eq!(Format::F32.max(), f64::from(f32::MAX));
        assert_eq!(Format::F32.min_normal(), f64::from(f32::MIN_POSITIVE));
        assert_eq!(Format::F16.epsilon(), 2f64.powi(-10));
        assert_eq!(Format::F16.round(65519.9), 65504.0);
        assert_eq!(Format::F16.round(65520.0), f64::INFINITY);
        assert_eq!(Format::F16.round(2f64.powi(-25)), 0.0);
        assert_eq!(Format::F16.round(1.5 * 2f64.powi(-25)), 2f64.powi(-24));
        assert!(Format::F8E4M3.round(465.0).is_nan());
        assert_eq!(Format::F8E4M3.round_saturating(1e9), 448.0);
        // Halfway between neighbours, the even one; a hair above, the upper.
        assert_eq!(Format::F16.round(1.0 + 2f64.powi(-11)), 1.0);
        assert_eq!(Format::F16.round(1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 1.0 + 2f64.powi(-10));
    }
}

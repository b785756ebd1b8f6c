//! Floating point in integers: any format, any rounding, for cases that are too rare or too wide
//! for the host's arithmetic.
//!
//! A finite number other than zero is a [`Number`]: sign, significand, exponent. A significand is
//! exact or has its last bit set for everything below it; [`Number::round`] is the only place that
//! rounds.

use super::finish::NAN64;

/// Rounding mode of a result (PTX ISA, "Rounding Modifiers").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`: towards zero.
    Zero,
    /// `.rm`: towards negative infinity.
    Down,
    /// `.rp`: towards positive infinity.
    Up,
}

impl Rounding {
    /// Encodes the mode as a number from 0 to 4, for `Op::imm`.
    pub(crate) fn code(self) -> i64 {
        self as i64
    }

    /// The inverse of [`Rounding::code`].
    #[inline(always)]
    pub(crate) fn from_code(code: i64) -> Self {
        match code & 7 {
            0 => Self::Nearest,
            1 => Self::NearestAway,
            2 => Self::Zero,
            3 => Self::Down,
            _ => Self::Up,
        }
    }
}

/// A binary interchange format: sign, exponent with the usual bias, mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits of the mantissa, without the hidden one.
    pub mantissa: u32,
    /// The largest finite number.
    pub max: u64,
    /// Infinity.
    pub infinity: u64,
    /// The canonical NaN.
    pub nan: u64,
}

impl Format {
    const fn ieee(exponent: u32, mantissa: u32, nan: u64) -> Self {
        let infinity = ((1 << exponent) - 1) << mantissa;
        Self { exponent, mantissa, max: infinity - 1, infinity, nan }
    }

    /// `.f16`
    pub(crate) const F16: Self = Self::ieee(5, 10, 0x7fff);
    /// `.bf16`
    pub(crate) const BF16: Self = Self::ieee(8, 7, 0x7fff);
    /// `.f32`
    pub(crate) const F32: Self = Self::ieee(8, 23, 0x7fff_ffff);
    /// `.f64`
    pub(crate) const F64: Self = Self::ieee(11, 52, NAN64);
    /// `.tf32`, without the 13 bits that are zero.
    pub(crate) const TF32: Self = Self::ieee(8, 10, 0x7fff_ffff >> 13);

    /// The exponent of the smallest normal number.
    const fn min_exponent(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    /// The sign bit.
    pub(crate) const fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }

    /// Returns true if a magnitude (no sign bit) is that of a subnormal number.
    pub(crate) const fn is_subnormal(self, magnitude: u64) -> bool {
        magnitude != 0 && magnitude >> self.mantissa == 0
    }
}

/// `significand * 2^exponent`, with a sign; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// Below zero.
    pub negative: bool,
    /// Not zero, below 2^127; if not exact, its last bit is set.
    pub significand: u128,
    /// Exponent of the last bit of the significand.
    pub exponent: i32,
}

/// A value of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// Not a number; sign and mantissa bits, aligned to the 52 of `.f64`.
    Nan(bool, u64),
    /// Infinity with its sign.
    Infinity(bool),
    /// Zero with its sign.
    Zero(bool),
    /// A finite number other than zero.
    Finite(Number),
}

impl Value {
    /// Takes the bits of a format apart.
    pub(crate) fn unpack(bits: u64, format: Format) -> Self {
        let negative = bits & format.sign() != 0;
        let magnitude = bits & (format.sign() - 1);
        let mantissa = magnitude & ((1 << format.mantissa) - 1);
        if magnitude > format.infinity {
            return Self::Nan(negative, mantissa << (52 - format.mantissa));
        }
        if magnitude == format.infinity {
            return Self::Infinity(negative);
        }
        if magnitude == 0 {
            return Self::Zero(negative);
        }
        let field = i32::try_from(magnitude >> format.mantissa).expect("an exponent has at most 11 bits");
        let last_bit = format.min_exponent() - format.mantissa.cast_signed();
        Self::Finite(match field {
            0 => Number { negative, significand: mantissa.into(), exponent: last_bit },
            _ => Number {
                negative,
                significand: (mantissa | 1 << format.mantissa).into(),
                exponent: last_bit + field - 1,
            },
        })
    }
}

impl Number {
    /// Returns true if the magnitude is at least 1.
    pub(crate) fn is_one_or_more(self) -> bool {
        self.significand.ilog2().cast_signed() + self.exponent >= 0
    }

    /// Rounds to a format and packs; overflow gives infinity or the largest number, depending on
    /// the rounding.
    pub(crate) fn round(self, format: Format, rounding: Rounding) -> u64 {
        let Self { negative, significand, exponent } = self;
        let top = significand.ilog2().cast_signed() + exponent;
        let scale = top.max(format.min_exponent());
        let last_bit = scale - format.mantissa.cast_signed();
        let drop = last_bit - exponent;
        let (kept, rest, half) = match drop {
            ..=0 => (significand << -drop, 0, 1),
            1..=127 => (significand >> drop, significand & ((1 << drop) - 1), 1 << (drop - 1)),
            // Less than half of the last bit.
            _ => (0, 1, 2),
        };
        let away = match rounding {
            Rounding::Nearest => rest > half || (rest == half && kept & 1 == 1),
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => negative && rest != 0,
            Rounding::Up => !negative && rest != 0,
        };
        let kept = u64::try_from(kept).expect("a rounded significand has at most 54 bits") + u64::from(away);
        let steps = u64::try_from(scale - format.min_exponent()).expect("the scale is at least the smallest");
        // The hidden bit of a normal number is the first step of the exponent, and a carry is
        // another.
        let magnitude = match steps.checked_mul(1 << format.mantissa).and_then(|m| m.checked_add(kept)) {
            Some(magnitude) if magnitude <= format.max => magnitude,
            _ => match (rounding, negative) {
                (Rounding::Zero, _) | (Rounding::Down, false) | (Rounding::Up, true) => format.max,
                _ => format.infinity,
            },
        };
        magnitude | if negative { format.sign() } else { 0 }
    }

    /// Moves the top bit of the significand to bit `top`, upwards only.
    fn raised(self, top: u32) -> Self {
        let by = top - self.significand.ilog2();
        Self { significand: self.significand << by, exponent: self.exponent - by.cast_signed(), ..self }
    }

    /// The significand with its last bit at `exponent`, which is not below its own; lost bits set
    /// the last bit.
    fn lowered(self, exponent: i32) -> u128 {
        match (exponent - self.exponent).cast_unsigned() {
            by @ 0..=127 => self.significand >> by | u128::from(self.significand & ((1 << by) - 1) != 0),
            _ => 1,
        }
    }
}

/// `x * y + z`, rounded once. NaN results have no particular payload.
pub(crate) fn fma(x: f64, y: f64, z: f64, rounding: Rounding) -> f64 {
    let [ux, uy, uz] = [x, y, z].map(|v| Value::unpack(v.to_bits(), Format::F64));
    let (Value::Finite(x_number), Value::Finite(y_number)) = (ux, uy) else {
        // The product is NaN, infinite or zero, so that the host's sum is exact, but for the sign
        // of zero.
        let product = x * y;
        return match uz {
            Value::Zero(_) if product == 0.0 => zero_sum(product.is_sign_negative(), z.is_sign_negative(), rounding),
            _ => product + z,
        };
    };
    let product = Number {
        negative: x_number.negative != y_number.negative,
        significand: x_number.significand * y_number.significand,
        exponent: x_number.exponent + y_number.exponent,
    };
    let number = match uz {
        Value::Nan(..) | Value::Infinity(_) => return z,
        Value::Zero(_) => product,
        Value::Finite(z_number) => match sum(product, z_number) {
            Some(number) => number,
            None => return zero_sum(true, false, rounding),
        },
    };
    f64::from_bits(number.round(Format::F64, rounding))
}

/// The sum, or nothing if it is zero. Products have at most 106 bits: at bit 125 there is room
/// below for what alignment moves, unless the other term is so far away that a last bit that is set
/// stands for it.
fn sum(a: Number, b: Number) -> Option<Number> {
    let (a, b) = (a.raised(125), b.raised(125));
    let (large, small) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
    let (x, y) = (large.significand, small.lowered(large.exponent));
    let (significand, negative) = if large.negative == small.negative {
        (x + y, large.negative)
    } else if x >= y {
        (x - y, large.negative)
    } else {
        (y - x, small.negative)
    };
    (significand != 0).then_some(Number { negative, significand, exponent: large.exponent })
}

/// The sum of two zeros, or of two numbers that cancel (signs that differ).
fn zero_sum(a_negative: bool, b_negative: bool, rounding: Rounding) -> f64 {
    let negative = if rounding == Rounding::Down { a_negative || b_negative } else { a_negative && b_negative };
    if negative { -0.0 } else { 0.0 }
}

/// `a / b`. NaN results have no particular payload.
pub(crate) fn divide(a: f64, b: f64, rounding: Rounding) -> f64 {
    let [ua, ub] = [a, b].map(|v| Value::unpack(v.to_bits(), Format::F64));
    let (Value::Finite(a_number), Value::Finite(b_number)) = (ua, ub) else {
        return a / b;
    };
    let (a, b) = (a_number.raised(126), b_number.raised(62));
    let (quotient, remainder) = (a.significand / b.significand, a.significand % b.significand);
    let number = Number {
        negative: a.negative != b.negative,
        significand: quotient | u128::from(remainder != 0),
        exponent: a.exponent - b.exponent,
    };
    f64::from_bits(number.round(Format::F64, rounding))
}

/// The square root. NaN results have no particular payload.
pub(crate) fn square_root(a: f64, rounding: Rounding) -> f64 {
    let Value::Finite(number @ Number { negative: false, .. }) = Value::unpack(a.to_bits(), Format::F64) else {
        return a.sqrt();
    };
    // An even exponent, and 125 or 126 bits: the root has 63.
    let mut a = number.raised(125);
    if a.exponent % 2 != 0 {
        a = number.raised(124);
    }
    let root = a.significand.isqrt();
    let inexact = root * root != a.significand;
    let number = Number { negative: false, significand: root | u128::from(inexact), exponent: a.exponent / 2 };
    f64::from_bits(number.round(Format::F64, rounding))
}

//! 8-bit floats: storage formats without arithmetic. Kernels cast them to `f32`, compute, and cast
//! back.

use super::{Element, Scalar, Type, sealed};

/// Sign, 4 bits of exponent, 3 of mantissa (OCP 8-bit floating point, E4M3, which CUDA and ONNX
/// call `e4m3fn`): up to ±448, no infinities; `0x7f` and `0xff` are NaN.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F8E4M3(u8);

/// Sign, 5 bits of exponent, 2 of mantissa (OCP 8-bit floating point, E5M2): the upper half of an
/// `f16`, up to ±57344, with infinities and NaNs.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct F8E5M2(u8);

/// [`F8E4M3`] or [`F8E5M2`].
pub trait EightBitFloat: Element {
    /// Bit layout of the format.
    #[doc(hidden)]
    const FORMAT: Format;
}

/// Parameters of an 8-bit format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Bits of the mantissa that are stored.
    pub(crate) mantissa_bits: u32,
    /// The exponent of 1.
    pub(crate) bias: u32,
    /// The largest number, as a byte.
    pub(crate) max: u8,
    /// Byte that replaces a magnitude above the largest number when a conversion does not saturate.
    pub(crate) overflow: u8,
}

/// The byte of every NaN result, in both formats, as in the hardware's `cvt`.
pub(crate) const NAN: u8 = 0x7f;

impl Format {
    pub(crate) const E4M3: Self = Self { mantissa_bits: 3, bias: 7, max: 0x7e, overflow: NAN };
    pub(crate) const E5M2: Self = Self { mantissa_bits: 2, bias: 15, max: 0x7b, overflow: 0x7c };

    /// Number of bits by which the mantissa of an `f32` is shifted down to this format's.
    pub(crate) const fn shift(self) -> u32 {
        f32::MANTISSA_DIGITS - 1 - self.mantissa_bits
    }

    /// Difference between the exponent biases of `f32` and this format, as a byte's exponent field.
    pub(crate) const fn rebias(self) -> u32 {
        (127 - self.bias) << self.mantissa_bits
    }

    /// The bits of the smallest normal number as an `f32`.
    pub(crate) const fn min_normal(self) -> u32 {
        (128 - self.bias) << (f32::MANTISSA_DIGITS - 1)
    }

    /// The bits of the `f32` whose units in the last place are this format's subnormal numbers: a
    /// sum with it rounds to one of them.
    pub(crate) const fn subnormal_unit(self) -> u32 {
        (128 - self.bias + self.shift()) << (f32::MANTISSA_DIGITS - 1)
    }

    /// The bits of a byte's magnitude, one with a normal number, as an `f32`.
    pub(crate) const fn widen_normal(self, byte: u8) -> u32 {
        (byte as u32 + self.rebias()) << self.shift()
    }

    /// The largest `f32` bits that round to the largest number: halfway to the next, if that tie
    /// goes down.
    pub(crate) const fn last_finite(self) -> u32 {
        let halfway = self.widen_normal(self.max) + (1 << (self.shift() - 1));
        halfway - (self.max & 1) as u32
    }

    /// The nearest number, ties to even, saturating; a NaN is [`NAN`].
    fn encode(self, value: f32) -> u8 {
        if value.is_nan() {
            return NAN;
        }
        let magnitude = value.abs().to_bits().min(self.widen_normal(self.max));
        let byte = if magnitude < self.min_normal() {
            (f32::from_bits(magnitude) + f32::from_bits(self.subnormal_unit())).to_bits() - self.subnormal_unit()
        } else {
            let odd = magnitude >> self.shift() & 1;
            ((magnitude + (1 << (self.shift() - 1)) - 1 + odd) >> self.shift()) - self.rebias()
        };
        self.signed(value, u8::try_from(byte).expect("the magnitude was limited"))
    }

    /// Like [`Self::encode`], but numbers beyond the largest become infinity or NaN.
    fn encode_unsaturated(self, value: f32) -> u8 {
        if value.is_nan() || value.abs().to_bits() <= self.last_finite() {
            return self.encode(value);
        }
        if self.overflow == NAN { NAN } else { self.signed(value, self.overflow) }
    }

    const fn signed(self, value: f32, magnitude: u8) -> u8 {
        if value.is_sign_negative() { magnitude | 0x80 } else { magnitude }
    }

    fn decode(self, byte: u8) -> f32 {
        let magnitude = byte & 0x7f;
        let value = if magnitude > self.max {
            if magnitude == self.overflow && self.overflow != NAN { f32::INFINITY } else { f32::NAN }
        } else if u32::from(magnitude) >> self.mantissa_bits == 0 {
            f32::from_bits(self.subnormal_unit() + u32::from(magnitude)) - f32::from_bits(self.subnormal_unit())
        } else {
            f32::from_bits(self.widen_normal(magnitude))
        };
        if byte & 0x80 == 0 { value } else { -value }
    }
}

macro_rules! eight_bit_floats {
    ($($rust:ident $format:ident $largest:literal;)*) => {$(
        impl $rust {
            #[doc = concat!("The largest number, ", $largest, ".")]
            pub const MAX: Self = Self(Format::$format.max);
            /// A NaN, the one that casts give.
            pub const NAN: Self = Self(NAN);

            /// The number with these bits.
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// Its bits.
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to even, saturating (infinities, too); NaN stays NaN.
            #[must_use]
            pub fn from_f32(value: f32) -> Self {
                Self(Format::$format.encode(value))
            }

            /// The nearest number, ties to even. Results above the largest number become infinity,
            /// or NaN where the format has none.
            #[must_use]
            pub fn from_f32_unsaturated(value: f32) -> Self {
                Self(Format::$format.encode_unsaturated(value))
            }

            /// The same number, which is exact.
            #[must_use]
            pub fn to_f32(self) -> f32 {
                Format::$format.decode(self.0)
            }

            /// Returns true if the value is NaN.
            #[must_use]
            pub fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        /// Compares as numbers: NaN equals nothing, and the zeros are equal.
        impl PartialEq for $rust {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl std::fmt::Debug for $rust {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.to_f32())
            }
        }

        impl sealed::Sealed for $rust {}
        impl Scalar for $rust {
            const TYPE: Type = Type::$rust;
            fn to_bits(self) -> u64 {
                self.0.into()
            }
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn from_bits(bits: u64) -> Self {
                Self(bits as u8)
            }
        }
        impl Element for $rust {}
        impl EightBitFloat for $rust {
            const FORMAT: Format = Format::$format;
        }
    )*};
}

eight_bit_floats! {
    F8E4M3 E4M3 "448";
    F8E5M2 E5M2 "57344";
}

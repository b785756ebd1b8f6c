//! The types that kernels compute in.

use warpfold_lang::{Number, Operand, Ordered, Val};

use crate::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type that kernels compute in: wide enough for what it is made of.
///
/// Integers of up to 32 bits compute in `i32` or `u32`, which wrap as the narrow type does once they are stored in it;
/// floats of up to 32 bits in `f32`.
pub trait Compute: Number + Ordered + Operand<Self> + sealed::Sealed {
    /// The same, as a value.
    const DTYPE: Dtype;

    /// The host's number, rounded to this type; for constants of kernels.
    fn from_f64(value: f64) -> Self;
}

macro_rules! compute {
    ($($rust:ident $dtype:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Compute for $rust {
            const DTYPE: Dtype = Dtype::$dtype;

            fn from_f64(value: f64) -> Self {
                value as $rust
            }
        }
    )*};
}

compute!(i32 I32, u32 U32, i64 I64, u64 U64, f32 F32, f64 F64);

/// The value of eight bits as a float, exactly; `dtype` is [`Dtype::F8E4M3`] or [`Dtype::F8E5M2`].
#[track_caller]
#[must_use]
pub fn float8_value(dtype: Dtype, bits: Val<u32>) -> Val<f32> {
    let sign = (bits & 0x80) << 8;
    if dtype == Dtype::F8E5M2 {
        // The upper half of an `f16`.
        return ((bits & 0xff) << 8).cast::<u16>().bitcast::<half::f16>().cast();
    }
    // The exponent's bias is 7 here and 15 in `f16`; subnormals come out right as well.
    let magnitude = bits & 0x7f;
    let scaled = (sign | (magnitude << 7)).cast::<u16>().bitcast::<half::f16>().cast::<f32>() * 256.0;
    magnitude.eq(0x7f).select(f32::NAN, scaled)
}

/// Eight bits for a float: the nearest value, ties to even, the largest finite one for what lies beyond, NaN for NaN.
#[track_caller]
#[must_use]
pub fn float8_of(dtype: Dtype, value: Val<f32>) -> Val<u32> {
    let (bias, fraction_bits, largest) = match dtype {
        Dtype::F8E5M2 => (15_u32, 2_u32, 0x7b_u32),
        _ => (7, 3, 0x7e),
    };
    let bits = value.bitcast::<u32>();
    let sign = (bits >> 24) & 0x80;
    let magnitude = bits & 0x7fff_ffff;
    // Normal: round the fraction away, ties to even, and move the exponent's bias.
    let drop = 23 - fraction_bits;
    let odd = (magnitude >> drop) & 1;
    let rounded = (magnitude + odd + ((1_u32 << (drop - 1)) - 1)) >> drop;
    let normal = (rounded - ((127 - bias) << fraction_bits)).min(largest);
    // Subnormal: adding a power of two lets the adder round at the last place.
    let least_normal = f32::from_bits((127 - bias + 1) << 23);
    let adder = f32::from_bits((127 - bias + 1 + drop) << 23);
    let subnormal = (magnitude.bitcast::<f32>() + adder).bitcast::<u32>() - adder.to_bits();
    let finite = magnitude.lt(least_normal.to_bits()).select::<u32>(subnormal, normal);
    let is_nan = magnitude.gt(0x7f80_0000);
    sign | is_nan.select::<u32>(0x7f, finite)
}

//! The types that kernels compute in.

use warpfold_lang::{Number, Operand, Ordered};

use crate::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type that kernels compute in: wide enough for what it is made of.
///
/// Integers of up to 32 bits compute in `i32` or `u32`, which wrap as the narrow type does once
/// they are stored in it; floats of up to 32 bits in `f32`.
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

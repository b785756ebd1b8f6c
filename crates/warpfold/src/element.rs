//! The Rust types that a tensor's elements come from and go to.

use half::{bf16, f16};
use warpfold_kernels::Dtype;

/// A Rust type of tensor elements.
pub trait TensorElement: warpfold_device::Element {
    /// The same, as a value.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ident $dtype:ident),*) => {$(
        impl TensorElement for $rust {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements!(u8 U8, u16 U16, u32 U32, u64 U64, i8 I8, i16 I16, i32 I32, i64 I64, f16 F16, bf16 Bf16, f32 F32, f64 F64);

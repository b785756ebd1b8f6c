//! The element types of gemv: how they are loaded, and what they are added up in.

use half::{bf16, f16};
use warpfold_lang::{Cache, Global, Number, Operand, Val};

use crate::Dtype;

/// An element type of matrix, vector and result.
pub trait Element: Number + Operand<Self> {
    /// What sums are kept in: `f32` for halves, else the type itself.
    type Acc: Element<Acc = Self::Acc>;
    /// The same, as a value.
    const DTYPE: Dtype;
    /// Elements in 16 bytes.
    const VECTOR: u32 = 16 / <Self as warpfold_lang::Element>::BYTES;

    /// `width` neighbours as one access: a power of two up to [`VECTOR`](Self::VECTOR).
    fn load(from: Global<Self>, width: u32) -> Vec<Val<Self::Acc>>;
    /// The element, exactly.
    fn widen(element: Val<Self>) -> Val<Self::Acc>;
    /// The nearest element, ties to even.
    fn narrow(sum: Val<Self::Acc>) -> Val<Self>;
}

macro_rules! elements {
    ($($rust:ident $variant:ident $acc:ident $($width:literal)*;)*) => {$(
        impl Element for $rust {
            type Acc = $acc;
            const DTYPE: Dtype = Dtype::$variant;

            #[track_caller]
            fn load(from: Global<Self>, width: u32) -> Vec<Val<$acc>> {
                match width {
                    1 => vec![Self::widen(from.get())],
                    $($width => from.get_vec::<$width>().map(Self::widen).to_vec(),)*
                    _ => unreachable!("no access takes {width} elements of {}", Self::DTYPE),
                }
            }

            #[track_caller]
            fn widen(element: Val<Self>) -> Val<$acc> {
                element.cast()
            }

            #[track_caller]
            fn narrow(sum: Val<$acc>) -> Val<Self> {
                sum.cast()
            }
        }
    )*};
}

elements! {
    f16 F16 f32 2 4 8;
    bf16 Bf16 f32 2 4 8;
    f32 F32 f32 2 4;
    f64 F64 f64 2;
}

/// `width` neighbours of a matrix, which is read once: they leave the first-level cache to the
/// vector.
#[track_caller]
pub(super) fn stream<T: Element>(from: Global<T>, width: u32) -> Vec<Val<T::Acc>> {
    T::load(from.cache(Cache::ReadOnlyStreaming), width)
}

/// A kernel that is generic over the element type, for one that is known when the program runs.
macro_rules! for_dtype {
    ($dtype:expr, $kernel:ident($($argument:expr),*)) => {
        match $dtype {
            Dtype::F16 => AnyKernel::from($kernel::<half::f16>($($argument),*)),
            Dtype::Bf16 => AnyKernel::from($kernel::<half::bf16>($($argument),*)),
            Dtype::F32 => AnyKernel::from($kernel::<f32>($($argument),*)),
            Dtype::F64 => AnyKernel::from($kernel::<f64>($($argument),*)),
            dtype => unreachable!("no plan has the element type {dtype}"),
        }
    };
}
pub(super) use for_dtype;

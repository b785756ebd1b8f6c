//! The element types of a product: how they are loaded, and what they are summed up in.

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

    /// The 16 bytes there, as one access.
    fn load_vector(from: Global<Self>) -> Vec<Val<Self::Acc>>;
    /// The element, exactly.
    fn widen(element: Val<Self>) -> Val<Self::Acc>;
    /// The nearest element, ties to even.
    fn narrow(sum: Val<Self::Acc>) -> Val<Self>;
}

macro_rules! elements {
    ($($rust:ident $variant:ident $acc:ident $vector:literal;)*) => {$(
        impl Element for $rust {
            type Acc = $acc;
            const DTYPE: Dtype = Dtype::$variant;

            #[track_caller]
            fn load_vector(from: Global<Self>) -> Vec<Val<$acc>> {
                from.get_vec::<$vector>().map(Self::widen).to_vec()
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
    f16 F16 f32 8;
    bf16 Bf16 f32 8;
    f32 F32 f32 4;
    f64 F64 f64 2;
}

/// How many elements an access takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// One.
    Scalar,
    /// As many as 16 bytes hold; every address is a multiple of 16.
    Vector,
}

impl Access {
    /// Elements of an access.
    #[must_use]
    pub const fn width<T: Element>(self) -> u32 {
        match self {
            Self::Scalar => 1,
            Self::Vector => T::VECTOR,
        }
    }

    /// As part of a kernel's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
        }
    }

    /// The elements of one access.
    #[track_caller]
    pub(super) fn load<T: Element>(self, from: Global<T>) -> Vec<Val<T::Acc>> {
        match self {
            Self::Scalar => vec![T::widen(from.get())],
            Self::Vector => T::load_vector(from),
        }
    }

    /// The same of a matrix, which is read once: it leaves the first-level cache to the vector.
    #[track_caller]
    pub(super) fn stream<T: Element>(self, from: Global<T>) -> Vec<Val<T::Acc>> {
        self.load(from.cache(Cache::ReadOnlyStreaming))
    }
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

//! The element types of attention: what queries, keys and values are in memory. Registers compute
//! in `f32`.

use half::{bf16, f16};
use warpfold_lang::{Element, F8E4M3, Global, Val};

use crate::LadderElement;
use crate::row::RowElement;

/// An element type of attention.
pub trait AttentionElement: Element {
    /// Element type of buffers.
    type Memory: warpfold_device::Element + Element;
    /// Element type of results: the same, or `f32` for 8-bit types.
    type Out: RowElement;
    /// Name of the type in the names of kernels.
    const NAME: &'static str;
    /// Elements in 16 bytes.
    const WIDTH: u32;
    /// Half of the distance from 1 to the next number.
    const UNIT_ROUNDOFF: f64;
    /// The smallest positive number.
    const SMALLEST: f64;
    /// The nearest value.
    fn round(value: f32) -> Self::Memory;
    /// A value, exactly.
    fn as_f64(memory: Self::Memory) -> f64;
    /// The [`WIDTH`](Self::WIDTH) elements there where the condition holds, else zeros.
    fn load_wide(from: Global<Self>, condition: Val<bool>) -> Vec<Val<f32>>;
}

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl AttentionElement for $float {
            type Memory = Self;
            type Out = Self;
            const NAME: &'static str = <Self as LadderElement>::DTYPE.name();
            const WIDTH: u32 = <Self as RowElement>::WIDTH;
            const UNIT_ROUNDOFF: f64 = <Self as LadderElement>::UNIT_ROUNDOFF;
            const SMALLEST: f64 = <Self as LadderElement>::SMALLEST;

            fn round(value: f32) -> Self {
                <Self as RowElement>::round(value)
            }

            fn as_f64(memory: Self) -> f64 {
                LadderElement::as_f64(memory)
            }

            #[track_caller]
            fn load_wide(from: Global<Self>, condition: Val<bool>) -> Vec<Val<f32>> {
                <Self as RowElement>::load_wide(from, 0.0, condition)
            }
        }
    )*};
}

floats! { f32 f16 bf16 }

impl AttentionElement for F8E4M3 {
    type Memory = u8;
    type Out = f32;
    const NAME: &'static str = "f8e4m3";
    const WIDTH: u32 = 16;
    const UNIT_ROUNDOFF: f64 = 1.0 / 16.0;
    const SMALLEST: f64 = 1.0 / 512.0;

    fn round(value: f32) -> u8 {
        Self::from_f32(value).to_bits()
    }

    fn as_f64(memory: u8) -> f64 {
        f64::from(Self::from_bits(memory).to_f32())
    }

    #[track_caller]
    fn load_wide(from: Global<Self>, condition: Val<bool>) -> Vec<Val<f32>> {
        let words = from.reinterpret::<u32>().get_vec_or::<4>(0, condition);
        words.into_iter().flat_map(Val::unpack_eight_bits::<Self>).collect()
    }
}

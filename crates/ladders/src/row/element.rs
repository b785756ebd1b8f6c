//! The element types of rows: in memory `f32` or a half, in registers `f32`.

use half::{bf16, f16};
use warpfold_lang::{Bf16x2, F16x2, Global, ScalarFloat, Val};

use crate::LadderElement;

/// An element type of rows. Accesses are up to 16 bytes wide; what is loaded and stored is `f32`.
pub trait RowElement: LadderElement + ScalarFloat {
    /// Elements in 16 bytes.
    const WIDTH: u32;

    /// The [`WIDTH`](Self::WIDTH) elements there where the condition holds, else so many of the
    /// default, which has to be a value of this type.
    fn load_wide(from: Global<Self>, default: f32, condition: Val<bool>) -> Vec<Val<f32>>;

    /// Stores [`WIDTH`](Self::WIDTH) elements, each rounded to nearest even, where the condition
    /// holds.
    fn store_wide(to: Global<Self>, values: &[Val<f32>], condition: Val<bool>);

    /// The nearest value of this type.
    fn round(value: f32) -> Self;
}

impl RowElement for f32 {
    const WIDTH: u32 = 4;

    #[track_caller]
    fn load_wide(from: Global<Self>, default: f32, condition: Val<bool>) -> Vec<Val<f32>> {
        from.get_vec_or::<4>(default, condition).to_vec()
    }

    #[track_caller]
    fn store_wide(to: Global<Self>, values: &[Val<f32>], condition: Val<bool>) {
        to.set_vec_if::<4>(std::array::from_fn(|i| values[i]), condition);
    }

    fn round(value: f32) -> Self {
        value
    }
}

macro_rules! halves {
    ($($half:ident $pair:ident;)*) => {$(
        impl RowElement for $half {
            const WIDTH: u32 = 8;

            #[track_caller]
            fn load_wide(from: Global<Self>, default: f32, condition: Val<bool>) -> Vec<Val<f32>> {
                let default = $pair([$half::from_f32(default); 2]);
                let pairs = from.reinterpret::<$pair>().get_vec_or::<4>(default, condition);
                pairs.into_iter().flat_map(Val::to_f32).collect()
            }

            #[track_caller]
            fn store_wide(to: Global<Self>, values: &[Val<f32>], condition: Val<bool>) {
                let pair = |i: usize| Val::<$pair>::from_f32(values[2 * i], values[2 * i + 1]);
                to.reinterpret::<$pair>().set_vec_if::<4>(std::array::from_fn(pair), condition);
            }

            fn round(value: f32) -> Self {
                Self::from_f32(value)
            }
        }
    )*};
}

halves! {
    f16 F16x2;
    bf16 Bf16x2;
}

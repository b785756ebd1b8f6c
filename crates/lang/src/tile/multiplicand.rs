//! Element types that tensor cores multiply, and their accumulator types.

use half::{bf16, f16};

use crate::types::{Element, Number};
use crate::{F8E4M3, F8E5M2};

/// An element type that tensor cores multiply. One step of an instruction takes 32 bytes of it
/// along `k`.
pub trait Multiplicand: Element {
    /// The accumulator type.
    type Sum: Sum;
    /// The PTX name of the type in `mma` and `wgmma`.
    #[doc(hidden)]
    const NAME: &'static str;
    /// The first architecture and PTX version with `mma.sync` for it.
    #[doc(hidden)]
    const MMA_SINCE: (u32, (u32, u32));
    /// True if tiles may be K-major or MN-major.
    const EITHER_MAJOR: bool;
    /// Elements along `k` that one step takes.
    const STEP: u32 = 32 / Self::BYTES;
    /// Granularity of the number of columns of a warpgroup's MMA.
    #[doc(hidden)]
    const COLUMNS_STEP: u32 = 8;
}

/// Accumulator types of the tensor cores: `f32` and `i32`.
pub trait Sum: Element + Number {
    /// The PTX name of the type in `mma` and `wgmma`.
    #[doc(hidden)]
    const NAME: &'static str;
}

impl Sum for f32 {
    const NAME: &'static str = "f32";
}

impl Sum for i32 {
    const NAME: &'static str = "s32";
}

macro_rules! multiplicands {
    ($($rust:ty, $sum:ty, $name:literal, $since:expr, $either:literal, $columns:literal;)*) => {$(
        impl Multiplicand for $rust {
            type Sum = $sum;
            const NAME: &'static str = $name;
            const MMA_SINCE: (u32, (u32, u32)) = $since;
            const EITHER_MAJOR: bool = $either;
            const COLUMNS_STEP: u32 = $columns;
        }
    )*};
}

// `f32` is multiplied as tf32: its low 13 bits count for nothing. PTX ISA: the fp8 forms of `mma`
// came with sm_89, and integers take N in steps of 8 up to 32 and of 16 from there; steps of 16 are
// both.
multiplicands! {
    f16, f32, "f16", (80, (7, 0)), true, 8;
    bf16, f32, "bf16", (80, (7, 0)), true, 8;
    f32, f32, "tf32", (80, (7, 0)), false, 8;
    F8E4M3, f32, "e4m3", (89, (8, 4)), false, 8;
    F8E5M2, f32, "e5m2", (89, (8, 4)), false, 8;
    i8, i32, "s8", (80, (7, 0)), false, 16;
    u8, i32, "u8", (80, (7, 0)), false, 16;
}

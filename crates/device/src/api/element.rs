//! Element types of buffers.

use half::{bf16, f16};

/// Element type of device memory: integers and floats of 8 to 64 bits, for which every bit pattern
/// is valid.
///
/// Sealed: kernels know exactly these types.
pub trait Element: bytemuck::Pod + Send + Sync + std::fmt::Debug + PartialEq + sealed::Sealed {
    /// The PTX name of the type: `f32`, `u8`, `bf16`, …
    const NAME: &'static str;
}

mod sealed {
    /// Keeps [`super::Element`] to the types below.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $name:literal),* $(,)?) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const NAME: &'static str = $name;
        }
    )*};
}

elements! {
    u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64",
    i8 => "s8", i16 => "s16", i32 => "s32", i64 => "s64",
    f16 => "f16", bf16 => "bf16", f32 => "f32", f64 => "f64",
}

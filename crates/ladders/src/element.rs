//! The element types of ladders, and what the host has to know about them.

use half::{bf16, f16};
use warpfold_kernels::Dtype;
use warpfold_lang::{AtomicAdd, Number, Operand};

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// An element type of a ladder, at compile time.
pub trait LadderElement: Number + Operand<Self> + AtomicAdd + warpfold_device::Element + sealed::Sealed {
    /// The same, as a value.
    const DTYPE: Dtype;
    /// Half of the distance from 1 to the next number: the relative error of one addition. 0 where
    /// adding is exact.
    const UNIT_ROUNDOFF: f64;
    /// The smallest positive number, a subnormal one: below it results are 0.
    const SMALLEST: f64;
    /// An element made of 64 random bits: over the whole range of `i32`, in -1 to 1 for floats.
    fn sample(random: u64) -> Self;
    /// The value, exactly.
    fn as_f64(self) -> f64;
    /// `self + other` as the device adds.
    fn plus(self, other: Self) -> Self;
    /// The sum as the host adds: modulo 2^32, or in double precision.
    fn sum(elements: &[Self]) -> f64;
    /// A sum of two values as the element type has it: modulo 2^32 for integers, unchanged for
    /// floats.
    fn wrapped(sum: f64) -> f64 {
        sum
    }
}

impl LadderElement for i32 {
    const DTYPE: Dtype = Dtype::I32;
    const UNIT_ROUNDOFF: f64 = 0.0;
    const SMALLEST: f64 = 1.0;

    fn sample(random: u64) -> Self {
        (random >> 32) as u32 as Self
    }

    fn as_f64(self) -> f64 {
        f64::from(self)
    }

    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn sum(elements: &[Self]) -> f64 {
        f64::from(elements.iter().fold(0, |sum: Self, element| sum.wrapping_add(*element)))
    }

    fn wrapped(sum: f64) -> f64 {
        f64::from(sum as i64 as Self)
    }
}

impl LadderElement for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const UNIT_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
    const SMALLEST: f64 = f32::from_bits(1) as f64;

    fn sample(random: u64) -> Self {
        // 24 bits over -2^23 to 2^23: every value is a float.
        ((random >> 40) as Self - 8_388_608.0) / 8_388_608.0
    }

    fn as_f64(self) -> f64 {
        f64::from(self)
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn sum(elements: &[Self]) -> f64 {
        elements.iter().map(|element| f64::from(*element)).sum()
    }
}

macro_rules! halves {
    ($($half:ident $dtype:ident;)*) => {$(
        impl LadderElement for $half {
            const DTYPE: Dtype = Dtype::$dtype;
            const UNIT_ROUNDOFF: f64 = $half::EPSILON.to_f64_const() / 2.0;
            const SMALLEST: f64 = $half::from_bits(1).to_f64_const();

            fn sample(random: u64) -> Self {
                Self::from_f32(f32::sample(random))
            }

            fn as_f64(self) -> f64 {
                self.to_f64()
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn sum(elements: &[Self]) -> f64 {
                elements.iter().map(|element| element.to_f64()).sum()
            }
        }
    )*};
}

halves! {
    f16 F16;
    bf16 Bf16;
}

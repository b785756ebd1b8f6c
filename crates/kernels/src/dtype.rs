//! Element types, and what the host has to know about those that ladders run with.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use warpfold_lang::{AtomicAdd, Number, Operand};

use crate::{Error, ErrorKind};

/// The element type of an array, when the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each variant is the Rust type of the same name")]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    Bf16,
    /// Eight bits, four of them exponent, three fraction; no infinities (OCP 8-bit floating point, E4M3).
    F8E4M3,
    /// Eight bits, five of them exponent, two fraction: the upper half of `f16`.
    F8E5M2,
    F32,
    F64,
}

impl Dtype {
    /// Every element type.
    pub const ALL: [Self; 15] = [
        Self::Bool,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F16,
        Self::Bf16,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::F32,
        Self::F64,
    ];

    /// `i32`, `bf16`, `f8e4m3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The integer type without sign that has as many bytes: what elements are where only their bits matter.
    #[must_use]
    pub const fn bits(self) -> Self {
        match self.bytes() {
            1 => Self::U8,
            2 => Self::U16,
            4 => Self::U32,
            _ => Self::U64,
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F8E4M3 | Self::F8E5M2 | Self::F32 | Self::F64)
    }

    /// Whether it is an integer type; `bool` is none.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Self::Bool)
    }

    /// The types in words: `i32 or f32`, `f16, bf16 or f32`.
    #[must_use]
    pub fn list(dtypes: &[Self]) -> String {
        let names: Vec<_> = dtypes.iter().map(|dtype| dtype.name()).collect();
        match names.split_last() {
            None => "none".to_owned(),
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| ErrorKind::UnknownDtype(text.to_owned()).into())
    }
}

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
    /// Half of the distance from 1 to the next number: the relative error of one addition. 0 where adding is exact.
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

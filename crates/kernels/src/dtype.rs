//! The element types that ladders run with, and what the host has to know about each.

use std::fmt;
use std::str::FromStr;

use warpfold_lang::{AtomicAdd, Number, Operand};

use crate::{Error, ErrorKind};

/// An element type of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32-bit integers, added modulo 2^32: results are exact in any order.
    I32,
    /// Single precision.
    F32,
}

impl Dtype {
    /// Every element type.
    pub const ALL: [Self; 2] = [Self::I32, Self::F32];

    /// `i32`, `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::F32 => "f32",
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I32 | Self::F32 => 4,
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
}

/// An element type of a ladder, at compile time.
pub trait LadderElement: Number + Operand<Self> + AtomicAdd + warpfold_device::Element + sealed::Sealed {
    /// The same, as a value.
    const DTYPE: Dtype;
    /// Half of the distance from 1 to the next number: the relative error of one addition. 0 where adding is exact.
    const UNIT_ROUNDOFF: f64;
    /// An element made of 64 random bits: over the whole range of `i32`, in -1 to 1 for `f32`.
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

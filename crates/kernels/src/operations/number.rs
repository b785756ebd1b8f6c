//! Numbers of the host that operations take as options.

use half::{bf16, f16};
use warpfold_lang::Scalar;

use crate::{Dtype, Error, ErrorKind};

/// A number of the host: exact in both kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Any integer that an element can be; `bool` is 0 or 1.
    Integer(i128),
    /// Any float.
    Float(f64),
}

impl Number {
    /// Refuses an option that is no integer, of either kind; no infinity is one, nor NaN.
    pub(crate) fn expect_whole(self, op: &str, option: &'static str) -> Result<(), Error> {
        match self {
            Self::Float(x) if x.fract() != 0.0 => {
                let expected = "that is a whole number for integers".to_owned();
                Err(ErrorKind::OptionOutOfRange { op: op.to_owned(), option, expected }.into())
            }
            _ => Ok(()),
        }
    }

    /// The bits of the number in a type that kernels compute in: integers wrap, and floats are cut
    /// before they do.
    pub(crate) fn bits(self, computed: Dtype) -> u64 {
        let (integer, float) = match self {
            Self::Integer(i) => (i, i as f64),
            Self::Float(x) => (x as i128, x),
        };
        match (computed, self) {
            (Dtype::F64, _) => float.to_bits(),
            (Dtype::F32, Self::Integer(i)) => Scalar::to_bits(i as f32),
            (Dtype::F32, Self::Float(x)) => Scalar::to_bits(x as f32),
            (Dtype::I32 | Dtype::U32, _) => u64::from(integer as u32),
            _ => integer as u64,
        }
    }
}

macro_rules! from {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Number {
            fn from(value: $ty) -> Self {
                Self::Integer(value.into())
            }
        }
    )*};
}

from!(bool, u8, u16, u32, u64, i8, i16, i32, i64);

impl From<f32> for Number {
    fn from(value: f32) -> Self {
        Self::Float(value.into())
    }
}

impl From<f16> for Number {
    fn from(value: f16) -> Self {
        Self::Float(value.into())
    }
}

impl From<bf16> for Number {
    fn from(value: bf16) -> Self {
        Self::Float(value.into())
    }
}

impl std::ops::Neg for Number {
    type Output = Self;

    fn neg(self) -> Self {
        match self {
            Self::Integer(i) => Self::Integer(-i),
            Self::Float(x) => Self::Float(-x),
        }
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_are_cut_or_are_rounded() {
        assert_eq!(Number::from(u64::MAX).bits(Dtype::U64), u64::MAX);
        assert_eq!(Number::from(-1_i8).bits(Dtype::I32), 0xffff_ffff);
        assert_eq!(Number::from(300.7).bits(Dtype::U32), 300);
        assert_eq!(Number::from(-1.5).bits(Dtype::U64), u64::MAX);
        assert_eq!(Number::from(f64::NAN).bits(Dtype::I64), 0);
        assert_eq!(Number::from(0.1).bits(Dtype::F32), u64::from(0.1_f32.to_bits()));
        assert_eq!(Number::from(true).bits(Dtype::F64), 1.0_f64.to_bits());
    }
}

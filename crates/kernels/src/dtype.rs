//! Element types, when the program runs.

use std::fmt;
use std::str::FromStr;

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
    /// Eight bits, four of them exponent, three fraction; no infinities (OCP 8-bit floating point,
    /// E4M3).
    F8E4M3,
    /// Eight bits, five of them exponent, two fraction: the upper half of `f16`.
    F8E5M2,
    F32,
    F64,
}

impl Dtype {
    /// [`Dtype::Bf16`] by candle's name.
    pub const BF16: Self = Self::Bf16;
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

    /// [`Dtype::bytes`] by candle's name and type.
    #[must_use]
    pub const fn size_in_bytes(self) -> usize {
        self.bytes() as usize
    }

    /// The integer type without sign that has as many bytes: what elements are where only their
    /// bits matter.
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

//! Types of registers and memory elements, and the Rust types that stand for them.

mod f8;

use half::{bf16, f16};
use warpfold_ptx::ScalarType;

use crate::val::Functions;

pub(crate) use f8::Format;
pub use f8::{EightBitFloat, F8E4M3, F8E5M2};

/// A type at recording time: the value of [`Scalar::TYPE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each variant is the Rust type of the same name")]
pub enum Type {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F8E4M3,
    F8E5M2,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
}

/// Kind of a type, for operations whose code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Integer,
    /// `F8E4M3`, `F8E5M2`: bits that only casts understand.
    Eight(Format),
    /// `f16`, `bf16`.
    Half,
    /// Two halves in one register.
    Pair,
    /// `f32`, `f64`.
    Wide,
}

impl Type {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::I8 | Self::I16 | Self::I32 | Self::I64 => {
                Kind::Integer
            }
            Self::F8E4M3 => Kind::Eight(Format::E4M3),
            Self::F8E5M2 => Kind::Eight(Format::E5M2),
            Self::F16 | Self::Bf16 => Kind::Half,
            Self::F16x2 | Self::Bf16x2 => Kind::Pair,
            Self::F32 | Self::F64 => Kind::Wide,
        }
    }

    /// Size in bits; a predicate has 1.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bool => 1,
            Self::U8 | Self::I8 | Self::F8E4M3 | Self::F8E5M2 => 8,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 16,
            Self::U32 | Self::I32 | Self::F16x2 | Self::Bf16x2 | Self::F32 => 32,
            Self::U64 | Self::I64 | Self::F64 => 64,
        }
    }

    /// Size in bytes; a predicate takes 1.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns true for signed integers.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// Returns true for signed and unsigned integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Integer)
    }

    /// Returns true for `f16`, `bf16` and pairs of them.
    #[must_use]
    pub const fn is_half(self) -> bool {
        matches!(self.kind(), Kind::Half | Kind::Pair)
    }

    /// Returns true for floating-point types.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Eight(_) | Kind::Half | Kind::Pair | Kind::Wide)
    }

    /// The type as memory instructions and `cvt` name it: 8-bit types keep their width.
    pub(crate) const fn memory(self) -> ScalarType {
        match self {
            Self::Bool => ScalarType::Pred,
            Self::U8 | Self::F8E4M3 | Self::F8E5M2 => ScalarType::U8,
            Self::U16 => ScalarType::U16,
            Self::U32 => ScalarType::U32,
            Self::U64 => ScalarType::U64,
            Self::I8 => ScalarType::S8,
            Self::I16 => ScalarType::S16,
            Self::I32 => ScalarType::S32,
            Self::I64 => ScalarType::S64,
            Self::F16 | Self::Bf16 => ScalarType::B16,
            Self::F16x2 | Self::Bf16x2 => ScalarType::B32,
            Self::F32 => ScalarType::F32,
            Self::F64 => ScalarType::F64,
        }
    }

    /// The type as arithmetic names it: 8-bit integers compute in 16 bits.
    pub(crate) const fn arithmetic(self) -> ScalarType {
        match self {
            Self::U8 | Self::F8E4M3 | Self::F8E5M2 => ScalarType::U16,
            Self::I8 => ScalarType::S16,
            Self::F16 => ScalarType::F16,
            Self::Bf16 => ScalarType::Bf16,
            Self::F16x2 => ScalarType::F16x2,
            Self::Bf16x2 => ScalarType::Bf16x2,
            Self::Bool
            | Self::U16
            | Self::U32
            | Self::U64
            | Self::I16
            | Self::I32
            | Self::I64
            | Self::F32
            | Self::F64 => self.memory(),
        }
    }

    /// The untyped bits of the register that holds it.
    pub(crate) const fn untyped(self) -> ScalarType {
        match self.bits() {
            1 => ScalarType::Pred,
            8 | 16 => ScalarType::B16,
            32 => ScalarType::B32,
            _ => ScalarType::B64,
        }
    }

    /// The type of the register that holds it.
    pub(crate) const fn register(self) -> ScalarType {
        match self {
            Self::F32 => ScalarType::F32,
            Self::F64 => ScalarType::F64,
            Self::Bool
            | Self::U8
            | Self::U16
            | Self::U32
            | Self::U64
            | Self::I8
            | Self::I16
            | Self::I32
            | Self::I64
            | Self::F8E4M3
            | Self::F8E5M2
            | Self::F16
            | Self::Bf16
            | Self::F16x2
            | Self::Bf16x2 => self.untyped(),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that a register can hold.
pub trait Scalar: Copy + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static {
    /// The type as a value.
    const TYPE: Type;
    /// The bits of a constant, zero-extended.
    fn to_bits(self) -> u64;
    /// The constant with these low bits.
    fn from_bits(bits: u64) -> Self;
}

/// A [`Scalar`] that can be stored in memory: all but `bool`.
pub trait Element: Scalar {
    /// Size (and alignment) in bytes.
    const BYTES: u32 = Self::TYPE.bytes();
}

/// An [`Element`] with arithmetic: all but 8-bit floats.
pub trait Number: Element {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The identity of `max`: minus infinity, or the smallest integer.
    const LOWEST: Self;
    /// The identity of `min`: infinity, or the largest integer.
    const HIGHEST: Self;
}

/// An integer.
pub trait Integer: Number {}

/// An integer of 32 or 64 bits, the widths that bit instructions have.
pub trait Word: Integer {}

/// A number with a sign: `neg` and `abs`.
pub trait Signed: Number {}

/// A number whose arithmetic rounds, packed pairs included.
pub trait Float: Signed {}

/// A number that compares to one predicate: all but packed pairs.
pub trait Ordered: Number {}

/// `f16`, `bf16`, `f32` or `f64`: one number per register, so comparisons give one predicate.
pub trait ScalarFloat: Float + Ordered {}

/// `f32` or `f64`: types with mathematical functions, from [`Val::exp`](crate::Val::exp) to
/// [`Val::sin`](crate::Val::sin). The bound for a kernel that is generic over the type it computes
/// in.
pub trait WideFloat: ScalarFloat {
    /// The implementation of the mathematical functions.
    #[doc(hidden)]
    type Math: Functions;
}

impl WideFloat for f32 {
    type Math = Self;
}

impl WideFloat for f64 {
    type Math = Self;
}

/// Two `f16` in one 32-bit register, the first in the low half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct F16x2(pub [f16; 2]);

/// Two `bf16` in one 32-bit register, the first in the low half.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bf16x2(pub [bf16; 2]);

impl sealed::Sealed for bool {}
impl Scalar for bool {
    const TYPE: Type = Type::Bool;
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    fn from_bits(bits: u64) -> Self {
        bits & 1 == 1
    }
}

macro_rules! integers {
    ($($rust:ident $unsigned:ident $variant:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Scalar for $rust {
            const TYPE: Type = Type::$variant;
            fn to_bits(self) -> u64 { u64::from(self.cast_unsigned_bits()) }
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn from_bits(bits: u64) -> Self { bits as $rust }
        }
        impl CastUnsigned for $rust {
            type Unsigned = $unsigned;
            fn cast_unsigned_bits(self) -> $unsigned { self as $unsigned }
        }
        impl Element for $rust {}
        impl Number for $rust {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const LOWEST: Self = $rust::MIN;
            const HIGHEST: Self = $rust::MAX;
        }
        impl Ordered for $rust {}
        impl Integer for $rust {}
    )*};
}

trait CastUnsigned {
    type Unsigned;
    fn cast_unsigned_bits(self) -> Self::Unsigned;
}

integers!(u8 u8 U8, u16 u16 U16, u32 u32 U32, u64 u64 U64, i8 u8 I8, i16 u16 I16, i32 u32 I32, i64 u64 I64);

macro_rules! floats {
    ($($rust:ident $bits:ident $variant:ident $zero:expr, $one:expr, $lowest:expr, $highest:expr;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Scalar for $rust {
            const TYPE: Type = Type::$variant;
            fn to_bits(self) -> u64 { u64::from($rust::to_bits(self)) }
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are the value")]
            fn from_bits(bits: u64) -> Self { $rust::from_bits(bits as $bits) }
        }
        impl Element for $rust {}
        impl Number for $rust {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const LOWEST: Self = $lowest;
            const HIGHEST: Self = $highest;
        }
        impl Signed for $rust {}
        impl Float for $rust {}
    )*};
}

floats! {
    f16 u16 F16 f16::ZERO, f16::ONE, f16::NEG_INFINITY, f16::INFINITY;
    bf16 u16 Bf16 bf16::ZERO, bf16::ONE, bf16::NEG_INFINITY, bf16::INFINITY;
    f32 u32 F32 0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY;
    f64 u64 F64 0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY;
    F16x2 u32 F16x2 F16x2([f16::ZERO; 2]), F16x2([f16::ONE; 2]), F16x2([f16::NEG_INFINITY; 2]), F16x2([f16::INFINITY; 2]);
    Bf16x2 u32 Bf16x2 Bf16x2([bf16::ZERO; 2]), Bf16x2([bf16::ONE; 2]), Bf16x2([bf16::NEG_INFINITY; 2]), Bf16x2([bf16::INFINITY; 2]);
}

macro_rules! pairs {
    ($($pair:ident $half:ident),*) => {$(
        impl $pair {
            /// The pair as one 32-bit pattern.
            #[must_use]
            pub const fn to_bits(self) -> u32 {
                self.0[0].to_bits() as u32 | (self.0[1].to_bits() as u32) << 16
            }

            /// The pair with this 32-bit pattern.
            #[must_use]
            #[allow(clippy::cast_possible_truncation, reason = "each half takes its own 16 bits")]
            pub const fn from_bits(bits: u32) -> Self {
                Self([$half::from_bits(bits as u16), $half::from_bits((bits >> 16) as u16)])
            }
        }
    )*};
}

pairs!(F16x2 f16, Bf16x2 bf16);

macro_rules! marker {
    ($($marker:ident: $($rust:ident)*;)*) => {$($(impl $marker for $rust {})*)*};
}

marker! {
    Word: u32 u64 i32 i64;
    Signed: i8 i16 i32 i64;
    ScalarFloat: f16 bf16 f32 f64;
    Ordered: f16 bf16 f32 f64;
}

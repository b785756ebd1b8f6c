//! Views of compared registers as integers or as floating-point numbers.

use std::hint::select_unpredictable;

use crate::exec::row::Lane;

/// A comparable view of a register.
pub(super) trait View: Lane {
    /// Neither is a NaN.
    fn ordered(self, other: Self) -> bool;
    fn equal(self, other: Self) -> bool;
    fn less(self, other: Self) -> bool;
    fn less_or_equal(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl View for $ty {
            #[inline(always)]
            fn ordered(self, _: Self) -> bool { true }
            #[inline(always)]
            fn equal(self, other: Self) -> bool { self == other }
            #[inline(always)]
            fn less(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn less_or_equal(self, other: Self) -> bool { self <= other }
        }
    )*};
}

integers! { u32 i32 u64 i64 }

/// A 16-bit integer, compared in its own 32-bit lane: narrowing lanes first costs four times as
/// much.
#[derive(Debug, Clone, Copy)]
pub(super) struct Short<const SIGNED: bool>(i32);

impl<const SIGNED: bool> Lane for Short<SIGNED> {
    type Bits = u32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        Self(if SIGNED { (bits << 16).cast_signed() } else { (bits & 0xffff).cast_signed() })
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        (if SIGNED { self.0 >> 16 } else { self.0 }).cast_unsigned() & 0xffff
    }
}

impl<const SIGNED: bool> View for Short<SIGNED> {
    #[inline(always)]
    fn ordered(self, _: Self) -> bool {
        true
    }
    #[inline(always)]
    fn equal(self, other: Self) -> bool {
        self.0 == other.0
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self.0 < other.0
    }
    #[inline(always)]
    fn less_or_equal(self, other: Self) -> bool {
        self.0 <= other.0
    }
}

macro_rules! floats {
    ($($ty:ty)*) => {$(
        impl View for $ty {
            #[inline(always)]
            #[allow(clippy::eq_op, reason = "a NaN is the one number that differs from itself")]
            fn ordered(self, other: Self) -> bool { (self == self) & (other == other) }
            #[inline(always)]
            fn equal(self, other: Self) -> bool { self == other }
            #[inline(always)]
            fn less(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn less_or_equal(self, other: Self) -> bool { self <= other }
        }
    )*};
}

floats! { f32 f64 Flushed }

/// An f32 whose subnormals count as zero (`.ftz`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Flushed(pub f32);

impl Lane for Flushed {
    type Bits = u32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        Self(f32::from_bits(select_unpredictable(bits & 0x7f80_0000 == 0, bits & 0x8000_0000, bits)))
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self.0.to_bits()
    }
}

/// One half of a register as a 16-bit float with this infinity, zero-extended and compared by its
/// bits: `half`'s conversions would keep the loop from being vectorised.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half<const INFINITY: u32, const UPPER: bool, const FLUSH: bool>(u32);

/// An f16.
pub(super) type F16<const UPPER: bool, const FLUSH: bool> = Half<0x7c00, UPPER, FLUSH>;
/// A bf16, which has no `.ftz`.
pub(super) type Bf16<const UPPER: bool> = Half<0x7f80, UPPER, false>;

impl<const INFINITY: u32, const UPPER: bool, const FLUSH: bool> Half<INFINITY, UPPER, FLUSH> {
    /// An integer that is ordered as the number is; both zeros are 0.
    #[inline(always)]
    fn key(self) -> i32 {
        let sign = (self.0 << 16).cast_signed() >> 31;
        ((self.0 & 0x7fff).cast_signed() ^ sign) - sign
    }
}

impl<const INFINITY: u32, const UPPER: bool, const FLUSH: bool> Lane for Half<INFINITY, UPPER, FLUSH> {
    type Bits = u32;
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        let half = if UPPER { bits >> 16 } else { bits & 0xffff };
        Self(select_unpredictable(FLUSH && half & INFINITY == 0, half & 0x8000, half))
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self.0
    }
}

impl<const INFINITY: u32, const UPPER: bool, const FLUSH: bool> View for Half<INFINITY, UPPER, FLUSH> {
    #[inline(always)]
    fn ordered(self, other: Self) -> bool {
        (self.0 & 0x7fff <= INFINITY) & (other.0 & 0x7fff <= INFINITY)
    }
    #[inline(always)]
    fn equal(self, other: Self) -> bool {
        (self.key() == other.key()) & self.ordered(other)
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        (self.key() < other.key()) & self.ordered(other)
    }
    #[inline(always)]
    fn less_or_equal(self, other: Self) -> bool {
        (self.key() <= other.key()) & self.ordered(other)
    }
}

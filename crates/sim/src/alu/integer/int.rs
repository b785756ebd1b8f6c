//! Integer lanes for the generic operations.

use crate::exec::row::Lane;

/// A 16-, 32- or 64-bit integer, signed or unsigned. Arithmetic wraps, as it does on hardware.
pub(crate) trait Int: Lane + Ord + Default {
    /// Width in bits.
    const BITS: u32;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The upper half of the product.
    fn mul_hi(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    fn one() -> Self;
    /// A bit for each position out of which `self + other`, with a carry in or without, carries to
    /// give `sum`.
    fn carries(self, other: Self, sum: Self) -> Self;
    /// The highest bit.
    fn top(self) -> bool;
    /// All bits inverted.
    fn not(self) -> Self;
    /// Bits shifted left; zero for amounts of the width or more.
    fn shl(self, amount: u32) -> Self;
    /// Bits shifted right, filled with the sign; sign bits only for amounts of the width or more.
    fn shr(self, amount: u32) -> Self;
}

/// An integer whose product fits an integer of twice its width.
pub(crate) trait Widen: Int {
    /// The integer type of twice the width.
    type Wide: Int;
    fn widen(self) -> Self::Wide;
}

macro_rules! integers {
    ($($ty:ident, wide $w:ident;)*) => {$(
        #[allow(
            clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss,
            clippy::cast_lossless, clippy::allow_attributes, trivial_numeric_casts,
            reason = "halves of products are cut out and bits reinterpreted on purpose"
        )]
        impl Int for $ty {
            const BITS: u32 = $ty::BITS;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn mul_hi(self, other: Self) -> Self { ((self as $w * other as $w) >> $ty::BITS) as Self }
            #[inline(always)]
            fn abs(self) -> Self { if self < Self::default() { self.neg() } else { self } }
            #[inline(always)]
            fn neg(self) -> Self { (0 as Self).wrapping_sub(self) }
            #[inline(always)]
            fn one() -> Self { 1 }
            #[inline(always)]
            fn carries(self, other: Self, sum: Self) -> Self { (self & other) | ((self | other) & !sum) }
            #[inline(always)]
            fn top(self) -> bool { self >> ($ty::BITS - 1) != 0 }
            #[inline(always)]
            fn not(self) -> Self { !self }
            #[inline(always)]
            fn shl(self, amount: u32) -> Self {
                if amount < $ty::BITS { self << amount } else { 0 }
            }
            #[inline(always)]
            fn shr(self, amount: u32) -> Self {
                if amount < $ty::BITS { self >> amount } else { self >> ($ty::BITS - 1) >> 1 }
            }
        }
    )*};
}

integers! {
    u16, wide u32;
    i16, wide i32;
    u32, wide u64;
    i32, wide i64;
    u64, wide u128;
    i64, wide i128;
}

macro_rules! widen {
    ($($ty:ident to $w:ident;)*) => {$(
        impl Widen for $ty {
            type Wide = $w;
            #[inline(always)]
            fn widen(self) -> $w { self.into() }
        }
    )*};
}

widen! {
    u16 to u32;
    i16 to i32;
    u32 to u64;
    i32 to i64;
}

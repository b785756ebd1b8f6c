//! Integer lanes, as the generic operations see them.

use crate::exec::row::Lane;

/// A 16-, 32- or 64-bit integer, signed or unsigned. Arithmetic wraps, as it does on hardware.
pub(crate) trait Int: Lane + Ord + Default {
    /// Its width.
    const BITS: u32;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The upper half of the product.
    fn mul_hi(self, other: Self) -> Self;
    /// Quotient, rounded towards zero. The ISA leaves division by zero to the machine: ptxas 13.0 makes
    /// all ones of it for sm_90a, for every width, remainder included.
    fn div(self, other: Self) -> Self;
    /// Remainder, with the sign of the dividend; all ones for a zero divisor.
    fn rem(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    /// `self + other + carry` and whether it carries out, bits taken as unsigned.
    fn add_carry(self, other: Self, carry: bool) -> (Self, bool);
    /// `self - (other + borrow)` and whether it borrows, bits taken as unsigned.
    fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool);
    /// Bits shifted left; zero from the width on.
    fn shl(self, amount: u32) -> Self;
    /// Bits shifted right, filled with the sign; nothing but sign from the width on.
    fn shr(self, amount: u32) -> Self;
}

/// An integer whose product fits an integer of twice its width.
pub(crate) trait Widen: Int {
    /// Twice as wide.
    type Wide: Int;
    fn widen(self) -> Self::Wide;
}

macro_rules! integers {
    ($($ty:ident, unsigned $u:ident, wide $w:ident;)*) => {$(
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
            fn div(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn abs(self) -> Self { if self < Self::default() { self.neg() } else { self } }
            #[inline(always)]
            fn neg(self) -> Self { (0 as Self).wrapping_sub(self) }
            #[inline(always)]
            fn add_carry(self, other: Self, carry: bool) -> (Self, bool) {
                let (sum, first) = (self as $u).overflowing_add(other as $u);
                let (sum, second) = sum.overflowing_add(carry as $u);
                (sum as Self, first | second)
            }
            #[inline(always)]
            fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool) {
                let (difference, first) = (self as $u).overflowing_sub(other as $u);
                let (difference, second) = difference.overflowing_sub(borrow as $u);
                (difference as Self, first | second)
            }
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
    u16, unsigned u16, wide u32;
    i16, unsigned u16, wide i32;
    u32, unsigned u32, wide u64;
    i32, unsigned u32, wide i64;
    u64, unsigned u64, wide u128;
    i64, unsigned u64, wide i128;
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

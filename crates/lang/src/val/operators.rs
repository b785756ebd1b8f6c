//! Rust's operators on values.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};
use std::ops::{AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, MulAssign, SubAssign};

use super::{Operand, Val};
use crate::intrinsics::Binary;
use crate::types::{Integer, Number, Scalar, Signed};
use crate::untyped;

/// Types with `&`, `|`, `^` and `!`: integers and `bool`.
pub trait Bits: Scalar {}

impl Bits for bool {}
impl<T: Integer> Bits for T {}

#[track_caller]
pub(crate) fn binary<T: Scalar>(op: Binary, a: Val<T>, b: Val<T>) -> Val<T> {
    Val::from_raw(untyped::binary(op, T::TYPE, a.raw(), b.raw()))
}

macro_rules! operators {
    ($($bound:ident $operator:ident $method:ident $op:ident for $($rust:ty)*;)*) => {$(
        impl<T: $bound, R: Operand<T>> $operator<R> for Val<T> {
            type Output = Self;
            #[track_caller]
            fn $method(self, right: R) -> Self {
                binary(Binary::$op, self, right.val())
            }
        }
        $(
            impl $operator<Val<$rust>> for $rust {
                type Output = Val<$rust>;
                #[track_caller]
                fn $method(self, right: Val<$rust>) -> Val<$rust> {
                    binary(Binary::$op, self.val(), right)
                }
            }
        )*
    )*};
}

operators! {
    Number Add add Add for u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
    Number Sub sub Sub for u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
    Number Mul mul Mul for u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
    Number Div div Div for u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
    Integer Rem rem Rem for u8 u16 u32 u64 i8 i16 i32 i64;
    Bits BitAnd bitand And for bool u8 u16 u32 u64 i8 i16 i32 i64;
    Bits BitOr bitor Or for bool u8 u16 u32 u64 i8 i16 i32 i64;
    Bits BitXor bitxor Xor for bool u8 u16 u32 u64 i8 i16 i32 i64;
}

macro_rules! assigning {
    ($($bound:ident $operator:ident $method:ident $op:ident;)*) => {$(
        /// Rebinds the Rust variable to a new value: for sums in unrolled code. What changes inside
        /// a loop or a branch of the kernel needs [`crate::var()`].
        impl<T: $bound, R: Operand<T>> $operator<R> for Val<T> {
            #[track_caller]
            fn $method(&mut self, right: R) {
                *self = binary(Binary::$op, *self, right.val());
            }
        }
    )*};
}

assigning! {
    Number AddAssign add_assign Add;
    Number SubAssign sub_assign Sub;
    Number MulAssign mul_assign Mul;
    Bits BitAndAssign bitand_assign And;
    Bits BitOrAssign bitor_assign Or;
    Bits BitXorAssign bitxor_assign Xor;
}

/// Amounts beyond the width give zero (or all sign bits), as PTX clamps them.
impl<T: Integer, R: Operand<u32>> Shl<R> for Val<T> {
    type Output = Self;
    #[track_caller]
    fn shl(self, amount: R) -> Self {
        let amount = amount.val();
        Self::from_raw(untyped::shift(true, T::TYPE, self.raw(), amount.raw()))
    }
}

/// Arithmetic for signed types, logical for unsigned ones.
impl<T: Integer, R: Operand<u32>> Shr<R> for Val<T> {
    type Output = Self;
    #[track_caller]
    fn shr(self, amount: R) -> Self {
        let amount = amount.val();
        Self::from_raw(untyped::shift(false, T::TYPE, self.raw(), amount.raw()))
    }
}

impl<T: Bits> Not for Val<T> {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        Self::from_raw(untyped::not(T::TYPE, self.raw()))
    }
}

impl<T: Signed> Neg for Val<T> {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        Self::from_raw(untyped::neg(T::TYPE, self.raw()))
    }
}

//! Bits of integers: counting, fields, permutations; dot products of bytes.

use super::{Operand, Val};
use crate::intrinsics::bits;
use crate::recorder::with;
use crate::types::{Scalar, Word};
use crate::untyped;

impl<T: Word> Val<T> {
    /// Number of set bits.
    #[track_caller]
    #[must_use]
    pub fn popc(self) -> Val<u32> {
        Val::from_raw(untyped::popc(T::TYPE, self.raw()))
    }

    /// Number of leading zeros; the width for 0.
    #[track_caller]
    #[must_use]
    pub fn clz(self) -> Val<u32> {
        Val::from_raw(untyped::clz(T::TYPE, self.raw()))
    }

    /// Number of trailing zeros; the width for 0.
    #[track_caller]
    #[must_use]
    pub fn ctz(self) -> Val<u32> {
        self.brev().clz()
    }

    /// The bits in reverse order.
    #[track_caller]
    #[must_use]
    pub fn brev(self) -> Self {
        Self::from_raw(untyped::reverse_bits(T::TYPE, self.raw()))
    }

    /// `length` bits from `position` up, sign-extended for signed types.
    #[track_caller]
    #[must_use]
    pub fn bfe(self, position: impl Operand<u32>, length: impl Operand<u32>) -> Self {
        let (position, length) = (position.val().raw(), length.val().raw());
        Self::from_raw(untyped::extract_bits(T::TYPE, self.raw(), position, length))
    }

    /// `self` with `length` bits from `position` up replaced by the low bits of `field`.
    #[track_caller]
    #[must_use]
    pub fn bfi(self, field: impl Operand<T>, position: impl Operand<u32>, length: impl Operand<u32>) -> Self {
        let (field, position, length) = (field.val().raw(), position.val().raw(), length.val().raw());
        Self::from_raw(untyped::insert_bits(T::TYPE, field, self.raw(), position, length))
    }
}

impl Val<u32> {
    /// The upper word of `high:self` shifted left by `amount`, at most 32.
    #[track_caller]
    #[must_use]
    pub fn funnel_left(self, high: impl Operand<u32>, amount: impl Operand<u32>) -> Self {
        let (high, amount) = (high.val().raw(), amount.val().raw());
        Self::from_raw(with(|r| bits::funnel(r, true, "clamp", self.raw(), high, amount)))
    }

    /// The lower word of `high:self` shifted right by `amount`, at most 32.
    #[track_caller]
    #[must_use]
    pub fn funnel_right(self, high: impl Operand<u32>, amount: impl Operand<u32>) -> Self {
        let (high, amount) = (high.val().raw(), amount.val().raw());
        Self::from_raw(with(|r| bits::funnel(r, false, "clamp", self.raw(), high, amount)))
    }

    /// The bits rotated left, by an amount modulo 32.
    #[track_caller]
    #[must_use]
    pub fn rotate_left(self, amount: impl Operand<u32>) -> Self {
        let amount = amount.val().raw();
        Self::from_raw(with(|r| bits::funnel(r, true, "wrap", self.raw(), self.raw(), amount)))
    }

    /// Four bytes chosen among those of this (0 to 3) and `other` (4 to 7), one selector digit
    /// each, lowest first (PTX ISA, `prmt`; bit 3 of a digit replicates the byte's sign).
    #[track_caller]
    #[must_use]
    pub fn prmt(self, other: impl Operand<u32>, selector: impl Operand<u32>) -> Self {
        let (other, selector) = (other.val().raw(), selector.val().raw());
        Self::from_raw(with(|r| bits::permute(r, self.raw(), other, selector)))
    }

    /// Any bitwise function of three words, given on one byte of each: `|a, b, c| (a & b) ^ c`.
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Target, kernel};
    /// let majority = kernel("majority", |x: Global<u32>| {
    ///     let [a, b, c] = [0, 1, 2].map(|i| x.at(i).get());
    ///     x.set(a.lop3(b, c, |a, b, c| (a & b) | (a & c) | (b & c)));
    /// });
    /// assert!(majority.ptx(&Target::new(Arch::SM_80, (7, 0))).unwrap().contains("lop3.b32"));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn lop3(self, b: impl Operand<u32>, c: impl Operand<u32>, f: impl FnOnce(u8, u8, u8) -> u8) -> Self {
        let (b, c) = (b.val().raw(), c.val().raw());
        Self::from_raw(with(|r| bits::lop3(r, self.raw(), b, c, f(0xf0, 0xcc, 0xaa))))
    }

    /// `addend` plus the products of the four unsigned bytes of this and `other`.
    #[track_caller]
    #[must_use]
    pub fn dp4a(self, other: impl Operand<u32>, addend: impl Operand<u32>) -> Self {
        let (other, addend) = (other.val().raw(), addend.val().raw());
        Self::from_raw(with(|r| bits::dp4a(r, u32::TYPE, self.raw(), other, addend)))
    }

    /// The whole 64-bit product.
    #[track_caller]
    #[must_use]
    pub fn mul_wide(self, right: impl Operand<u32>) -> Val<u64> {
        let right = right.val().raw();
        Val::from_raw(with(|r| bits::mul_wide(r, u32::TYPE, u64::TYPE, self.raw(), right)))
    }
}

impl Val<i32> {
    /// `addend` plus the products of the four signed bytes of this and `other`.
    #[track_caller]
    #[must_use]
    pub fn dp4a(self, other: impl Operand<i32>, addend: impl Operand<i32>) -> Self {
        let (other, addend) = (other.val().raw(), addend.val().raw());
        Self::from_raw(with(|r| bits::dp4a(r, i32::TYPE, self.raw(), other, addend)))
    }

    /// The whole 64-bit product.
    #[track_caller]
    #[must_use]
    pub fn mul_wide(self, right: impl Operand<i32>) -> Val<i64> {
        let right = right.val().raw();
        Val::from_raw(with(|r| bits::mul_wide(r, i32::TYPE, i64::TYPE, self.raw(), right)))
    }
}

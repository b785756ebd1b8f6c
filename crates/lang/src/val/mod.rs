//! Values: registers of the kernel being recorded, or constants.

mod bits;
mod convert;
mod math;
mod number;
mod operators;
mod packed;

use std::fmt;
use std::marker::PhantomData;

pub use convert::Rounding;
pub(crate) use math::Functions;
pub use packed::{HalfOfPair, Pair};

use crate::Var;
use crate::recorder::Raw;
use crate::types::Scalar;

/// A value of type `T` in a running kernel: a register, or a constant that was known while
/// recording.
///
/// It never changes; [`crate::var()`] makes something that does. It belongs to the kernel that
/// recorded it, and to the branch or loop in which it was made: using it elsewhere makes
/// [`crate::Kernel::build`] fail.
///
/// Operators record one instruction each. The other side may be a Rust constant: `thread + 1`, `2.0
/// * x`.
pub struct Val<T> {
    raw: Raw,
    ty: PhantomData<fn() -> T>,
}

impl<T> Val<T> {
    pub(crate) const fn from_raw(raw: Raw) -> Self {
        Self { raw, ty: PhantomData }
    }

    pub(crate) const fn raw(self) -> Raw {
        self.raw
    }
}

impl<T: Scalar> Val<T> {
    /// Makes a constant; outside of kernels, too.
    #[must_use]
    pub fn constant(value: T) -> Self {
        Self::from_raw(Raw::Const(value.to_bits()))
    }

    /// The constant, if the value is known while recording.
    #[must_use]
    pub fn known(self) -> Option<T> {
        match self.raw {
            Raw::Const(bits) => Some(T::from_bits(bits)),
            Raw::Reg(_) => None,
        }
    }
}

impl<T> Clone for Val<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Val<T> {}

impl<T: Scalar> fmt::Debug for Val<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Val<{:?}>({:?})", T::TYPE, self.raw)
    }
}

/// An operand of type `T`: a [`Val`], a [`Var`] (read at that moment), or a constant.
pub trait Operand<T: Scalar>: Copy {
    /// Returns the operand as a value.
    fn val(self) -> Val<T>;
}

impl<T: Scalar> Operand<T> for Val<T> {
    fn val(self) -> Self {
        self
    }
}

impl<T: Scalar> Operand<T> for Var<T> {
    fn val(self) -> Val<T> {
        self.get()
    }
}

macro_rules! constants {
    ($($rust:ty),*) => {$(
        impl Operand<$rust> for $rust {
            fn val(self) -> Val<$rust> {
                Val::constant(self)
            }
        }
        impl From<$rust> for Val<$rust> {
            fn from(value: $rust) -> Self {
                Val::constant(value)
            }
        }
    )*};
}

constants!(
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    half::f16,
    half::bf16,
    f32,
    f64,
    crate::F16x2,
    crate::Bf16x2,
    crate::F8E4M3,
    crate::F8E5M2
);

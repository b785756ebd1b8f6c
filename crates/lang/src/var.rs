//! Variables: mutable registers, for values carried through loops and out of branches.

use std::fmt;
use std::marker::PhantomData;

use crate::recorder::Reg;
use crate::types::{Number, Scalar};
use crate::{Operand, Val, untyped};

/// A mutable register. Like a [`Val`] it belongs to its kernel and to the scope that made it.
pub struct Var<T> {
    reg: Reg,
    ty: PhantomData<fn() -> T>,
}

/// Makes a variable with a first value.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, Val, kernel, range, var};
/// let sum = kernel("sum", |input: Global<f32>, output: Global<f32>, len: Val<u32>| {
///     let total = var(0.0_f32);
///     range(0, len, 1, |i| total.add_assign(input.at(i).get()));
///     output.set(total.get());
/// });
/// assert!(sum.build(&Target::new(Arch::SM_80, (7, 0))).is_ok());
/// ```
#[track_caller]
#[must_use]
pub fn var<T: Scalar>(init: impl Operand<T>) -> Var<T> {
    let init = init.val();
    Var { reg: untyped::copy(T::TYPE, init.raw()), ty: PhantomData }
}

impl<T: Scalar> Var<T> {
    /// Declares a register without a value: the caller assigns it on every path.
    pub(crate) fn declare() -> Self {
        Self { reg: untyped::register(T::TYPE), ty: PhantomData }
    }

    /// The current value; later changes do not affect it.
    #[track_caller]
    #[must_use]
    pub fn get(self) -> Val<T> {
        Val::from_raw(untyped::read(T::TYPE, self.reg))
    }

    /// Assigns a value.
    #[track_caller]
    pub fn set(self, value: impl Operand<T>) {
        let value = value.val();
        untyped::assign(T::TYPE, self.reg, value.raw());
    }
}

impl<T: Scalar> Var<T> {
    /// Assigns a function of the current value.
    ///
    /// ```
    /// # use warpfold_lang::{Arch, Global, Target, kernel, range, var};
    /// let largest = kernel("largest", |input: Global<f32>| {
    ///     let largest = var(f32::NEG_INFINITY);
    ///     range(0_u32, 64_u32, 1_u32, |i| largest.update(|so_far| so_far.max(input.at(i).get())));
    ///     input.set(largest);
    /// });
    /// # largest.build(&Target::new(Arch::SM_80, (7, 0))).unwrap();
    /// ```
    #[track_caller]
    pub fn update(self, f: impl FnOnce(Val<T>) -> Val<T>) {
        self.set(f(self.get()));
    }
}

impl<T: Number> Var<T> {
    /// Adds to the value.
    #[track_caller]
    pub fn add_assign(self, value: impl Operand<T>) {
        self.set(self.get() + value.val());
    }
}

impl<T> Clone for Var<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Var<T> {}

impl<T: Scalar> fmt::Debug for Var<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var<{:?}>({:?})", T::TYPE, self.reg)
    }
}

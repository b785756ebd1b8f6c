//! Atomic read-modify-write operations through a pointer.

use half::{bf16, f16};

use super::pointer::{Pointer, Space};
use super::{Order, Scope, Window};
use crate::intrinsics::atomic::{AtomicOp, Semantics};
use crate::types::{Bf16x2, Element, F16x2, Word};
use crate::{Operand, Val, untyped};

/// Types with atomic addition. Sums of floats depend on the order of the threads.
pub trait AtomicAdd: Element {}

/// Types with atomic exchange: 32 and 64 bits.
pub trait AtomicBits: Element {}

macro_rules! marker {
    ($($marker:ident: $($rust:ty)*;)*) => {$($(impl $marker for $rust {})*)*};
}

marker! {
    AtomicAdd: u32 i32 u64 i64 f32 f64 f16 bf16 F16x2 Bf16x2;
    AtomicBits: u32 i32 u64 i64 f32 f64 F16x2 Bf16x2;
}

/// Atomic operations that return the old value; made by [`Pointer::atomic`].
#[derive(Debug, Clone, Copy)]
pub struct Atomic<T: Element, S: Space> {
    pointer: Pointer<T, S>,
    semantics: Semantics,
}

/// Atomic operations without a result, which cost less; made by [`Pointer::reduction`].
#[derive(Debug, Clone, Copy)]
pub struct Reduction<T: Element, S: Space> {
    pointer: Pointer<T, S>,
    semantics: Semantics,
}

impl<T: Element, S: Space> Pointer<T, S> {
    fn semantics() -> Semantics {
        let scope = match S::SPACE {
            Window::Shared => Scope::Block,
            Window::Cluster => Scope::Cluster,
            Window::Global | Window::Local => Scope::Gpu,
        };
        Semantics { order: Order::Relaxed, scope }
    }

    /// Atomic operations on the element: relaxed, among the device's threads (in shared memory the
    /// block's, and in that of a cluster the cluster's).
    ///
    /// ```
    /// use warpfold_lang::{Arch, Global, Order, Target, kernel};
    /// let ticket = kernel("ticket", |counter: Global<u32>, out: Global<u32>| {
    ///     out.set(counter.atomic().order(Order::AcqRel).add(1));
    /// });
    /// let ptx = ticket.ptx(&Target::new(Arch::SM_80, (7, 0))).unwrap();
    /// assert!(ptx.contains("atom.acq_rel.gpu.global.add.u32"));
    /// ```
    #[must_use]
    pub fn atomic(self) -> Atomic<T, S> {
        Atomic { pointer: self, semantics: Self::semantics() }
    }

    /// Atomic operations without a result (`red`).
    #[must_use]
    pub fn reduction(self) -> Reduction<T, S> {
        Reduction { pointer: self, semantics: Self::semantics() }
    }
}

macro_rules! semantics {
    ($($handle:ident)*) => {$(
        impl<T: Element, S: Space> $handle<T, S> {
            /// Sets the memory order of the operation.
            #[must_use]
            pub const fn order(mut self, order: Order) -> Self {
                self.semantics.order = order;
                self
            }

            /// Sets the scope of the operation.
            #[must_use]
            pub const fn scope(mut self, scope: Scope) -> Self {
                self.semantics.scope = scope;
                self
            }
        }
    )*};
}

semantics!(Atomic Reduction);

impl<T: Element, S: Space> Atomic<T, S> {
    #[track_caller]
    fn operate<const N: usize>(self, op: AtomicOp, operands: [Val<T>; N]) -> Val<T> {
        self.pointer.without_cache();
        let operands = operands.map(Val::raw);
        Val::from_raw(untyped::atom(op, self.semantics, self.pointer.location(), T::TYPE, &operands))
    }
}

impl<T: Element, S: Space> Reduction<T, S> {
    #[track_caller]
    fn operate(self, op: AtomicOp, operand: Val<T>) {
        self.pointer.without_cache();
        untyped::red(op, self.semantics, self.pointer.location(), T::TYPE, operand.raw());
    }
}

macro_rules! operations {
    ($($bound:ident { $($(#[$doc:meta])* $method:ident $op:ident;)* })*) => {$(
        #[allow(clippy::should_implement_trait, reason = "the operations keep their names in PTX")]
        impl<T: $bound, S: Space> Atomic<T, S> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(self, value: impl Operand<T>) -> Val<T> {
                self.operate(AtomicOp::$op, [value.val()])
            }
        )*}

        #[allow(clippy::should_implement_trait, reason = "the operations keep their names in PTX")]
        impl<T: $bound, S: Space> Reduction<T, S> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $method(self, value: impl Operand<T>) {
                self.operate(AtomicOp::$op, value.val());
            }
        )*}
    )*};
}

operations! {
    AtomicAdd {
        /// Adds; bf16 needs sm_90.
        add Add;
    }
    Word {
        /// Takes the minimum.
        min Min;
        /// Takes the maximum.
        max Max;
        /// Bitwise and.
        and And;
        /// Bitwise or.
        or Or;
        /// Bitwise exclusive or.
        xor Xor;
    }
}

impl<T: AtomicBits, S: Space> Atomic<T, S> {
    /// Stores the value and returns the old one.
    #[track_caller]
    pub fn exchange(self, value: impl Operand<T>) -> Val<T> {
        self.operate(AtomicOp::Exch, [value.val()])
    }

    /// Stores `value` if the old bits are those of `expected`, and returns the old value.
    #[track_caller]
    pub fn compare_exchange(self, expected: impl Operand<T>, value: impl Operand<T>) -> Val<T> {
        self.operate(AtomicOp::Cas, [expected.val(), value.val()])
    }
}

impl<S: Space> Atomic<u32, S> {
    /// Increments, wrapping from `limit` (or beyond) to 0.
    #[track_caller]
    pub fn increment_wrapping(self, limit: impl Operand<u32>) -> Val<u32> {
        self.operate(AtomicOp::Inc, [limit.val()])
    }

    /// Decrements, wrapping from 0 (or beyond `limit`) to `limit`.
    #[track_caller]
    pub fn decrement_wrapping(self, limit: impl Operand<u32>) -> Val<u32> {
        self.operate(AtomicOp::Dec, [limit.val()])
    }
}

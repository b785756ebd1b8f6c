//! The monoids of one instruction, and arg-max as one whose accumulator has two registers.

mod online_softmax;
mod welford;

pub use online_softmax::OnlineSoftmax;
pub use welford::{Moments, Welford};

use std::marker::PhantomData;

use warpfold_lang::{Number, Ordered, Registers, Val};

use super::{Monoid, Position};

macro_rules! elementary {
    ($($(#[$doc:meta])* $name:ident $identity:ident |$left:ident, $right:ident| $combine:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T>(PhantomData<fn() -> T>);

        impl<T> $name<T> {
            /// The monoid over `T`.
            #[must_use]
            pub const fn new() -> Self {
                Self(PhantomData)
            }
        }

        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T: Number> Monoid for $name<T> {
            type Item = Val<T>;
            type Acc = Val<T>;
            type Output = Val<T>;
            const COMMUTES: bool = true;
            const USES_POSITION: bool = false;

            fn identity(self) -> Val<T> {
                Val::constant(T::$identity)
            }

            #[track_caller]
            fn combine(self, $left: Val<T>, $right: Val<T>) -> Val<T> {
                $combine
            }

            fn lift(self, element: Val<T>, _: Position) -> Val<T> {
                element
            }

            fn finish(self, acc: Val<T>, _: Val<u64>) -> Val<T> {
                acc
            }
        }
    )*};
}

elementary! {
    /// The sum; integers wrap.
    Sum ZERO |left, right| left + right;
    /// The product; integers wrap.
    Product ONE |left, right| left * right;
    /// The largest; a NaN is passed over.
    Max LOWEST |left, right| left.max(right);
    /// The smallest; a NaN is passed over.
    Min HIGHEST |left, right| left.min(right);
}

/// The position of the largest element, the first of equals; a NaN is passed over. Of nothing, or of nothing but NaN
/// and the lowest value, it is `u64::MAX` or the first position.
#[derive(Debug)]
pub struct ArgMax<T>(PhantomData<fn() -> T>);

impl<T> ArgMax<T> {
    /// The monoid over `T`.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for ArgMax<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for ArgMax<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ArgMax<T> {}

impl<T: Ordered> Monoid for ArgMax<T> {
    type Item = Val<T>;
    type Acc = (Val<T>, Val<u64>);
    type Output = Val<u64>;
    const COMMUTES: bool = true;

    fn identity(self) -> Self::Acc {
        (Val::constant(T::LOWEST), Val::constant(u64::MAX))
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let larger = right.0.gt(left.0);
        let earlier = right.0.eq(left.0) & right.1.lt(left.1);
        Registers::select(larger | earlier, right, left)
    }

    fn lift(self, element: Val<T>, position: Position) -> Self::Acc {
        (element, position.index())
    }

    fn finish(self, acc: Self::Acc, _: Val<u64>) -> Val<u64> {
        acc.1
    }
}

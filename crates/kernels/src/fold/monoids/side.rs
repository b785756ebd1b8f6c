//! What comparing monoids have to be told: which side, what a NaN is, which of equals.

use warpfold_lang::{Number, Ordered, Type, Val};

/// Which extreme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

/// What a NaN is where values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nan {
    /// More extreme than any number: one NaN is enough to be the result (NumPy's `max`, `argmax`).
    Propagates,
    /// Less extreme than any number: a NaN is the result only if there is nothing else (NumPy's
    /// `nanmax`).
    Ignored,
}

/// Which of equal items is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ties {
    /// The first.
    First,
    /// The last.
    Last,
}

impl Side {
    /// The limit of the type on the other side: no number is beyond it.
    pub(super) const fn farthest<T: Number>(self) -> T {
        match self {
            Self::Largest => T::LOWEST,
            Self::Smallest => T::HIGHEST,
        }
    }

    /// Whether `a` is more extreme than `b`; not if one is NaN.
    #[track_caller]
    pub(super) fn beyond<T: Ordered>(self, a: Val<T>, b: Val<T>) -> Val<bool> {
        match self {
            Self::Largest => a.gt(b),
            Self::Smallest => a.lt(b),
        }
    }
}

/// A NaN of the type, if it has any.
pub(super) fn nan<T: Number>() -> Option<T> {
    let bits = match T::TYPE {
        Type::F16 => 0x7fff,
        Type::Bf16 => 0x7fff,
        Type::F16x2 | Type::Bf16x2 => 0x7fff_7fff,
        Type::F32 => 0x7fff_ffff,
        Type::F64 => 0x7fff_ffff_ffff_ffff,
        _ => return None,
    };
    Some(T::from_bits(bits))
}

//! Which dimension of a factor is contiguous.

use warpfold_lang::Major;

/// Which dimension of a factor has stride 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OperandMajor {
    /// K, the dimension of the sums.
    K,
    /// M of the left factor, N of the right one.
    Mn,
}

impl OperandMajor {
    /// As the language names it.
    pub(super) const fn for_lang(self) -> Major {
        match self {
            Self::K => Major::K,
            Self::Mn => Major::Mn,
        }
    }

    /// As part of a kernel's name.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::K => "k",
            Self::Mn => "mn",
        }
    }
}

//! Errors of finding and running ladders.

use std::fmt;

use warpfold_kernels::Dtype;

/// An error of this crate, one pointer wide. [`Error::kind`] tells which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

impl From<warpfold_device::Error> for Error {
    fn from(error: warpfold_device::Error) -> Self {
        ErrorKind::Device(error).into()
    }
}

impl From<warpfold_collectives::Error> for Error {
    fn from(error: warpfold_collectives::Error) -> Self {
        ErrorKind::Collective(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device refused or failed.
    #[error(transparent)]
    Device(warpfold_device::Error),
    /// Several devices refused or failed.
    #[error(transparent)]
    Collective(warpfold_collectives::Error),
    /// No ladder has this name.
    #[error("unknown ladder '{name}': expected one of {known}")]
    UnknownLadder {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The ladder has no rung of this name.
    #[error("ladder {ladder} has no rung '{name}': expected one of {known}")]
    UnknownRung {
        /// The ladder.
        ladder: &'static str,
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// No exercise has this name.
    #[error("unknown exercise '{name}': expected one of {known}")]
    UnknownExercise {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// An element type that the ladder's kernels are not made for.
    #[error("ladder {ladder} runs with {known}, not with {dtype}", known = Dtype::list(known))]
    DtypeOfLadder {
        /// The ladder.
        ladder: &'static str,
        /// The requested type.
        dtype: Dtype,
        /// The supported types.
        known: &'static [Dtype],
    },
    /// An element type that a rung's kernels are not made for, while others of its ladder are.
    #[error("{rung} takes {known}, not {dtype}", known = Dtype::list(known))]
    DtypeOfRung {
        /// The rung.
        rung: &'static str,
        /// The requested type.
        dtype: Dtype,
        /// The supported types.
        known: &'static [Dtype],
    },
    /// More elements than the ladder's kernels take.
    #[error("ladder {ladder} takes at most {limit} elements, not {size}")]
    TooManyElements {
        /// The ladder.
        ladder: &'static str,
        /// Elements asked for.
        size: u64,
        /// The most that it takes.
        limit: u64,
    },
    /// A text that is no size of a ladder's problem.
    #[error("'{text}' is not {expected}")]
    BadSize {
        /// The requested size.
        text: String,
        /// The form of sizes.
        expected: &'static str,
    },
    /// Tokens or heads were asked for of a ladder that has none.
    #[error("ladder {ladder} has no tokens and heads: those are of attention and decode")]
    NoHeads {
        /// The ladder.
        ladder: &'static str,
    },
    /// An option that the ladder's problem does not have.
    #[error("ladder {ladder} has no --{option}")]
    NoOption {
        /// The ladder.
        ladder: &'static str,
        /// The option, without its dashes.
        option: &'static str,
    },
    /// No repetition was asked for, so there is nothing to judge.
    #[error("at least one repetition is needed")]
    NoRepetitions,
}

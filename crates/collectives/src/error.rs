//! Errors of collectives among several devices.

use std::fmt;

/// An error of this crate, one pointer wide; see [`Error::kind`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// The kind of the error.
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

impl Error {
    /// The same error of a collective and its number among those of the rank.
    pub(crate) fn within(self, what: &str, number: u64) -> Self {
        let mut kind = self.kind().clone();
        if let ErrorKind::RankEnded { during, .. } | ErrorKind::RanksLate { during, .. } = &mut kind {
            *during = Some(format!("{what} {number}"));
        }
        kind.into()
    }
}

fn within(during: &Option<String>) -> String {
    during.as_ref().map_or_else(String::new, |during| format!(", in {during}"))
}

impl From<warpfold::Error> for Error {
    fn from(error: warpfold::Error) -> Self {
        ErrorKind::Operator(error).into()
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
    /// A device error.
    #[error(transparent)]
    Device(warpfold_device::Error),
    /// An error of an operator on one device.
    #[error(transparent)]
    Operator(warpfold::Error),
    /// Another rank failed, so that collectives are no longer possible.
    #[error("rank {rank} failed: {reason}")]
    RankFailed {
        /// The first that failed.
        rank: usize,
        /// Its error text.
        reason: String,
    },
    /// Another rank has ended, while this one still waits for it.
    #[error("rank {rank} has ended, and this rank still waits for it{}", within(.during))]
    RankEnded {
        /// The rank that ended.
        rank: usize,
        /// The collective and its number among those of this rank, if it is one that waits.
        during: Option<String>,
    },
    /// Other ranks did not come in time.
    #[error("waited {waited:?} for rank(s) {missing:?}{}", within(.during))]
    RanksLate {
        /// Time that the ranks waited.
        waited: std::time::Duration,
        /// The ranks that are missing.
        missing: Vec<usize>,
        /// The collective and its number among those of this rank, if it is one that waits.
        during: Option<String>,
    },
    /// The ranks do not do the same.
    #[error("the ranks disagree: one comes to {expected}, another to {found}")]
    RanksDisagree {
        /// The operation of one rank.
        expected: String,
        /// The operation of the other.
        found: String,
    },
    /// A number of devices or ranks that is not supported.
    #[error("{found} devices: a group has 1 to {most}")]
    GroupSize {
        /// Number of ranks given.
        found: usize,
        /// Maximum number of ranks.
        most: usize,
    },
    /// A rank that the group does not have, or this rank itself.
    #[error("{what} {found} of a group of {size}, by rank {own}")]
    BadRank {
        /// Role of the rank.
        what: &'static str,
        /// The rank that was given.
        found: usize,
        /// Ranks there are.
        size: usize,
        /// The calling rank.
        own: usize,
    },
    /// An operand of the wrong length.
    #[error("{what}: expected {expected} elements, found {found}")]
    Length {
        /// The collective.
        what: &'static str,
        /// Elements that it takes.
        expected: usize,
        /// Elements that were given.
        found: usize,
    },
    /// An environment variable that a launcher sets is missing or wrong.
    #[error(
        "{name} {problem}; torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each process"
    )]
    Environment {
        /// The variable.
        name: &'static str,
        /// The problem with its value.
        problem: String,
    },
    /// The processes of a group could not connect to each other.
    #[error("rendezvous at {address}: {problem}")]
    Rendezvous {
        /// Address at which rank 0 listens.
        address: String,
        /// The problem.
        problem: String,
    },
    /// A collective that the group's transport does not support.
    #[error("{what} is not possible {transport}")]
    Unsupported {
        /// The operation that was requested.
        what: &'static str,
        /// The transport that lacks it.
        transport: &'static str,
    },
}

//! Errors of kernels that cannot be built for a target.

use std::panic::Location;

use crate::recorder::Caller;
use crate::{Target, Type};

/// A kernel that cannot be built. One pointer wide; [`Error::kind`] has the details. `Debug` prints
/// the message, too.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: kernel '{kernel}': {kind}", file = .0.caller.file(), line = .0.caller.line(), kernel = .0.kernel, kind = .0.kind)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kernel: String,
    caller: Caller,
    kind: ErrorKind,
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn new(kernel: &str, caller: Caller, kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kernel: kernel.to_owned(), caller, kind }))
    }

    /// The kernel's name.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.0.kernel
    }

    /// The line of the wrong operation, or of [`crate::kernel()`] if the kernel as a whole is
    /// wrong.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.0.caller
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns true if the target lacks an instruction or the shared memory that the kernel needs:
    /// another target may have it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Unsupported { .. } | ErrorKind::NeedsSpecific { .. } | ErrorKind::TooMuchShared { .. }
        )
    }
}

/// The kinds of errors in a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The target lacks an instruction.
    #[error("{what} needs sm_{arch} and PTX {}.{}, the target is {target}", ptx_version.0, ptx_version.1)]
    Unsupported {
        /// The construct.
        what: String,
        /// The first architecture that has it.
        arch: u32,
        /// The first PTX version that has it.
        ptx_version: (u32, u32),
        /// The target that the kernel was built for.
        target: Target,
    },
    /// The target lacks an instruction that only one architecture has.
    #[error("{what} needs sm_{arch}a, the target is {target}")]
    NeedsSpecific {
        /// The construct.
        what: String,
        /// The architecture.
        arch: u32,
        /// The target that the kernel was built for.
        target: Target,
    },
    /// An operation that no target has for this type.
    #[error("{what} does not exist for {ty:?}")]
    NoSuchOperation {
        /// The construct.
        what: String,
        /// The type it was asked for.
        ty: Type,
    },
    /// A value recorded in another kernel was used.
    #[error("a value of another kernel was used: values live in the kernel that recorded them")]
    ForeignValue,
    /// A value made inside a branch or a loop was used after it.
    #[error("a value was used outside the branch or loop that made it: carry it out in a variable (`var`)")]
    EscapedValue,
    /// The name is not a PTX identifier.
    #[error("'{0}' is not a name that PTX accepts: expected a letter or '_', then letters, digits, '_' or '$'")]
    BadName(String),
    /// Too many threads.
    #[error("a block of {threads} threads, the limit is {limit}")]
    BlockTooLarge {
        /// Threads asked for.
        threads: u64,
        /// The target's limit.
        limit: u32,
    },
    /// Too much shared memory.
    #[error("{bytes} bytes of shared memory a block, the limit is {limit}")]
    TooMuchShared {
        /// Bytes asked for.
        bytes: u64,
        /// The target's limit.
        limit: u32,
    },
    /// A constant that the instruction cannot take.
    #[error("{what} is {value}, expected {expected}")]
    OutOfRange {
        /// The constant.
        what: String,
        /// The value that was found.
        value: String,
        /// The values that are allowed.
        expected: String,
    },
    /// Two constructs that exclude one another.
    #[error("{0}")]
    Misuse(String),
}

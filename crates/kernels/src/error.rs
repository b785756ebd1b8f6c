//! What can go wrong when kernels of this crate are asked for and run.

use std::fmt;

/// An error of this crate, one pointer wide. [`Error::kind`] tells which.
///
/// `Debug` prints the sentence, too, as `fn main() -> Result<(), Error>` and `unwrap` show it; the
/// kind prints its fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: Box<ErrorKind>,
}

impl Error {
    /// Which error it is.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
    /// A text that names no element type.
    #[error("unknown element type '{0}': expected {known}", known = crate::Dtype::list(&crate::Dtype::ALL))]
    UnknownDtype(String),
    /// A tensor of more dimensions than kernels take.
    #[error("{0} dimensions are more than the {max} that kernels take", max = crate::layout::MAX_RANK)]
    TooManyDimensions(usize),
    /// Shapes that do not fit each other.
    #[error("shapes {left:?} and {right:?} do not fit each other{}", where_not(left, right))]
    ShapeMismatch {
        /// One of them.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
    },
    /// An axis that the tensor does not have.
    #[error("axis {axis} is out of range for {rank} dimension(s)")]
    AxisOutOfRange {
        /// What was asked for.
        axis: isize,
        /// Dimensions that there are.
        rank: usize,
    },
    /// Elements that do not fill a shape.
    #[error("{found} element(s) do not fill the shape {shape:?}")]
    LengthMismatch {
        /// The shape.
        shape: Vec<usize>,
        /// Elements that were given.
        found: usize,
    },
    /// Element types that do not fit each other.
    #[error("{operand} has elements of type {found}, not {expected}: cast one of them")]
    DtypeMismatch {
        /// What has them: `input 1 of add`.
        operand: String,
        /// The type that it has.
        found: crate::Dtype,
        /// The type that the others ask for.
        expected: crate::Dtype,
    },
    /// Axes that do not name each dimension once.
    #[error("axes {axes:?} do not order {rank} dimension(s)")]
    NotAPermutation {
        /// The axes.
        axes: Vec<isize>,
        /// Dimensions that there are.
        rank: usize,
    },
    /// A range beyond the end of an axis.
    #[error("the range {start}..{end} is not inside axis {axis} of {size}")]
    SliceOutOfRange {
        /// The axis.
        axis: usize,
        /// Its start.
        start: usize,
        /// Its end.
        end: usize,
        /// The size of the axis.
        size: usize,
    },
    /// A shape that cannot be seen without a copy.
    #[error("a tensor of shape {from:?} with these strides cannot be seen as {to:?} without a copy")]
    NotAView {
        /// The shape that it has.
        from: Vec<usize>,
        /// The shape that was asked for.
        to: Vec<usize>,
    },
    /// Another number of inputs than the operation takes.
    #[error("{op} takes {expected} input(s), not {found}", expected = range_text(*least, *most))]
    NumInputs {
        /// The operation.
        op: String,
        /// Inputs at least.
        least: usize,
        /// Inputs at most.
        most: usize,
        /// Inputs that were given.
        found: usize,
    },
    /// An option that the operation needs.
    #[error("{op} needs the option '{option}'")]
    MissingOption {
        /// The operation.
        op: String,
        /// The option.
        option: &'static str,
    },
    /// An option that means nothing to the operation.
    #[error("{op} takes no option '{option}'")]
    OptionNotTaken {
        /// The operation.
        op: String,
        /// The option.
        option: &'static str,
    },
    /// An option without the value that the operation needs.
    #[error("{op} needs an option '{option}' {expected}")]
    OptionOutOfRange {
        /// The operation.
        op: String,
        /// The option.
        option: &'static str,
        /// Which values it takes: `from 1 to 16`.
        expected: String,
    },
    /// An output of which two positions may be one place in memory: which of two results it ends
    /// with is anyone's guess.
    #[error("an output of shape {shape:?} with strides {strides:?} has positions that share memory")]
    OverlappingOutput {
        /// The shape.
        shape: Vec<usize>,
        /// The strides.
        strides: Vec<isize>,
    },
    /// Another number of axes than the operation goes along.
    #[error("{op} goes along one axis, not {found}")]
    NotOneAxis {
        /// The operation.
        op: String,
        /// Axes that were given.
        found: usize,
    },
    /// An axis named twice.
    #[error("axis {0} is named twice")]
    RepeatedAxis(isize),
    /// No operation has this name.
    #[error("unknown operation '{0}'")]
    UnknownOperation(String),
    /// An operation that has no result for an empty set of elements.
    #[error("{0} of no elements has no value")]
    Empty(String),
    /// An index that names no row.
    #[error("the index at position {position} names none of {rows} row(s)")]
    IndexOutOfRange {
        /// The first position of such an index.
        position: u64,
        /// Rows that there are.
        rows: u64,
    },
    /// A tensor that is to be changed in place, and whose memory others see.
    #[error("the tensor cannot be changed in place: clones or views share its memory")]
    SharedMemory,
    /// A bias where there is no scale.
    #[error("a norm takes a bias only after a scale")]
    BiasWithoutScale,
    /// An operation that is not made for an element type.
    #[error("{op} does not take elements of type {dtype}")]
    Unsupported {
        /// The operation.
        op: String,
        /// The element type.
        dtype: crate::Dtype,
    },
    /// More work than a launch takes.
    #[error("{what} has {size}, more than the {limit} that a launch takes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The most.
        limit: u64,
    },
    /// An operator does not take what it was given.
    #[error("{operator}: {reason}")]
    Operand {
        /// The operator.
        operator: &'static str,
        /// What it takes, and what it was given.
        reason: String,
    },
}

/// The axis, from the end, in which two shapes cannot be broadcast, with both sizes.
fn where_not(left: &[usize], right: &[usize]) -> String {
    let pairs = left.iter().rev().zip(right.iter().rev()).zip(1..);
    // A size of 1 repeats on one of the sides only, so it is to blame where nothing else is.
    let differs = |ones: bool| pairs.clone().find(|((a, b), _)| a != b && (ones || **a != 1 && **b != 1));
    match differs(false).or_else(|| differs(left.len() == right.len())) {
        Some(((a, b), axis)) => format!(": {a} and {b} in axis -{axis}"),
        None if left.len() != right.len() => format!(": {} and {} dimensions", left.len(), right.len()),
        None => String::new(),
    }
}

/// `input 1 of add`.
pub(crate) fn input_of(position: usize, op: impl fmt::Display) -> String {
    format!("input {position} of {op}")
}

/// `1`, `1 to 3`.
fn range_text(least: usize, most: usize) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

//! The reductions that every user expects, by name: for each element type a [`Fold`] with its
//! monoid, its conversions and its result type.
//!
//! [`Reduction`] names them, [`Options`] says what may be chosen, [`outputs`] which types the
//! results have. [`Reductions`] is the family that plans them; [`fold_of`] gives the fold of one,
//! and [`second_pass`] that of a variance in two passes. [`Reduction::check_len`] refuses to reduce
//! nothing where that has no result.
//!
//! **Result types.** Sums and products of integers, and sums of magnitudes and of squares, have 64
//! bits, with a sign where the elements have one and for `bool`, and wrap there, as in NumPy and
//! the array API; a dot product keeps the type of its factors. Extremes keep the type. Positions and
//! counts are `i64`, truths `bool`. What divides or takes roots or logarithms gives floats: of
//! floats their own type, of integers and `bool` `f64`, as NumPy has it. Eight-bit floats are
//! summed and averaged to `f32`. [`Options::dtype`] chooses another type where something is
//! computed, not selected (so it keeps the width of narrow integers, too); a float becomes an
//! integer as by a [cast](crate::operations::Operation::Cast): cut towards zero.
//!
//! **Precision.** Nothing is carried in less than `f32`; integers are carried exactly, but those of
//! 64 bits whose result is a float. Which monoid an operation uses, and its rules on NaN,
//! infinities and ties, are in `table` and at the monoid.

mod elements;
mod family;
mod kernels;
mod keys;
mod options;
mod second_pass;
mod table;
mod types;

use std::fmt;
use std::str::FromStr;

pub use family::{Problem, Reductions};
pub use kernels::kernels;
pub use options::Options;
pub use second_pass::second_pass;
pub use types::outputs;
pub(crate) use types::total;

use crate::fold::Fold;
use crate::plan::Key;
use crate::{Dtype, Error, ErrorKind};

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// A reduction.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reduction {
            $($(#[$doc])* $name,)*
        }

        impl Reduction {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As the program takes it: `count-nonzero`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reductions! {
    /// The sum; of nothing 0. Infinities of both signs make it NaN.
    Sum "sum";
    /// The product; of nothing 1. Zero times an infinity makes it NaN.
    Product "prod";
    /// The sum divided by the number of elements; of nothing NaN.
    Mean "mean";
    /// The smallest element; a NaN if there is one, unless it is ignored. -0 is smaller than +0; of
    /// nothing an error.
    Min "min";
    /// The largest element; a NaN if there is one, unless it is ignored. +0 is larger than -0; of
    /// nothing an error.
    Max "max";
    /// The smallest and the largest element, as two results, by the rules of both.
    MinMax "min-max";
    /// Whether any element differs from zero; a NaN does. Of nothing false.
    Any "any";
    /// Whether every element differs from zero. Of nothing true.
    All "all";
    /// How many elements differ from zero; a NaN does.
    CountNonzero "count-nonzero";
    /// The position of the smallest element in the folded axes, counted in C order: the first of
    /// equals, or the last. A NaN is smaller than any number unless it is ignored, and equal to any
    /// other; -0 and +0 are equal. Of nothing an error.
    ArgMin "argmin";
    /// The position of the largest element by the same rules; a NaN is larger than any number.
    ArgMax "argmax";
    /// The sum of magnitudes; of nothing 0.
    L1 "l1";
    /// The square root of the sum of squares. Squares of `f32` and `bf16` neither overflow nor
    /// vanish. Of nothing 0.
    L2 "l2";
    /// The largest magnitude; of nothing 0. The smallest integer has no magnitude: the result is
    /// itself.
    LInf "linf";
    /// The same by its other name.
    AbsMax "abs-max";
    /// The sum of squares; of nothing 0.
    SumSquares "sum-squares";
    /// The natural logarithm of the sum (ONNX, ReduceLogSum): of a sum of zero and of nothing -∞,
    /// of one below zero NaN.
    LogSum "log-sum";
    /// The natural logarithm of the sum of exponentials, without overflow on the way; of nothing,
    /// and of nothing but -∞, it is -∞, with a +∞ it is +∞.
    LogSumExp "log-sum-exp";
    /// The largest element and the sum of `e^(x - largest)`, as two results of one read: what a
    /// softmax needs of a row. A NaN makes both NaN; where the largest is an infinity, nothing is
    /// subtracted from the exponents; of nothing they are -∞ and 0.
    MaxSumExp "max-sum-exp";
    /// The mean of the squared distances from the mean; of nothing NaN.
    Variance "var";
    /// The square root of the variance.
    StandardDeviation "std";
    /// Mean and variance, as two results.
    MeanVariance "mean-var";
    /// The sum of the products of two inputs; of nothing 0.
    Dot "dot";
    /// The `k` largest elements from the largest down, NaN above all numbers and the first of
    /// equals first (a -0 counts as and becomes +0), and their positions: two results whose last
    /// axis has size `k`.
    TopK "topk";
    /// The sum of floats with the same bits whatever the order, the plan and the device are:
    /// [`ReproducibleSum`](crate::fold::ReproducibleSum).
    ReproducibleSum "reproducible-sum";
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Reduction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.iter().copied().find(|reduction| reduction.name() == text);
        known.ok_or_else(|| ErrorKind::UnknownOperation(text.to_owned()).into())
    }
}

impl Reduction {
    /// How many inputs it takes.
    #[must_use]
    pub const fn inputs(self) -> usize {
        match self {
            Self::Dot => 2,
            _ => 1,
        }
    }

    /// Whether it has a result for `len` elements.
    ///
    /// # Errors
    /// [`ErrorKind::Empty`] for an extreme or a position of nothing,
    /// [`ErrorKind::OptionOutOfRange`] for a list longer than what it is made of.
    pub fn check_len(self, options: Options, len: usize) -> Result<(), Error> {
        match self {
            Self::Min | Self::Max | Self::MinMax | Self::ArgMin | Self::ArgMax if len == 0 => {
                Err(ErrorKind::Empty(self.to_string()).into())
            }
            Self::TopK => options.check_list(len),
            _ => Ok(()),
        }
    }
}

/// The fold of a reduction over elements of these types, one an input.
///
/// # Errors
/// Those of [`outputs`].
pub fn fold_of(reduction: Reduction, dtypes: &[Dtype], options: Options) -> Result<Fold, Error> {
    let outputs = outputs(reduction, dtypes, options)?;
    let fold = table::make(reduction, dtypes, &outputs, options);
    Ok(fold.with_key(Key::of((reduction, dtypes.to_vec(), options))))
}

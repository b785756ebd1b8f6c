//! The built-in element-wise operations, by name: for each element type a [`Map`]
//! with its function, conversions and result type.
//!
//! [`Operation`] names them, [`Options`] says what may be chosen, and [`map_of`] gives the map.
//! Rows are taken by [`gather`](crate::gather), which is no map.
//!
//! Types. Both inputs of a binary operation have one type, which is the result's; casts are
//! explicit. Comparisons and tests give `bool`. `f16`, `bf16` and 8-bit floats compute in `f32` and
//! round once; 8-bit floats saturate then, infinities as well. Integers wrap in their own type.
//! `bool` has `not`, `and`, `or`, `xor`, `add` (or), `mul` (and), the extremes and comparisons;
//! `abs`, `floor` and their like leave integers as they are; functions whose values are no integers
//! (`exp`, `sqrt`, `recip` …) take floats only, as [`Unsupported`](ErrorKind::Unsupported) says.
//! What each of them does beyond Rust's operator of the same name stands at its variant.

mod binary;
mod kernels;
mod number;
mod table;
mod ternary;
mod unary;

use std::fmt;
use std::str::FromStr;

pub(crate) use kernels::kernels;
pub use number::Number;

use warpfold_lang::{Val, WideFloat};

use crate::elements::Compute;
use crate::map::Map;
use crate::{Dtype, Error, ErrorKind};

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident $name:literal $inputs:literal $summary:literal;)*) => {
        /// An element-wise operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $(#[doc = $summary] $(#[$doc])* $variant,)*
        }

        impl Operation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As the program takes it: `is-nan`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// How many inputs it takes.
            #[must_use]
            pub const fn inputs(self) -> usize {
                match self {
                    $(Self::$variant => $inputs,)*
                }
            }

            /// What it gives, in a line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => $summary,)*
                }
            }
        }
    };
}

operations! {
    /// The smallest integer stays itself.
    Abs "abs" 1 "`|x|`.";
    /// Integers wrap, those without a sign as well.
    Neg "neg" 1 "`-x`.";
    Exp "exp" 1 "`e^x`.";
    Exp2 "exp2" 1 "`2^x`.";
    Expm1 "expm1" 1 "`e^x - 1`, also where that is small.";
    Log "log" 1 "The natural logarithm.";
    Log2 "log2" 1 "The logarithm to base 2.";
    Log10 "log10" 1 "The logarithm to base 10.";
    Log1p "log1p" 1 "`ln(1 + x)`, also where `x` is small.";
    Sqrt "sqrt" 1 "The square root.";
    Rsqrt "rsqrt" 1 "`1 / sqrt(x)`.";
    Recip "recip" 1 "`1 / x`.";
    Tanh "tanh" 1 "The hyperbolic tangent.";
    Sigmoid "sigmoid" 1 "`1 / (1 + e^-x)`, which no `x` overflows.";
    /// NaN stays.
    Relu "relu" 1 "`x`, or 0 if that is larger.";
    Gelu "gelu" 1 "`x / 2 * (1 + erf(x / sqrt(2)))`.";
    GeluTanh "gelu-tanh" 1 "`x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.";
    Silu "silu" 1 "`x * sigmoid(x)`.";
    Erf "erf" 1 "The error function.";
    Sin "sin" 1 "The sine.";
    Cos "cos" 1 "The cosine.";
    Tan "tan" 1 "The tangent.";
    Floor "floor" 1 "The next integer not above.";
    Ceil "ceil" 1 "The next integer not below.";
    Round "round" 1 "The nearest integer, ties to even.";
    Trunc "trunc" 1 "The next integer towards zero.";
    /// Of zero it is zero, of NaN NaN.
    Sign "sign" 1 "-1, 0 or 1.";
    Square "square" 1 "`x * x`.";
    Not "not" 1 "Whether `x` is false; of integers, every bit the other way.";
    IsNan "is-nan" 1 "Whether `x` is NaN.";
    IsInf "is-inf" 1 "Whether `x` is infinite.";
    IsFinite "is-finite" 1 "Whether `x` is neither infinite nor NaN.";
    Add "add" 2 "`x + y`.";
    Sub "sub" 2 "`x - y`.";
    Mul "mul" 2 "`x * y`.";
    /// Integers divide as in Rust and ONNX, towards zero; by zero it is 0, and the smallest by -1
    /// wraps.
    Div "div" 2 "`x / y`.";
    /// Of floats it is C's `fmod`, exact. Integers by zero leave 0.
    Rem "rem" 2 "What the division towards zero leaves, with the sign of `x`.";
    /// Integers wrap. To a negative power they are cut towards zero, and 0 is 0.
    Pow "pow" 2 "`x^y`, with the special cases of C's `pow`.";
    Maximum "maximum" 2 "The larger one; NaN if either is.";
    Minimum "minimum" 2 "The smaller one; NaN if either is.";
    Fmax "fmax" 2 "The larger one; the number if the other is NaN.";
    Fmin "fmin" 2 "The smaller one; the number if the other is NaN.";
    Eq "eq" 2 "Whether `x = y`.";
    /// With a NaN it is true.
    Ne "ne" 2 "Whether `x != y`.";
    Lt "lt" 2 "Whether `x < y`.";
    Le "le" 2 "Whether `x <= y`.";
    Gt "gt" 2 "Whether `x > y`.";
    Ge "ge" 2 "Whether `x >= y`.";
    And "and" 2 "`x & y`, of `bool` and of the bits of integers.";
    Or "or" 2 "`x | y`, of `bool` and of the bits of integers.";
    Xor "xor" 2 "`x ^ y`, of `bool` and of the bits of integers.";
    /// By as many bits as the type has or more, and by less than none, it is 0.
    Shl "shl" 2 "`x * 2^y` of integers.";
    /// By as many bits as the type has or more, and by less than none, it is 0, or -1 of a negative
    /// `x`.
    Shr "shr" 2 "`x / 2^y` of integers, rounded down.";
    /// The first input is `bool`, the others have one type; they are not touched.
    Where "where" 3 "`y` where `x` is true, else `z`.";
    /// NaN if any is NaN.
    Clamp "clamp" 3 "The larger of `x` and `y`, but at most `z`.";
    Fma "fma" 3 "`x * y + z`, rounded once (`f16` and narrower: to `f32` before).";
    /// Both numbers are options, rounded to the type that is computed in; for integers they are
    /// whole, and wrap.
    Scale "scale" 1 "`alpha * x + beta`, rounded twice.";
    /// Bit for bit, NaN as well.
    Copy "copy" 1 "`x`.";
    /// As Rust's `as`: integers wrap, floats are cut towards zero, saturate, and give 0 for NaN,
    /// everything else is rounded once, ties to even; 8-bit floats saturate; what is not zero is
    /// `true`. The type is an option.
    Cast "cast" 1 "`x` in another type.";
    /// The number and its type are options; integers wrap, and a float is cut before it becomes
    /// one.
    Fill "fill" 0 "A number.";
}

impl Operation {
    /// Its name as part of a kernel's name.
    fn identifier(self) -> String {
        self.name().replace('-', "_")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let known = Self::ALL.iter().copied().find(|operation| operation.name() == text);
        known.ok_or_else(|| ErrorKind::UnknownOperation(text.to_owned()).into())
    }
}

/// What may be chosen of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The result's element type, where it is not what the operation gives by itself: `cast` and
    /// `fill` need one.
    pub dtype: Option<Dtype>,
    /// The factor of `scale`, the number of `fill`.
    pub alpha: Number,
    /// The addend of `scale`.
    pub beta: Number,
}

impl Default for Options {
    fn default() -> Self {
        Self { dtype: None, alpha: Number::Integer(1), beta: Number::Integer(0) }
    }
}

/// The map of an operation on elements of these types, one an input.
///
/// ```
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::operations::{Operation, Options, map_of};
///
/// let less = map_of(Operation::Lt, &[Dtype::F16; 2], &Options::default())?;
/// assert_eq!(less.outputs(), [Dtype::Bool]);
/// let error = map_of(Operation::Add, &[Dtype::F32, Dtype::I32], &Options::default()).unwrap_err();
/// assert_eq!(error.to_string(), "input 1 of add has elements of type i32, not f32: cast one of them");
/// # Ok::<(), warpfold_kernels::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`],
/// [`ErrorKind::MissingOption`], [`ErrorKind::OptionOutOfRange`] for integers scaled by numbers
/// that are not whole.
pub fn map_of(operation: Operation, dtypes: &[Dtype], options: &Options) -> Result<Map, Error> {
    let map = table::make(operation, dtypes, options.dtype)?;
    if operation == Operation::Scale && !dtypes[0].is_float() {
        options.alpha.expect_whole(operation.name(), "alpha")?;
        options.beta.expect_whole(operation.name(), "beta")?;
    }
    Ok(match operation {
        Operation::Scale | Operation::Fill => {
            let computed = table::compute_dtype(*dtypes.first().unwrap_or(&map.outputs()[0]));
            map.scalars([options.alpha, options.beta].map(|number| number.bits(computed)))
        }
        _ => map,
    })
}

/// A function of one float that gives a number, in a kernel that is being recorded.
///
/// # Panics
/// For any other operation.
pub(crate) fn of_float<C: Compute + WideFloat>(operation: Operation, x: Val<C>) -> Val<C> {
    match unary::of_floats::<C>(operation) {
        Some(table::Function::Number(function)) => function(x),
        _ => panic!("{operation} is no function of one float that gives a number"),
    }
}

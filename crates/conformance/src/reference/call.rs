//! A call of an operator: its name, inputs and options; and the reference that says what it has to
//! give.

use super::answer::Expected;
use super::array::Array;
use super::axes::{self, Lanes, Refused};
use super::dtype::Dtype;
use super::{binary, conv, extremes, histogram, matmul, matrix, moves, nms, reduce, rows, scale, scan, ternary, unary};

/// The options of the command line, by their names there.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The axes along which it works; a permutation for `transpose`.
    pub axes: Option<Vec<i64>>,
    /// Keep axes that are gone with size one.
    pub keepdims: bool,
    /// Added inside a root.
    pub eps: Option<f64>,
    /// The last of several equal extremes instead of the first.
    pub last: bool,
    /// Number of elements to take.
    pub k: Option<usize>,
    /// A scan without the element itself.
    pub exclusive: bool,
    /// A scan from the end.
    pub reverse: bool,
    /// The type of the result.
    pub dtype: Option<Dtype>,
    /// Leave NaN out.
    pub ignore_nan: bool,
    /// Bins of a histogram.
    pub bins: Option<usize>,
    /// The overlap from which a box is suppressed.
    pub threshold: Option<f64>,
    /// The label that counts for nothing.
    pub ignore_index: Option<i64>,
    /// The matrix is taken transposed.
    pub transpose: bool,
    /// Correction subtracted from the count in the divisor of a variance.
    pub ddof: usize,
    /// The factor of the scores of a softmax, and of a scale.
    pub alpha: Option<f64>,
    /// The addend of a scale; the factor of the third input of a product.
    pub beta: Option<f64>,
    /// The left matrices are taken transposed.
    pub transpose_a: bool,
    /// The right matrices are taken transposed.
    pub transpose_b: bool,
    /// An input behind the matrices has scales of the left one.
    pub scale_a: bool,
    /// The next input has scales of the right one.
    pub scale_b: bool,
    /// The next input has the scale of the result.
    pub scale_result: bool,
    /// The last input is a bias.
    pub bias: bool,
    /// A function of the result.
    pub activation: Option<String>,
    /// Pixels from one position of a filter to the next.
    pub stride: Option<Vec<usize>>,
    /// Zeros on either side of an image.
    pub padding: Option<Vec<usize>>,
    /// Pixels from one element of a filter to the next.
    pub dilation: Option<Vec<usize>>,
    /// Groups of channels.
    pub groups: Option<usize>,
    /// Memory layout of images or heads.
    pub layout: Option<String>,
    /// Rows do not feel one another.
    pub batch_invariant: bool,
}

/// A call of an operator.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Its name.
    pub op: &'a str,
    /// Its inputs, in order.
    pub inputs: &'a [&'a Array],
    /// Its options.
    pub options: &'a Options,
}

/// The names of the operators other than the element-wise ones, in the order of the issue.
pub const OPERATORS: &[&str] = &[
    "sum",
    "reproducible-sum",
    "prod",
    "mean",
    "min",
    "max",
    "min-max",
    "any",
    "all",
    "count-nonzero",
    "unique-count",
    "argmin",
    "argmax",
    "l1",
    "l2",
    "linf",
    "abs-max",
    "sum-squares",
    "log-sum",
    "log-sum-exp",
    "var",
    "std",
    "mean-var",
    "topk",
    "dot",
    "cumsum",
    "cumprod",
    "softmax",
    "log-softmax",
    "layer-norm",
    "rms-norm",
    "cross-entropy",
    "abs-max-scale",
    "quantize",
    "softmax-v",
    "gemv",
    "matmul",
    "conv2d",
    "histogram",
    "nms",
    "copy",
    "cast",
    "transpose",
    "gather",
];

/// The names of every operator that has a reference.
pub fn names() -> impl Iterator<Item = &'static str> {
    let elementwise = unary::NAMES.iter().chain(binary::NAMES).chain(ternary::NAMES);
    OPERATORS.iter().chain(elementwise).copied()
}

/// Computes the expected outputs of a call.
///
/// # Errors
///
/// Why it has to be refused.
pub fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    match call.op {
        "sum" | "reproducible-sum" | "prod" | "mean" | "l1" | "l2" | "sum-squares" | "log-sum" | "log-sum-exp"
        | "var" | "std" | "mean-var" | "dot" => reduce::expected(call),
        "min" | "max" | "min-max" | "linf" | "abs-max" | "any" | "all" | "count-nonzero" | "unique-count"
        | "argmin" | "argmax" | "topk" => extremes::expected(call),
        "cumsum" | "cumprod" => scan::expected(call),
        "softmax" | "log-softmax" | "layer-norm" | "rms-norm" | "cross-entropy" => rows::expected(call),
        "abs-max-scale" | "quantize" => scale::expected(call),
        "softmax-v" | "gemv" => matrix::expected(call),
        "matmul" => matmul::expected(call),
        "conv2d" => conv::expected(call),
        "histogram" => histogram::expected(call),
        "nms" => nms::expected(call),
        "copy" | "cast" | "transpose" | "gather" => moves::expected(call),
        op if unary::NAMES.contains(&op) => unary::expected(call),
        op if binary::NAMES.contains(&op) => binary::expected(call),
        op if ternary::NAMES.contains(&op) => ternary::expected(call),
        op => Refused::because(format!("no operator {op}")),
    }
}

impl<'a> Call<'a> {
    /// An input.
    ///
    /// # Errors
    ///
    /// There are fewer.
    pub fn input(&self, index: usize) -> Result<&'a Array, Refused> {
        let missing = || Refused(format!("{} needs an input {index}", self.op));
        self.inputs.get(index).copied().ok_or_else(missing)
    }

    /// The first input cut along the axes of the call, or along all of them.
    ///
    /// # Errors
    ///
    /// Axes that the input does not have.
    pub fn lanes_or_all(&self) -> Result<Lanes, Refused> {
        let shape = &self.input(0)?.shape;
        let all: Vec<_> = (0..shape.len() as i64).collect();
        Ok(axes::lanes(shape, &axes::normalise(self.options.axes.as_ref().unwrap_or(&all), shape.len())?))
    }

    /// The first input cut along the axes of the call, or along the last one.
    ///
    /// # Errors
    ///
    /// Axes that the input does not have.
    pub fn lanes_or_last(&self) -> Result<Lanes, Refused> {
        let shape = &self.input(0)?.shape;
        Ok(axes::lanes(shape, &axes::normalise(self.options.axes.as_deref().unwrap_or(&[-1]), shape.len())?))
    }

    /// The shape of a result with one element a lane.
    #[must_use]
    pub fn shape_of(&self, lanes: &'a Lanes) -> &'a [usize] {
        if self.options.keepdims { &lanes.kept_as_one } else { &lanes.kept }
    }

    /// Refuses types for which the operator has no meaning.
    ///
    /// # Errors
    ///
    /// The first input is no float.
    pub fn only_floats(&self) -> Result<(), Refused> {
        let dtype = self.input(0)?.dtype;
        if dtype.is_float() { Ok(()) } else { Refused::because(format!("{} of {}", self.op, dtype.name())) }
    }
}

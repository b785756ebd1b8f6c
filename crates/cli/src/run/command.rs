//! One operator with its files and options: the arguments of the program, or a line of a batch.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Deserializer};
use warpfold::by_name::{self, Operator, Options};
use warpfold::{Queue, Tensor};
use warpfold_kernels::Dtype;

use crate::failure::Failure;
use crate::npy::{self, Array};
use crate::suggestion::did_you_mean;

/// An operator, its files, its options; in JSON an option's name has `-` or `_`.
#[derive(Debug, Default, PartialEq, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Command {
    /// Operator name: see --list.
    #[arg(value_name = "OP", required_unless_present_any = ["list", "batch"])]
    op: Option<String>,
    /// The inputs, in the operator's order.
    #[arg(value_name = "IN.npy")]
    inputs: Vec<PathBuf>,
    /// An output, in the operator's order; the last ones may be left out.
    #[arg(short = 'o', long = "output", value_name = "OUT.npy")]
    outputs: Vec<PathBuf>,
    /// Axes to work along, such as 0,-1. Default: all of them, or the last for softmax, norms,
    /// scans and top-k.
    #[arg(long, value_name = "AXES", value_delimiter = ',', allow_hyphen_values = true)]
    #[serde(default, deserialize_with = "one_or_more")]
    axes: Option<Vec<isize>>,
    /// Keep reduced axes with size 1.
    #[arg(long)]
    #[serde(default)]
    keepdims: bool,
    /// Small number added to denominators to avoid a division by zero.
    #[arg(long, value_name = "E")]
    eps: Option<f64>,
    /// Take the last of equal elements, not the first.
    #[arg(long)]
    #[serde(default)]
    last: bool,
    /// Number of largest elements to return.
    #[arg(long, value_name = "K")]
    k: Option<usize>,
    /// Exclusive scan: leave each element out of its own result.
    #[arg(long)]
    #[serde(default)]
    exclusive: bool,
    /// Scan from the end of the axis.
    #[arg(long)]
    #[serde(default)]
    reverse: bool,
    /// Element type of the result.
    #[arg(long, value_name = "DTYPE")]
    #[serde(default, deserialize_with = "dtype")]
    dtype: Option<Dtype>,
    /// Skip NaN.
    #[arg(long)]
    #[serde(default, alias = "ignore_nan")]
    ignore_nan: bool,
    /// Correction of a variance: its divisor is the count minus this number.
    #[arg(long, value_name = "N")]
    ddof: Option<usize>,
    /// Compute the mean first, then the squared deviations from it (two passes).
    #[arg(long)]
    #[serde(default, alias = "two_pass")]
    two_pass: bool,
    /// Bins of a histogram.
    #[arg(long, value_name = "N")]
    bins: Option<usize>,
    /// Overlap above which a box is suppressed.
    #[arg(long, value_name = "T")]
    threshold: Option<f64>,
    /// Label that does not contribute to the loss (ignore_index).
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    #[serde(alias = "ignore_index")]
    ignore_index: Option<i64>,
    /// Use the transposed matrix.
    #[arg(long)]
    #[serde(default)]
    transpose: bool,
    /// Scale factor.
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    alpha: Option<f64>,
    /// Number to add.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    beta: Option<f64>,
    /// Use the transposed left matrix.
    #[arg(long)]
    #[serde(default, alias = "transpose_a")]
    transpose_a: bool,
    /// Use the transposed right matrix.
    #[arg(long)]
    #[serde(default, alias = "transpose_b")]
    transpose_b: bool,
    /// Scales of the left matrix: one number, or one for each row.
    #[arg(long, value_name = "IN.npy")]
    #[serde(alias = "scale_a")]
    scale_a: Option<PathBuf>,
    /// Scales of the right matrix: one number, or one for each column.
    #[arg(long, value_name = "IN.npy")]
    #[serde(alias = "scale_b")]
    scale_b: Option<PathBuf>,
    /// Scale of the result, applied last.
    #[arg(long, value_name = "IN.npy")]
    #[serde(alias = "scale_result")]
    scale_result: Option<PathBuf>,
    /// Input added before the activation.
    #[arg(long, value_name = "IN.npy")]
    bias: Option<PathBuf>,
    /// Activation applied to the result: relu, gelu, gelu-tanh, silu, sigmoid or tanh.
    #[arg(long, value_name = "NAME")]
    activation: Option<String>,
    /// Stride in pixels, such as 2 or 2,1. Default: 1, and the window size for pooling.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more")]
    stride: Option<Vec<usize>>,
    /// Zero padding on either side of an image, such as 1 or 1,0; for pooling also all starts, then
    /// all ends, such as 0,0,1,1.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more")]
    padding: Option<Vec<usize>>,
    /// Dilation in pixels, such as 2 or 1,2.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more")]
    dilation: Option<Vec<usize>>,
    /// Number of channel groups.
    #[arg(long, value_name = "N")]
    groups: Option<usize>,
    /// Causal mask: aligns the last query with the last key (bottom-right), or the first with the
    /// first (top-left).
    #[arg(long, value_name = "CORNER", num_args = 0..=1, require_equals = true, default_missing_value = "bottom-right")]
    causal: Option<String>,
    /// Scale of the scores. Default: 1/sqrt(head size).
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    scale: Option<f64>,
    /// Soft cap of the scores: C tanh(score / C).
    #[arg(long, value_name = "C")]
    softcap: Option<f64>,
    /// Sliding window: keys that a query sees, the last at its own position.
    #[arg(long, value_name = "W")]
    window: Option<usize>,
    /// Most keys that a query sees before its own position; -1 for all.
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    #[serde(alias = "window_left")]
    window_left: Option<i64>,
    /// Most keys that a query sees after its own position; -1 for all.
    #[arg(long, value_name = "R", allow_hyphen_values = true)]
    #[serde(alias = "window_right")]
    window_right: Option<i64>,
    /// Order of tokens and heads in a page: nhd or hnd.
    #[arg(long, value_name = "NAME")]
    #[serde(alias = "page_layout")]
    page_layout: Option<String>,
    /// Rotate adjacent elements as pairs (interleaved), not the two halves of a head.
    #[arg(long)]
    #[serde(default)]
    interleaved: bool,
    /// Elements of a head to rotate. Default: all.
    #[arg(long, value_name = "N")]
    #[serde(alias = "rotary_dim")]
    rotary_dim: Option<usize>,
    /// Number of heads of a tensor with three axes.
    #[arg(long, value_name = "H")]
    #[serde(alias = "num_heads")]
    num_heads: Option<usize>,
    /// Scale of 8-bit queries.
    #[arg(long, value_name = "X")]
    #[serde(alias = "scale_q")]
    scale_q: Option<f64>,
    /// Scale of 8-bit keys.
    #[arg(long, value_name = "X")]
    #[serde(alias = "scale_k")]
    scale_k: Option<f64>,
    /// Scale of 8-bit values.
    #[arg(long, value_name = "X")]
    #[serde(alias = "scale_v")]
    scale_v: Option<f64>,
    /// Input type of the tensor cores: f8e4m3, for 8-bit queries, keys and values (sm_90a).
    #[arg(long, value_name = "TYPE")]
    products: Option<String>,
    /// Memory layout of images (nchw or nhwc) or of heads (bhsd or bshd).
    #[arg(long, value_name = "NAME")]
    layout: Option<String>,
    /// Initial value of a sum, a product, a minimum or a maximum, such as -inf.
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    #[serde(default, deserialize_with = "number")]
    initial: Option<f64>,
    /// Offsets of one-dimensional segments: the start of each, then the end of the last. Each
    /// segment is reduced or scanned by itself.
    #[arg(long, value_name = "IN.npy")]
    offsets: Option<PathBuf>,
    /// Window size, such as 3 or 3,2.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more")]
    kernel: Option<Vec<usize>>,
    /// Output size of adaptive pooling, such as 7 or 1,1.
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more", alias = "output_size")]
    output_size: Option<Vec<usize>>,
    /// Factors by which interpolation lengthens axes, such as 2 or 1.5,2.
    #[arg(long, value_name = "X", value_delimiter = ',')]
    #[serde(default, deserialize_with = "one_or_more", alias = "scale_factor")]
    scale_factor: Option<Vec<f64>>,
    /// Let the last window leave the padded image (ceil_mode).
    #[arg(long)]
    #[serde(default, alias = "ceil_mode")]
    ceil_mode: bool,
    /// Include padding in means, as zeros.
    #[arg(long)]
    #[serde(default, alias = "count_include_pad")]
    count_include_pad: bool,
    /// Exponent of a norm.
    #[arg(long, value_name = "P")]
    p: Option<usize>,
    /// Meaning of the positions that a pooling returns: tensor, column-major or channel.
    #[arg(long, value_name = "NAME")]
    indices: Option<String>,
    /// Keep distinct values in the order of their first occurrence.
    #[arg(long)]
    #[serde(default)]
    unsorted: bool,
    /// Sort in descending order.
    #[arg(long)]
    #[serde(default)]
    descending: bool,
    /// Reduction of scatters into the same element: sum, prod, max or min. Default: the last one
    /// wins.
    #[arg(long, value_name = "HOW")]
    reduce: Option<String>,
    /// Leave the element itself out of the reduction of a scatter.
    #[arg(long)]
    #[serde(default, alias = "exclude_self")]
    exclude_self: bool,
    /// Interpolation mode: nearest (default), nearest-exact, linear or cubic.
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Align the centres of the corner elements in linear and cubic interpolation.
    #[arg(long)]
    #[serde(default, alias = "align_corners")]
    align_corners: bool,
    /// Batch-invariant: the bits of a row do not depend on the other rows.
    #[arg(long)]
    #[serde(default, alias = "batch_invariant")]
    batch_invariant: bool,
    /// Write the first result over the first input in device memory.
    #[arg(long)]
    #[serde(default, alias = "in_place")]
    in_place: bool,
    /// Element types of the inputs, one for each or one for the first: bf16 for a file of uint16,
    /// f8e4m3 or f8e5m2 for one of uint8 or of untyped bytes. A single 8-bit type applies to all
    /// uint8 inputs if the first input has wider elements.
    #[arg(long, value_name = "DTYPES", value_delimiter = ',')]
    #[serde(default, deserialize_with = "dtypes", alias = "input_dtype")]
    input_dtype: Vec<Dtype>,
}

fn dtype<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Dtype>, D::Error> {
    let name: Option<String> = Option::deserialize(from)?;
    name.map(|name| name.parse().map_err(serde::de::Error::custom)).transpose()
}

/// A value that JSON may give as one element or as a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> From<OneOrMore<T>> for Vec<T> {
    fn from(these: OneOrMore<T>) -> Self {
        match these {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        }
    }
}

fn one_or_more<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Option::<OneOrMore<T>>::deserialize(from)?.map(Vec::from))
}

/// JSON has no infinities: they are strings, as on the command line.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Number(f64),
        Text(String),
    }
    match Option::deserialize(from)? {
        None => Ok(None),
        Some(Number::Number(number)) => Ok(Some(number)),
        Some(Number::Text(text)) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}

fn dtypes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Dtype>, D::Error> {
    let names: Vec<String> = one_or_more(from)?.unwrap_or_default();
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}

/// A command whose operator, number of files and inputs are known to be fine.
pub(super) struct Prepared<'a> {
    operator: &'static Operator,
    command: &'a Command,
    inputs: Vec<Array>,
}

impl Command {
    /// The operator's name, if there is one.
    pub(super) fn op(&self) -> Option<&str> {
        self.op.as_deref()
    }

    fn options(&self) -> Options {
        let flag = |is_given: bool| is_given.then_some(true);
        Options {
            axes: self.axes.clone(),
            keepdims: flag(self.keepdims),
            eps: self.eps,
            last: flag(self.last),
            k: self.k,
            exclusive: flag(self.exclusive),
            reverse: flag(self.reverse),
            dtype: self.dtype,
            ignore_nan: flag(self.ignore_nan),
            ddof: self.ddof,
            two_pass: flag(self.two_pass),
            bins: self.bins,
            threshold: self.threshold,
            ignore_index: self.ignore_index,
            transpose: flag(self.transpose),
            alpha: self.alpha,
            beta: self.beta,
            transpose_a: flag(self.transpose_a),
            transpose_b: flag(self.transpose_b),
            scale_a: flag(self.scale_a.is_some()),
            scale_b: flag(self.scale_b.is_some()),
            scale_result: flag(self.scale_result.is_some()),
            bias: flag(self.bias.is_some()),
            activation: self.activation.clone(),
            stride: self.stride.clone(),
            padding: self.padding.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
            layout: self.layout.clone(),
            causal: self.causal.clone(),
            scale: self.scale,
            softcap: self.softcap,
            window: self.window,
            window_left: self.window_left,
            window_right: self.window_right,
            page_layout: self.page_layout.clone(),
            interleaved: flag(self.interleaved),
            rotary_dim: self.rotary_dim,
            num_heads: self.num_heads,
            products: self.products.clone(),
            scale_q: self.scale_q,
            scale_k: self.scale_k,
            scale_v: self.scale_v,
            initial: self.initial,
            offsets: flag(self.offsets.is_some()),
            kernel: self.kernel.clone(),
            output_size: self.output_size.clone(),
            scale_factor: self.scale_factor.clone(),
            ceil_mode: flag(self.ceil_mode),
            count_include_pad: flag(self.count_include_pad),
            p: self.p,
            indices: self.indices.clone(),
            unsorted: flag(self.unsorted),
            descending: flag(self.descending),
            reduce: self.reduce.clone(),
            exclude_self: flag(self.exclude_self),
            mode: self.mode.clone(),
            align_corners: flag(self.align_corners),
            batch_invariant: flag(self.batch_invariant),
        }
    }

    /// Checks names and files before a device is opened.
    pub(super) fn prepare(&self) -> Result<Prepared<'_>, Failure> {
        let prepared = self.prepare_for_counts()?;
        if self.outputs.is_empty() {
            return Err(self.outputs_failure(prepared.operator));
        }
        Ok(prepared)
    }

    fn outputs_failure(&self, operator: &Operator) -> Failure {
        let (given, most) = (self.outputs.len(), operator.outputs);
        let expected = if most == 1 { "one output".to_owned() } else { format!("1 to {most} outputs") };
        Failure::usage(format!("{} needs {expected} (-o), {given} given", operator.name))
    }

    /// The same for a run whose results nobody may want.
    pub(super) fn prepare_for_counts(&self) -> Result<Prepared<'_>, Failure> {
        let name = self.op.as_deref().ok_or_else(|| Failure::usage("no operator is named (op)"))?;
        let operator = by_name::find(name).map_err(|error| {
            let meant = did_you_mean(name, by_name::operators().map(|operator| operator.name));
            Failure::usage(format!("{error}; `warpfold run --list` lists them{meant}"))
        })?;
        // Those that options name come after them, the bias last.
        let scales = self.scale_a.iter().chain(&self.scale_b).chain(&self.scale_result);
        let paths: Vec<&PathBuf> = self.inputs.iter().chain(scales).chain(&self.bias).chain(&self.offsets).collect();
        operator.check(paths.len(), &self.options())?;
        if self.outputs.len() > operator.outputs {
            return Err(self.outputs_failure(operator));
        }
        if self.input_dtype.len() > paths.len() {
            return Err(Failure::usage("there are more input types than inputs"));
        }
        let read = paths.iter().enumerate().map(|(i, path)| self.read(i, path));
        let mut inputs: Vec<Array> = read.collect::<Result<_, _>>()?;
        self.take_bytes(&paths, &mut inputs)?;
        Ok(Prepared { operator, command: self, inputs })
    }

    fn read(&self, number: usize, path: &Path) -> Result<Array, Failure> {
        let meant = self.input_dtype.get(number);
        let mut array = npy::read(path, meant.copied())?;
        if let Some(dtype) = meant.filter(|dtype| !self.is_of_bytes(**dtype, &array)) {
            if dtype.bytes() != array.dtype.bytes() {
                return Err(mistaken(path, &array, *dtype));
            }
            array.dtype = *dtype;
        }
        if array.dtype == Dtype::Bool {
            // Kernels take a truth for the number 1.
            array.data.iter_mut().for_each(|byte| *byte = (*byte).min(1));
        }
        Ok(array)
    }

    /// Returns whether one 8-bit float type is given, and the first input has wider elements.
    fn is_of_bytes(&self, dtype: Dtype, first: &Array) -> bool {
        self.input_dtype.len() == 1 && dtype.is_float() && dtype.bytes() == 1 && first.dtype.bytes() > 1
    }

    /// Applies such a type to the inputs that are bytes: keys and values of eight bits.
    fn take_bytes(&self, paths: &[&PathBuf], inputs: &mut [Array]) -> Result<(), Failure> {
        let ([dtype], [first, others @ ..]) = (&self.input_dtype[..], inputs) else { return Ok(()) };
        if !self.is_of_bytes(*dtype, first) {
            return Ok(());
        }
        let mut of_bytes = others.iter_mut().filter(|array| array.dtype == Dtype::U8).peekable();
        if of_bytes.peek().is_none() {
            return Err(mistaken(paths[0], first, *dtype));
        }
        of_bytes.for_each(|array| array.dtype = *dtype);
        Ok(())
    }
}

fn mistaken(path: &Path, array: &Array, dtype: Dtype) -> Failure {
    Failure::usage(format!("{}: elements of type {} cannot be taken as {dtype}", path.display(), array.dtype))
}

impl Prepared<'_> {
    /// Runs the operator and writes the outputs.
    pub(super) fn run(&self, queue: &Queue) -> Result<(), Failure> {
        let upload = |array: &Array| {
            let shape: Vec<usize> = array.shape.iter().map(|size| *size as usize).collect();
            Tensor::from_bytes(queue, array.dtype, &array.data, &shape)
        };
        let mut inputs: Vec<Tensor> = self.inputs.iter().map(upload).collect::<Result<_, _>>()?;
        let options = self.command.options();
        let outputs = match inputs.split_first_mut() {
            Some((first, others)) if self.command.in_place => {
                let rest = self.operator.run_in_place(first, others, &options)?;
                std::iter::once(first.clone()).chain(rest).collect()
            }
            _ => self.operator.run(&inputs, &options)?,
        };
        for (path, tensor) in self.command.outputs.iter().zip(&outputs) {
            let shape = tensor.shape().iter().map(|size| *size as u64).collect();
            npy::write(path, &Array { dtype: tensor.dtype(), shape, data: tensor.to_bytes()? })?;
        }
        Ok(())
    }
}

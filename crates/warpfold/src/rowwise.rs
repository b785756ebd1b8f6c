//! Operators on rows: softmax, norms, scaling.

use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::rowwise::RowWise;
use warpfold_kernels::rowwise::operators::{Norm, RowOp, Types, operator_of};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::{Allocated, First, expect_inputs};
use crate::{Axes, Tensor};

/// Optional inputs of a norm.
#[derive(Debug, Clone, Copy, Default)]
pub struct NormInputs<'a> {
    /// Multiplies each position of the normalised axes; of their shape, or broadcast to it.
    pub scale: Option<&'a Tensor>,
    /// Is added to each position of the normalised axes; of their shape, or broadcast to it. Needs
    /// a scale.
    pub bias: Option<&'a Tensor>,
    /// Is added to the input before; of its shape, or broadcast to it.
    pub residual: Option<&'a Tensor>,
    /// The epsilon added to the variance or mean square: 1e-5 by default.
    pub eps: Option<f64>,
}

impl<'a> NormInputs<'a> {
    pub(crate) fn norm(self) -> Result<Norm, Error> {
        if self.scale.is_none() && self.bias.is_some() {
            return Err(ErrorKind::BiasWithoutScale.into());
        }
        Ok(Norm { eps: self.eps.unwrap_or(EPS), keep_sum: self.residual.is_some() })
    }

    pub(crate) fn columns(self) -> Vec<&'a Tensor> {
        self.scale.into_iter().chain(self.bias).collect()
    }
}

/// The results of layer norm.
#[derive(Debug, Clone)]
pub struct LayerNormed {
    /// The normalised input.
    pub result: Tensor,
    /// The mean of each row, in the type that is computed in: `f64` if an input has it, else `f32`.
    /// Normalised axes have size 1.
    pub mean: Tensor,
    /// The reciprocal of the standard deviation of each row, likewise.
    pub rstd: Tensor,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// The results of RMS norm.
#[derive(Debug, Clone)]
pub struct RmsNormed {
    /// The normalised input.
    pub result: Tensor,
    /// The reciprocal of the root mean square of each row, in the type that is computed in: `f64`
    /// if an input has it, else `f32`. Normalised axes have size 1.
    pub rstd: Tensor,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// The default of [`NormInputs::eps`].
pub(crate) const EPS: f64 = 1e-5;

impl Tensor {
    /// Softmax along some axes together: `e^x / Σ e^x`. A row with a NaN or +∞, or of -∞ only, is
    /// NaN, as in PyTorch. An empty axis gives an empty result.
    ///
    /// ```
    /// use warpfold::{Axes, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[0.0_f32, 0.0, 1.0, f32::NEG_INFINITY], &[2, 2], &device)?;
    /// assert_eq!(x.softmax(Axes::Of(&[-1]))?.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the element type, and those of [`Axes::resolve`].
    pub fn softmax<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        only(rows(RowOp::Softmax { scale: 1.0 }, First::Read(self), &[], &[], axes)?.results)
    }

    /// Softmax of `scale * x + mask`; the mask has the tensor's shape, or is broadcast to it.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], and those of [`Tensor::softmax`].
    pub fn masked_softmax<'b>(&self, mask: &Self, scale: f64, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        only(rows(RowOp::Softmax { scale }, First::Read(self), &[mask], &[], axes)?.results)
    }

    /// The logarithm of softmax along some axes together: `x - ln Σ e^x`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[7_f32, 7.0], &device)?;
    /// let y = x.log_softmax(-1)?.to_vec::<f32>()?;
    /// assert!(y.iter().all(|y| (y + 2_f32.ln()).abs() < 1e-6));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn log_softmax<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        only(rows(RowOp::LogSoftmax { scale: 1.0 }, First::Read(self), &[], &[], axes)?.results)
    }

    /// Layer norm along some axes together: `(x - mean) / sqrt(variance + eps) * scale + bias`.
    ///
    /// A NaN, or an infinity, makes its whole row NaN, and its reciprocal deviation; a row of equal
    /// elements gives the bias. Squares are added up in `f32` (of `f64` in `f64`) where a row stays
    /// on chip: where they overflow, from distances of about 1e19 on, the reciprocal is 0, and so
    /// is the row but for what is as far as to be infinite, which is NaN. The statistics of rows
    /// without elements are 0.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] unless scale and bias can be repeated to the shape of these
    /// axes, [`ErrorKind::Unsupported`] for an element type, and those of [`Axes::resolve`].
    pub fn layer_norm<'b>(&self, axes: impl Into<Axes<'b>>, inputs: NormInputs<'_>) -> Result<LayerNormed, Error> {
        let axes = axes.into();
        let [results, stats] = self.normed(RowOp::LayerNorm, axes, inputs)?;
        let (mut results, mut stats) = (results.into_iter(), stats.into_iter());
        let [Some(result), Some(mean), Some(rstd)] = [results.next(), stats.next(), stats.next()] else {
            unreachable!("layer norm has a result and two statistics");
        };
        Ok(LayerNormed { result, mean, rstd, sum: results.next() })
    }

    /// RMS norm along some axes together: `x / sqrt(mean of x² + eps) * scale + bias`.
    ///
    /// A NaN makes its whole row NaN. With an infinity the reciprocal is 0, the infinity itself NaN
    /// and the rest of its row 0; so it is where squares overflow, from about 1e19 on in `f32`:
    /// that row is 0. The statistics of rows without elements are 0.
    ///
    /// With a weight and the number under the root it is PyTorch's and candle's function, along the
    /// last axis, of which there is the result alone.
    ///
    /// ```
    /// use warpfold::{Device, NormInputs, Profile, Tensor};
    ///
    /// let x = Tensor::new(&[[3_f32, 4.0]], &Device::virtual_gpu(Profile::H200))?;
    /// let weight = Tensor::new(&[1_f32, 2.0], x.device())?;
    /// let normed = x.rms_norm(-1, NormInputs { scale: Some(&weight), ..NormInputs::default() })?;
    /// assert_eq!(normed.result.to_vec::<f32>()?, x.rms_norm(&weight, 1e-5)?.to_vec::<f32>()?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::layer_norm`].
    pub fn rms_norm<A, I: RmsNormInputs<A>>(&self, axes: A, inputs: I) -> Result<I::Output, Error> {
        inputs.rms_norm(self, axes)
    }

    fn rms_normed(&self, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<RmsNormed, Error> {
        let [results, stats] = self.normed(RowOp::RmsNorm, axes, inputs)?;
        let (mut results, mut stats) = (results.into_iter(), stats.into_iter());
        let [Some(result), Some(rstd)] = [results.next(), stats.next()] else {
            unreachable!("RMS norm has a result and a statistic");
        };
        Ok(RmsNormed { result, rstd, sum: results.next() })
    }

    fn normed(&self, op: fn(Norm) -> RowOp, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<[Vec<Self>; 2], Error> {
        let residual: Vec<_> = inputs.residual.into_iter().collect();
        let done = rows(op(inputs.norm()?), First::Read(self), &residual, &inputs.columns(), axes)?;
        Ok([done.results, done.stats])
    }

    /// A user-defined row operator along some axes together: of this tensor and of another one,
    /// broadcast to its shape, where the operator takes two; `columns` have the shape of the axes,
    /// or are broadcast to it. Gives the results, then the statistics with axes of size 1.
    ///
    /// # Errors
    /// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::ShapeMismatch`], and
    /// those of [`Axes::resolve`].
    pub fn rowwise<'b>(
        &self,
        other: Option<&Self>,
        columns: &[&Self],
        operator: &RowWise,
        axes: impl Into<Axes<'b>>,
    ) -> Result<(Vec<Self>, Vec<Self>), Error> {
        let axes = axes.into();
        let others: Vec<_> = other.into_iter().collect();
        let done = rows_with(operator, First::Read(self), &others, columns, axes)?;
        Ok((done.results, done.stats))
    }

    /// Each row divided by its largest magnitude, and these magnitudes. A row of zeros stays as it
    /// is, and so its magnitude is 0, as that of nothing; a NaN makes its whole row NaN; of a row
    /// with an infinity, that becomes NaN and the rest 0.
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn abs_max_scale<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<(Self, Self), Error> {
        let axes = axes.into();
        two(rows(RowOp::AbsMaxScale, First::Read(self), &[], &[], axes)?)
    }

    /// Each row divided by a scale and rounded to `i8`, `f8e4m3` or `f8e5m2`; and the scales, which
    /// bring the largest magnitude of a row to that of the type (127 for `i8`). Whole numbers are
    /// rounded to, ties to even. The scale of a row of zeros is 1. A row with a NaN or an infinity
    /// has that as its scale: of `i8` its results are 0, of floats those of
    /// [`Tensor::abs_max_scale`].
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn quantize<'b>(&self, to: Dtype, axes: impl Into<Axes<'b>>) -> Result<(Self, Self), Error> {
        let axes = axes.into();
        if !matches!(to, Dtype::I8 | Dtype::F8E4M3 | Dtype::F8E5M2) {
            return Err(ErrorKind::Unsupported { op: "quantize".to_owned(), dtype: to }.into());
        }
        two(rows(RowOp::Quantize { to }, First::Read(self), &[], &[], axes)?)
    }
}

/// Pairs of arguments that [`Tensor::rms_norm`] takes: axes and [`NormInputs`], or a weight and the
/// number that is added under the root.
pub trait RmsNormInputs<A> {
    /// The result: with its statistics, or alone.
    type Output;

    /// Normalises.
    ///
    /// # Errors
    /// Those of [`Tensor::layer_norm`].
    fn rms_norm(self, x: &Tensor, first: A) -> Result<Self::Output, Error>;
}

impl<'a, A: Into<Axes<'a>>> RmsNormInputs<A> for NormInputs<'_> {
    type Output = RmsNormed;

    fn rms_norm(self, x: &Tensor, axes: A) -> Result<RmsNormed, Error> {
        x.rms_normed(axes.into(), self)
    }
}

impl RmsNormInputs<&Tensor> for f64 {
    type Output = Tensor;

    fn rms_norm(self, x: &Tensor, weight: &Tensor) -> Result<Tensor, Error> {
        let inputs = NormInputs { scale: Some(weight), eps: Some(self), ..NormInputs::default() };
        Ok(x.rms_normed(Axes::One(-1), inputs)?.result)
    }
}

fn only(results: Vec<Tensor>) -> Result<Tensor, Error> {
    Ok(results.into_iter().next().expect("the operator has a result"))
}

fn two(done: Done) -> Result<(Tensor, Tensor), Error> {
    Ok((only(done.results)?, only(done.stats)?))
}

/// The results of a row operator.
pub(crate) struct Done {
    /// The results, in the input's shape; without the one that overwrites the first input.
    pub(crate) results: Vec<Tensor>,
    /// With axes of size 1 where the rows were.
    pub(crate) stats: Vec<Tensor>,
}

/// Runs a row operator along some axes together.
pub(crate) fn rows(
    op: RowOp,
    first: First<'_>,
    others: &[&Tensor],
    columns: &[&Tensor],
    axes: Axes<'_>,
) -> Result<Done, Error> {
    let dtypes_of = |tensors: &[&Tensor]| tensors.iter().map(|tensor| tensor.dtype()).collect::<Vec<_>>();
    let (mut of_rows, of_columns) = (vec![first.tensor().dtype()], dtypes_of(columns));
    of_rows.extend(dtypes_of(others));
    rows_with(&operator_of(op, Types { rows: &of_rows, columns: &of_columns })?, first, others, columns, axes)
}

/// Runs a row operator along some axes together, of inputs that are broadcast to the shape of the
/// first.
pub(crate) fn rows_with(
    operator: &RowWise,
    first: First<'_>,
    others: &[&Tensor],
    columns: &[&Tensor],
    axes: Axes<'_>,
) -> Result<Done, Error> {
    let x = first.tensor();
    let inputs: Vec<_> = std::iter::once(x).chain(others.iter().copied()).collect();
    for (given, expected) in [(&inputs[..], operator.inputs()), (columns, operator.columns())] {
        expect_inputs("the row operator", given.iter().copied(), expected)?;
    }
    let (shape, rank, axes) = (x.shape(), x.rank(), axes.resolve(x.rank())?);
    // The dimensions of the rows last, as the operator takes them and gives its results.
    let order: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
    let (permuted, first_axis) = (x.layout().permute(&order), rank - axes.len());
    let (kept, row_shape) = permuted.shape().split_at(first_axis);
    let row = |input: &&Tensor| {
        let layout = input.layout().broadcast(shape)?.permute(&order);
        Ok(TensorSpec::new(input.dtype(), layout, input.address()))
    };
    let column =
        |column: &&Tensor| Ok(TensorSpec::new(column.dtype(), column.layout().broadcast(row_shape)?, column.address()));
    let specs = inputs.iter().map(row).collect::<Result<Vec<_>, Error>>()?;
    let problem = operator.problem(specs, columns.iter().map(column).collect::<Result<_, Error>>()?, first_axis);
    let results = first.allocated(operator.results())?;
    let problem = if matches!(first, First::Overwritten(_)) { problem.in_place() } else { problem };
    let results = results.iter().map(|dtype| Allocated::new(x.queue(), *dtype, permuted.shape()));
    let mut outputs: Vec<_> = results.collect::<Result<_, _>>()?;
    let num_results = outputs.len();
    for dtype in operator.stats() {
        outputs.push(Allocated::new(x.queue(), *dtype, kept)?);
    }
    first.run(operator, problem, &[others, columns].concat(), &mut outputs)?;
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(position, axis)| back[*axis] = position as isize);
    let axes: Vec<_> = axes.into_iter().map(|axis| axis as isize).collect();
    let mut tensors = outputs.into_iter().map(Allocated::finish);
    Ok(Done {
        results: tensors.by_ref().take(num_results).map(|result| result.permute(&back)).collect::<Result<_, _>>()?,
        stats: tensors.map(|stat| stat.keep_axes(Axes::Of(&axes), rank)).collect::<Result<_, _>>()?,
    })
}

//! Operators on rows: softmax, norms, scaling.

use warpfold_device::View;
use warpfold_kernels::rowwise::operators::{Norm, RowOp, Types, operator_of};
use warpfold_kernels::rowwise::{AnyRowWise, Outputs, Plan, RowOperator, RowWise};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::{Allocated, expect_inputs};
use crate::{Axes, Queue, Tensor};

/// What a norm takes beside its input.
#[derive(Debug, Clone, Copy, Default)]
pub struct NormInputs<'a> {
    /// Multiplies each position of the normalised axes; of their shape, or repeated to it, such as a single number.
    pub scale: Option<&'a Tensor>,
    /// Is added to each position of the normalised axes; of their shape, or repeated to it. Needs a scale.
    pub bias: Option<&'a Tensor>,
    /// Is added to the input before; of its shape, or repeated to it.
    pub residual: Option<&'a Tensor>,
    /// What is added below the root: 1e-5 unless said.
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

/// What layer norm gives.
#[derive(Debug, Clone)]
pub struct LayerNormed {
    /// Of the input's shape.
    pub result: Tensor,
    /// The mean of each row, in the type that is computed in: `f64` if an input has it, else `f32`. Normalised axes have size 1.
    pub mean: Tensor,
    /// The reciprocal of the standard deviation of each row, likewise.
    pub rstd: Tensor,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// What RMS norm gives.
#[derive(Debug, Clone)]
pub struct RmsNormed {
    /// Of the input's shape.
    pub result: Tensor,
    /// The reciprocal of the root mean square of each row, in the type that is computed in: `f64` if an input has it, else
    /// `f32`. Normalised axes have size 1.
    pub rstd: Tensor,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// The default of what is added below a root.
pub(crate) const EPS: f64 = 1e-5;

impl Tensor {
    /// Softmax along some axes together: `e^x / Σ e^x`. A row with a NaN or +∞, or of nothing but -∞, is NaN, as in PyTorch;
    /// of nothing there is nothing.
    ///
    /// ```
    /// use warpfold::{Axes, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[0.0_f32, 0.0, 1.0, f32::NEG_INFINITY], &[2, 2])?;
    /// assert_eq!(x.softmax(Axes::Of(&[-1]))?.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the element type, and those of [`Axes::resolve`].
    pub fn softmax(&self, axes: Axes<'_>) -> Result<Self, Error> {
        only(rows(RowOp::Softmax { scale: 1.0 }, &[self], &[], axes)?.results)
    }

    /// Softmax of `scale * x + mask`; the mask has the tensor's shape, or is repeated to it.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], and those of [`Tensor::softmax`].
    pub fn masked_softmax(&self, mask: &Self, scale: f64, axes: Axes<'_>) -> Result<Self, Error> {
        only(rows(RowOp::Softmax { scale }, &[self, mask], &[], axes)?.results)
    }

    /// The logarithm of softmax along some axes together: `x - ln Σ e^x`.
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn log_softmax(&self, axes: Axes<'_>) -> Result<Self, Error> {
        only(rows(RowOp::LogSoftmax { scale: 1.0 }, &[self], &[], axes)?.results)
    }

    /// Layer norm along some axes together: `(x - mean) / sqrt(variance + eps) * scale + bias`.
    ///
    /// A NaN, or an infinity, makes its whole row NaN, and its reciprocal deviation; a row of equal elements gives the bias.
    /// Squares are added up in `f32` (of `f64` in `f64`) where a row stays on chip: where they overflow, from distances of
    /// about 1e19 on, the reciprocal is 0, and so is the row but for what is as far as to be infinite, which is NaN. The
    /// statistics of rows without elements are 0.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] unless scale and bias can be repeated to the shape of these axes,
    /// [`ErrorKind::Unsupported`] for an element type, and those of [`Axes::resolve`].
    pub fn layer_norm(&self, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<LayerNormed, Error> {
        let [results, stats] = self.norm(RowOp::LayerNorm, axes, inputs)?;
        let (mut results, mut stats) = (results.into_iter(), stats.into_iter());
        let [Some(result), Some(mean), Some(rstd)] = [results.next(), stats.next(), stats.next()] else {
            unreachable!("layer norm has a result and two statistics");
        };
        Ok(LayerNormed { result, mean, rstd, sum: results.next() })
    }

    /// RMS norm along some axes together: `x / sqrt(mean of x² + eps) * scale + bias`.
    ///
    /// A NaN makes its whole row NaN. With an infinity the reciprocal is 0, the infinity itself NaN and the rest of its row 0;
    /// so it is where squares overflow, from about 1e19 on in `f32`: that row is 0. The statistics of rows without
    /// elements are 0.
    ///
    /// # Errors
    /// Those of [`Tensor::layer_norm`].
    pub fn rms_norm(&self, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<RmsNormed, Error> {
        let [results, stats] = self.norm(RowOp::RmsNorm, axes, inputs)?;
        let (mut results, mut stats) = (results.into_iter(), stats.into_iter());
        let [Some(result), Some(rstd)] = [results.next(), stats.next()] else {
            unreachable!("RMS norm has a result and a statistic");
        };
        Ok(RmsNormed { result, rstd, sum: results.next() })
    }

    fn norm(&self, op: fn(Norm) -> RowOp, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<[Vec<Self>; 2], Error> {
        let row_inputs: Vec<_> = std::iter::once(self).chain(inputs.residual).collect();
        let done = rows(op(inputs.norm()?), &row_inputs, &inputs.columns(), axes)?;
        Ok([done.results, done.stats])
    }

    /// A row operator of one's own along some axes together: of this tensor and of another one, repeated to its shape,
    /// where the operator takes two; `columns` have the shape of the axes, or are repeated to
    /// it. Gives the results, then the statistics with
    /// axes of size 1.
    ///
    /// # Errors
    /// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::ShapeMismatch`], and those of
    /// [`Axes::resolve`].
    pub fn rowwise<O: RowOperator>(
        &self,
        other: Option<&Self>,
        columns: &[&Self],
        operator: &RowWise<O>,
        axes: Axes<'_>,
    ) -> Result<(Vec<Self>, Vec<Self>), Error> {
        let inputs: Vec<_> = std::iter::once(self).chain(other).collect();
        let done = rows_with(operator, &inputs, columns, axes)?;
        Ok((done.results, done.stats))
    }

    /// Each row divided by its largest magnitude, and these magnitudes. A row of zeros stays as it is, and so its magnitude is
    /// 0, as that of nothing; a NaN makes its whole row NaN; of a row with an infinity, that becomes NaN and the rest 0.
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn abs_max_scale(&self, axes: Axes<'_>) -> Result<(Self, Self), Error> {
        two(rows(RowOp::AbsMaxScale, &[self], &[], axes)?)
    }

    /// Each row divided by a scale and rounded to `i8`, `f8e4m3` or `f8e5m2`; and the scales, which bring the largest
    /// magnitude of a row to that of the type (127 for `i8`). Whole numbers are rounded to, ties to even. The scale of a row of
    /// zeros is 1. A row with a NaN or an infinity has that as its scale: of `i8` its results are 0, of floats those of
    /// [`Tensor::abs_max_scale`].
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn quantize(&self, to: Dtype, axes: Axes<'_>) -> Result<(Self, Self), Error> {
        if !matches!(to, Dtype::I8 | Dtype::F8E4M3 | Dtype::F8E5M2) {
            return Err(ErrorKind::Unsupported { op: "quantize".to_owned(), dtype: to }.into());
        }
        two(rows(RowOp::Quantize { to }, &[self], &[], axes)?)
    }
}

fn only(results: Vec<Tensor>) -> Result<Tensor, Error> {
    Ok(results.into_iter().next().expect("the operator has a result"))
}

fn two(done: Done) -> Result<(Tensor, Tensor), Error> {
    Ok((only(done.results)?, only(done.stats)?))
}

/// What a row operator gave.
pub(crate) struct Done {
    /// Of the input's shape.
    pub(crate) results: Vec<Tensor>,
    /// With axes of size 1 where the rows were.
    pub(crate) stats: Vec<Tensor>,
}

/// Runs a row operator along some axes together.
pub(crate) fn rows(op: RowOp, inputs: &[&Tensor], columns: &[&Tensor], axes: Axes<'_>) -> Result<Done, Error> {
    let dtypes_of = |tensors: &[&Tensor]| tensors.iter().map(|tensor| tensor.dtype()).collect::<Vec<_>>();
    let operator = operator_of(op, Types { rows: &dtypes_of(inputs), columns: &dtypes_of(columns) })?;
    rows_with(&*operator, inputs, columns, axes)
}

/// Runs a row operator along some axes together.
pub(crate) fn rows_with(
    operator: &dyn AnyRowWise,
    inputs: &[&Tensor],
    columns: &[&Tensor],
    axes: Axes<'_>,
) -> Result<Done, Error> {
    let along = Along::new(operator, inputs, columns, axes)?;
    let turned = along.turned(inputs)?;
    let (inputs, plan) = along.plan(turned)?;
    let first = &inputs[0];
    let mut results = along.alloc(operator.results(), first)?;
    let mut stats = along.alloc_stats(first)?;
    let views: Vec<_> = inputs.iter().map(|input| input.view().map(Some)).collect::<Result<_, _>>()?;
    let outputs = Outputs {
        results: results.iter_mut().map(|result| result.buffer.as_view_mut()).collect(),
        stats: stats.iter_mut().map(|stat| stat.buffer.as_view_mut()).collect(),
    };
    along.launch(first.queue(), &plan, &views, outputs)?;
    along.done(results, stats)
}

/// A row operator, the vectors along the row side by side, and the axes that rows lie along.
pub(crate) struct Along<'a> {
    operator: &'a dyn AnyRowWise,
    columns: Vec<Tensor>,
    rank: usize,
    axes: Vec<usize>,
    /// The axes with those of the rows last, as rows stand while the operator runs.
    order: Vec<isize>,
}

impl<'a> Along<'a> {
    /// If the operator takes these.
    pub(crate) fn new(
        operator: &'a dyn AnyRowWise,
        inputs: &[&Tensor],
        columns: &[&Tensor],
        axes: Axes<'_>,
    ) -> Result<Self, Error> {
        for (given, expected) in [(inputs, operator.inputs()), (columns, operator.columns())] {
            expect_inputs("the row operator", given.iter().copied(), expected)?;
        }
        let (shape, rank) = (inputs[0].shape(), inputs[0].rank());
        let axes = axes.resolve(rank)?;
        let row_shape: Vec<usize> = axes.iter().map(|axis| shape[*axis]).collect();
        let kept = (0..rank).filter(|axis| !axes.contains(axis));
        let order = kept.chain(axes.iter().copied()).map(|axis| axis as isize).collect();
        let repeated = |column: &&Tensor| column.broadcast(&row_shape)?.contiguous();
        let columns = columns.iter().map(repeated).collect::<Result<_, _>>()?;
        Ok(Self { operator, columns, rank, axes, order })
    }

    /// The inputs, repeated to the shape of the first, with rows last.
    pub(crate) fn turned(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
        inputs.iter().map(|input| input.broadcast(inputs[0].shape())?.permute(&self.order)).collect()
    }

    /// The first of the dimensions that rows lie along, once they stand last.
    fn first_axis(&self) -> usize {
        self.rank - self.axes.len()
    }

    /// The plan, and the inputs that it is for: copies where rows do not lie side by side.
    pub(crate) fn plan(&self, mut inputs: Vec<Tensor>) -> Result<(Vec<Tensor>, Plan), Error> {
        let column_addresses: Vec<u64> = self.columns.iter().map(Tensor::address).collect();
        let target = inputs[0].queue().stream().device().target();
        let plan_for = |inputs: &[Tensor]| {
            let layouts: Vec<_> = inputs.iter().map(Tensor::layout).collect();
            let addresses: Vec<_> = inputs.iter().map(Tensor::address).collect();
            self.operator.plan(&layouts, &addresses, &column_addresses, self.first_axis(), &target)
        };
        match plan_for(&inputs) {
            Err(error) if *error.kind() == ErrorKind::RowsNotContiguous => {
                inputs = inputs.iter().map(Tensor::contiguous).collect::<Result<_, _>>()?;
                let plan = plan_for(&inputs)?;
                Ok((inputs, plan))
            }
            planned => planned.map(|plan| (inputs, plan)),
        }
    }

    /// Memory of these types for results of the shape of a turned input.
    pub(crate) fn alloc(&self, dtypes: &[Dtype], like: &Tensor) -> Result<Vec<Allocated>, Error> {
        dtypes.iter().map(|dtype| Allocated::new(like.queue(), *dtype, like.shape())).collect()
    }

    /// Memory for the statistics of a turned input.
    pub(crate) fn alloc_stats(&self, like: &Tensor) -> Result<Vec<Allocated>, Error> {
        let shape = &like.shape()[..self.first_axis()];
        self.operator.stats().iter().map(|dtype| Allocated::new(like.queue(), *dtype, shape)).collect()
    }

    /// Enqueues it.
    pub(crate) fn launch(
        &self,
        queue: &Queue,
        plan: &Plan,
        inputs: &[Option<View<'_, u8>>],
        outputs: Outputs<'_>,
    ) -> Result<(), Error> {
        let columns: Vec<_> = self.columns.iter().map(Tensor::view).collect::<Result<_, _>>()?;
        self.operator.launch_in_place(queue.stream(), plan, inputs, &columns, outputs, &mut queue.workspace())
    }

    /// What was written, with the axes in their places.
    pub(crate) fn done(&self, results: Vec<Allocated>, stats: Vec<Allocated>) -> Result<Done, Error> {
        let mut back = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(position, axis)| back[*axis as usize] = position as isize);
        let axes: Vec<isize> = self.axes.iter().map(|axis| *axis as isize).collect();
        let keep = |stat: Allocated| stat.finish().keep_axes(Axes::Of(&axes), self.rank);
        Ok(Done {
            results: results.into_iter().map(|result| result.finish().permute(&back)).collect::<Result<_, _>>()?,
            stats: stats.into_iter().map(keep).collect::<Result<_, _>>()?,
        })
    }
}

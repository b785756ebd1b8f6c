//! Row operators whose result takes the place of their first input.

use std::sync::Arc;

use warpfold_kernels::rowwise::operators::{RowOp, Types, operator_of};
use warpfold_kernels::rowwise::{AnyRowWise, Outputs, RowOperator, RowWise};
use warpfold_kernels::{Error, ErrorKind};

use crate::map::copy_into;
use crate::rowwise::{Along, Done, rows_with};
use crate::{Axes, NormInputs, Tensor};

/// What a norm gives beside its result.
#[derive(Debug, Clone)]
pub struct NormedInPlace {
    /// The statistics, as [`Tensor::layer_norm`] and [`Tensor::rms_norm`] give them: of layer norm mean and reciprocal
    /// standard deviation, of RMS norm the reciprocal root mean square.
    pub stats: Vec<Tensor>,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// Row operators in place: the result is written where the tensor was.
///
/// The tensor's memory must be its own: no clone and no view of it may be left, other inputs among them, as rows are
/// written while others are still to be read. The result has the tensor's type, or there is no place for it. Where rows
/// do not lie side by side in the order of the axes, the result goes through memory of its own.
///
/// All of them fail with [`ErrorKind::SharedMemory`] for memory that others see, with [`ErrorKind::OverlappingOutput`] for a
/// tensor that repeats elements, and as the operator does that gives a new tensor.
impl Tensor {
    /// As [`Tensor::softmax`].
    ///
    /// ```
    /// use warpfold::{Axes, Device, ErrorKind, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut x = Tensor::from_slice(&device, &[0.0_f32, 0.0, 1.0, f32::NEG_INFINITY], &[2, 2])?;
    /// x.softmax_in_place(Axes::Of(&[-1]))?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// let view = x.flip(0)?;
    /// assert_eq!(*x.softmax_in_place(Axes::Of(&[-1])).unwrap_err().kind(), ErrorKind::SharedMemory);
    /// # drop(view);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn softmax_in_place(&mut self, axes: Axes<'_>) -> Result<(), Error> {
        rows_in_place(RowOp::Softmax { scale: 1.0 }, self, &[], &[], axes).map(drop)
    }

    /// As [`Tensor::masked_softmax`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn masked_softmax_in_place(&mut self, mask: &Self, scale: f64, axes: Axes<'_>) -> Result<(), Error> {
        rows_in_place(RowOp::Softmax { scale }, self, &[mask], &[], axes).map(drop)
    }

    /// As [`Tensor::log_softmax`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn log_softmax_in_place(&mut self, axes: Axes<'_>) -> Result<(), Error> {
        rows_in_place(RowOp::LogSoftmax { scale: 1.0 }, self, &[], &[], axes).map(drop)
    }

    /// As [`Tensor::layer_norm`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn layer_norm_in_place(&mut self, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<NormedInPlace, Error> {
        self.norm_in_place(RowOp::LayerNorm(inputs.norm()?), axes, inputs)
    }

    /// As [`Tensor::rms_norm`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn rms_norm_in_place(&mut self, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<NormedInPlace, Error> {
        self.norm_in_place(RowOp::RmsNorm(inputs.norm()?), axes, inputs)
    }

    fn norm_in_place(&mut self, op: RowOp, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<NormedInPlace, Error> {
        let residual: Vec<_> = inputs.residual.into_iter().collect();
        let done = rows_in_place(op, self, &residual, &inputs.columns(), axes)?;
        Ok(NormedInPlace { stats: done.stats, sum: done.results.into_iter().next() })
    }

    /// As [`Tensor::abs_max_scale`]; gives the magnitudes.
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn abs_max_scale_in_place(&mut self, axes: Axes<'_>) -> Result<Self, Error> {
        Ok(rows_in_place(RowOp::AbsMaxScale, self, &[], &[], axes)?.stats.remove(0))
    }

    /// As [`Tensor::rowwise`]; gives the results but the first, then the statistics.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`] unless the operator's first result has the type of its first input, and those of
    /// this family, above.
    pub fn rowwise_in_place<O: RowOperator>(
        &mut self,
        other: Option<&Self>,
        columns: &[&Self],
        operator: &RowWise<O>,
        axes: Axes<'_>,
    ) -> Result<(Vec<Self>, Vec<Self>), Error> {
        let others: Vec<_> = other.into_iter().collect();
        let done = rows_with_in_place(operator, self, &others, columns, axes)?;
        Ok((done.results, done.stats))
    }
}

/// Runs a row operator along some axes together; gives the results but the first, which takes the place of the first
/// input, and the statistics.
pub(crate) fn rows_in_place(
    op: RowOp,
    first: &mut Tensor,
    others: &[&Tensor],
    columns: &[&Tensor],
    axes: Axes<'_>,
) -> Result<Done, Error> {
    let rows: Vec<_> = std::iter::once(first.dtype()).chain(others.iter().map(|other| other.dtype())).collect();
    let columns_of: Vec<_> = columns.iter().map(|column| column.dtype()).collect();
    let operator = operator_of(op, Types { rows: &rows, columns: &columns_of })?;
    rows_with_in_place(&*operator, first, others, columns, axes)
}

fn rows_with_in_place(
    operator: &dyn AnyRowWise,
    first: &mut Tensor,
    others: &[&Tensor],
    columns: &[&Tensor],
    axes: Axes<'_>,
) -> Result<Done, Error> {
    match operator.results().first() {
        Some(result) => first.expect_dtype(*result)?,
        None => return Err(ErrorKind::SharedMemory.into()),
    }
    Arc::get_mut(&mut first.memory).ok_or(ErrorKind::SharedMemory)?;
    let inputs: Vec<&Tensor> = std::iter::once(&*first).chain(others.iter().copied()).collect();
    let along = Along::new(operator, &inputs, columns, axes)?;
    let turned = along.turned(&inputs)?;
    if !turned[0].layout().is_contiguous() {
        drop(turned);
        let mut done = rows_with(operator, &inputs, columns, axes)?;
        copy_into(&done.results.remove(0), first)?;
        return Ok(done);
    }
    let (mut inputs, plan) = along.plan(turned)?;
    let mut results = along.alloc(&operator.results()[1..], &inputs[0])?;
    let mut stats = along.alloc_stats(&inputs[0])?;
    // Rows of the first lie side by side, so the plan is for its own memory, of which this was the last other view.
    drop(inputs.remove(0));
    let mut views = vec![None];
    for input in &inputs {
        views.push(Some(input.view()?));
    }
    let (start, queue) = (first.first * first.dtype.bytes() as usize, first.queue.clone());
    let memory = Arc::get_mut(&mut first.memory).ok_or(ErrorKind::SharedMemory)?;
    let place = memory.view_mut(start..)?;
    let outputs = Outputs {
        results: std::iter::once(place).chain(results.iter_mut().map(|result| result.buffer.as_view_mut())).collect(),
        stats: stats.iter_mut().map(|stat| stat.buffer.as_view_mut()).collect(),
    };
    along.launch(&queue, &plan, &views, outputs)?;
    along.done(results, stats)
}

//! Reductions of segments of tensors.

use warpfold_kernels::fold::{Cumulative, Direction, Fold, Prefix, ScanOrder, SegmentedFold};
use warpfold_kernels::operations::Number;
use warpfold_kernels::reductions::{self, Options, Reduction};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::reduce::{outputs_of, run};
use crate::scan::scan_with;
use crate::tensor::expect_inputs;

impl Tensor {
    /// A reduction of each segment of a tensor of one dimension: segment `s` has the elements from
    /// `offsets[s]` to before `offsets[s + 1]`. Offsets are `i32` or `i64`, ascend, and lie on the
    /// device; nothing is read outside of the tensor, whatever they say. A segment without elements
    /// gives what the reduction gives for nothing: 0, 1, the farthest value, NaN. The `k` largest
    /// of each segment are an axis of `k` after the segments; where a segment has fewer, the
    /// positions that are left are -1, and their values the smallest of the type, of floats NaN; any
    /// `k` from 1 on is right, beyond 16 by sorting.
    ///
    /// ```
    /// use warpfold::reductions::{Options, Reduction};
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[4], &device)?;
    /// let offsets = Tensor::from_slice(&[0_i32, 3, 3, 4], &[4], &device)?;
    /// let sums = x.segment_reduce(Reduction::Sum, &offsets, Options::default())?;
    /// assert_eq!(sums[0].to_vec::<f32>()?, [6.0, 0.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors of other ranks or offsets of other types;
    /// [`ErrorKind::Unsupported`] for the element type, and what else [`reductions::fold_of`] says.
    pub fn segment_reduce(&self, reduction: Reduction, offsets: &Self, options: Options) -> Result<Vec<Self>, Error> {
        // No list in registers is as long.
        if let Some(k) = options.k.filter(|k| reduction == Reduction::TopK && *k > Options::MAX_K) {
            return self.segment_top_k(offsets, k);
        }
        fold_segments(&reductions::fold_of(reduction, &[self.dtype], options)?, self, offsets, options.k)
    }

    /// The `k` largest of each segment by two sorts: of the elements, and of the segments that they
    /// are of, which keeps the order of the first.
    fn segment_top_k(&self, offsets: &Self, k: usize) -> Result<Vec<Self>, Error> {
        if self.rank() != 1 {
            let reason = format!("takes a tensor of one dimension, not of shape {:?}", self.shape());
            return Err(ErrorKind::Operand { operator: "segment-reduce", reason }.into());
        }
        expect_offsets(offsets)?;
        let (values, positions) = self.sort_descending(0)?;
        // How many segments have begun.
        let begun = offsets.histogram(self.len() + 1)?.slice(0, ..self.len())?.cumsum(0)?;
        let (_, order) = begun.gather_rows_known(&positions)?.sort(0)?;
        let offsets = offsets.cast(Dtype::I64)?.unsqueeze(1)?;
        let (first, end) = (offsets.slice(0, ..offsets.len() - 1)?, offsets.slice(0, 1..)?);
        let places = first.add(&Self::arange(0, i64::try_from(k).unwrap_or(i64::MAX), self.queue())?)?;
        let is_there = places.lt(&end)?;
        let order = order.gather_rows_known(&places)?;
        let positions = positions.gather_rows_known(&order)?.sub(&first)?;
        Ok(vec![
            is_there.where_cond(&values.gather_rows_known(&order)?, &self.filler()?)?,
            is_there.where_cond(&positions, &Self::full(-1_i64, [1], self.queue())?)?,
        ])
    }

    /// Returns the padding value: NaN, or the smallest.
    fn filler(&self) -> Result<Self, Error> {
        let bits = 8 * self.dtype.bytes();
        let number = match self.dtype {
            dtype if dtype.is_float() => Number::Float(f64::NAN),
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Number::Integer(-1 << (bits - 1)),
            _ => Number::Integer(0),
        };
        Self::filled(self.queue(), self.dtype, number, [1])
    }

    /// A custom fold over each segment, as [`Tensor::segment_reduce`] has it; the results of a sink
    /// that takes lists have an axis of the list after that of the segments.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::fold::{Fold, Sum};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[4], &device)?;
    /// let offsets = Tensor::from_slice(&[0_i32, 3, 4], &[3], &device)?;
    /// let source = Source::one::<f32>(Dtype::F32).map(|x| x * x);
    /// let squares = Fold::new("squares", Sum::<f32>::new(), source, Sink::one::<f32>(Dtype::F32));
    /// assert_eq!(x.segment_fold(&squares, &offsets)?[0].to_vec::<f32>()?, [14.0, 16.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::segment_reduce`]; [`ErrorKind::NumInputs`] or
    /// [`ErrorKind::DtypeMismatch`] unless the fold takes one input of this type.
    pub fn segment_fold(&self, fold: &Fold, offsets: &Self) -> Result<Vec<Self>, Error> {
        fold_segments(fold, self, offsets, None)
    }

    /// A scan of each segment by itself, of a tensor of one dimension, with offsets as
    /// [`Tensor::segment_reduce`] has them: each prefix, or in reverse each rest, begins anew with
    /// its segment. Elements before the first offset, and those after the last, are segments as
    /// well.
    ///
    /// ```
    /// use warpfold::{Cumulative, Device, Profile, ScanOrder, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[4], &device)?;
    /// let offsets = Tensor::from_slice(&[0_i32, 3, 3, 4], &[4], &device)?;
    /// let sums = x.segment_scan(Cumulative::Sum, &offsets, ScanOrder::default(), None)?;
    /// assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0, 6.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors of other ranks, [`ErrorKind::Unsupported`] for offsets
    /// that are no integers, and those of [`Tensor::scan`].
    pub fn segment_scan(
        &self,
        cumulative: Cumulative,
        offsets: &Self,
        order: ScanOrder,
        dtype: Option<Dtype>,
    ) -> Result<Self, Error> {
        if self.rank() != 1 || offsets.rank() != 1 {
            let (x, offsets) = (self.shape(), offsets.shape());
            let reason = format!("takes tensors of one dimension, not of shapes {x:?} and {offsets:?}");
            return Err(ErrorKind::Operand { operator: "segment-scan", reason }.into());
        }
        let len = self.len();
        // A segment begins where an offset is, and seen from the end before where one is.
        let first = if order.direction == Direction::Reverse { 1 } else { 0 };
        let heads = offsets.histogram(len + 1)?.slice(0, first..first + len)?;
        let scan = cumulative.in_segments(self.dtype, dtype, order.prefix)?;
        let order = ScanOrder { prefix: Prefix::Inclusive, ..order };
        let mut results = scan_with(&scan, &[self, &heads], 0, order)?;
        Ok(results.pop().expect("a scan has a result"))
    }
}

/// Folds each segment; `list` is the size of the axis after the segments, unless the sink says it.
fn fold_segments(fold: &Fold, input: &Tensor, offsets: &Tensor, list: Option<usize>) -> Result<Vec<Tensor>, Error> {
    expect_inputs("the fold", std::iter::once(input), fold.inputs())?;
    expect_offsets(offsets)?;
    let (num_segments, family) = (offsets.len() - 1, SegmentedFold(fold));
    let problem = family.problem(vec![input.spec()], offsets.dtype, num_segments);
    run(&family, problem, &[input, offsets], &[num_segments], &outputs_of(fold, list))
}

/// Refuses what cannot be offsets.
fn expect_offsets(offsets: &Tensor) -> Result<(), Error> {
    if offsets.rank() != 1 || offsets.is_empty() || !offsets.layout.is_contiguous() {
        let reason = format!("takes offsets side by side in one dimension, at least one, not {offsets:?}");
        return Err(ErrorKind::Operand { operator: "segment-reduce", reason }.into());
    }
    match offsets.dtype {
        Dtype::I32 | Dtype::I64 => Ok(()),
        dtype => Err(ErrorKind::Unsupported { op: "offsets of segments".to_owned(), dtype }.into()),
    }
}

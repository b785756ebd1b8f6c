//! Reductions of segments of tensors.

use warpfold_kernels::fold::{Cumulative, Direction, Fold, Prefix, ScanOrder, SegmentedFold};
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
    /// positions that are left are -1, and their values the smallest of the type, of floats NaN.
    ///
    /// ```
    /// use warpfold::reductions::{Options, Reduction};
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[4])?;
    /// let offsets = Tensor::from_slice(&device, &[0_i32, 3, 3, 4], &[4])?;
    /// let sums = x.segment_reduce(Reduction::Sum, &offsets, Options::default())?;
    /// assert_eq!(sums[0].to_vec::<f32>()?, [6.0, 0.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors of other ranks or offsets of other types;
    /// [`ErrorKind::Unsupported`] for the element type, and what else [`reductions::fold_of`] says.
    pub fn segment_reduce(&self, reduction: Reduction, offsets: &Self, options: Options) -> Result<Vec<Self>, Error> {
        fold_segments(&reductions::fold_of(reduction, &[self.dtype], options)?, self, offsets, options.k)
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
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[4])?;
    /// let offsets = Tensor::from_slice(&device, &[0_i32, 3, 4], &[3])?;
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
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[4])?;
    /// let offsets = Tensor::from_slice(&device, &[0_i32, 3, 3, 4], &[4])?;
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
    if offsets.rank() != 1 || offsets.is_empty() || !offsets.layout.is_contiguous() {
        let reason = format!("takes offsets side by side in one dimension, at least one, not {offsets:?}");
        return Err(ErrorKind::Operand { operator: "segment-reduce", reason }.into());
    }
    let (num_segments, family) = (offsets.len() - 1, SegmentedFold(fold));
    let problem = family.problem(vec![input.spec()], offsets.dtype, num_segments);
    run(&family, problem, &[input, offsets], &[num_segments], &outputs_of(fold, list))
}

#[cfg(test)]
mod tests {
    use warpfold_device::{Checks, Device, Profile};

    use super::*;

    #[test]
    fn the_largest_few_of_each_segment_are_an_axis_behind_the_segments() {
        let device = Device::virtual_gpu(Profile::H200);
        device.configure(|options| options.checks = Checks::All).unwrap();
        let x = Tensor::from_slice(&device, &[3.0_f32, 9.0, 1.0, 7.0, 8.0], &[5]).unwrap();
        let offsets = Tensor::from_slice(&device, &[0_i64, 3, 4, 4, 5], &[5]).unwrap();
        for k in [1, 2] {
            let options = Options { k: Some(k), ..Options::default() };
            let lists = x.segment_reduce(Reduction::TopK, &offsets, options).unwrap();
            assert_eq!(lists[0].shape(), [4, k]);
            let (values, positions) = (lists[0].to_vec::<f32>().unwrap(), lists[1].to_vec::<i64>().unwrap());
            let expected =
                [[(9.0, 1), (3.0, 0)], [(7.0, 0), (f32::NAN, -1)], [(f32::NAN, -1); 2], [(8.0, 0), (f32::NAN, -1)]];
            let expected = expected.iter().flat_map(|list| &list[..k]);
            for ((expected, value), position) in expected.zip(values).zip(positions) {
                assert!(expected.0 == value || expected.0.is_nan() && value.is_nan(), "{value} for {expected:?}");
                assert_eq!(expected.1, position);
            }
        }
        let findings = device.take_reports().into_iter().flat_map(|launch| launch.report.findings).count();
        assert_eq!(findings, 0);
    }
}

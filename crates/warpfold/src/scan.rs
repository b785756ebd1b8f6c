//! Scans of tensors.

use warpfold_kernels::Error;
use warpfold_kernels::fold::{Cumulative, Scan, ScanOrder, scan_of};

use crate::tensor::{Allocated, expect_inputs};
use crate::{Dtype, Tensor};

impl Tensor {
    /// For each element the sum (or what else) of all elements up to it along an axis, in a tensor
    /// of the same shape.
    ///
    /// ```
    /// use warpfold::{Cumulative, Device, Direction, Prefix, Profile, ScanOrder, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[3_i32, 1, 4, 1, 5, 9], &[2, 3], &device)?;
    /// assert_eq!(x.cumsum(-1)?.to_vec::<i64>()?, [3, 4, 8, 1, 6, 15]);
    /// let before = ScanOrder { prefix: Prefix::Exclusive, direction: Direction::Reverse };
    /// assert_eq!(x.scan(Cumulative::Max, 0, before, None)?.to_vec::<i32>()?, [1, 5, 9, i32::MIN, i32::MIN, i32::MIN]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange), and those of [`scan_of`].
    pub fn scan(
        &self,
        cumulative: Cumulative,
        axis: isize,
        order: ScanOrder,
        dtype: Option<Dtype>,
    ) -> Result<Self, Error> {
        let mut results = scan_with(&scan_of(cumulative, self.dtype, dtype)?, &[self], axis, order)?;
        Ok(results.pop().expect("a scan has a result"))
    }

    /// A scan over a custom monoid along an axis: its results, each of the same shape.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, ScanOrder, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::fold::{Extreme, Scan};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, -3.0, 2.0, -5.0], &[4], &device)?;
    /// // The largest magnitude so far.
    /// let source = Source::one::<f32>(Dtype::F32).map(|x| x.abs());
    /// let scan = Scan::new("reach", Extreme::<f32>::max(), source, Sink::one::<f32>(Dtype::F32));
    /// assert_eq!(x.scan_by(&scan, 0, ScanOrder::default())?[0].to_vec::<f32>()?, [1.0, 3.0, 3.0, 5.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NumInputs`](crate::ErrorKind::NumInputs) or
    /// [`DtypeMismatch`](crate::ErrorKind::DtypeMismatch) unless the scan takes one input of this
    /// type, [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange).
    pub fn scan_by(&self, scan: &Scan, axis: isize, order: ScanOrder) -> Result<Vec<Self>, Error> {
        scan_with(scan, &[self], axis, order)
    }

    /// Running sums along an axis. Those of integers have 64 bits.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.cumsum(0)?.to_vec::<f32>()?, [3.0, 4.0, 6.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::scan`].
    pub fn cumsum(&self, axis: isize) -> Result<Self, Error> {
        self.scan(Cumulative::Sum, axis, ScanOrder::default(), None)
    }

    /// Running products along an axis. Those of integers have 64 bits.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.cumprod(0)?.to_vec::<f32>()?, [3.0, 3.0, 6.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::scan`].
    pub fn cumprod(&self, axis: isize) -> Result<Self, Error> {
        self.scan(Cumulative::Product, axis, ScanOrder::default(), None)
    }

    /// The largest element so far along an axis, without positions; from a NaN on, NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.cummax(0)?.to_vec::<f32>()?, [3.0, 3.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::scan`].
    pub fn cummax(&self, axis: isize) -> Result<Self, Error> {
        self.scan(Cumulative::Max, axis, ScanOrder::default(), None)
    }

    /// The smallest element so far along an axis, without positions; from a NaN on, NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.cummin(0)?.to_vec::<f32>()?, [3.0, 1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::scan`].
    pub fn cummin(&self, axis: isize) -> Result<Self, Error> {
        self.scan(Cumulative::Min, axis, ScanOrder::default(), None)
    }
}

/// Scans tensors of one shape together along an axis.
pub(crate) fn scan_with(scan: &Scan, inputs: &[&Tensor], axis: isize, order: ScanOrder) -> Result<Vec<Tensor>, Error> {
    expect_inputs("the scan", inputs.iter().copied(), scan.inputs())?;
    let first = inputs[0];
    let axis = first.axis(axis)?;
    let outputs = scan.outputs().iter().map(|dtype| Allocated::new(&first.queue, *dtype, first.shape()));
    let mut outputs: Vec<Allocated> = outputs.collect::<Result<_, _>>()?;
    let read = inputs.iter().map(|input| input.spec()).collect();
    let problem = scan.problem(read, outputs.iter().map(Allocated::spec).collect(), axis, order);
    let views = inputs.iter().map(|input| input.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
    let mut written: Vec<_> = outputs.iter_mut().map(|output| output.buffer.as_view_mut()).collect();
    first.queue.run(scan, problem, &views, &mut written)?;
    Ok(outputs.into_iter().map(Allocated::finish).collect())
}

//! Element-wise operators, and copies.

use warpfold_kernels::layout::broadcast_shape;
use warpfold_kernels::map::{Map, copy_of};
use warpfold_kernels::operations::{Number, Operation, Options, map_of};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::{Allocated, First, expect_inputs};
use crate::{Queue, Shape, Tensor};

impl Tensor {
    /// A user-defined map over the elements of this tensor and others, broadcast to their common
    /// shape.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::map::Map;
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2], &device)?;
    /// let y = Tensor::from_slice(&[10.0_f32, 20.0], &[2], &device)?;
    /// let source = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F32)).map(|(x, y)| x.mul_add(x, y));
    /// let map = Map::new("square_add", source, Sink::one::<f32>(Dtype::F32));
    /// assert_eq!(x.map(&[&y], &map)?[0].to_vec::<f32>()?, [11.0, 24.0, 19.0, 36.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::ShapeMismatch`].
    pub fn map(&self, others: &[&Self], map: &Map) -> Result<Vec<Self>, Error> {
        map_with(map, First::Read(self), others)
    }

    /// Variant of [`Tensor::map`] with the result in this tensor's memory. No clone and no view of
    /// it may be left, not even among the other inputs, as some elements are written before others
    /// are read.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, ErrorKind, Profile, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::map::Map;
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0], &[3], &device)?;
    /// let relu = Map::new("relu", Source::one::<f32>(Dtype::F32).map(|x| x.max(0.0)), Sink::one::<f32>(Dtype::F32));
    /// x.map_in_place(&[], &relu)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 0.0, 3.0]);
    /// let reversed = x.flip(0)?;
    /// let add = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F32)).map(|(x, y)| x + y);
    /// let add = Map::new("add", add, Sink::one::<f32>(Dtype::F32));
    /// assert_eq!(*x.map_in_place(&[&reversed], &add).unwrap_err().kind(), ErrorKind::SharedMemory);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::ShapeMismatch`] if the common shape is not the
    /// tensor's, [`ErrorKind::OverlappingOutput`] for a tensor that repeats elements, and those of
    /// [`Tensor::map`].
    pub fn map_in_place(&mut self, others: &[&Self], map: &Map) -> Result<(), Error> {
        map_with(map, First::Overwritten(self), others).map(drop)
    }

    /// A tensor of one number, of any element type; [`Tensor::full`] takes the number's.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Queue, Tensor};
    ///
    /// let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    /// assert_eq!(Tensor::filled(&queue, Dtype::I16, 7, &[3])?.to_vec::<i16>()?, [7, 7, 7]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn filled(
        queue: &Queue,
        dtype: Dtype,
        number: impl Into<Number>,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let options = Options { dtype: Some(dtype), alpha: number.into(), ..Options::default() };
        let map = map_of(Operation::Fill, &[], &options)?;
        let mut output = Allocated::new(queue, dtype, shape.into().sizes())?;
        let problem = map.problem(Vec::new(), vec![output.spec()]);
        queue.run(&map, problem, &[], &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    /// An element-wise operation on this tensor and others, broadcast to their common shape: every
    /// one of [`operations`](warpfold_kernels::operations), with its options.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    /// use warpfold_kernels::operations::{Operation, Options};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, -4.0], &[2], &device)?;
    /// let y = x.elementwise(Operation::Abs, &[], &Options::default())?;
    /// assert_eq!(y.elementwise(Operation::Sqrt, &[], &Options::default())?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`map_of`], and [`ErrorKind::ShapeMismatch`].
    pub fn elementwise(&self, operation: Operation, others: &[&Self], options: &Options) -> Result<Self, Error> {
        Ok(elementwise(operation, First::Read(self), others, options)?.remove(0))
    }

    /// Variant of [`Tensor::elementwise`] with the result in this tensor's memory, under the rules
    /// of [`Tensor::map_in_place`].
    ///
    /// # Errors
    /// Those of [`Tensor::elementwise`] and [`Tensor::map_in_place`].
    pub fn elementwise_in_place(
        &mut self,
        operation: Operation,
        others: &[&Self],
        options: &Options,
    ) -> Result<(), Error> {
        elementwise(operation, First::Overwritten(self), others, options).map(drop)
    }

    /// The elements in another type, as Rust's `as` converts them.
    ///
    /// # Errors
    /// What the device says.
    pub fn cast(&self, dtype: Dtype) -> Result<Self, Error> {
        self.elementwise(Operation::Cast, &[], &Options { dtype: Some(dtype), ..Options::default() })
    }

    /// A contiguous tensor, in C order: this one if it is contiguous already, else a copy.
    ///
    /// # Errors
    /// What the device says.
    pub fn contiguous(&self) -> Result<Self, Error> {
        if self.layout().is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// Alias of [`Tensor::copy`].
    ///
    /// # Errors
    /// What the device says.
    pub fn force_contiguous(&self) -> Result<Self, Error> {
        self.copy()
    }

    /// A contiguous copy, in C order.
    ///
    /// # Errors
    /// What the device says.
    pub fn copy(&self) -> Result<Self, Error> {
        Ok(map_with(&copy_of(self.dtype()), First::Read(self), &[])?.remove(0))
    }
}

/// An element-wise operation on tensors, repeated to their common shape.
pub(crate) fn elementwise(
    operation: Operation,
    first: First<'_>,
    others: &[&Tensor],
    options: &Options,
) -> Result<Vec<Tensor>, Error> {
    let dtypes = std::iter::once(first.tensor()).chain(others.iter().copied()).map(Tensor::dtype);
    map_with(&map_of(operation, &dtypes.collect::<Vec<_>>(), options)?, first, others)
}

/// Maps tensors, repeated to their common shape; gives the results but the one that overwrites the
/// first input.
fn map_with(map: &Map, first: First<'_>, others: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    let x = first.tensor();
    let inputs: Vec<&Tensor> = std::iter::once(x).chain(others.iter().copied()).collect();
    expect_inputs("the map", inputs.iter().copied(), map.inputs())?;
    let shape = broadcast_shape(&inputs.iter().map(|input| input.shape()).collect::<Vec<_>>())?;
    let specs = inputs.iter().map(|input| input.spec()).collect();
    let outputs = first.allocated(map.outputs())?.iter().map(|dtype| Allocated::new(x.queue(), *dtype, &shape));
    let mut outputs: Vec<Allocated> = outputs.collect::<Result<_, _>>()?;
    let problem = match &first {
        First::Read(_) => map.problem(specs, outputs.iter().map(Allocated::spec).collect()),
        First::Overwritten(_) if !outputs.is_empty() => return Err(ErrorKind::SharedMemory.into()),
        First::Overwritten(x) if shape != x.shape() => {
            return Err(ErrorKind::ShapeMismatch { left: x.shape().to_vec(), right: shape }.into());
        }
        First::Overwritten(x) => map.problem(specs, vec![x.spec()]).in_place(),
    };
    first.run(map, problem, others, &mut outputs)?;
    Ok(outputs.into_iter().map(Allocated::finish).collect())
}

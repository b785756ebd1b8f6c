//! Element-wise operators, and copies.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::layout::broadcast_shape;
use warpfold_kernels::map::{AnyMap, Map};
use warpfold_kernels::operations::{Number, Operation, Options, map_of};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::{Allocated, expect_inputs};
use crate::{Queue, Tensor};

impl Tensor {
    /// A map of one's own over the elements of this tensor and of others, repeated to their common shape.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::map::Map;
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let y = Tensor::from_slice(&device, &[10.0_f32, 20.0], &[2])?;
    /// let source = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F32)).map(|(x, y)| x.mul_add(x, y));
    /// let map = Map::new("square_add", source, Sink::one::<f32>(Dtype::F32));
    /// assert_eq!(x.map(&[&y], &map)?[0].to_vec::<f32>()?, [11.0, 24.0, 19.0, 36.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NumInputs`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::ShapeMismatch`].
    pub fn map<I, O>(&self, others: &[&Self], map: &Map<I, O>) -> Result<Vec<Self>, Error>
    where
        I: Copy + 'static,
        O: Copy + 'static,
    {
        map_with(map, &std::iter::once(self).chain(others.iter().copied()).collect::<Vec<_>>())
    }

    /// As [`Tensor::map`], with the results in this tensor's place. Its memory must be its own: no clone and no view of it
    /// may be left, the others among them, as each element is written while others are still to be read.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, ErrorKind, Profile, Tensor};
    /// use warpfold_kernels::elements::{Sink, Source};
    /// use warpfold_kernels::map::Map;
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut x = Tensor::from_slice(&device, &[1.0_f32, -2.0, 3.0], &[3])?;
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
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::ShapeMismatch`] if the common shape is not the tensor's,
    /// [`ErrorKind::OverlappingOutput`] for a tensor that repeats elements, and those of [`Tensor::map`].
    pub fn map_in_place<I, O>(&mut self, others: &[&Self], map: &Map<I, O>) -> Result<(), Error>
    where
        I: Copy + 'static,
        O: Copy + 'static,
    {
        map_into_first(map, self, others)
    }

    /// A tensor of one number.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Queue, Tensor};
    ///
    /// let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    /// assert_eq!(Tensor::full(&queue, Dtype::I16, 7, &[3])?.to_vec::<i16>()?, [7, 7, 7]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn full(queue: &Queue, dtype: Dtype, number: impl Into<Number>, shape: &[usize]) -> Result<Self, Error> {
        let options = Options { dtype: Some(dtype), alpha: number.into(), ..Options::default() };
        let map = map_of(Operation::Fill, &[], &options)?;
        let mut output = Allocated::new(queue, dtype, shape)?;
        let plan = map.plan(&[], &[&output.layout], &[output.buffer.address()])?;
        map.launch(queue.stream(), &plan, Vec::new(), vec![output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    /// An element-wise operation on this tensor and others, repeated to their common shape: every one of
    /// [`operations`](warpfold_kernels::operations), with its options.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    /// use warpfold_kernels::operations::{Operation, Options};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[1.0_f32, -4.0], &[2])?;
    /// let y = x.elementwise(Operation::Abs, &[], &Options::default())?;
    /// assert_eq!(y.elementwise(Operation::Sqrt, &[], &Options::default())?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`map_of`], and [`ErrorKind::ShapeMismatch`].
    pub fn elementwise(&self, operation: Operation, others: &[&Self], options: &Options) -> Result<Self, Error> {
        let inputs: Vec<_> = std::iter::once(self).chain(others.iter().copied()).collect();
        let dtypes: Vec<_> = inputs.iter().map(|input| input.dtype()).collect();
        Ok(map_with(&*map_of(operation, &dtypes, options)?, &inputs)?.remove(0))
    }

    /// As [`Tensor::elementwise`], with the results in this tensor's place; the rules of [`Tensor::map_in_place`] hold.
    ///
    /// # Errors
    /// Those of [`Tensor::elementwise`] and [`Tensor::map_in_place`].
    pub fn elementwise_in_place(
        &mut self,
        operation: Operation,
        others: &[&Self],
        options: &Options,
    ) -> Result<(), Error> {
        let dtypes: Vec<_> = std::iter::once(self.dtype()).chain(others.iter().map(|other| other.dtype())).collect();
        map_into_first(&*map_of(operation, &dtypes, options)?, self, others)
    }

    /// The elements in another type, as Rust's `as` converts them.
    ///
    /// # Errors
    /// What the device says.
    pub fn cast(&self, dtype: Dtype) -> Result<Self, Error> {
        self.elementwise(Operation::Cast, &[], &Options { dtype: Some(dtype), ..Options::default() })
    }

    /// The same elements side by side in C order: this tensor if they lie so already, else a copy.
    ///
    /// # Errors
    /// What the device says.
    pub fn contiguous(&self) -> Result<Self, Error> {
        if self.layout().is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// A copy, with its elements side by side in C order.
    ///
    /// # Errors
    /// What the device says.
    pub fn copy(&self) -> Result<Self, Error> {
        let bits = bits_of(self.dtype());
        let copied = map_with(&*copy_of(bits), &[&Self { dtype: bits, ..self.clone() }])?.remove(0);
        Ok(Self { dtype: self.dtype(), ..copied })
    }
}

/// The unsigned integers of a type's size: copied as they are, nothing is rounded and every NaN stays what it is.
const fn bits_of(dtype: Dtype) -> Dtype {
    match dtype.bytes() {
        1 => Dtype::U8,
        2 => Dtype::U16,
        4 => Dtype::U32,
        _ => Dtype::U64,
    }
}

/// Copies a tensor to the place of another one of its type and shape, whose memory nobody else sees.
pub(crate) fn copy_into(from: &Tensor, to: &mut Tensor) -> Result<(), Error> {
    let copy = copy_of(bits_of(from.dtype()));
    let plan = copy.plan(&[from.layout()], &[to.layout()], &[from.address(), to.address()])?;
    let (start, queue) = (to.first * to.dtype.bytes() as usize, to.queue.clone());
    let memory = Arc::get_mut(&mut to.memory).ok_or(ErrorKind::SharedMemory)?;
    copy.launch(queue.stream(), &plan, vec![from.view()?], vec![memory.view_mut(start..)?])
}

/// The copy of unsigned integers.
fn copy_of(bits: Dtype) -> Arc<dyn AnyMap> {
    static COPIES: LazyLock<Mutex<HashMap<Dtype, Arc<dyn AnyMap>>>> = LazyLock::new(Mutex::default);
    let make = || -> Arc<dyn AnyMap> {
        let name = format!("copy_{bits}");
        match bits {
            Dtype::U64 => Arc::new(Map::new(name, Source::one::<u64>(bits), Sink::one::<u64>(bits))),
            _ => Arc::new(Map::new(name, Source::one::<u32>(bits), Sink::one::<u32>(bits))),
        }
    };
    COPIES.lock().unwrap_or_else(PoisonError::into_inner).entry(bits).or_insert_with(make).clone()
}

/// Maps tensors, repeated to the shape of the first, into the first.
pub(crate) fn map_into_first(map: &dyn AnyMap, first: &mut Tensor, others: &[&Tensor]) -> Result<(), Error> {
    let all: Vec<&Tensor> = std::iter::once(&*first).chain(others.iter().copied()).collect();
    expect_inputs("the map", all.iter().copied(), map.inputs())?;
    let [dtype] = map.outputs() else { return Err(ErrorKind::SharedMemory.into()) };
    first.expect_dtype(*dtype)?;
    let shape = broadcast_shape(&all.iter().map(|input| input.shape()).collect::<Vec<_>>())?;
    if shape != first.shape() {
        return Err(ErrorKind::ShapeMismatch { left: first.shape().to_vec(), right: shape }.into());
    }
    let layouts: Vec<_> = all.iter().map(|input| input.layout()).collect();
    let addresses: Vec<_> = all.iter().map(|input| input.address()).chain([first.address()]).collect();
    let plan = map.plan(&layouts, &[first.layout()], &addresses)?;
    let mut views = vec![None];
    for other in others {
        views.push(Some(other.view()?));
    }
    let (start, queue) = (first.first * first.dtype.bytes() as usize, first.queue.clone());
    let memory = Arc::get_mut(&mut first.memory).ok_or(ErrorKind::SharedMemory)?;
    map.launch_in_place(queue.stream(), &plan, views, vec![memory.view_mut(start..)?])
}

/// Maps tensors, repeated to their common shape.
pub(crate) fn map_with(map: &dyn AnyMap, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    expect_inputs("the map", inputs.iter().copied(), map.inputs())?;
    let shape = broadcast_shape(&inputs.iter().map(|input| input.shape()).collect::<Vec<_>>())?;
    let queue = inputs[0].queue();
    let outputs = map.outputs().iter().map(|dtype| Allocated::new(queue, *dtype, &shape));
    let mut outputs: Vec<Allocated> = outputs.collect::<Result<_, _>>()?;
    let layouts: Vec<_> = inputs.iter().map(|input| input.layout()).collect();
    let out_layouts: Vec<_> = outputs.iter().map(|output| &output.layout).collect();
    let addresses = inputs.iter().map(|input| input.address()).chain(outputs.iter().map(|o| o.buffer.address()));
    let plan = map.plan(&layouts, &out_layouts, &addresses.collect::<Vec<_>>())?;
    let views = inputs.iter().map(|input| input.view()).collect::<Result<_, _>>()?;
    let written = outputs.iter_mut().map(|output| output.buffer.as_view_mut()).collect();
    map.launch(queue.stream(), &plan, views, written)?;
    Ok(outputs.into_iter().map(Allocated::finish).collect())
}

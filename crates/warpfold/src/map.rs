//! Element-wise operators, and copies.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::layout::broadcast_shape;
use warpfold_kernels::map::{AnyMap, Map};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

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
        // Bits, so that nothing is rounded and every NaN stays what it is.
        let bits = match self.dtype().bytes() {
            1 => Dtype::U8,
            2 => Dtype::U16,
            4 => Dtype::U32,
            _ => Dtype::U64,
        };
        let copied = map_with(&*copy_of(bits), &[&Self { dtype: bits, ..self.clone() }])?.remove(0);
        Ok(Self { dtype: self.dtype(), ..copied })
    }
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

/// Maps tensors, repeated to their common shape.
pub(crate) fn map_with(map: &dyn AnyMap, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Error> {
    if inputs.len() != map.inputs().len() {
        let (op, expected) = ("the map".to_owned(), map.inputs().len());
        return Err(ErrorKind::NumInputs { op, least: expected, most: expected, found: inputs.len() }.into());
    }
    for (input, dtype) in inputs.iter().zip(map.inputs()) {
        input.expect_dtype(*dtype)?;
    }
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

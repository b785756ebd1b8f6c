//! A map as users hold it: a way in, a function of items, a way out; planned and launched.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::{Arguments, Device, Stream, View, ViewMut};

use super::geometry::{MAX_INPUTS, MAX_OUTPUTS, MAX_SCALARS, Scalars};
use super::plan::{self, Problem};
use super::{Plan, Shape, Weight, strips, tiles};
use crate::elements::{Sink, Source};
use crate::layout::Layout;
use crate::{AnyKernel, Dtype, Error};

type Function<I, O> = dyn Fn(I, Scalars) -> O + Send + Sync;
type Kernels = Arc<Mutex<HashMap<Shape, AnyKernel>>>;

/// How items come from memory, what is made of each, and how it goes there. Cheap to clone; clones share the kernels that
/// were built.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::map::Map;
///
/// // x * x + y of f32 and a column of i32, stored as f64.
/// let source = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::I32)).map(|(x, y)| x.mul_add(x, y));
/// let map = Map::new("square_add", source, Sink::one::<f32>(Dtype::F64));
/// let device = Device::virtual_gpu(Profile::H200);
/// let (x, y) = (device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?, device.upload(&[10_i32, 20])?);
/// let mut z = device.alloc::<f64>(4)?;
/// let (matrix, column) = (Layout::contiguous(&[2, 2])?, Layout::contiguous(&[2, 1])?);
/// let plan = map.plan(&[&matrix, &column], &[&matrix], &[x.address(), y.address(), z.address()])?;
/// let inputs = vec![x.as_view().bytes(), y.as_view().bytes()];
/// map.launch(&device.default_stream(), &plan, inputs, vec![z.as_view_mut().bytes()])?;
/// assert_eq!(z.download()?, [11.0, 14.0, 29.0, 36.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Map<I, O = I> {
    pub(super) name: Arc<str>,
    pub(super) source: Source<I>,
    function: Arc<Function<I, O>>,
    pub(super) sink: Sink<O>,
    weight: Weight,
    scalars: [u64; MAX_SCALARS],
    kernels: Kernels,
}

impl<I: Copy + 'static> Map<I> {
    /// A map of up to three inputs to one or two outputs, whose sink takes what the source gives. `name` begins the name of
    /// its kernels.
    ///
    /// # Panics
    /// With more inputs or outputs, and for a sink that takes lists.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, source: Source<I>, sink: Sink<I>) -> Self {
        Map::with_scalars(name, source, |item, _| item, sink)
    }
}

impl<I: Copy + 'static, O: Copy + 'static> Map<I, O> {
    /// A map whose function takes numbers that are known at the launch only; see [`Map::scalars`].
    ///
    /// # Panics
    /// As [`Map::new`].
    #[must_use]
    pub fn with_scalars(
        name: impl Into<Arc<str>>,
        source: Source<I>,
        function: impl Fn(I, Scalars) -> O + Send + Sync + 'static,
        sink: Sink<O>,
    ) -> Self {
        assert!(source.dtypes().len() <= MAX_INPUTS, "a map takes up to three inputs");
        assert!((1..=MAX_OUTPUTS).contains(&sink.dtypes().len()), "a map has one or two outputs");
        assert!(sink.lens().iter().all(|len| *len == 1), "a map gives one element an output, no lists");
        let (name, function) = (name.into(), Arc::new(function));
        let (weight, scalars, kernels) = (Weight::Light, [0; MAX_SCALARS], Kernels::default());
        Self { name, source, function, sink, weight, scalars, kernels }
    }

    /// The same map, which computes so much.
    #[must_use]
    pub fn weight(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// The same map with these numbers, as bits of the types that its function takes them as.
    #[must_use]
    pub fn scalars(self, scalars: [u64; MAX_SCALARS]) -> Self {
        Self { scalars, ..self }
    }

    pub(super) fn inputs(&self) -> usize {
        self.source.dtypes().len()
    }

    pub(super) fn outputs(&self) -> usize {
        self.sink.dtypes().len()
    }

    pub(super) fn apply(&self, item: I, scalars: Scalars) -> O {
        (self.function)(item, scalars)
    }

    /// Plans the map of inputs, which repeat to the shape of the outputs, that begin at these addresses: those of the
    /// inputs, then those of the outputs. Whether an output may lie in an input's memory, [`overlap`](super::overlap())
    /// says.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch), [`OverlappingOutput`](crate::ErrorKind::OverlappingOutput),
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    ///
    /// # Panics
    /// If there is not one layout and one address for each input and output.
    pub fn plan(&self, inputs: &[&Layout], outputs: &[&Layout], addresses: &[u64]) -> Result<Plan, Error> {
        assert_eq!(inputs.len(), self.inputs(), "one layout for each input");
        assert_eq!(outputs.len(), self.outputs(), "one layout for each output");
        assert_eq!(addresses.len(), inputs.len() + outputs.len(), "one address for each input and output");
        let dtypes: Vec<Dtype> = self.source.dtypes().iter().chain(self.sink.dtypes()).copied().collect();
        let layouts: Vec<&Layout> = inputs.iter().chain(outputs).copied().collect();
        let (inputs, weight) = (inputs.len(), self.weight);
        plan::plan(&Problem { dtypes: &dtypes, inputs, layouts: &layouts, addresses, weight })
    }

    /// The kernel of a plan; built once.
    #[must_use]
    pub fn kernel(&self, plan: &Plan) -> AnyKernel {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(&plan.shape) {
            return kernel.clone();
        }
        let kernel = match &plan.shape {
            Shape::Strips(shape) => strips::kernel_of(self, shape),
            Shape::Tiles(shape) => tiles::kernel_of(self, shape),
        };
        kernels.entry(plan.shape.clone()).or_insert(kernel).clone()
    }

    /// Enqueues the map: one launch, or none without elements. Each view begins at the first element of its tensor.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// If there is not one view for each input and output.
    pub fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
    ) -> Result<(), Error> {
        self.launch_in_place(stream, plan, inputs.into_iter().map(Some).collect(), outputs)
    }

    /// As [`Map::launch`]; an input that is `None` is the first output: same memory, same layout.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// As [`Map::launch`].
    pub fn launch_in_place<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<Option<View<'a, u8>>>,
        outputs: Vec<ViewMut<'a, u8>>,
    ) -> Result<(), Error> {
        assert_eq!(inputs.len(), self.inputs(), "one view for each input");
        assert_eq!(outputs.len(), self.outputs(), "one view for each output");
        let Some(config) = plan.launch else { return Ok(()) };
        let function = self.kernel(plan).prepare(stream.device())?;
        let first_output = outputs[0].address();
        let mut arguments = Arguments::new();
        let (missing, unused) = (MAX_INPUTS - inputs.len(), MAX_OUTPUTS - outputs.len());
        for input in inputs {
            arguments = match input {
                Some(input) => arguments.input(input),
                None => arguments.value(first_output),
            };
        }
        arguments = (0..missing).fold(arguments, |arguments, _| arguments.value(0_u64));
        arguments = outputs.into_iter().fold(arguments, Arguments::output);
        arguments = (0..unused).fold(arguments, |arguments, _| arguments.value(0_u64));
        let words = plan.geometry.words(self.scalars);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(stream.launch_raw(&function, config, &arguments.raw(&bytes, 8))?)
    }

    /// The device's share of planning: builds and loads the kernel of a plan.
    ///
    /// # Errors
    /// What the device says.
    pub fn prepare(&self, device: &Device, plan: &Plan) -> Result<(), Error> {
        self.kernel(plan).prepare(device)?;
        Ok(())
    }
}

impl<I, O> Clone for Map<I, O> {
    fn clone(&self) -> Self {
        let Self { name, source, function, sink, weight, scalars, kernels } = self;
        let (name, source, function, sink) = (name.clone(), source.clone(), function.clone(), sink.clone());
        Self { name, source, function, sink, weight: *weight, scalars: *scalars, kernels: kernels.clone() }
    }
}

impl<I: Copy + 'static, O: Copy + 'static> fmt::Debug for Map<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.source.dtypes(), self.sink.dtypes());
        f.debug_struct("Map").field("name", &self.name).field("inputs", &inputs).field("outputs", &outputs).finish()
    }
}

//! A scan as users hold it: a monoid with its way in and its way out, planned and launched.

use std::fmt;
use std::sync::Arc;

use warpfold_device::{Stream, View, ViewMut};
use warpfold_lang::Registers;

use super::look_back::num_words;
use super::plan::{self, Problem};
use super::{ScanOrder, ScanPlan, ScanShape, columns, rows};
use crate::elements::{Sink, Source};
use crate::fold::Monoid;
use crate::fold::geometry::MAX_INPUTS;
use crate::fold::kernels::Kernels;
use crate::fold::launch::{Operands, launch};
use crate::layout::Layout;
use crate::{AnyKernel, Dtype, Error, Workspace};

/// A monoid, how its items come from memory, and how the results of its prefixes go there. Cheap to clone; clones share
/// the kernels that were built.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::fold::{Scan, ScanOrder, Sum};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::{Dtype, Workspace};
///
/// // Running sums of squares along the rows of a 2 x 3 matrix.
/// let scan = Scan::new(
///     "sum_squares",
///     Sum::<f32>::new(),
///     Source::one::<f32>(Dtype::F32).map(|x| x * x),
///     Sink::one::<f32>(Dtype::F32),
/// );
/// let device = Device::virtual_gpu(Profile::H200);
/// let input = device.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut output = device.alloc::<f32>(6)?;
/// let layout = Layout::contiguous(&[2, 3])?;
/// let plan = scan.plan(&[&layout], &[input.address(), output.address()], 1, ScanOrder::default())?;
/// let stream = device.default_stream();
/// let (input, output_view) = (input.as_view().bytes(), output.as_view_mut().bytes());
/// scan.launch(&stream, &plan, vec![input], vec![output_view], &mut Workspace::new())?;
/// assert_eq!(output.download()?, [1.0, 5.0, 14.0, 16.0, 41.0, 77.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scan<M: Monoid> {
    pub(super) name: Arc<str>,
    pub(super) monoid: M,
    pub(super) source: Source<M::Item>,
    pub(super) sink: Sink<M::Output>,
    kernels: Kernels<ScanShape>,
}

impl<M: Monoid> Scan<M> {
    /// A scan of one or two inputs to one or two outputs. `name` begins the name of its kernels.
    ///
    /// # Panics
    /// With more inputs or outputs, and for a sink that takes lists.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> Self {
        assert!((1..=MAX_INPUTS).contains(&source.dtypes().len()), "a scan takes one or two inputs");
        assert!((1..=2).contains(&sink.dtypes().len()), "a scan has one or two outputs");
        assert!(sink.lens().iter().all(|len| *len == 1), "a scan gives one element an output, no lists");
        Self { name: name.into(), monoid, source, sink, kernels: Kernels::new() }
    }

    /// Plans the scan along an axis of tensors of one shape. The addresses are those of the inputs, then those of the
    /// outputs, which take the results in C order of that shape.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    ///
    /// # Panics
    /// If there is not one address for each input and output.
    pub fn plan(
        &self,
        layouts: &[&Layout],
        addresses: &[u64],
        axis: usize,
        order: ScanOrder,
    ) -> Result<ScanPlan, Error> {
        let (inputs, outputs) = (self.source.dtypes(), self.sink.dtypes());
        assert_eq!(addresses.len(), inputs.len() + outputs.len(), "one address for each input and output");
        let registers = self.monoid.identity().count();
        let words = num_words(self.monoid.identity());
        let item_registers = inputs.len() as u32;
        let problem = Problem { inputs, outputs, item_registers, registers, words, layouts, addresses, order };
        plan::plan(&problem, axis)
    }

    /// The kernel of a plan; built once.
    #[must_use]
    pub fn kernel(&self, plan: &ScanPlan) -> AnyKernel {
        self.kernels.get(&plan.shape, || match &plan.shape {
            ScanShape::Rows(shape) => rows::kernel_of(self, shape),
            ScanShape::Columns(shape) => columns::kernel_of(self, shape),
        })
    }

    /// Enqueues the scan: one launch.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// If there is not one view for each input and output.
    pub fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &ScanPlan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        assert_eq!(inputs.len(), self.source.dtypes().len(), "one view for each input");
        assert_eq!(outputs.len(), self.sink.dtypes().len(), "one view for each output");
        let Some(config) = plan.launch_on(stream.device().limits()) else { return Ok(()) };
        let words = workspace.marks(stream.device(), plan.marks)?;
        let operands = Operands { inputs, outputs, words, tickets: None, offsets: None };
        launch(stream, &self.kernel(plan), config, operands, &plan.geometry.words())
    }
}

impl<M: Monoid> Clone for Scan<M> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            monoid: self.monoid,
            source: self.source.clone(),
            sink: self.sink.clone(),
            kernels: self.kernels.clone(),
        }
    }
}

impl<M: Monoid> fmt::Debug for Scan<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.source.dtypes(), self.sink.dtypes());
        f.debug_struct("Scan").field("name", &self.name).field("inputs", &inputs).field("outputs", &outputs).finish()
    }
}

/// A [`Scan`] of any monoid.
pub trait AnyScan: fmt::Debug + Send + Sync {
    /// The element types of its inputs.
    fn inputs(&self) -> &[Dtype];

    /// The element types of its outputs.
    fn outputs(&self) -> &[Dtype];

    /// As [`Scan::plan`].
    ///
    /// # Errors
    /// Those of [`Scan::plan`].
    fn plan(&self, layouts: &[&Layout], addresses: &[u64], axis: usize, order: ScanOrder) -> Result<ScanPlan, Error>;

    /// As [`Scan::kernel`].
    fn kernel(&self, plan: &ScanPlan) -> AnyKernel;

    /// As [`Scan::launch`].
    ///
    /// # Errors
    /// Those of [`Scan::launch`].
    fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &ScanPlan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error>;
}

impl<M: Monoid> AnyScan for Scan<M> {
    fn inputs(&self) -> &[Dtype] {
        self.source.dtypes()
    }

    fn outputs(&self) -> &[Dtype] {
        self.sink.dtypes()
    }

    fn plan(&self, layouts: &[&Layout], addresses: &[u64], axis: usize, order: ScanOrder) -> Result<ScanPlan, Error> {
        Self::plan(self, layouts, addresses, axis, order)
    }

    fn kernel(&self, plan: &ScanPlan) -> AnyKernel {
        Self::kernel(self, plan)
    }

    fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &ScanPlan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        Self::launch(self, stream, plan, inputs, outputs, workspace)
    }
}

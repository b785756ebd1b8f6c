//! A fold as users hold it: a monoid with its way in and its way out, planned and launched.

use std::fmt;
use std::sync::Arc;

use warpfold_device::{Device, Stream, View, ViewMut};
use warpfold_lang::Registers;

use super::geometry::MAX_INPUTS;
use super::kernels::Kernels;
use super::launch::{Operands, check_room, launch};
use super::plan::{self, Problem};
use super::{Monoid, Plan, Segments, Shape, columns, rows};
use crate::elements::{Sink, Source};
use crate::layout::Layout;
use crate::{AnyKernel, Error, Ready, Workspace};

/// A monoid, how its items come from memory, and how its results go there. Cheap to clone; clones share the kernels that
/// were built.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::fold::{Fold, Sum};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::{Dtype, Workspace};
///
/// // The sum of squares over the rows of a 2 x 3 matrix.
/// let fold = Fold::new(
///     "sum_squares",
///     Sum::<f32>::new(),
///     Source::one::<f32>(Dtype::F32).map(|x| x * x),
///     Sink::one::<f32>(Dtype::F32),
/// );
/// let device = Device::virtual_gpu(Profile::H200);
/// let input = device.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut output = device.alloc::<f32>(2)?;
/// let layout = Layout::contiguous(&[2, 3])?;
/// let plan = fold.plan(&[&layout], &[input.address()], &[1])?;
/// let stream = device.default_stream();
/// let (input, output_view) = (input.as_view().bytes(), output.as_view_mut().bytes());
/// fold.launch(&stream, &plan, vec![input], vec![output_view], &mut Workspace::new())?;
/// assert_eq!(output.download()?, [14.0, 77.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fold<M: Monoid> {
    pub(crate) name: Arc<str>,
    pub(crate) monoid: M,
    pub(crate) source: Source<M::Item>,
    pub(crate) sink: Sink<M::Output>,
    kernels: Kernels<Shape>,
    pub(super) segments_kernels: Kernels<Segments>,
}

impl<M: Monoid> Fold<M> {
    /// A fold of one or two inputs to one or two outputs. `name` begins the name of its kernels.
    ///
    /// # Panics
    /// With more inputs or outputs.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> Self {
        assert!((1..=MAX_INPUTS).contains(&source.dtypes().len()), "a fold takes one or two inputs");
        assert!((1..=2).contains(&sink.dtypes().len()), "a fold has one or two outputs");
        Self { name: name.into(), monoid, source, sink, kernels: Kernels::new(), segments_kernels: Kernels::new() }
    }

    /// Plans the fold over `axes` (positions, in order) of tensors of one shape that begin at these addresses.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn plan(&self, layouts: &[&Layout], addresses: &[u64], axes: &[usize]) -> Result<Plan, Error> {
        let registers = self.monoid.identity().count();
        let problem = Problem {
            dtypes: self.source.dtypes(),
            // Code that puts an item into a long accumulator is long, too.
            registers,
            any_order: M::COMMUTES && !M::USES_POSITION,
            commutes: M::COMMUTES,
            layouts,
            addresses,
        };
        plan::plan(&problem, axes)
    }

    /// The kernel of a plan; built once.
    #[must_use]
    pub fn kernel(&self, plan: &Plan) -> AnyKernel {
        self.kernels.get(&plan.shape, || match &plan.shape {
            Shape::Rows(shape) => rows::kernel_of(self, shape),
            Shape::Columns(shape) => columns::kernel_of(self, shape),
        })
    }

    /// Enqueues the fold: one launch. Results lie side by side in C order of the kept dimensions.
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for an output that is too short; what the device says.
    ///
    /// # Panics
    /// If there is not one view for each input and output.
    pub fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        assert_eq!(inputs.len(), self.source.dtypes().len(), "one view for each input");
        check_room(&self.sink, &outputs, plan.geometry.results)?;
        let Some(config) = plan.launch else { return Ok(()) };
        let (words, tickets) = workspace.get(stream.device(), plan.workspace_words, plan.tickets)?;
        let operands = Operands { inputs, outputs, words, tickets: Some(tickets), offsets: None };
        launch(stream, &self.kernel(plan), config, operands, &plan.geometry.words())
    }

    /// The plan's launch with all that does not change from call to call; `None` if there is nothing to launch. The kernel
    /// takes two inputs, two outputs (null where there is none), the workspace's words and counters, and the parameters.
    ///
    /// # Errors
    /// What the device says.
    pub fn ready(&self, device: &Device, plan: &Plan) -> Result<Option<Ready>, Error> {
        let Some(config) = plan.launch else { return Ok(None) };
        let function = self.kernel(plan).prepare(device)?;
        let parameters = plan.geometry.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let (workspace_words, tickets) = (plan.workspace_words, plan.tickets);
        Ok(Some(Ready { function, config, parameters, workspace_words, tickets }))
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

impl<M: Monoid> Clone for Fold<M> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            monoid: self.monoid,
            source: self.source.clone(),
            sink: self.sink.clone(),
            kernels: self.kernels.clone(),
            segments_kernels: self.segments_kernels.clone(),
        }
    }
}

impl<M: Monoid> fmt::Debug for Fold<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, outputs) = (self.source.dtypes(), self.sink.dtypes());
        f.debug_struct("Fold").field("name", &self.name).field("inputs", &inputs).field("outputs", &outputs).finish()
    }
}

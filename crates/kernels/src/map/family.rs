//! A map as users hold it, and its plans.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::{AnyRegisters, FixedRegisters};

use super::geometry::{MAX_INPUTS, MAX_OUTPUTS, MAX_SCALARS, Scalars};
use super::{Algorithm, Choice, Problem, Weight, strips, tiles};
use crate::elements::{Sink, Source};
use crate::plan::{Family, Key, Operand, Plan, Planner, Step, TensorSpec};
use crate::{AnyKernel, Dtype, Error};

type Function = dyn Fn(AnyRegisters, Scalars) -> AnyRegisters + Send + Sync;

/// As errors name the operands.
const INPUTS: [&str; MAX_INPUTS] = ["the first input", "the second input", "the third input"];
const OUTPUTS: [&str; MAX_OUTPUTS] = ["the first output", "the second output"];

/// The family of an element-wise map: how items are loaded, what is computed from each, and how
/// results are stored. Cheap to clone.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::map::Map;
/// use warpfold_kernels::plan::{Family, TensorSpec, Workspace};
///
/// // x * x + y of f32 and a column of i32, stored as f64.
/// let source = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::I32)).map(|(x, y)| x.mul_add(x, y));
/// let map = Map::new("square_add", source, Sink::one::<f32>(Dtype::F64));
/// let device = Device::virtual_gpu(Profile::H200);
/// let (x, y) = (device.upload(&[1.0_f32, 2.0, 3.0, 4.0])?, device.upload(&[10_i32, 20])?);
/// let mut z = device.alloc::<f64>(4)?;
/// let (matrix, column) = (Layout::contiguous(&[2, 2])?, Layout::contiguous(&[2, 1])?);
/// let inputs = vec![
///     TensorSpec::new(Dtype::F32, matrix.clone(), x.address()),
///     TensorSpec::new(Dtype::I32, column, y.address()),
/// ];
/// let problem = map.problem(inputs, vec![TensorSpec::new(Dtype::F64, matrix, z.address())]);
/// let inputs = [Some(x.as_view().bytes()), Some(y.as_view().bytes())];
/// let (ready, outputs) = (map.ready(&device, &problem)?, &mut [z.as_view_mut().bytes()]);
/// ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new())?;
/// assert_eq!(z.download()?, [11.0, 14.0, 29.0, 36.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Map {
    key: Key,
    inputs: Vec<Dtype>,
    outputs: Vec<Dtype>,
    weight: Weight,
    scalars: [u64; MAX_SCALARS],
    code: Arc<dyn Fn() -> Code + Send + Sync>,
}

/// What kernels are recorded from. Its types are erased, so that kernels' bodies are compiled once.
#[derive(Clone)]
pub(super) struct Code {
    pub(super) name: Arc<str>,
    pub(super) source: Source<AnyRegisters>,
    function: Arc<Function>,
    pub(super) sink: Sink<AnyRegisters>,
}

impl Code {
    pub(super) fn inputs(&self) -> usize {
        self.source.dtypes().len()
    }

    pub(super) fn outputs(&self) -> usize {
        self.sink.dtypes().len()
    }

    pub(super) fn apply(&self, item: AnyRegisters, scalars: Scalars) -> AnyRegisters {
        (self.function)(item, scalars)
    }
}

/// What a kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MapConfig {
    map: Key,
    algorithm: Algorithm,
}

impl Map {
    /// A map of up to three inputs to one or two outputs, whose sink takes what the source gives.
    /// The names of its kernels begin with `name`.
    ///
    /// # Panics
    /// With more inputs or outputs, and for a sink that takes lists.
    #[must_use]
    pub fn new<I: FixedRegisters + 'static>(name: impl Into<Arc<str>>, source: Source<I>, sink: Sink<I>) -> Self {
        Self::with_scalars(name, source, |item, _| item, sink)
    }

    /// A map whose function also takes numbers that are part of the problem, not of the kernel; see
    /// [`Map::scalars`].
    ///
    /// # Panics
    /// As [`Map::new`].
    #[must_use]
    pub fn with_scalars<I: FixedRegisters + 'static, O: FixedRegisters + 'static>(
        name: impl Into<Arc<str>>,
        source: Source<I>,
        function: impl Fn(I, Scalars) -> O + Send + Sync + 'static,
        sink: Sink<O>,
    ) -> Self {
        assert!(sink.lens().iter().all(|len| *len == 1), "a map gives one element an output, no lists");
        let code = Code {
            name: name.into(),
            source: source.map(AnyRegisters::of),
            function: Arc::new(move |item, scalars| AnyRegisters::of(function(item.to(), scalars))),
            sink: sink.after(|result: AnyRegisters| result.to()),
        };
        let (inputs, outputs) = (code.source.dtypes().to_vec(), code.sink.dtypes().to_vec());
        Self::from_code(Key::unique(), inputs, outputs, move || code.clone())
    }

    /// The map of these types that `make` gives, made only when it is planned. The key is equal for
    /// equal maps alone.
    pub(crate) fn lazy(
        key: Key,
        inputs: Vec<Dtype>,
        outputs: Vec<Dtype>,
        make: impl Fn() -> Self + Send + Sync + 'static,
    ) -> Self {
        Self::from_code(key, inputs, outputs, move || (make().code)())
    }

    fn from_code(
        key: Key,
        inputs: Vec<Dtype>,
        outputs: Vec<Dtype>,
        code: impl Fn() -> Code + Send + Sync + 'static,
    ) -> Self {
        assert!(inputs.len() <= MAX_INPUTS, "a map takes up to three inputs");
        assert!((1..=MAX_OUTPUTS).contains(&outputs.len()), "a map has one or two outputs");
        Self { key, inputs, outputs, weight: Weight::Light, scalars: [0; MAX_SCALARS], code: Arc::new(code) }
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

    /// The element types of its inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Dtype] {
        &self.inputs
    }

    /// The element types of its outputs.
    #[must_use]
    pub fn outputs(&self) -> &[Dtype] {
        &self.outputs
    }

    /// The map of these tensors; inputs are broadcast to the shape of the outputs. An output may
    /// share memory with an input only where both are the same elements at the same addresses.
    ///
    /// # Panics
    /// If there is not one tensor of the map's type for each input and output.
    #[must_use]
    pub fn problem(&self, inputs: Vec<TensorSpec>, outputs: Vec<TensorSpec>) -> Problem {
        assert!(inputs.iter().map(|input| &input.dtype).eq(&self.inputs), "one tensor for each input");
        assert!(outputs.iter().map(|output| &output.dtype).eq(&self.outputs), "one tensor for each output");
        let (map, weight, scalars) = (self.key.clone(), self.weight, self.scalars);
        Problem { map, inputs, outputs, in_place: false, weight, scalars }
    }

    /// Plans a problem as it was chosen: one launch, or none without elements.
    ///
    /// # Errors
    /// None for a choice of this problem; a `Result` as that of [`Family::plan`].
    pub fn plan_with(&self, problem: &Problem, choice: &Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        let mut plan = Plan::new("map").choice(format_args!("{:?}", choice.algorithm));
        for (i, (input, name)) in problem.inputs.iter().zip(INPUTS).enumerate() {
            let operand = input.operand(name);
            plan = plan.input(if problem.in_place && i == 0 { operand.in_place_of(0) } else { operand });
        }
        for (output, name) in problem.outputs.iter().zip(OUTPUTS) {
            plan = plan.output(output.operand(name));
        }
        plan.bytes_in_flight = Some(choice.bytes_in_flight_a_thread(&self.inputs));
        let inputs = (0..problem.inputs.len()).map(Operand::Input);
        plan.steps.extend(self.step(problem, choice, inputs, (0..problem.outputs.len()).map(Operand::Output), planner));
        Ok(plan)
    }

    /// The launch, unless there are no elements, on these memories.
    pub(super) fn step(
        &self,
        problem: &Problem,
        choice: &Choice,
        inputs: impl IntoIterator<Item = Operand>,
        outputs: impl IntoIterator<Item = Operand>,
        planner: &Planner<'_>,
    ) -> Option<Step> {
        let config = MapConfig { map: self.key.clone(), algorithm: choice.algorithm.clone() };
        let make = |config: &MapConfig| -> AnyKernel {
            match &config.algorithm {
                Algorithm::Strips(strips) => strips::kernel_of((self.code)(), strips.clone()),
                Algorithm::Tiles(tiles) => tiles::kernel_of((self.code)(), tiles.clone()),
            }
        };
        choice.launch.map(|launch| {
            let args = choice.geometry.args(inputs, outputs, problem.scalars);
            Step::new(planner.kernel(config, make), launch).with(args).expect("addresses and numbers fit")
        })
    }
}

impl Family for Map {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_with(problem, &problem.choose()?, planner)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

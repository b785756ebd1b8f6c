//! A scan as users hold it, and the family that plans it.

use std::sync::Arc;

use super::choice::{self, Facts};
use super::geometry::ScanArgs;
use super::{ScanAlgorithm, ScanChoice, ScanOrder, columns, rows};
use crate::elements::{Sink, Source};
use crate::fold::Monoid;
use crate::fold::erased::Definition;
use crate::plan::{Family, Key, Operand, Plan, Planned, Planner, Step, TensorSpec};
use crate::{Dtype, Error};

/// A monoid, how its items come from memory, and how the results of its prefixes go there. Cheap to
/// clone; plans and kernels of clones are the same.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::fold::{Scan, ScanOrder, Sum};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::plan::{Family, TensorSpec};
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
/// let matrix = |address| TensorSpec::new(Dtype::F32, layout.clone(), address);
/// let (from, to) = (matrix(input.address()), matrix(output.address()));
/// let ready = scan.ready(&device, &scan.problem(vec![from], vec![to], 1, ScanOrder::default()))?;
/// let (inputs, outputs) = (&[Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
/// ready.launch(&device.default_stream(), inputs, outputs, &mut Workspace::new())?;
/// assert_eq!(output.download()?, [1.0, 5.0, 14.0, 16.0, 41.0, 77.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scan {
    definition: Definition,
}

/// What is scanned: tensors of one shape along an axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScanProblem {
    scan: Key,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    axis: usize,
    order: ScanOrder,
}

impl Scan {
    /// A scan of one or two inputs to one or two outputs. `name` begins the name of its kernels.
    ///
    /// # Panics
    /// With more inputs or outputs, and for a sink that takes lists.
    #[must_use]
    pub fn new<M: Monoid>(
        name: impl Into<Arc<str>>,
        monoid: M,
        source: Source<M::Item>,
        sink: Sink<M::Output>,
    ) -> Self {
        assert!(sink.lens().iter().all(|len| *len == 1), "a scan gives one element an output, no lists");
        Self { definition: Definition::new(name.into(), monoid, source, sink) }
    }

    /// The same with a key by which it equals other scans that were made alike.
    pub(crate) fn with_key(mut self, key: Key) -> Self {
        self.definition.key = key;
        self
    }

    /// The element types of its inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Dtype] {
        self.definition.inputs()
    }

    /// The element types of its outputs.
    #[must_use]
    pub fn outputs(&self) -> &[Dtype] {
        self.definition.outputs()
    }

    /// The scan along an axis of tensors of one shape, which contiguous outputs of that shape take.
    ///
    /// # Panics
    /// If there is not one tensor of the scan's type for each input and output.
    #[must_use]
    pub fn problem(
        &self,
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
        axis: usize,
        order: ScanOrder,
    ) -> ScanProblem {
        self.definition.expect_inputs(&inputs);
        let shape = inputs[0].layout.shape();
        let is_result = |spec: &TensorSpec| spec.layout.is_contiguous() && spec.layout.shape() == shape;
        let dtypes = outputs.iter().map(|output| &output.dtype);
        let are_results = dtypes.eq(self.outputs()) && outputs.iter().all(is_result);
        assert!(are_results, "contiguous outputs of {:?} and of {shape:?}, not {outputs:?}", self.outputs());
        ScanProblem { scan: self.definition.key.clone(), inputs, outputs, axis, order }
    }

    /// Chooses kernel and launch by the rules.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn choose(&self, problem: &ScanProblem) -> Result<ScanChoice, Error> {
        let monoid = &self.definition.monoid;
        let facts = Facts {
            inputs: &problem.inputs,
            outputs: &problem.outputs,
            item_registers: self.inputs().len() as u32,
            registers: monoid.num_registers(),
            words: monoid.num_words(),
            order: problem.order,
        };
        choice::choose(&facts, problem.axis)
    }

    /// The plan of a choice: one launch, or none if there are no items.
    ///
    /// # Panics
    /// For the problem of another scan.
    #[must_use]
    pub fn plan_with(&self, problem: &ScanProblem, choice: &ScanChoice, planner: &Planner<'_>) -> Plan {
        let ScanProblem { scan, inputs, outputs, .. } = problem;
        let ScanChoice { algorithm, marks, geometry, .. } = choice;
        let definition = &self.definition;
        assert_eq!(*scan, definition.key, "a scan plans its own problems");
        let outputs: Vec<_> = outputs.iter().map(|output| (output.bytes(), output.alignment())).collect();
        let plan = definition.plan("scan", inputs, &outputs);
        let mut plan = plan.choice(format_args!("{:?}", choice.algorithm));
        plan.bytes_in_flight = Some(choice.bytes_in_flight(self.inputs()));
        plan.marks = *marks;
        let Some(launch) = choice.launch_on(planner.limits) else { return plan };
        let kernel = planner.kernel((scan.clone(), algorithm.clone()), |(_, algorithm)| match algorithm {
            ScanAlgorithm::Rows(shape) => rows::kernel_of(definition, shape),
            ScanAlgorithm::Columns(shape) => columns::kernel_of(definition, shape),
        });
        let (inputs, outputs) = definition.operands();
        let args = ScanArgs::<Planned> {
            inputs,
            outputs,
            marks: (*marks > 0).then_some(Operand::Marks),
            rows: geometry.rows,
            len: geometry.len,
            tiles: geometry.tiles,
            axis: geometry.axis(),
            kept: geometry.kept(),
        };
        plan.step(Step::new(kernel, launch).with(args).expect("addresses and numbers fit"))
    }
}

impl Family for Scan {
    type Problem = ScanProblem;

    fn plan(&self, problem: &ScanProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        Ok(self.plan_with(problem, &self.choose(problem)?, planner))
    }
}

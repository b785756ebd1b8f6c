//! A fold as users hold it, and the family that plans it.

use std::sync::Arc;

use super::choice::{self, Facts};
use super::erased::Definition;
use super::geometry::{FoldArgs, Geometry};
use super::{Algorithm, Choice, Monoid, columns, rows};
use crate::elements::{Sink, Source};
use crate::plan::{Family, Key, Operand, Plan, Planned, Planner, Step, TensorSpec};
use crate::walk::walk_of;
use crate::{Dtype, Error};

/// A monoid, how its items come from memory, and how its results go there. Cheap to clone; plans
/// and kernels of clones are the same.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::elements::{Sink, Source};
/// use warpfold_kernels::fold::{Fold, Sum};
/// use warpfold_kernels::layout::Layout;
/// use warpfold_kernels::plan::{Family, TensorSpec};
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
/// let matrix = TensorSpec::new(Dtype::F32, Layout::contiguous(&[2, 3])?, input.address());
/// let ready = fold.ready(&device, &fold.problem(vec![matrix], &[1]))?;
/// let (inputs, outputs) = (&[Some(input.as_view().bytes())], &mut [output.as_view_mut().bytes()]);
/// ready.launch(&device.default_stream(), inputs, outputs, &mut Workspace::new())?;
/// assert_eq!(output.download()?, [14.0, 77.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Fold {
    pub(super) definition: Definition,
}

/// What is folded: tensors of one shape over some of their axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FoldProblem {
    fold: Key,
    inputs: Vec<TensorSpec>,
    axes: Vec<usize>,
}

impl Fold {
    /// The files of the levels and monoids that lessons call, for reports that show their text.
    pub const SOURCES: &'static [(&'static str, &'static str)] = &[
        ("kernels: fold/warp.rs", include_str!("warp.rs")),
        ("kernels: fold/block.rs", include_str!("block.rs")),
        ("kernels: fold/monoids/sum.rs", include_str!("monoids/sum.rs")),
        ("kernels: fold/monoids/extreme.rs", include_str!("monoids/extreme.rs")),
        ("kernels: fold/monoids/online_softmax.rs", include_str!("monoids/online_softmax.rs")),
        ("kernels: fold/monoids/welford.rs", include_str!("monoids/welford.rs")),
    ];

    /// A fold of one or two inputs to one or two outputs. `name` begins the name of its kernels.
    ///
    /// # Panics
    /// With more inputs or outputs.
    #[must_use]
    pub fn new<M: Monoid>(
        name: impl Into<Arc<str>>,
        monoid: M,
        source: Source<M::Item>,
        sink: Sink<M::Output>,
    ) -> Self {
        Self { definition: Definition::new(name.into(), monoid, source, sink) }
    }

    /// The same with a key by which it equals other folds that were made alike.
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

    /// How many neighbouring elements of each output a result takes: 1, but for lists.
    #[must_use]
    pub fn lens(&self) -> &[u32] {
        self.definition.sink.lens()
    }

    /// The fold over `axes` (positions, in order) of tensors of one shape. Results lie side by side
    /// in C order of the kept dimensions.
    ///
    /// # Panics
    /// If there is not one tensor of the fold's type for each input.
    #[must_use]
    pub fn problem(&self, inputs: Vec<TensorSpec>, axes: &[usize]) -> FoldProblem {
        self.definition.expect_inputs(&inputs);
        FoldProblem { fold: self.definition.key.clone(), inputs, axes: axes.to_vec() }
    }

    /// Chooses kernel and launch by the rules.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn choose(&self, problem: &FoldProblem) -> Result<Choice, Error> {
        let monoid = &self.definition.monoid;
        let facts = Facts {
            // Code that puts an item into a long accumulator is long, too.
            registers: monoid.num_registers(),
            any_order: monoid.commutes() && !monoid.uses_position(),
            commutes: monoid.commutes(),
            inputs: &problem.inputs,
        };
        choice::choose(&facts, &problem.axes)
    }

    /// The plan of a choice: one launch, or none if there are no results.
    ///
    /// # Panics
    /// For the problem of another fold.
    #[must_use]
    pub fn plan_with(&self, problem: &FoldProblem, choice: &Choice, planner: &Planner<'_>) -> Plan {
        let FoldProblem { fold, inputs, .. } = problem;
        let Choice { algorithm, launch, geometry, .. } = choice;
        let definition = &self.definition;
        assert_eq!(*fold, definition.key, "a fold plans its own problems");
        let plan = definition.plan("fold", inputs, &definition.sizes_of(geometry.results));
        let mut plan = plan.choice(choice);
        plan.bytes_in_flight = Some(choice.bytes_in_flight(self.inputs()));
        let Some(launch) = *launch else { return plan };
        let kernel = planner.kernel((fold.clone(), algorithm.clone()), |(_, algorithm)| match algorithm {
            Algorithm::Rows(shape) => rows::kernel_of(definition, shape),
            Algorithm::Columns(shape) => columns::kernel_of(definition, shape),
        });
        let (inputs, outputs) = definition.operands();
        let (workspace, tickets) = add_workspace(&mut plan, choice.workspace_words, choice.tickets);
        let Geometry { results, len, part_len, kept, folded } = geometry;
        let args = FoldArgs::<Planned> {
            inputs,
            outputs,
            workspace,
            tickets,
            results: *results,
            len: *len,
            part_len: *part_len,
            kept: walk_of(kept),
            folded: walk_of(folded),
        };
        plan.step(Step::new(kernel, launch).with(args).expect("addresses and numbers fit"))
    }
}

impl Family for Fold {
    type Problem = FoldProblem;

    fn plan(&self, problem: &FoldProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        Ok(self.plan_with(problem, &self.choose(problem)?, planner))
    }
}

/// Adds workspace and tickets, where blocks share results.
pub(super) fn add_workspace(plan: &mut Plan, words: u64, tickets: u64) -> (Option<Operand>, Option<Operand>) {
    plan.tickets = tickets;
    let workspace = (tickets > 0).then(|| plan.add_scratch(8 * words));
    (workspace, (tickets > 0).then_some(Operand::Tickets))
}

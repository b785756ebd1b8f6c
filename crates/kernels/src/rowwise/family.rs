//! A row operator as users hold it, and its plans.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::{AnyRegisters, Target};

use super::body::RowArgs;
use super::choice::Rows;
use super::erased::ErasedOperator;
use super::fold_step::add_fold;
use super::{Algorithm, Choice, Cost, Problem, RowOperator, long, on_chip};
use crate::elements::{Sink, Source, spill};
use crate::fold::Fold;
use crate::map::{add_contiguous, add_copy};
use crate::plan::{Family, Key, Operand, Plan, Planned, Planner, Step, TensorSpec, first_of};
use crate::walk::walk_of;
use crate::{AnyKernel, Dtype, Error};

/// Row inputs, vectors along the row, results and statistics at most, of each.
const MAX_OPERANDS: usize = 2;

/// As errors name the operands.
const ROWS: [&str; MAX_OPERANDS] = ["the rows", "the second rows"];
const COLUMNS: [&str; MAX_OPERANDS] = ["the first vector along the row", "the second vector along the row"];
const RESULTS: [&str; MAX_OPERANDS] = ["the result", "the second result"];
const STATS: [&str; MAX_OPERANDS] = ["the first statistic", "the second statistic"];

/// The family of a row operator with its loads and stores. Cheap to clone.
///
/// The inputs of a plan are the row inputs, then the vectors along the row; its outputs are the
/// results in C order of the rows, then the statistics, one element a row.
#[derive(Clone)]
pub struct RowWise {
    key: Key,
    inputs: Vec<Dtype>,
    columns: Vec<Dtype>,
    results: Vec<Dtype>,
    stats: Vec<Dtype>,
    code: Arc<dyn Fn() -> Code + Send + Sync>,
}

/// What kernels are recorded from. Its types are erased, so that kernels' bodies are compiled once.
#[derive(Clone)]
pub(super) struct Code {
    pub(super) name: Arc<str>,
    pub(super) operator: Arc<dyn ErasedOperator>,
    pub(super) cost: Cost,
    pub(super) source: Source<AnyRegisters>,
    pub(super) columns: Source<AnyRegisters>,
    pub(super) sink: Sink<AnyRegisters>,
    pub(super) stats: Sink<AnyRegisters>,
    /// The statistics of long rows between a fold and its map: bytes of each array, and the loads.
    pub(super) spilled: (Vec<u64>, Source<AnyRegisters>),
    /// The fold that spills them.
    fold: Fold,
}

/// The element types of what an operator reads and writes.
pub(crate) struct Types {
    pub(crate) inputs: Vec<Dtype>,
    pub(crate) columns: Vec<Dtype>,
    pub(crate) results: Vec<Dtype>,
    pub(crate) stats: Vec<Dtype>,
}

/// What a kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowsConfig {
    operator: Key,
    algorithm: Algorithm,
}

impl RowWise {
    /// An operator of one or two row inputs and up to two vectors along the row, with one or two
    /// results and up to two statistics. The names of its kernels begin with `name`.
    ///
    /// # Panics
    /// With more operands, and for sinks that take lists.
    #[must_use]
    pub fn new<O: RowOperator>(
        name: impl Into<Arc<str>>,
        operator: O,
        (source, columns): (Source<O::Item>, Source<O::Columns>),
        (sink, stats): (Sink<O::Out>, Sink<O::Stats>),
    ) -> Self {
        let lens = [sink.lens(), stats.lens()].concat();
        assert!(lens.iter().all(|len| *len == 1), "a row operator gives one element an output, no lists");
        let name = name.into();
        let (spill_sink, spill_source) = spill::<O::Stats>();
        let records = spill_sink.dtypes().iter().zip(spill_sink.lens());
        let code = Code {
            spilled: (
                records.map(|(dtype, len)| dtype.bytes() * u64::from(*len)).collect(),
                spill_source.map(AnyRegisters::of),
            ),
            fold: Fold::new(format!("{name}_stats"), operator.monoid(), source.clone(), spill_sink),
            name,
            operator: Arc::new(operator),
            cost: O::COST,
            source: source.map(AnyRegisters::of),
            columns: columns.map(AnyRegisters::of),
            sink: sink.after(|result: AnyRegisters| result.to()),
            stats: stats.after(|stats: AnyRegisters| stats.to()),
        };
        let types = Types {
            inputs: code.source.dtypes().to_vec(),
            columns: code.columns.dtypes().to_vec(),
            results: code.sink.dtypes().to_vec(),
            stats: code.stats.dtypes().to_vec(),
        };
        Self::from_code(Key::unique(), types, move || code.clone())
    }

    /// The operator of these types that `make` gives, made only when it is planned. The key is
    /// equal for equal operators alone.
    pub(crate) fn lazy(key: Key, types: Types, make: impl Fn() -> Self + Send + Sync + 'static) -> Self {
        Self::from_code(key, types, move || (make().code)())
    }

    fn from_code(key: Key, types: Types, code: impl Fn() -> Code + Send + Sync + 'static) -> Self {
        let Types { inputs, columns, results, stats } = types;
        for operands in [&inputs, &columns, &results, &stats] {
            assert!(operands.len() <= MAX_OPERANDS, "a row operator has up to {MAX_OPERANDS} operands of each kind");
        }
        Self { key, inputs, columns, results, stats, code: Arc::new(code) }
    }

    /// The element types of the row inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Dtype] {
        &self.inputs
    }

    /// The element types of the vectors along the row.
    #[must_use]
    pub fn columns(&self) -> &[Dtype] {
        &self.columns
    }

    /// The element types of the results.
    #[must_use]
    pub fn results(&self) -> &[Dtype] {
        &self.results
    }

    /// The element types of the statistics.
    #[must_use]
    pub fn stats(&self) -> &[Dtype] {
        &self.stats
    }

    /// The operator on rows along the dimensions from `first_axis` on, of tensors of one shape;
    /// `columns` have the shape of these dimensions.
    ///
    /// # Panics
    /// If there is not one tensor of the operator's type for each row input and vector along the
    /// row.
    #[must_use]
    pub fn problem(&self, rows: Vec<TensorSpec>, columns: Vec<TensorSpec>, first_axis: usize) -> Problem {
        let dtypes = |specs: &[TensorSpec]| specs.iter().map(|spec| spec.dtype).collect::<Vec<_>>();
        assert_eq!(dtypes(&rows), self.inputs, "one tensor for each row input");
        assert_eq!(dtypes(&columns), self.columns, "one tensor for each vector along the row");
        Problem { operator: self.key.clone(), rows, columns, first_axis, in_place: false }
    }

    /// Chooses the kernels and their sizes. Where the target has clusters (sm_90), the blocks of
    /// one share a row that is too long for a block.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn choose(&self, problem: &Problem, target: &Target) -> Result<Choice, Error> {
        self.choose_for(&problem.with_contiguous_rows()?, (self.code)().cost, target)
    }

    fn choose_for(&self, problem: &Problem, cost: Cost, target: &Target) -> Result<Choice, Error> {
        let rows = Rows {
            problem,
            has_clusters: target.has(90, (8, 0)),
            shared_bytes: target.limits.max_shared_bytes,
            cost,
            results: &self.results,
        };
        rows.choose()
    }

    /// Plans a problem as it was chosen: one launch, or two for long rows; before them a copy of
    /// each input whose rows are not contiguous, and after them one to a result in place that is
    /// not. The statistics of rows without elements are zeros.
    ///
    /// # Errors
    /// [`OverlappingOutput`](crate::ErrorKind::OverlappingOutput) instead of a tensor that repeats
    /// elements, [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn plan_with(&self, problem: &Problem, choice: &Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_from(&(self.code)(), problem, choice, planner)
    }

    fn plan_from(&self, code: &Code, problem: &Problem, choice: &Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        let mut plan = self.operands(problem)?.choice(format_args!("{:?}", choice.algorithm));
        let Some(launch) = choice.launch else { return self.zero_stats(plan) };
        let contiguous = problem.with_contiguous_rows()?;
        let mut needed = |first: usize, given: &[TensorSpec], needed: &[TensorSpec]| {
            let operand = |(i, (given, needed)): (usize, (&TensorSpec, &TensorSpec))| match given == needed {
                true => Ok((Operand::Input(first + i), given.clone())),
                false => add_contiguous(&mut plan, (Operand::Input(first + i), given), planner),
            };
            given.iter().zip(needed).enumerate().map(operand).collect::<Result<Vec<_>, Error>>()
        };
        let rows = needed(0, &problem.rows, &contiguous.rows)?;
        let columns = needed(rows.len(), &problem.columns, &contiguous.columns)?;
        let mut results: Vec<_> = (0..self.results.len()).map(Operand::Output).collect();
        let stats = (self.results.len()..self.results.len() + self.stats.len()).map(Operand::Output);
        // A result in place that is not contiguous is computed in scratch memory.
        let copied_back = (problem.in_place && !contiguous.in_place).then_some(&problem.rows[0]);
        if let Some(spec) = copied_back {
            let spec = TensorSpec::contiguous(self.results[0], spec.layout.shape())?;
            results[0] = plan.add_scratch(spec.bytes());
        }
        let mut spilled = Vec::new();
        if let Algorithm::Long(_) = choice.algorithm {
            let bytes = code.spilled.0.iter().map(|bytes| bytes * choice.geometry.results);
            spilled.extend(bytes.map(|bytes| plan.add_scratch(bytes)));
            let axes: Vec<_> = (problem.first_axis..problem.rows[0].layout.rank()).collect();
            add_fold(
                &mut plan,
                &code.fold.clone().with_key(self.key.clone()),
                &rows,
                &axes,
                spilled.iter().copied(),
                planner,
            )?;
        }
        let config = RowsConfig { operator: self.key.clone(), algorithm: choice.algorithm.clone() };
        let step = Step::new(planner.kernel(config, |config| code.kernel(config)), launch);
        plan.steps.push(step.with(RowArgs::<Planned> {
            inputs: first_of(rows.iter().map(|(operand, _)| *operand)),
            columns: first_of(columns.iter().map(|(operand, _)| *operand)),
            outputs: first_of(results.iter().copied()),
            stats: first_of(stats),
            spilled: first_of(spilled),
            rows: choice.geometry.results,
            len: choice.geometry.len,
            kept: walk_of(&choice.geometry.kept),
        })?);
        plan.bytes_in_flight = Some(choice.bytes_in_flight_a_thread(&self.inputs));
        if let Some(spec) = copied_back {
            let from = TensorSpec::contiguous(spec.dtype, spec.layout.shape())?;
            add_copy(&mut plan, (results[0], &from), (Operand::Output(0), spec), planner)?;
        }
        Ok(plan)
    }

    /// A plan with operands and no steps.
    fn operands(&self, problem: &Problem) -> Result<Plan, Error> {
        let (shape, mut plan) = (problem.rows[0].layout.shape(), Plan::new("the row operator"));
        for (i, (spec, name)) in problem.rows.iter().zip(ROWS).enumerate() {
            let operand = spec.operand(name);
            plan = plan.input(if problem.in_place && i == 0 { operand.in_place_of(0) } else { operand });
        }
        for (spec, name) in problem.columns.iter().zip(COLUMNS) {
            plan = plan.input(spec.operand(name));
        }
        for (i, (dtype, name)) in self.results.iter().zip(RESULTS).enumerate() {
            let spec = match problem.in_place && i == 0 {
                true => problem.rows[0].clone(),
                false => TensorSpec::contiguous(*dtype, shape)?,
            };
            plan = plan.output(spec.operand(name));
        }
        for (dtype, name) in self.stats.iter().zip(STATS) {
            plan = plan.output(TensorSpec::contiguous(*dtype, &shape[..problem.first_axis])?.operand(name));
        }
        Ok(plan)
    }

    /// No kernel writes the statistics of rows without elements.
    fn zero_stats(&self, mut plan: Plan) -> Result<Plan, Error> {
        for output in self.results.len()..plan.outputs.len() {
            let bytes = plan.outputs[output].bytes;
            plan = plan.fill(Operand::Output(output), bytes, 0);
        }
        Ok(plan)
    }
}

impl Code {
    fn kernel(&self, config: &RowsConfig) -> AnyKernel {
        match &config.algorithm {
            Algorithm::OnChip(shape) => on_chip::kernel_of(self.clone(), shape.clone()),
            Algorithm::Long(shape) => long::kernel_of(self.clone(), shape.clone()),
        }
    }
}

impl Family for RowWise {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let code = (self.code)();
        let choice = self.choose_for(&problem.with_contiguous_rows()?, code.cost, planner.target)?;
        self.plan_from(&code, problem, &choice, planner)
    }
}

impl fmt::Debug for RowWise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inputs, results, .. } = self;
        f.debug_struct("RowWise").field("inputs", inputs).field("results", results).finish_non_exhaustive()
    }
}

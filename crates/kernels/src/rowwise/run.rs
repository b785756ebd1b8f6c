//! A row operator as users hold it: with its inputs and outputs, planned and launched.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::{Arguments, Buffer, Stream, View, ViewMut};
use warpfold_lang::Target;

use super::plan::{self, Problem};
use super::{Plan, RowOperator, Shape, long, on_chip};
use crate::elements::{Sink, Source};
use crate::fold::{Fold, FoldProblem};
use crate::layout::Layout;
use crate::plan::{Family, KernelCache, Planner, TensorSpec};
use crate::{AnyKernel, Dtype, Error, Workspace};

/// A row operator with its way in and its way out. Cheap to clone; clones share the kernels that were built.
pub struct RowWise<O: RowOperator> {
    pub(super) name: Arc<str>,
    pub(super) operator: O,
    pub(super) source: Source<O::Item>,
    pub(super) columns: Source<O::Columns>,
    pub(super) sink: Sink<O::Out>,
    pub(super) stats: Sink<O::Stats>,
    /// How statistics wait in memory between a fold and its map.
    pub(super) between: (Sink<O::Stats>, Source<O::Stats>),
    fold: Fold,
    fold_kernels: Arc<KernelCache>,
    kernels: Arc<Mutex<HashMap<Key, AnyKernel>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    OnChip(on_chip::OnChip),
    Long(long::Long),
}

/// Where a row operator writes.
#[derive(Debug)]
pub struct Outputs<'a> {
    /// The results, side by side in C order of the rows.
    pub results: Vec<ViewMut<'a, u8>>,
    /// The statistics that are asked for, one element a row.
    pub stats: Vec<ViewMut<'a, u8>>,
}

impl<O: RowOperator> RowWise<O> {
    /// An operator of one or two row inputs and up to two vectors along the row, with one or two results and up to two
    /// statistics. `between` says how statistics wait in memory where a row takes two launches.
    ///
    /// # Panics
    /// For sinks that take lists.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        operator: O,
        (source, columns): (Source<O::Item>, Source<O::Columns>),
        (sink, stats): (Sink<O::Out>, Sink<O::Stats>),
        between: (Sink<O::Stats>, Source<O::Stats>),
    ) -> Self {
        let lens = [sink.lens(), stats.lens(), between.0.lens()].concat();
        assert!(lens.iter().all(|len| *len == 1), "a row operator gives one element an output, no lists");
        let name = name.into();
        let fold = Fold::new(format!("{name}_stats"), operator.monoid(), source.clone(), between.0.clone());
        Self {
            name,
            operator,
            source,
            columns,
            sink,
            stats,
            between,
            fold,
            fold_kernels: Arc::default(),
            kernels: Arc::default(),
        }
    }

    /// The element types of the row inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Dtype] {
        self.source.dtypes()
    }

    /// The element types of the vectors along the row.
    #[must_use]
    pub fn columns(&self) -> &[Dtype] {
        self.columns.dtypes()
    }

    /// The element types of the results.
    #[must_use]
    pub fn results(&self) -> &[Dtype] {
        self.sink.dtypes()
    }

    /// The element types of the statistics.
    #[must_use]
    pub fn stats(&self) -> &[Dtype] {
        self.stats.dtypes()
    }

    /// Plans rows along the dimensions from `first_axis` on, of tensors of one shape that begin at these addresses.
    /// Where the target has clusters (sm_90), the blocks of one share a row that is too long for a block.
    ///
    /// # Errors
    /// [`RowsNotContiguous`](crate::ErrorKind::RowsNotContiguous) unless each row lies side by side (or repeats one
    /// element), [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn plan(
        &self,
        layouts: &[&Layout],
        addresses: &[u64],
        column_addresses: &[u64],
        first_axis: usize,
        target: &Target,
    ) -> Result<Plan, Error> {
        let widest = |dtypes: &[Dtype]| dtypes.iter().map(|dtype| dtype.bytes()).max().unwrap_or(1);
        let problem = Problem {
            has_clusters: target.has(90, (8, 0)),
            shared_bytes: target.limits.max_shared_bytes,
            cost: O::COST,
            dtypes: self.inputs(),
            column_dtypes: self.columns(),
            out_dtypes: self.results(),
            vector_len: (16 / widest(self.inputs())) as u32,
            layouts,
            addresses,
            column_addresses,
        };
        plan::plan(&problem, first_axis, |axes| {
            let inputs = self.inputs().iter().zip(layouts).zip(addresses);
            let specs = inputs.map(|((dtype, layout), at)| TensorSpec::new(*dtype, (*layout).clone(), *at)).collect();
            self.fold.problem(specs, axes)
        })
    }

    /// The kernel that writes the results; built once.
    #[must_use]
    pub fn kernel(&self, plan: &Plan) -> AnyKernel {
        self.built(match &plan.shape {
            Shape::OnChip(shape) => Key::OnChip(shape.clone()),
            Shape::Long { map, .. } => Key::Long(map.clone()),
        })
    }

    /// The same for results that overwrite their items.
    fn kernel_in_place(&self, plan: &Plan) -> AnyKernel {
        match &plan.shape {
            Shape::OnChip(shape) => self.built(Key::OnChip(shape.in_place())),
            Shape::Long { .. } => self.kernel(plan),
        }
    }

    fn built(&self, key: Key) -> AnyKernel {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let build = |key: &Key| match key {
            Key::OnChip(shape) => on_chip::kernel_of(self, shape),
            Key::Long(map) => long::kernel_of(self, map),
        };
        kernels.entry(key).or_insert_with_key(build).clone()
    }

    /// Enqueues the operator: one launch, or two for long rows. The statistics of rows without elements are zeros.
    ///
    /// # Errors
    /// What the device says.
    pub fn launch(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: &[View<'_, u8>],
        columns: &[View<'_, u8>],
        outputs: Outputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let inputs: Vec<_> = inputs.iter().cloned().map(Some).collect();
        self.launch_in_place(stream, plan, &inputs, columns, outputs, workspace)
    }

    /// As [`RowWise::launch`]; an input that is `None` is the first result: same memory, same type, side by side in C
    /// order. That is right for every operator: a row is on chip, or folded by a launch of its own, before any of it
    /// is written, and each result is written by the thread that has read the item in its place.
    ///
    /// # Errors
    /// What the device says.
    pub fn launch_in_place(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: &[Option<View<'_, u8>>],
        columns: &[View<'_, u8>],
        outputs: Outputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let Some(config) = plan.launch else {
            // No kernel writes the statistics of rows without elements.
            return Ok(outputs.stats.into_iter().try_for_each(|stat| stream.fill_bytes(stat, 0))?);
        };
        let in_place = inputs.iter().any(Option::is_none);
        let kernel = if in_place { self.kernel_in_place(plan) } else { self.kernel(plan) };
        let function = kernel.prepare(stream.device())?;
        let Outputs { results, stats } = outputs;
        let mut between = Vec::new();
        if let Shape::Long { fold, .. } = &plan.shape {
            let of = |input: &Option<_>| Some(input.clone().unwrap_or_else(|| results[0].as_view()));
            let inputs = inputs.iter().map(of).collect();
            between = self.fold_rows(stream, fold, plan.geometry.results, inputs, workspace)?;
        }
        let place = results.first().map_or(0, ViewMut::address);
        let mut arguments = Arguments::new();
        for input in inputs {
            arguments = match input {
                Some(input) => arguments.input(input.clone()),
                None => arguments.value(place),
            };
        }
        arguments = (inputs.len()..2).fold(arguments, |arguments, _| arguments.value(0_u64));
        arguments = columns.iter().fold(arguments, |arguments, view| arguments.input(view.clone()));
        arguments = (columns.len()..2).fold(arguments, |arguments, _| arguments.value(0_u64));
        for group in [results, stats] {
            let missing = group.len()..2;
            arguments = group.into_iter().fold(arguments, Arguments::output);
            arguments = missing.fold(arguments, |arguments, _| arguments.value(0_u64));
        }
        if let Shape::Long { .. } = &plan.shape {
            arguments = between.iter().fold(arguments, |arguments, buffer| arguments.input(buffer));
            arguments = (between.len()..2).fold(arguments, |arguments, _| arguments.value(0_u64));
        }
        let bytes: Vec<u8> = plan.geometry.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let launched = stream.launch_raw(&function, config, &arguments.raw(&bytes, 8));
        // The next launch that uses it comes behind this one on the stream.
        between.into_iter().for_each(|buffer| workspace.give_scratch(buffer));
        Ok(launched?)
    }

    /// The statistics of long rows, in memory of the workspace.
    fn fold_rows(
        &self,
        stream: &Stream,
        problem: &FoldProblem,
        rows: u64,
        inputs: Vec<Option<View<'_, u8>>>,
        workspace: &mut Workspace,
    ) -> Result<Vec<Buffer<u8>>, Error> {
        let of = |dtype: &Dtype| workspace.take_scratch(stream.device(), rows * dtype.bytes());
        let mut between: Vec<Buffer<u8>> = self.between.0.dtypes().iter().map(of).collect::<Result<_, _>>()?;
        let mut outputs: Vec<_> = between.iter_mut().map(Buffer::as_view_mut).collect();
        let (target, limits) = (stream.device().target(), stream.device().limits());
        let plan = self.fold.plan(problem, &Planner::new(&target, limits, &self.fold_kernels))?;
        plan.ready(stream.device())?.launch(stream, &inputs, &mut outputs, workspace)?;
        Ok(between)
    }
}

impl<O: RowOperator> Clone for RowWise<O> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            operator: self.operator,
            source: self.source.clone(),
            columns: self.columns.clone(),
            sink: self.sink.clone(),
            stats: self.stats.clone(),
            between: self.between.clone(),
            fold: self.fold.clone(),
            fold_kernels: self.fold_kernels.clone(),
            kernels: self.kernels.clone(),
        }
    }
}

impl<O: RowOperator> fmt::Debug for RowWise<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (inputs, results) = (self.inputs(), self.results());
        f.debug_struct("RowWise").field("name", &self.name).field("inputs", &inputs).field("results", &results).finish()
    }
}

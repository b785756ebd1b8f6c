//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::Cost;
use super::long::{self, Long};
use super::on_chip::{OnChip, RowPartition, RowStorage};
use super::placement::{Placement, Row};
use super::smem_load::COPY_BYTES;
use crate::elements::Run;
use crate::fold::geometry::{Geometry, MAX_INPUTS, run};
use crate::layout::{Dim, dims};
use crate::plan::{Key, TensorSpec, grid_size};
use crate::{Dtype, Error};

/// Which kernel writes the results.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Rows in registers or shared memory.
    OnChip(OnChip),
    /// A map, after a fold over each row.
    Long(Long),
}

/// How a row operator is carried out: a value that can be printed and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The kernel that writes the results.
    pub algorithm: Algorithm,
    /// Its launch; `None` if there are no results.
    pub launch: Option<LaunchConfig>,
    pub(super) geometry: Geometry,
}

impl Choice {
    /// Bytes of rows that a thread has in flight, of inputs of these types.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.algorithm {
            Algorithm::OnChip(OnChip {
                storage: RowStorage::Registers { groups, .. } | RowStorage::Partitioned(RowPartition { groups, .. }),
                vector,
                ..
            }) => u64::from(groups * vector),
            Algorithm::OnChip(shape) => self.geometry.len / u64::from(shape.threads_per_row),
            Algorithm::Long(map) => map.items_a_thread().into(),
        };
        dtypes.iter().map(|dtype| dtype.bytes() * items).sum()
    }
}

/// Rows of tensors; [`RowWise::problem`](super::RowWise::problem) makes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which operator.
    pub(super) operator: Key,
    /// The row inputs, of one shape.
    pub rows: Vec<TensorSpec>,
    /// The vectors along the row, of the shape of the dimensions from `first_axis` on.
    pub columns: Vec<TensorSpec>,
    /// The first of the dimensions that a row has.
    pub first_axis: usize,
    /// Whether the first result is in the memory of the first row input, with the same layout and
    /// type.
    ///
    /// That is right for every operator: a row is on chip, or folded by a launch before, when any
    /// of it is written, and each result is written by the thread that has read the item in its
    /// place.
    pub in_place: bool,
}

impl Problem {
    /// The same with the first result in the memory of the first row input.
    #[must_use]
    pub fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// The dimensions that rows are counted by, and those along a row.
    fn dims(&self) -> [Vec<Dim>; 2] {
        let layouts: Vec<_> = self.rows.iter().map(|spec| &spec.layout).collect();
        [dims(&layouts, |axis| axis < self.first_axis), dims(&layouts, |axis| axis >= self.first_axis)]
    }

    /// The same problem as kernels take it: with contiguous tensors in scratch memory where rows or
    /// vectors along them are not, or a result in place would not be.
    pub(super) fn with_contiguous_rows(&self) -> Result<Self, Error> {
        let contiguous = |spec: &TensorSpec| match spec.layout.is_contiguous() {
            true => Ok(spec.clone()),
            false => TensorSpec::contiguous(spec.dtype, spec.layout.shape()),
        };
        let all_of = |specs: &[TensorSpec]| specs.iter().map(contiguous).collect::<Result<Vec<_>, Error>>();
        let [kept, along] = self.dims();
        let is_run = |dim: &Dim| dim.strides.iter().all(|stride| matches!(stride, 0 | 1));
        let is_empty = product(&kept) == 0 || product(&along) == 0;
        let are_runs = is_empty || (along.len() <= 1 && along.iter().all(is_run));
        Ok(Self {
            rows: if are_runs { self.rows.clone() } else { all_of(&self.rows)? },
            columns: all_of(&self.columns)?,
            in_place: self.in_place && self.rows[0].layout.is_contiguous(),
            ..self.clone()
        })
    }
}

/// Rows to choose kernels for.
pub(super) struct Rows<'a> {
    /// With contiguous rows.
    pub(super) problem: &'a Problem,
    /// Whether blocks can share a row.
    pub(super) has_clusters: bool,
    /// Shared memory that a block can have.
    pub(super) shared_bytes: u32,
    /// [`RowOperator::COST`](super::RowOperator::COST).
    pub(super) cost: Cost,
    /// The element types of the results.
    pub(super) results: &'a [Dtype],
}

impl Rows<'_> {
    /// Chooses the kernels for rows along the trailing dimensions.
    pub(super) fn choose(&self) -> Result<Choice, Error> {
        let Problem { rows, columns, in_place, .. } = self.problem;
        let [kept, along] = self.problem.dims();
        let (results, len) = (product(&kept), product(&along));
        let strides = along.first().map_or_else(|| vec![1; rows.len()], |dim| dim.strides.clone());
        let geometry = Geometry { results, len, part_len: len, kept, folded: along };
        // Whether every row of an input starts at a multiple of so many bytes.
        let starts_at = |input: usize, access: u64| {
            let bytes = rows[input].dtype.bytes();
            let are_apart = |dim: &Dim| (dim.strides[input].unsigned_abs() * bytes).is_multiple_of(access);
            strides[input] == 0
                || (rows[input].alignment().is_multiple_of(access) && geometry.kept.iter().all(are_apart))
        };
        let inputs = || rows.iter().map(|spec| spec.dtype.bytes()).enumerate();
        // The widest access that every row's start allows, or single elements.
        let allows = |vector: u64| {
            len.is_multiple_of(vector) && inputs().all(|(input, bytes)| starts_at(input, (vector * bytes).min(16)))
        };
        let widest = inputs().map(|(_, bytes)| bytes).max().unwrap_or(1);
        let vector = [16, 8, 4, 2].into_iter().filter(|v| u64::from(*v) <= 16 / widest);
        let vector = vector.into_iter().find(|v| allows((*v).into())).unwrap_or(1);
        let runs = std::array::from_fn(|i| strides.get(i).map_or(Run::Narrow, |stride| run(*stride, vector > 1)));
        let column_wide = |column: &TensorSpec| {
            let access = (u64::from(vector) * column.dtype.bytes()).min(16);
            column.alignment().is_multiple_of(access)
        };
        let column_runs: [Run; MAX_INPUTS] =
            std::array::from_fn(|i| columns.get(i).map_or(Run::Narrow, |column| run(1, column_wide(column))));
        let is_wide = |dtype: &Dtype| len.is_multiple_of((16 / dtype.bytes()).min(vector.into()));
        let wide_out = self.results.iter().all(is_wide);
        let (kept_rank, small) = (geometry.kept.len(), results.max(len) < 1 << 32);
        let is_empty = results == 0 || len == 0;
        let is_whole = inputs().all(|(input, bytes)| {
            strides[input] == 0
                || (starts_at(input, COPY_BYTES.into()) && (len * bytes).is_multiple_of(COPY_BYTES.into()))
        });
        let row = Row { rows: self, num_rows: results, len: len.max(1), vector, runs: &runs, is_whole };
        if let Some(Placement { cluster, block, threads_per_row, storage }) = row.placement() {
            let kept = kept_rank;
            let shape = OnChip {
                block,
                cluster,
                threads_per_row,
                vector,
                storage,
                runs,
                column_runs,
                wide_out,
                kept,
                small,
                in_place: false,
            };
            let shape = if *in_place { shape.in_place() } else { shape };
            let blocks = results.div_ceil(u64::from(shape.rows_per_block())).saturating_mul(cluster.into());
            let launch = launch(blocks, block, is_empty)?.map(|launch| launch.dynamic_shared(shape.smem_bytes()));
            return Ok(Choice { algorithm: Algorithm::OnChip(shape), launch, geometry });
        }
        let map = Long { vector, runs, column_runs, wide_out, kept: kept_rank, small };
        let launch = launch(results * len.div_ceil(map.tile()), long::BLOCK, is_empty)?;
        Ok(Choice { algorithm: Algorithm::Long(map), launch, geometry })
    }
}

fn product(dims: &[Dim]) -> u64 {
    dims.iter().map(|dim| dim.size).product()
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    let blocks = grid_size(blocks)?;
    Ok((!is_empty).then(|| LaunchConfig::new(blocks, block)))
}

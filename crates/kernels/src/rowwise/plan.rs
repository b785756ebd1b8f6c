//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::Cost;
use super::long::{self, Long};
use super::on_chip::{Dealing, Home, OnChip};
use super::stage::GRAIN;
use super::threads::{Row, Threads};
use crate::elements::Run;
use crate::fold::FoldProblem;
use crate::fold::geometry::{Geometry, MAX_INPUTS, run};
use crate::layout::{Layout, dims};
use crate::{Dtype, Error, ErrorKind};

/// Which kernels run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Rows in registers or shared memory.
    OnChip(OnChip),
    /// A fold over each row, then a map.
    Long {
        /// The fold.
        fold: Box<FoldProblem>,
        /// The map.
        map: Long,
    },
}

/// How a row operator is carried out: a value that can be printed and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The kernels.
    pub shape: Shape,
    /// The launch of the kernel that writes the results; `None` if there are none.
    pub launch: Option<LaunchConfig>,
    pub(crate) geometry: Geometry,
}

impl Plan {
    /// Bytes of rows that a thread has under way at once.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.shape {
            Shape::OnChip(OnChip {
                home: Home::Registers { groups, .. } | Home::Pieces(Dealing { groups, .. }),
                vector,
                ..
            }) => u64::from(groups * vector),
            Shape::OnChip(shape) => self.geometry.len / u64::from(shape.lanes),
            Shape::Long { map, .. } => map.items_a_thread().into(),
        };
        dtypes.iter().map(|dtype| dtype.bytes() * items).sum()
    }
}

/// What a plan is made for.
pub(super) struct Problem<'a> {
    /// Whether blocks can share a row.
    pub(super) has_clusters: bool,
    /// Shared memory that a block can have.
    pub(super) shared_bytes: u32,
    /// [`RowOperator::COST`](super::RowOperator::COST).
    pub(super) cost: Cost,
    pub(super) dtypes: &'a [Dtype],
    pub(super) column_dtypes: &'a [Dtype],
    pub(super) out_dtypes: &'a [Dtype],
    pub(super) vector_len: u32,
    pub(super) layouts: &'a [&'a Layout],
    pub(super) addresses: &'a [u64],
    pub(super) column_addresses: &'a [u64],
}

/// Plans for rows along the trailing dimensions from `first_axis` on; the fold of rows that are too long is that of
/// `fold`.
pub(super) fn plan(
    problem: &Problem<'_>,
    first_axis: usize,
    fold: impl FnOnce(&[usize]) -> FoldProblem,
) -> Result<Plan, Error> {
    let kept = dims(problem.layouts, |axis| axis < first_axis);
    let along = dims(problem.layouts, |axis| axis >= first_axis);
    let (results, len) = (product(&kept), product(&along));
    let is_run = along.len() <= 1 && along.iter().all(|dim| dim.strides.iter().all(|stride| matches!(stride, 0 | 1)));
    if !is_run && results > 0 && len > 0 {
        return Err(ErrorKind::RowsNotContiguous.into());
    }
    let strides = along.first().map_or_else(|| vec![1; problem.dtypes.len()], |dim| dim.strides.clone());
    let geometry = Geometry { results, len, part_len: len, kept, folded: along };
    // Whether every row of an input starts at a multiple of so many bytes.
    let starts_at = |input: usize, access: u64| {
        let bytes = problem.dtypes[input].bytes();
        let rows = geometry.kept.iter().all(|d| (d.strides[input].unsigned_abs() * bytes).is_multiple_of(access));
        strides[input] == 0 || (problem.addresses[input].is_multiple_of(access) && rows)
    };
    let inputs = || problem.dtypes.iter().map(|dtype| dtype.bytes()).enumerate();
    // The widest access that every row's start allows, or single elements.
    let allows = |vector: u64| {
        len.is_multiple_of(vector) && inputs().all(|(input, bytes)| starts_at(input, (vector * bytes).min(16)))
    };
    let vector = [16, 8, 4, 2].into_iter().filter(|v| *v <= problem.vector_len).find(|v| allows((*v).into()));
    let vector = vector.unwrap_or(1);
    let runs = std::array::from_fn(|i| strides.get(i).map_or(Run::Narrow, |stride| run(*stride, vector > 1)));
    let column_wide = |i: usize| {
        let access = (u64::from(vector) * problem.column_dtypes[i].bytes()).min(16);
        problem.column_addresses[i].is_multiple_of(access)
    };
    let column_runs: [Run; MAX_INPUTS] =
        std::array::from_fn(|i| if i < problem.column_dtypes.len() { run(1, column_wide(i)) } else { Run::Narrow });
    let wide_out = problem.out_dtypes.iter().all(|dtype| len.is_multiple_of((16 / dtype.bytes()).min(vector.into())));
    let (kept_rank, small) = (geometry.kept.len(), results.max(len) < 1 << 32);
    let is_empty = results == 0 || len == 0;
    let is_whole = inputs().all(|(input, bytes)| {
        strides[input] == 0 || (starts_at(input, GRAIN.into()) && (len * bytes).is_multiple_of(GRAIN.into()))
    });
    let row = Row { problem, rows: results, len: len.max(1), vector, runs: &runs, is_whole };
    if let Some(Threads { cluster, block, lanes, home }) = row.threads() {
        let shape = OnChip { block, cluster, lanes, vector, home, runs, column_runs, wide_out, kept: kept_rank, small };
        let blocks = results.div_ceil(u64::from(shape.rows())).saturating_mul(cluster.into());
        let launch = launch(blocks, block, is_empty)?.map(|launch| launch.dynamic_shared(shape.shared_bytes()));
        return Ok(Plan { shape: Shape::OnChip(shape), launch, geometry });
    }
    let map = Long { vector, runs, column_runs, wide_out, kept: kept_rank, small };
    let blocks = results * len.div_ceil(map.tile());
    let launch = launch(blocks, long::BLOCK, is_empty)?;
    let axes: Vec<usize> = (first_axis..problem.layouts[0].rank()).collect();
    Ok(Plan { shape: Shape::Long { fold: Box::new(fold(&axes)), map }, launch, geometry })
}

fn product(dims: &[crate::layout::Dim]) -> u64 {
    dims.iter().map(|dim| dim.size).product()
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    Ok((!is_empty).then(|| LaunchConfig::new(blocks as u32, block)))
}

//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::long::{self, Long};
use super::on_chip::OnChip;
use crate::elements::Run;
use crate::fold::geometry::{Geometry, MAX_INPUTS, run};
use crate::fold::{self};
use crate::layout::{Layout, dims};
use crate::{Dtype, Error, ErrorKind};

/// Items that a thread holds: with f32 in registers, and as many results, a block of 1,024 threads still fits.
const MAX_HELD: u32 = 32;

/// The same where vectors along the row come with it.
const MAX_HELD_WITH_COLUMNS: u32 = 24;
/// Items and what belongs to their positions that a thread holds together: with more, ptxas spills in large blocks.
const MAX_WITH_COLUMNS: u32 = 64;

/// Rows beyond what a block of so many threads holds are shared by a cluster, where there are any. (Of 16,384 rows of 32,768
/// bf16 a cluster of smaller blocks reached 2,999 to 3,448 GB/s, one block 3,246 to 4,018: H200, 2026-11-20.)
const ALONE: u64 = 1024;
/// Blocks of clusters have so many threads as long as that takes no more than [`MAX_CLUSTER`] blocks.
const CLUSTER_THREADS: [u64; 3] = [256, 512, 1024];
/// Blocks that a cluster may have on every device that has clusters (CUDA programming guide, "Thread Block Clusters").
const MAX_CLUSTER: u64 = 8;

/// Which kernels run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Rows in registers.
    OnChip(OnChip),
    /// A fold over each row, then a map.
    Long {
        /// The fold.
        fold: Box<fold::Plan>,
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
            Shape::OnChip(shape) => shape.groups * shape.vector,
            Shape::Long { map, .. } => map.items_a_thread(),
        };
        dtypes.iter().map(|dtype| dtype.bytes() * u64::from(items)).sum()
    }
}

/// What a plan is made for.
pub(super) struct Problem<'a> {
    /// Whether blocks can share a row.
    pub(super) has_clusters: bool,
    pub(super) dtypes: &'a [Dtype],
    pub(super) column_dtypes: &'a [Dtype],
    pub(super) out_dtypes: &'a [Dtype],
    pub(super) vector_len: u32,
    pub(super) layouts: &'a [&'a Layout],
    pub(super) addresses: &'a [u64],
    pub(super) column_addresses: &'a [u64],
}

/// Plans for rows along the trailing dimensions from `first_axis` on; the fold of rows that are too long is planned by
/// `fold`.
pub(super) fn plan(
    problem: &Problem<'_>,
    first_axis: usize,
    fold: impl FnOnce(&[usize]) -> Result<fold::Plan, Error>,
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
    // The widest access that every row's start allows, or single elements.
    let starts_at = |vector: u64| {
        let aligned = |input: usize| {
            let bytes = problem.dtypes[input].bytes();
            let access = (vector * bytes).min(16);
            let rows = geometry.kept.iter().all(|d| (d.strides[input].unsigned_abs() * bytes).is_multiple_of(access));
            strides[input] == 0 || (problem.addresses[input].is_multiple_of(access) && rows)
        };
        len.is_multiple_of(vector) && (0..problem.dtypes.len()).all(aligned)
    };
    let vector = [16, 8, 4, 2].into_iter().filter(|v| *v <= problem.vector_len).find(|v| starts_at((*v).into()));
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
    let most = if problem.column_dtypes.is_empty() { MAX_HELD } else { MAX_HELD_WITH_COLUMNS };
    if let Some(Threads { cluster, block, lanes, groups }) =
        on_chip(len.max(1), vector, most / vector, problem.has_clusters)
    {
        let shape = OnChip {
            block,
            cluster,
            lanes,
            groups,
            vector,
            exact: len == u64::from(lanes) * u64::from(groups * vector),
            runs,
            column_runs,
            early_columns: (1 + problem.column_dtypes.len() as u32) * groups * vector <= MAX_WITH_COLUMNS,
            wide_out,
            kept: kept_rank,
            small,
        };
        let blocks = results.div_ceil(u64::from(shape.rows())).saturating_mul(cluster.into());
        let launch = launch(blocks, block, is_empty)?;
        return Ok(Plan { shape: Shape::OnChip(shape), launch, geometry });
    }
    let map = Long { vector, runs, column_runs, wide_out, kept: kept_rank, small };
    let blocks = results * len.div_ceil(map.tile());
    let launch = launch(blocks, long::BLOCK, is_empty)?;
    let axes: Vec<usize> = (first_axis..problem.layouts[0].rank()).collect();
    Ok(Plan { shape: Shape::Long { fold: Box::new(fold(&axes)?), map }, launch, geometry })
}

fn product(dims: &[crate::layout::Dim]) -> u64 {
    dims.iter().map(|dim| dim.size).product()
}

/// The threads that hold a row.
struct Threads {
    /// Blocks a cluster.
    cluster: u32,
    /// Threads a block.
    block: u32,
    /// Threads a row.
    lanes: u32,
    /// Groups that each of them holds.
    groups: u32,
}

/// Threads that hold a row in registers, with so many groups a thread at most.
fn on_chip(len: u64, vector: u32, most: u32, has_clusters: bool) -> Option<Threads> {
    let groups = len / u64::from(vector);
    let most = u64::from(most);
    let of = |cluster: u64, block: u64, lanes: u64| Threads {
        cluster: cluster as u32,
        block: block as u32,
        lanes: lanes as u32,
        groups: groups.div_ceil(lanes) as u32,
    };
    if groups <= 32 * most {
        return Some(of(1, 128, groups.next_power_of_two().min(32)));
    }
    // Few groups a thread, so that the loads of several blocks overlap; but not more threads than they are worth.
    let fits = |threads: u64| groups.div_ceil(threads) <= most;
    if has_clusters && !fits(ALONE) {
        let shared = |block: u64| {
            let cluster = groups.div_ceil(block * most).next_power_of_two();
            (cluster <= MAX_CLUSTER).then(|| of(cluster.max(2), block, cluster.max(2) * block))
        };
        if let Some(threads) = CLUSTER_THREADS.into_iter().find_map(shared) {
            return Some(threads);
        }
    }
    let threads = [128, 256, 512, 1024].into_iter().find(|threads| fits(*threads))?;
    Some(of(1, threads, threads))
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    Ok((!is_empty).then(|| LaunchConfig::new(blocks as u32, block)))
}

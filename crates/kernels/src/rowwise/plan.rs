//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::long::{self, Long};
use super::on_chip::{Home, OnChip, Way, part_len};
use super::stage::GRAIN;
use crate::elements::Run;
use crate::fold::geometry::{Geometry, MAX_INPUTS, run};
use crate::fold::{self};
use crate::layout::{Layout, dims};
use crate::{Dtype, Error, ErrorKind};

/// Items that a thread holds in registers: with f32, and as many results, a block of 1,024 threads still fits.
const MAX_HELD: u32 = 32;

/// The same where vectors along the row come with it.
const MAX_HELD_WITH_COLUMNS: u32 = 24;
/// Items and what belongs to their positions that a thread holds together: with more, ptxas spills in large blocks.
const MAX_WITH_COLUMNS: u32 = 64;

/// Rows that more threads would have to hold in registers are held in shared memory. (Of 16,384 bf16 registers of 512 threads
/// reached 3,935 to 4,191 GB/s, shared memory 3,950 to 4,140; of 32,768 registers of 1,024 threads 3,236 to 4,016, shared memory
/// 3,948 to 4,158: softmax and norms, H200, 2026-11-20.)
const MOST_THREADS: u64 = 512;
/// Threads of blocks that have rows in shared memory, and how many such blocks are to be on a multiprocessor, if they fit: while
/// one loads, another computes and stores.
const SHARING: (u32, &[u32]) = (1024, &[2, 1]);
/// The same where vectors along the row take registers as well (3,840 GB/s; with 1,024 threads 3,789).
const SHARING_WITH_COLUMNS: (u32, &[u32]) = (512, &[3, 2, 1]);
/// Items that such a thread reads before it uses the first.
const READ: u32 = 16;
/// Rings: threads, items that each has of a tile, and blocks on a multiprocessor.
const RINGS: [(u32, u32, u32); 2] = [(512, 16, 2), (1024, 8, 1)];
/// Shared memory that a block takes beside the row: for folds (two of 16 bytes a warp of the largest cluster) and a barrier; and
/// what the device itself reserves (CUDA programming guide, "Shared Memory" of compute capability 8.x and 9.0).
const BESIDE: u32 = 8192 + 1024;
/// Blocks that a cluster may have on every device that has clusters (CUDA programming guide, "Thread Block Clusters").
const MAX_CLUSTER: u32 = 8;

/// Which kernels run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Rows in registers or shared memory.
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
    /// The launch on so many multiprocessors: blocks that have row after row are no more than fit.
    pub(super) fn launch_on(&self, num_sms: u32) -> Option<LaunchConfig> {
        let mut launch = self.launch?;
        if let Shape::OnChip(OnChip { home: Home::Shared { blocks, way: Way::Ring(_), .. }, .. }) = self.shape {
            launch.grid[0] = launch.grid[0].min(num_sms * blocks);
        }
        Some(launch)
    }

    /// Bytes of rows that a thread has under way at once.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.shape {
            Shape::OnChip(OnChip { home: Home::Registers { groups, .. }, vector, .. }) => u64::from(groups * vector),
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
    let threads = on_chip(problem, len.max(1), vector, &runs, is_whole);
    if let Some(Threads { cluster, block, lanes, home }) = threads {
        let shape = OnChip { block, cluster, lanes, vector, home, runs, column_runs, wide_out, kept: kept_rank, small };
        let blocks = results.div_ceil(u64::from(shape.rows())).saturating_mul(cluster.into());
        let launch = launch(blocks, block, is_empty)?.map(|launch| launch.dynamic_shared(shape.shared_bytes()));
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

/// The threads that hold a row, and where.
struct Threads {
    /// Blocks a cluster.
    cluster: u32,
    /// Threads a block.
    block: u32,
    /// Threads a row.
    lanes: u32,
    home: Home,
}

/// Threads that hold a row of `len` in registers, or in shared memory.
fn on_chip(problem: &Problem<'_>, len: u64, vector: u32, runs: &[Run; MAX_INPUTS], is_whole: bool) -> Option<Threads> {
    let (groups, num_columns) = (len / u64::from(vector), problem.column_dtypes.len() as u32);
    let most = if num_columns == 0 { MAX_HELD } else { MAX_HELD_WITH_COLUMNS } / vector;
    let threads = |lanes: u64| {
        let a_thread = groups.div_ceil(lanes) as u32;
        let early_columns = (1 + num_columns) * a_thread * vector <= MAX_WITH_COLUMNS;
        let exact = len == lanes * u64::from(a_thread * vector);
        let home = Home::Registers { groups: a_thread, exact, early_columns };
        Threads { cluster: 1, block: lanes.max(128) as u32, lanes: lanes as u32, home }
    };
    if groups <= 32 * u64::from(most) {
        return Some(threads(groups.next_power_of_two().min(32)));
    }
    // Few groups a thread, so that the loads of several blocks overlap; but not more threads than they are worth.
    let fits = |threads: u64| groups.div_ceil(threads) <= most.into();
    if let Some(lanes) = [128, 256, MOST_THREADS].into_iter().find(|threads| fits(*threads)) {
        return Some(threads(lanes));
    }
    if runs[..problem.dtypes.len()].iter().all(|run| *run == Run::Same) {
        return None;
    }
    if problem.has_clusters
        && is_whole
        && let Some(threads) = in_ring(problem, len, vector, runs)
    {
        return Some(threads);
    }
    let shared = |cluster: u32| {
        let part = part_len(len, cluster.into());
        let staged = problem.dtypes.iter().zip(runs).filter(|(_, run)| **run != Run::Same);
        staged.map(|(dtype, _)| part * dtype.bytes() + u64::from(GRAIN)).sum::<u64>()
    };
    let clusters = if problem.has_clusters { MAX_CLUSTER } else { 1 };
    let clusters = (0..=clusters.ilog2()).map(|log| 1 << log);
    // A multiprocessor has 1 KiB more than a block can have, which the first block's reserve takes.
    let room = |blocks: u32| u64::from((problem.shared_bytes + 1024) / blocks - BESIDE);
    let (block, counts) = if num_columns == 0 { SHARING } else { SHARING_WITH_COLUMNS };
    let fit = |cluster: u32| counts.iter().find(|n| shared(cluster) <= room(**n)).map(|blocks| (cluster, *blocks));
    let (cluster, blocks) = clusters.into_iter().find_map(fit)?;
    let home = Home::Shared {
        unroll: (READ / vector).max(1),
        blocks,
        way: Way::AtOnce { is_whole },
        bytes: shared(cluster) as u32,
    };
    Some(Threads { cluster, block, lanes: cluster * block, home })
}

/// Threads that have row after row in a ring.
fn in_ring(problem: &Problem<'_>, len: u64, vector: u32, runs: &[Run; MAX_INPUTS]) -> Option<Threads> {
    let staged = problem.dtypes.iter().zip(runs).filter(|(_, run)| **run != Run::Same);
    let bytes: u64 = staged.map(|(dtype, _)| dtype.bytes()).sum();
    RINGS.into_iter().find_map(|(block, items, blocks)| {
        let unroll = (items / vector).max(1);
        let tile = u64::from(block * vector * unroll);
        let slots = u64::from((problem.shared_bytes + 1024) / blocks - BESIDE) / (tile * bytes);
        let home = Home::Shared { unroll, blocks, way: Way::Ring(slots as u32), bytes: (slots * tile * bytes) as u32 };
        (len.div_ceil(tile) + 2 <= slots).then_some(Threads { cluster: 1, block, lanes: block, home })
    })
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    Ok((!is_empty).then(|| LaunchConfig::new(blocks as u32, block)))
}

//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::long::{self, Long};
use super::on_chip::{Home, OnChip, Way};
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

/// Blocks that hold a row in registers, and how many items a thread may have there: the first that is enough. (Softmax of
/// 4,096 bf16 4,058 GB/s with 128 threads, 4,036 with 256; of 8,192 4,155 with 256, 4,190 with 512, 3,000 with 1,024; a
/// copy of as many bytes 4,182 and 4,192 in the same run. Fewer blocks on a multiprocessor than have room were never
/// faster. H200, 2026-11-21.) Rows that take more are held in shared memory, if it has room. (Of 16,384 registers of 512
/// threads reached 4,164 to 4,218 GB/s, shared memory 3,940 to 4,140; of 32,768 registers of 1,024 threads 3,236 to 4,016,
/// shared memory 3,974 to 4,157: softmax and norms, H200, 2026-11-20, as the figures below.)
const BLOCKS: [(u64, u32); 3] = [(128, MAX_HELD), (256, 24), (512, MAX_HELD)];
/// How a block holds a row in shared memory: threads, items that each reads before it uses the first, and how many such blocks are
/// to be on a multiprocessor, so that one loads while another computes and stores.
type Sharing = (u32, u32, &'static [u32]);
/// For rows that can be read by 16 bytes.
const SHARING: Sharing = (1024, 16, &[2]);
/// The same where vectors along the row take registers as well (3,840 GB/s; with 1,024 threads 3,789).
const SHARING_WITH_COLUMNS: Sharing = (512, 16, &[3, 2]);
/// For rows of which some begin elsewhere (3,163 GB/s for 32,767 items; with 512 threads 2,933, with 1,024 2,452).
const SHARING_NARROW: Sharing = (256, 16, &[3, 2, 1]);
/// For rows beside which no other has room.
const ALONE: Sharing = (1024, 16, &[1]);
/// A ring beside which no other block has room: threads, and items that each has of a tile. (Of 65,536 bf16 softmax, RMS
/// norm and layer norm 3,924, 4,000 and 4,033 GB/s; 512 threads of 16 items 3,973, 3,631 and 4,058, of a ring of ten tiles
/// 4,004, 4,047 and 3,939; 1,024 threads of 16 items 3,986, 4,028 and 3,594; a row at once 3,391 to 3,908. Of 32,768, of
/// which two blocks have room, the two at once are faster. 2026-11-21.)
const RING: (u32, u32) = (1024, 8);
/// Tiles of a ring that are loaded ahead at least.
const AHEAD: u64 = 2;
/// Rows that a block has in its ring, one after the other: with more, some multiprocessors end long before others (3 rows 3,803
/// to 3,964 GB/s, 6 rows 3,759 to 3,908).
const RING_ROWS: u32 = 3;
/// Shared memory that a block takes beside the row: for folds (four of 32 bytes a warp) and barriers; and what the device itself
/// reserves (CUDA programming guide, "Shared Memory" of compute capability 8.x and 9.0).
const BESIDE: u32 = 4096 + 1024;
/// Rows for which one block has no room are shared by a cluster, in registers; its blocks have so many threads as long as that takes
/// no more than [`MAX_CLUSTER`] blocks.
const CLUSTER_THREADS: [u64; 3] = [256, 512, 1024];
/// Blocks that a cluster may have on every device that has clusters (CUDA programming guide, "Thread Block Clusters").
const MAX_CLUSTER: u64 = 8;

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
    /// The launch on so many multiprocessors: where blocks have several rows, no fewer of them than multiprocessors.
    pub(super) fn launch_on(&self, num_sms: u32) -> Option<LaunchConfig> {
        let mut launch = self.launch?;
        if let Shape::OnChip(OnChip { home: Home::Shared { way: Way::Ring(_), .. }, .. }) = self.shape {
            let rows = launch.grid[0];
            launch.grid[0] = rows.div_ceil(RING_ROWS).max(rows.min(num_sms));
        }
        Some(launch)
    }

    /// Bytes of rows that a thread has under way at once; beside a row in a ring, those of rows to come.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.shape {
            Shape::OnChip(OnChip { home: Home::Registers { groups, .. }, vector, .. }) => u64::from(groups * vector),
            Shape::OnChip(OnChip {
                home: Home::Shared { way: Way::Ring(slots), unroll, .. }, lanes, vector, ..
            }) => {
                let each = u64::from(vector * unroll);
                (u64::from(*slots) - self.geometry.len.div_ceil(each * u64::from(*lanes))) * each
            }
            Shape::OnChip(OnChip { home: Home::Pieces { groups, .. }, vector, .. }) => u64::from(groups * vector),
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
    let most = if num_columns == 0 { MAX_HELD } else { MAX_HELD_WITH_COLUMNS };
    let groups_of = |items: u32| u64::from(most.min(items) / vector);
    let in_registers = |cluster: u64, block: u64, lanes: u64| {
        let a_thread = groups.div_ceil(lanes) as u32;
        let early_columns = (1 + num_columns) * a_thread * vector <= MAX_WITH_COLUMNS;
        let exact = len == lanes * u64::from(a_thread * vector);
        let home = Home::Registers { groups: a_thread, exact, early_columns };
        Threads { cluster: cluster as u32, block: block as u32, lanes: lanes as u32, home }
    };
    if groups <= 32 * groups_of(most) {
        return Some(in_registers(1, 128, groups.next_power_of_two().min(32)));
    }
    // Few groups a thread, so that the loads of several blocks overlap; but not more threads than they are worth.
    if let Some((threads, _)) = BLOCKS.into_iter().find(|(threads, items)| groups <= threads * groups_of(*items)) {
        return Some(in_registers(1, threads, threads));
    }
    let of_cluster = |block: u64| {
        let cluster = groups.div_ceil(block * groups_of(most)).next_power_of_two().max(2);
        (cluster <= MAX_CLUSTER).then(|| in_registers(cluster, block, cluster * block))
    };
    in_shared(problem, len, vector, runs, is_whole)
        .or_else(|| if problem.has_clusters { CLUSTER_THREADS.into_iter().find_map(of_cluster) } else { None })
}

/// Threads that hold a row in the shared memory of their block.
fn in_shared(
    problem: &Problem<'_>,
    len: u64,
    vector: u32,
    runs: &[Run; MAX_INPUTS],
    is_whole: bool,
) -> Option<Threads> {
    let staged = problem.dtypes.iter().zip(runs).filter(|(_, run)| **run != Run::Same);
    let (num_staged, item_bytes) = staged.fold((0, 0), |(num, bytes), (dtype, _)| (num + 1, bytes + dtype.bytes()));
    // A multiprocessor has 1 KiB more than a block can have, which the first block's reserve takes.
    let room = |blocks: u32| u64::from((problem.shared_bytes + 1024) / blocks - BESIDE);
    let with = |block: u32, items: u32, blocks: u32, way: Way, bytes: u64| {
        let home = Home::Shared { unroll: (items / vector).max(1), blocks, way, bytes: bytes as u32 };
        Threads { cluster: 1, block, lanes: block, home }
    };
    // Of each input as much again as it may lie beside a multiple of what copies move.
    let at_once = |(block, items, counts): Sharing| {
        let bytes = len.next_multiple_of(GRAIN.into()) * item_bytes + num_staged * u64::from(GRAIN);
        let blocks = counts.iter().find(|blocks| bytes <= room(**blocks))?;
        Some(with(block, items, *blocks, Way::AtOnce { is_whole }, bytes))
    };
    let in_ring = |(block, items): (u32, u32)| {
        let tile = u64::from(block * items.max(vector));
        let slots = room(1) / (tile * item_bytes);
        let fits = problem.has_clusters && is_whole && len.div_ceil(tile) + AHEAD <= slots;
        fits.then(|| with(block, items, 1, Way::Ring(slots as u32), slots * tile * item_bytes))
    };
    match (num_staged, vector) {
        (0, _) => None,
        (_, 1) => at_once(SHARING_NARROW),
        _ if problem.column_dtypes.is_empty() => at_once(SHARING).or_else(|| in_ring(RING)).or_else(|| at_once(ALONE)),
        _ => at_once(SHARING_WITH_COLUMNS).or_else(|| in_ring(RING)).or_else(|| at_once(ALONE)),
    }
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    Ok((!is_empty).then(|| LaunchConfig::new(blocks as u32, block)))
}

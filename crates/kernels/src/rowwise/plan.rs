//! From the shape of a row operator's problem to its kernels and launches.

use warpfold_device::LaunchConfig;

use super::long::{self, Long};
use super::on_chip::{Home, OnChip};
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

/// How blocks hold rows in pieces: for rows of up to so many groups, their threads, and how many blocks are to be on a
/// multiprocessor. (Of 4,096, 8,192, 16,384 and 32,768 bf16 softmax 4,190, 4,228, 4,230 and 4,206 GB/s, RMS norm 4,167, 4,239, 4,229
/// and 4,225, layer norm 4,150, 4,211, 4,219 and 4,208; registers of up to 512 threads, which the blocks below still have, 3,940 to 4,220,
/// and much less where a norm has a scale and a bias. With more blocks, and so fewer registers a thread, up to 10 % less for one
/// operator or another. H200, 2026-11-21.)
const PIECES: [Dealt; 5] = [(256, 128, 16), (512, 256, 8), (1024, 256, 8), (2048, 256, 4), (4096, 256, 3)];
/// The same with two vectors along the row, which take registers as well. (Layer norm of 4,096, 8,192 and 16,384 bf16 4,137, 4,199 and
/// 4,225 GB/s; with twice the threads for the first two 4,007 and 4,030.)
const PIECES_WITH_COLUMNS: [Dealt; 5] = [(256, 128, 16), (512, 128, 8), (1024, 128, 8), (2048, 256, 4), (4096, 256, 3)];
/// Of longer ones a multiprocessor has a single row, and its threads store results themselves. (Of 65,536 bf16 softmax 4,080 GB/s, RMS
/// and layer norm 4,195 and 4,200; with results taken away by a copy a warp 3,940, 4,180 and 4,150.)
const LONG: Dealt = (14 << 10, 1024, 1);
/// Rows of up to so many groups, threads, blocks.
type Dealt = (u64, u32, u32);

/// Blocks that hold a row in registers, and how many items a thread may have there, for rows that do not begin and end at
/// multiples of 16 bytes: the first that is enough. Rows that take more are held in shared memory, if it has room.
const BLOCKS: [(u64, u32); 3] = [(128, MAX_HELD), (256, 24), (512, MAX_HELD)];
/// How a block holds such a row in shared memory: threads, items that each reads before it uses the first, and how many such blocks
/// are to be on a multiprocessor, so that one loads while another computes and stores.
type Sharing = (u32, u32, &'static [u32]);
/// For rows that can be read by several elements.
const SHARING: Sharing = (1024, 16, &[2, 1]);
/// For rows of which some begin elsewhere (3,163 GB/s for 32,767 items; with 512 threads 2,933, with 1,024 2,452).
const SHARING_NARROW: Sharing = (256, 16, &[3, 2, 1]);
/// Shared memory that a block takes beside the row: for folds (four of 32 bytes a warp) and barriers; and what the device itself
/// reserves (CUDA programming guide, "Shared Memory" of compute capability 8.x and 9.0).
const fn beside(threads: u32) -> u32 {
    4 * threads + 1024
}
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
    /// Bytes of rows that a thread has under way at once.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.shape {
            Shape::OnChip(OnChip {
                home: Home::Registers { groups, .. } | Home::Pieces { groups, .. },
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
    let of_block = || {
        let enough = BLOCKS.into_iter().find(|(threads, items)| groups <= threads * groups_of(*items));
        enough.map(|(threads, _)| in_registers(1, threads, threads))
    };
    let of_cluster = |block: u64| {
        let cluster = groups.div_ceil(block * groups_of(most)).next_power_of_two().max(2);
        (cluster <= MAX_CLUSTER).then(|| in_registers(cluster, block, cluster * block))
    };
    let shared = Sharers { problem, len, vector, runs };
    let pieces = if is_whole { shared.in_pieces() } else { None };
    let stored = |threads: &Threads| matches!(threads.home, Home::Pieces { in_bulk: false, .. });
    match pieces {
        Some(pieces) if stored(&pieces) => of_block().or(Some(pieces)),
        Some(pieces) => Some(pieces),
        None => of_block()
            .or_else(|| shared.at_once())
            .or_else(|| if problem.has_clusters { CLUSTER_THREADS.into_iter().find_map(of_cluster) } else { None }),
    }
}

/// How the shared memory of a block holds a row.
struct Sharers<'a> {
    problem: &'a Problem<'a>,
    len: u64,
    vector: u32,
    runs: &'a [Run; MAX_INPUTS],
}

impl Sharers<'_> {
    /// The types of the inputs that have more than one element along the row.
    fn staged(&self) -> Vec<Dtype> {
        let all = self.problem.dtypes.iter().zip(self.runs);
        all.filter(|(_, run)| **run != Run::Same).map(|(dtype, _)| *dtype).collect()
    }

    /// Shared memory that a row can have in one of so many blocks.
    fn room(&self, blocks: u32, threads: u32) -> u64 {
        // A multiprocessor has 1 KiB more than a block can have, which the first block's reserve takes.
        u64::from(((self.problem.shared_bytes + 1024) / blocks).saturating_sub(beside(threads)))
    }

    fn with(&self, block: u32, home: Home) -> Threads {
        Threads { cluster: 1, block, lanes: block, home }
    }

    /// Rows that begin and end at multiples of 16 bytes, in pieces.
    fn in_pieces(&self) -> Option<Threads> {
        let Problem { column_dtypes, out_dtypes, has_clusters, .. } = *self.problem;
        let (staged, vector) = (self.staged(), u64::from(self.vector));
        if staged.is_empty() || staged.iter().any(|dtype| dtype.bytes() * vector < 4) {
            return None;
        }
        let item_bytes: u64 = staged.iter().map(|dtype| dtype.bytes()).sum();
        let fits_place = |(k, out): (usize, &Dtype)| staged.get(k).is_some_and(|dtype| dtype.bytes() == out.bytes());
        let in_place = has_clusters && out_dtypes.iter().enumerate().all(fits_place);
        let groups_of_row = self.len / vector;
        let dealt = |(most, threads, blocks): Dealt, at_least: u32| {
            let groups = groups_of_row.div_ceil(threads.into());
            let bytes = groups * u64::from(threads) * vector * item_bytes;
            let fitting = (at_least..=blocks).rev().find(|blocks| bytes <= self.room(*blocks, threads))?;
            let exact = groups * u64::from(threads) == groups_of_row;
            let in_bulk = in_place && threads < LONG.1;
            let (groups, bytes) = (groups as u32, bytes as u32);
            let home = Home::Pieces { groups, exact, blocks: fitting, bytes, in_bulk };
            (groups_of_row <= most).then(|| self.with(threads, home))
        };
        let table = if column_dtypes.len() < 2 { PIECES } else { PIECES_WITH_COLUMNS };
        table.into_iter().find_map(|entry| dealt(entry, 2)).or_else(|| dealt(LONG, 1))
    }

    /// Rows that begin anywhere, brought at once.
    fn at_once(&self) -> Option<Threads> {
        let staged = self.staged();
        let (block, items, counts) = if self.vector == 1 { SHARING_NARROW } else { SHARING };
        // Of each input as much again as it may lie beside a multiple of what copies move.
        let len = self.len.next_multiple_of(GRAIN.into());
        let bytes: u64 = staged.iter().map(|dtype| len * dtype.bytes() + u64::from(GRAIN)).sum();
        let blocks = *counts.iter().find(|blocks| bytes <= self.room(**blocks, block))?;
        let unroll = (items / self.vector).max(1);
        (!staged.is_empty()).then(|| self.with(block, Home::Shared { unroll, blocks, bytes: bytes as u32 }))
    }
}

fn launch(blocks: u64, block: u32, is_empty: bool) -> Result<Option<LaunchConfig>, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    Ok((!is_empty).then(|| LaunchConfig::new(blocks as u32, block)))
}

//! From the shape of a scan to the kernel and the launch. As for folds, the rules never look at the device: the order of
//! a scan is part of its contract.

use warpfold_device::{LaunchConfig, Limits};

use super::geometry::{Geometry, RESULTS, Step};
use super::look_back::{RADIX, num_nodes};
use super::stage::copied_bytes;
use super::walk::COUNTERS;
use super::{Direction, ScanColumns, ScanOrder, ScanRows, Tiles};
use crate::elements::Run;
use crate::fold::geometry::MAX_INPUTS;
use crate::layout::{Dim, Layout, dims};
use crate::{Dtype, Error, ErrorKind};

/// Blocks that are enough to fill a GPU several times over (as for folds): with fewer, rows are shared by blocks.
const ENOUGH_BLOCKS: u64 = 512;
/// Tiles that fill a GPU where blocks share rows.
const ENOUGH_TILES: u64 = 256;
/// Threads of a block that scans rows.
const BLOCK: u32 = 256;
/// Threads of one where blocks share rows.
const SHARED_BLOCK: u32 = 512;
/// Bytes of a tile that blocks share.
const TILE_BYTES: u32 = 64 << 10;
/// Vectors that a thread has of one at most.
const MOST_VECTORS: u32 = 16;
/// Bytes of a row of columns in a tile, and its warps, where rows have [`WIDE_BYTES`], and elsewhere. (f32 on an H200,
/// 2026-11-21, of a copy: 16384 x 16384 89.1 % by the first, 84.7 by the second, 64 times 65536 x 64 86.6 and 78.1;
/// 1048576 x 256 84.3 and 86.8, 4194304 x 64 78.2 and 83.2.)
const STRIPS: [(u32, u32); 2] = [(256, 16), (128, 8)];
/// Bytes of all rows side by side from which on neighbours are as many as fill a GPU.
const WIDE_BYTES: u64 = 8 << 10;
/// Words of the accumulators of such a row, which bound what threads hand to each other.
const STRIP_WORDS: u64 = 64;
/// Bytes that a thread of a block holds: 256 threads x 8 blocks x 64 bytes are 128 KiB in flight a multiprocessor.
const BYTES: u32 = 64;
/// Vectors that a thread holds at most: each is a scan of its warp.
const VECTORS: u32 = 8;
/// Registers of items and prefixes that a thread may hold, half of 64.
const REGISTERS: u32 = 32;
/// Rows that a warp of `columns` takes at once at least.
const MIN_COLUMN_ROWS: u32 = 8;

/// Which kernel scans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ScanShape {
    /// Threads stand along the axis.
    Rows(ScanRows),
    /// Threads stand along a kept dimension.
    Columns(ScanColumns),
}

/// How a scan is carried out. A value: it can be printed and compared; it decides the order of the scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPlan {
    /// The kernel.
    pub shape: ScanShape,
    /// The launch; `None` if there is no item.
    pub launch: Option<LaunchConfig>,
    /// Words of 8 bytes that blocks mark for each other; see [`Workspace::marks`](crate::Workspace::marks).
    pub marks: u64,
    pub(crate) geometry: Geometry,
}

impl ScanPlan {
    /// The launch on a device of these limits: where blocks share tiles, only as many as are resident at once. Which
    /// block takes which tile changes nothing of the results.
    #[must_use]
    pub fn launch_on(&self, limits: &Limits) -> Option<LaunchConfig> {
        let mut config = self.launch?;
        let resident = match &self.shape {
            ScanShape::Rows(ScanRows { tiles: Tiles::Split, resident, .. }) => *resident,
            ScanShape::Columns(columns) if columns.split => columns.resident,
            _ => return Some(config),
        };
        config.grid[0] = config.grid[0].min(limits.num_sms * resident);
        Some(config)
    }

    /// Bytes of loads that a thread has under way at once.
    #[must_use]
    pub fn bytes_in_flight_a_thread(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.shape {
            ScanShape::Rows(rows) => rows.vector * rows.unroll,
            ScanShape::Columns(columns) => columns.vector * columns.unroll,
        };
        dtypes.iter().map(|dtype| dtype.bytes() * u64::from(items)).sum()
    }

    /// Roundings at most between an item and a result that it is in, for a monoid of floats that rounds once in each
    /// `combine` and in each `push`.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let log = |n: u32| u64::from(n.next_power_of_two().ilog2());
        // In a thread twice: once for what it adds to others, once for its own results.
        let (threads, warps, tiles, nodes) = match &self.shape {
            ScanShape::Rows(rows) => {
                let lanes = rows.lanes.min(32);
                let in_warp = u64::from(2 * rows.vector + rows.unroll) + log(lanes);
                (in_warp, log(rows.lanes / lanes), rows.tiles, 2 * log(RADIX))
            }
            ScanShape::Columns(columns) => {
                let in_warp = u64::from(2 * columns.unroll) + log(32 / columns.lanes) + 1;
                let (tiles, nodes) = match columns.split {
                    false => (Tiles::One, 0),
                    true => (Tiles::Split, columns.shares() + RADIX / columns.shares()),
                };
                (in_warp, columns.warps.into(), tiles, u64::from(2 * nodes))
            }
        };
        let over_tiles = match tiles {
            Tiles::One => 0,
            Tiles::Loop => self.geometry.tiles,
            Tiles::Split => nodes + 3 + self.geometry.tiles / u64::from(RADIX * RADIX),
        };
        threads + warps + over_tiles + 2
    }
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem<'a> {
    pub(crate) inputs: &'a [Dtype],
    pub(crate) outputs: &'a [Dtype],
    /// Registers of an item, and of an accumulator.
    pub(crate) item_registers: u32,
    pub(crate) registers: u32,
    /// Words of 32 bits of an accumulator.
    pub(crate) words: u64,
    pub(crate) layouts: &'a [&'a Layout],
    /// Of the first element of each input, then of each output.
    pub(crate) addresses: &'a [u64],
    pub(crate) order: ScanOrder,
}

/// Plans the scan along an axis.
pub(crate) fn plan(problem: &Problem<'_>, axis: usize) -> Result<ScanPlan, Error> {
    let shape = problem.layouts[0].shape();
    let results = Layout::contiguous(shape)?;
    let layouts: Vec<&Layout> = problem.layouts.iter().copied().chain([&results]).collect();
    let size = |kept: bool| {
        let sizes = shape.iter().enumerate().filter(|(i, _)| kept == (*i != axis)).map(|(_, size)| *size as u64);
        let product = sizes.into_iter().try_fold(1_u64, |product, size| product.checked_mul(size));
        product.ok_or(Error::from(ErrorKind::TooLarge { what: "a scan", size: u64::MAX, limit: u64::MAX }))
    };
    let geometry = Geometry {
        rows: size(true)?,
        len: size(false)?,
        tiles: 1,
        axis: layouts.iter().map(|layout| layout.strides()[axis] as i64).collect(),
        kept: dims(&layouts, |i| i != axis),
    };
    if is_columns(&geometry) { columns(problem, geometry) } else { rows(problem, geometry) }
}

/// Whether neighbouring rows lie side by side, inputs and results.
fn is_columns(geometry: &Geometry) -> bool {
    let Some((inner, (results, inputs))) =
        geometry.kept.last().and_then(|inner| Some((inner, inner.strides.split_last()?)))
    else {
        return false;
    };
    *results == 1 && inputs.iter().all(|stride| matches!(stride, 0 | 1)) && inner.size >= 8
}

/// Whether accesses of `vector` elements of every operand are aligned, from every position that these strides lead to.
fn is_aligned(problem: &Problem<'_>, vector: u32, strides: &[&[i64]]) -> bool {
    let inputs = problem.inputs.len();
    let dtypes = problem.inputs.iter().chain(problem.outputs);
    dtypes.zip(problem.addresses).enumerate().all(|(i, (dtype, address))| {
        let access = (u64::from(vector) * dtype.bytes()).min(16);
        let fits = |strides: &&[i64]| (strides[i.min(inputs)].unsigned_abs() * dtype.bytes()).is_multiple_of(access);
        address.is_multiple_of(access) && strides.iter().all(fits)
    })
}

/// Elements that 16 bytes hold of the widest operand.
fn vector_of(problem: &Problem<'_>) -> u32 {
    let widest = problem.inputs.iter().chain(problem.outputs).map(|dtype| dtype.bytes()).max().unwrap_or(1);
    16 / widest as u32
}

fn is_small(geometry: &Geometry) -> bool {
    geometry.rows.saturating_mul(geometry.tiles).max(geometry.len) < 1 << 32
}

/// As many as are needed, up to as many as there can be; a power of two.
fn unroll(needed: u64, most: u32) -> u32 {
    let most = 1 << most.max(1).ilog2();
    needed.clamp(1, most).next_power_of_two() as u32
}

fn rows(problem: &Problem<'_>, mut geometry: Geometry) -> Result<ScanPlan, Error> {
    let (rows, len) = (geometry.rows, geometry.len);
    let kept: Vec<&[i64]> = geometry.kept.iter().map(|dim| dim.strides.as_slice()).collect();
    let steps = geometry.steps();
    let widest = vector_of(problem);
    let is_wide = steps[..problem.inputs.len()].iter().all(|step| *step != Step::Any)
        && steps[RESULTS] == Step::Unit
        && is_aligned(problem, widest, &kept)
        && len >= u64::from(widest)
        // From the end, vectors are aligned only where the row's length is.
        && (problem.order.direction == Direction::Forward || len.is_multiple_of(widest.into()));
    let vector = if is_wide { widest } else { 1 };
    let vectors = len / u64::from(vector);
    // Short rows: a group of lanes each. Long ones, or a few: a block each.
    let is_long = vectors > 32 * 8 || (vectors > 64 && rows < ENOUGH_BLOCKS / 2);
    let is_shared = is_long && rows < ENOUGH_BLOCKS;
    let copied = copied_bytes(problem.inputs, vector).filter(|_| is_shared && steps[0] == Step::Unit);
    let block = if copied.is_some() { SHARED_BLOCK } else { BLOCK };
    let lanes = if is_long { block } else { vectors.next_power_of_two().clamp(1, 32) as u32 };
    let a_vector = vector * problem.item_registers + problem.registers;
    let most = (BYTES * widest / (16 * vector)).min(REGISTERS / a_vector).clamp(1, VECTORS);
    let most = if let Some(bytes) = copied {
        // Tiles are large, as each costs a look back, but not too few to fill a GPU.
        let fit = (TILE_BYTES / (block * bytes)).min(REGISTERS / problem.registers).clamp(1, MOST_VECTORS);
        let enough = vectors * rows / (u64::from(block) * ENOUGH_TILES);
        enough.clamp(most.min(fit).into(), fit.into()) as u32
    } else {
        most
    };
    let unroll = unroll(vectors.div_ceil(lanes.into()), most);
    let mut shape = ScanRows {
        block,
        lanes,
        vector,
        unroll,
        steps,
        tail: !len.is_multiple_of(vector.into()),
        tiles: Tiles::One,
        kept: geometry.kept.len(),
        small: true,
        order: problem.order,
        resident: 4,
    };
    geometry.tiles = vectors.div_ceil(u64::from(lanes * unroll)).max(1);
    let (mut blocks, mut nodes) = (rows.div_ceil(u64::from(block / lanes)), 0);
    if geometry.tiles > 1 {
        shape.tiles = Tiles::Loop;
        if is_shared {
            shape.tiles = Tiles::Split;
            if let Some(bytes) = copied {
                // Smaller tiles, more blocks.
                shape.resident = (TILE_BYTES / (block * unroll * bytes)).clamp(1, 4);
            }
            blocks = rows * geometry.tiles;
            nodes = num_nodes(geometry.tiles) * rows;
        }
    }
    shape.small = is_small(&geometry);
    finish(problem, ScanShape::Rows(shape), geometry, blocks, block, nodes)
}

fn columns(problem: &Problem<'_>, mut geometry: Geometry) -> Result<ScanPlan, Error> {
    let len = geometry.len;
    let (inner, outer) = geometry.kept.split_last().expect("columns are a kept dimension");
    let outer_size: u64 = outer.iter().map(|dim: &Dim| dim.size).product();
    let registers = problem.item_registers.max(problem.registers);
    let widest = 16 / vector_of(problem);
    let most_rows = |vector: u32| (REGISTERS / (vector * registers * if widest > 4 { 2 } else { 1 })).max(1);
    let vectors = vectors_of(problem, &geometry);
    let strips = |width: u32| outer_size * inner.size.div_ceil(width.into());
    let mut shape = ScanColumns {
        warps: len.next_power_of_two().clamp(1, 8) as u32,
        lanes: 32,
        vector: 1,
        unroll: 1,
        runs: [Run::Narrow; MAX_INPUTS],
        kept: geometry.kept.len(),
        split: false,
        resident: 4,
        small: true,
        order: problem.order,
    };
    // Short columns in registers, as many a thread as one aligned access gives, while registers and blocks last.
    let is_short = |vector: &u32| len * u64::from(vector * registers) <= u64::from(8 * REGISTERS);
    let is_good = |vector: &u32| {
        let has_room = *vector <= (REGISTERS / (MIN_COLUMN_ROWS * registers)).clamp(1, 4);
        has_room && is_short(vector) && (*vector == 1 || strips(32 * vector) >= ENOUGH_BLOCKS)
    };
    let short = vectors.iter().copied().find(is_good);
    shape.vector = short.unwrap_or_else(|| {
        let is_good = |vector: &u32| vector * problem.registers <= 8;
        vectors.iter().copied().find(is_good).unwrap_or(1)
    });
    shape.runs = runs_of(inner, shape.vector);
    shape.unroll = unroll(len.div_ceil(shape.warps.into()), most_rows(shape.vector));
    if short.is_none() || len > shape.tile() {
        share_columns(problem, &mut shape, &geometry);
        let threads = u64::from(shape.warps * 32 / shape.lanes);
        let most = match shape.copied_bytes(problem.inputs) {
            None => most_rows(shape.vector),
            Some(bytes) => {
                // Bytes cost instructions: more blocks, which are in different steps. (1 GiB of i8: 54 and 66 % of a copy.)
                let tile_bytes = if widest == 1 { TILE_BYTES / 2 } else { TILE_BYTES };
                let most = (tile_bytes / (32 * shape.warps * bytes)).max(1);
                let enough = len * strips(shape.width()) / (threads * ENOUGH_TILES);
                enough.clamp(most.min(MIN_COLUMN_ROWS).into(), most.into()) as u32
            }
        };
        shape.unroll = unroll(len.div_ceil(threads), most);
        if let Some(bytes) = shape.copied_bytes(problem.inputs) {
            shape.resident = (TILE_BYTES / (32 * shape.warps * shape.unroll * bytes)).clamp(1, 4);
        }
    }
    let (mut nodes, mut blocks) = (0, strips(shape.width()));
    geometry.tiles = len.div_ceil(shape.tile()).max(1);
    if shape.split {
        nodes = num_nodes(geometry.tiles) * geometry.rows;
        blocks *= geometry.tiles;
    }
    shape.small = is_small(&geometry);
    let block = 32 * shape.warps;
    finish(problem, ScanShape::Columns(shape), geometry, blocks, block, nodes)
}

/// Columns that a thread may have side by side, the most first: powers of two that whole accesses of 16 bytes at most take.
fn vectors_of(problem: &Problem<'_>, geometry: &Geometry) -> Vec<u32> {
    let (inner, outer) = geometry.kept.split_last().expect("columns are a kept dimension");
    let mut others: Vec<&[i64]> = outer.iter().map(|dim| dim.strides.as_slice()).collect();
    others.push(&geometry.axis);
    let is_whole = |vector: &u32| {
        *vector == 1
            || *vector <= vector_of(problem)
                && inner.size.is_multiple_of(u64::from(*vector))
                && is_aligned(problem, *vector, &others)
    };
    [16, 8, 4, 2, 1].into_iter().filter(is_whole).collect()
}

fn runs_of(inner: &Dim, vector: u32) -> [Run; MAX_INPUTS] {
    let run = |stride: &i64| match stride {
        0 => Run::Same,
        _ if vector > 1 => Run::Wide,
        _ => Run::Narrow,
    };
    // Behind the strides of the inputs stands that of the results.
    std::array::from_fn(|input| inner.strides.get(input).map_or(Run::Narrow, run))
}

/// Has blocks share columns.
fn share_columns(problem: &Problem<'_>, shape: &mut ScanColumns, geometry: &Geometry) {
    let widest = 16 / vector_of(problem);
    shape.split = true;
    let row_bytes = geometry.rows.saturating_mul(widest.into());
    let fills = row_bytes.saturating_mul(geometry.len) >= ENOUGH_TILES * u64::from(TILE_BYTES);
    let is_wide = row_bytes >= WIDE_BYTES && fills && shape.copied_bytes(problem.inputs).is_some();
    let (bytes, warps) = STRIPS[usize::from(!is_wide)];
    // Long accumulators fill shared memory with what threads hand to each other.
    shape.warps = match problem.words {
        0..=2 => warps,
        3..=8 => 8,
        _ => 4,
    };
    let width = (bytes / widest).min((STRIP_WORDS / problem.words.max(1)).max(8) as u32);
    let num_columns = geometry.kept.last().map_or(1, |inner| inner.size);
    let num_vectors = (num_columns / u64::from(shape.vector)).min(32).next_power_of_two() as u32;
    shape.lanes = (1 << (width / shape.vector).max(1).ilog2()).min(num_vectors);
}

/// `nodes`: accumulators of blocks that share rows.
fn finish(
    problem: &Problem<'_>,
    shape: ScanShape,
    geometry: Geometry,
    blocks: u64,
    block: u32,
    nodes: u64,
) -> Result<ScanPlan, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    let launch = (geometry.rows > 0 && geometry.len > 0).then(|| LaunchConfig::new(blocks as u32, block));
    let marks = if nodes > 0 { COUNTERS + nodes * problem.words } else { 0 };
    Ok(ScanPlan { shape, launch, marks, geometry })
}

//! From the shape of a scan to its kernel and launch. As for folds, the rules never look at the
//! device: the order of a scan is part of its contract.

use warpfold_device::{LaunchConfig, Limits};

use super::geometry::{Geometry, OPERANDS, RESULTS, StrideKind};
use super::look_back::{RADIX, num_nodes};
use super::pipeline::COUNTERS;
use super::stage::copied_bytes;
use super::{Direction, ScanColumns, ScanOrder, ScanRows, Tiles};
use crate::elements::Run;
use crate::layout::{Dim, Layout, dims};
use crate::plan::{TensorSpec, grid_size};
use crate::{Dtype, Error, ErrorKind};

// THRESHOLD: fewer blocks share the tiles of a row; tested by
// crates/kernels/tests/folds/scan/shared.rs::long_axes_are_shared_by_blocks
/// Blocks that fill a GPU several times over (as for folds): with fewer, blocks share rows.
const ENOUGH_BLOCKS: u64 = 512;
// THRESHOLD: fewer tiles are smaller ones; tested by
// crates/kernels/tests/folds/scan/shared.rs::long_axes_are_shared_by_blocks
/// Tiles that fill a GPU, where blocks share rows.
const ENOUGH_TILES: u64 = 256;
// THRESHOLD: fewer strips of columns are cut into tiles; tested by
// crates/kernels/tests/folds/scan/shared.rs::long_axes_are_shared_by_blocks
/// Strips of columns from which on a prefix is handed from tile to tile without a wait.
const ENOUGH_STRIPS: u64 = 256;
/// Threads of a block that scans rows.
const BLOCK: u32 = 256;
/// Threads of a block that shares rows.
const SHARED_BLOCK: u32 = 512;
/// Bytes of a tile that blocks share.
const TILE_BYTES: u32 = 64 << 10;
// THRESHOLD: tiles of narrow elements are smaller than their room; tested by
// crates/kernels/tests/parts/choices.rs::a_thread_of_a_shared_scan_takes_no_more_vectors_than_registers_last
/// Vectors of such a tile a thread at most.
const MOST_VECTORS: u32 = 16;

/// How large a tile of columns is that blocks share.
struct ColumnTile {
    bytes: u32,
    resident_per_sm: u32,
}

/// Where prefixes are handed on from tile to tile.
const HANDED_ON: ColumnTile = ColumnTile { bytes: 32 << 10, resident_per_sm: 2 };
/// In a tree: high tiles, as each node is one column's.
///
/// | columns of 4,194,304 x 64 f32, H200, 2026-11-21 | GB/s |
/// | --- | --- |
/// | tiles of 64 KiB | 3,126 |
/// | two columns a thread | 3,112 |
/// | 16 warps | 2,883 |
/// | tiles of 32 KiB | 2,881 |
/// | tiles of 128 KiB | 2,465 |
const IN_A_TREE: ColumnTile = ColumnTile { bytes: 64 << 10, resident_per_sm: 3 };

/// Bytes in flight a thread: 256 threads x 8 blocks x 64 bytes are 128 KiB per SM.
const BYTES: u32 = 64;
/// Vectors a thread at most: each is a scan of its warp.
const VECTORS: u32 = 8;
/// Registers of items and prefixes a thread, half of 64.
const REGISTERS: u32 = 32;
/// Rows of a tile that a warp of `columns` takes at least.
const MIN_COLUMN_ROWS: u32 = 8;

/// Which kernel scans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ScanAlgorithm {
    /// Threads are mapped along the axis.
    Rows(ScanRows),
    /// Threads are mapped along a kept dimension.
    Columns(ScanColumns),
}

/// How a scan is carried out. A value: it can be printed, compared and changed; it decides the
/// order of the scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanChoice {
    /// The kernel.
    pub algorithm: ScanAlgorithm,
    /// The launch with a block for each tile; `None` if there is no item.
    pub launch: Option<LaunchConfig>,
    /// Words of 8 bytes by which blocks signal each other.
    pub(super) marks: u64,
    pub(super) geometry: Geometry,
}

impl ScanChoice {
    /// The launch on a device of these limits: where blocks share tiles, only as many as are
    /// resident at once. Which block takes which tile changes nothing of the results.
    pub(super) fn launch_on(&self, limits: &Limits) -> Option<LaunchConfig> {
        let mut config = self.launch?;
        let resident = match &self.algorithm {
            ScanAlgorithm::Rows(ScanRows { tiles: Tiles::Split, resident, .. }) => *resident,
            ScanAlgorithm::Columns(columns) if columns.tiles != Tiles::One => columns.resident,
            _ => return Some(config),
        };
        config.grid[0] = config.grid[0].min(limits.num_sms * resident);
        Some(config)
    }

    /// Bytes of loads that a thread has in flight.
    pub(super) fn bytes_in_flight(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.algorithm {
            ScanAlgorithm::Rows(rows) => rows.vector * rows.unroll,
            ScanAlgorithm::Columns(columns) => columns.vector * columns.unroll,
        };
        dtypes.iter().map(|dtype| dtype.bytes() * u64::from(items)).sum()
    }

    /// Roundings at most between an item and a result that it is in, for a monoid of floats that
    /// rounds once in each `combine` and in each `push`.
    #[must_use]
    pub fn depth(&self) -> u64 {
        let log = |n: u32| u64::from(n.next_power_of_two().ilog2());
        // In a thread twice: once for what it adds to others, once for its own results.
        let (threads, warps, tiles, nodes) = match &self.algorithm {
            ScanAlgorithm::Rows(rows) => {
                let lanes = rows.lanes.min(32);
                let in_warp = u64::from(2 * rows.vector + rows.unroll) + log(lanes);
                (in_warp, log(rows.lanes / lanes), rows.tiles, 2 * log(RADIX))
            }
            ScanAlgorithm::Columns(columns) => {
                let warps = u64::from(columns.warps);
                (u64::from(2 * columns.unroll), warps, columns.tiles, 2 * (warps + u64::from(RADIX / columns.warps)))
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

/// What the rules look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) inputs: &'a [TensorSpec],
    pub(super) outputs: &'a [TensorSpec],
    /// Registers of an item, and of an accumulator.
    pub(super) item_registers: u32,
    pub(super) registers: u32,
    /// Words of 32 bits of an accumulator.
    pub(super) words: u64,
    pub(super) order: ScanOrder,
}

/// Chooses how to scan along an axis.
pub(super) fn choose(problem: &Facts<'_>, axis: usize) -> Result<ScanChoice, Error> {
    let shape = problem.inputs[0].layout.shape();
    let operands = problem.inputs.iter().chain(&problem.outputs[..1]);
    let layouts: Vec<&Layout> = operands.map(|operand| &operand.layout).collect();
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

/// Whether neighbouring rows are contiguous, in inputs and results.
fn is_columns(geometry: &Geometry) -> bool {
    let Some((inner, (results, inputs))) =
        geometry.kept.last().and_then(|inner| Some((inner, inner.strides.split_last()?)))
    else {
        return false;
    };
    *results == 1 && inputs.iter().all(|stride| matches!(stride, 0 | 1)) && inner.size >= 8
}

/// Whether accesses of `vector` elements of every operand are aligned, from every position that
/// these strides lead to.
fn is_aligned(problem: &Facts<'_>, vector: u32, strides: &[&[i64]]) -> bool {
    let inputs = problem.inputs.len();
    problem.inputs.iter().chain(problem.outputs).enumerate().all(|(i, operand)| {
        let bytes = operand.dtype.bytes();
        let access = (u64::from(vector) * bytes).min(16);
        let fits = |strides: &&[i64]| (strides[i.min(inputs)].unsigned_abs() * bytes).is_multiple_of(access);
        operand.alignment().is_multiple_of(access) && strides.iter().all(fits)
    })
}

fn dtypes_of(operands: &[TensorSpec]) -> Vec<Dtype> {
    operands.iter().map(|operand| operand.dtype).collect()
}

/// Bytes of the widest elements.
fn widest_of(problem: &Facts<'_>) -> u64 {
    problem.inputs.iter().chain(problem.outputs).map(|operand| operand.dtype.bytes()).max().unwrap_or(1)
}

/// Elements that 16 bytes hold of the widest operand.
fn vector_of(problem: &Facts<'_>) -> u32 {
    16 / widest_of(problem) as u32
}

fn is_small(geometry: &Geometry) -> bool {
    geometry.rows.saturating_mul(geometry.tiles).max(geometry.len) < 1 << 32
}

/// As many as are needed, up to as many as there can be; a power of two.
fn unroll(needed: u64, most: u32) -> u32 {
    let most = 1 << most.max(1).ilog2();
    needed.clamp(1, most).next_power_of_two() as u32
}

fn rows(problem: &Facts<'_>, mut geometry: Geometry) -> Result<ScanChoice, Error> {
    let (rows, len) = (geometry.rows, geometry.len);
    let kept: Vec<&[i64]> = geometry.kept.iter().map(|dim| dim.strides.as_slice()).collect();
    let stride_kinds = geometry.stride_kinds();
    let widest = vector_of(problem);
    let is_wide = stride_kinds[..problem.inputs.len()].iter().all(|kind| *kind != StrideKind::Any)
        && stride_kinds[RESULTS] == StrideKind::Unit
        && is_aligned(problem, widest, &kept)
        && len >= u64::from(widest)
        // From the end, vectors are aligned only if the row's length is.
        && (problem.order.direction == Direction::Forward || len.is_multiple_of(widest.into()));
    let vector = if is_wide { widest } else { 1 };
    let vectors = len / u64::from(vector);
    // Short rows: a group of lanes each. Long ones, or a few: a block each.
    let is_long = vectors > 32 * 8 || (vectors > 64 && rows < ENOUGH_BLOCKS / 2);
    let is_shared = is_long && rows < ENOUGH_BLOCKS;
    let copied =
        copied_bytes(&dtypes_of(problem.inputs), vector).filter(|_| is_shared && stride_kinds[0] == StrideKind::Unit);
    let block = if copied.is_some() { SHARED_BLOCK } else { BLOCK };
    let lanes = if is_long { block } else { vectors.next_power_of_two().clamp(1, 32) as u32 };
    let a_vector = vector * problem.item_registers + problem.registers;
    let most = (BYTES * widest / (16 * vector)).min(REGISTERS / a_vector).clamp(1, VECTORS);
    let most = if let Some(bytes) = copied {
        // Tiles are large, as each costs a look-back, but enough of them to fill a GPU.
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
        stride_kinds,
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
    finish(problem, ScanAlgorithm::Rows(shape), geometry, blocks, block, nodes)
}

fn columns(problem: &Facts<'_>, mut geometry: Geometry) -> Result<ScanChoice, Error> {
    let len = geometry.len;
    let (inner, outer) = geometry.kept.split_last().expect("columns are a kept dimension");
    let mut others: Vec<&[i64]> = outer.iter().map(|dim| dim.strides.as_slice()).collect();
    others.push(&geometry.axis);
    let outer_size: u64 = outer.iter().map(|dim: &Dim| dim.size).product();
    let blocks_of = |vector: u32| outer_size * inner.size.div_ceil(32 * u64::from(vector));
    // As many columns a thread as one aligned access loads, while registers and blocks last. Of
    // long columns 8 bytes: each column has its own look-back.
    let registers = problem.item_registers.max(problem.registers);
    let most = vector_of(problem).min(REGISTERS / (MIN_COLUMN_ROWS * registers)).min(4);
    let widest = widest_of(problem);
    let is_good = |vector: &u32| {
        let (strips, bytes) = (blocks_of(*vector), u64::from(*vector) * widest);
        let is_short = len * u64::from(vector * registers) <= u64::from(8 * REGISTERS);
        let is_enough =
            if is_short { strips >= ENOUGH_BLOCKS } else { bytes <= 8 && strips >= ENOUGH_STRIPS || bytes <= 4 };
        inner.size.is_multiple_of(u64::from(*vector)) && is_aligned(problem, *vector, &others) && is_enough
    };
    let vector = [4, 2].into_iter().filter(|vector| *vector <= most).find(is_good).unwrap_or(1);
    let mut runs = [Run::Narrow; OPERANDS];
    for (run, stride) in runs.iter_mut().zip(&inner.strides) {
        *run = match stride {
            0 => Run::Same,
            _ if vector > 1 => Run::Wide,
            _ => Run::Narrow,
        };
    }
    let mut blocks = blocks_of(vector);
    let mut shape = ScanColumns {
        warps: len.next_power_of_two().clamp(1, 8) as u32,
        vector,
        unroll: (REGISTERS / (vector * registers * if widest > 4 { 2 } else { 1 })).max(1),
        runs: [runs[0], runs[1]],
        kept: geometry.kept.len(),
        tiles: Tiles::One,
        resident: 4,
        small: true,
        order: problem.order,
    };
    let mut nodes = 0;
    if len > shape.tile() {
        shape.tiles = if blocks >= ENOUGH_STRIPS { Tiles::Loop } else { Tiles::Split };
        if let Some(bytes) = shape.copied_bytes(&dtypes_of(problem.inputs)) {
            let tile = if shape.tiles == Tiles::Split { IN_A_TREE } else { HANDED_ON };
            shape.resident = tile.resident_per_sm;
            shape.unroll = tile.bytes / (32 * shape.warps * bytes);
            let enough = len * blocks / (u64::from(shape.warps) * ENOUGH_TILES);
            shape.unroll = enough.clamp(shape.unroll.min(8).into(), shape.unroll.into()) as u32;
        }
    }
    shape.unroll = unroll(len.div_ceil(shape.warps.into()), shape.unroll);
    geometry.tiles = len.div_ceil(shape.tile()).max(1);
    if shape.tiles != Tiles::One {
        nodes = num_nodes(geometry.tiles) * geometry.rows;
        blocks *= geometry.tiles;
    }
    shape.small = is_small(&geometry);
    let block = 32 * shape.warps;
    finish(problem, ScanAlgorithm::Columns(shape), geometry, blocks, block, nodes)
}

/// `nodes`: accumulators of blocks that share rows.
fn finish(
    problem: &Facts<'_>,
    algorithm: ScanAlgorithm,
    geometry: Geometry,
    blocks: u64,
    block: u32,
    nodes: u64,
) -> Result<ScanChoice, Error> {
    let blocks = grid_size(blocks)?;
    let launch = (geometry.rows > 0 && geometry.len > 0).then(|| LaunchConfig::new(blocks, block));
    let marks = if nodes > 0 { COUNTERS + nodes * problem.words } else { 0 };
    Ok(ScanChoice { algorithm, launch, marks, geometry })
}

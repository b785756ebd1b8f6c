//! From the shape of a fold to its kernel and launch.
//!
//! The rules look at shapes, strides, alignment and the size of accumulators, never at the device:
//! the order of a fold is part of its contract, so it must not differ between two GPUs.

use std::fmt;

use warpfold_device::LaunchConfig;

use super::geometry::{Geometry, MAX_INPUTS, run};
use super::{Columns, Rows};
use crate::elements::Run;
use crate::layout::{Dim, Layout, dims, merge};
use crate::plan::{TensorSpec, grid_size};
use crate::{Dtype, Error, ErrorKind};

// THRESHOLD: fewer blocks have long rows and columns shared; tested by
// crates/kernels/tests/folds/tensors.rs::long_rows_are_shared_by_blocks_and_many_columns_by_threads
/// Blocks that fill a GPU several times over: with fewer, blocks share rows. Fixed, so that the
/// order does not depend on the device. For 33,554,432 f32 on an H200, 1,024 blocks were the
/// fastest (see the ladder `reduce`).
const ENOUGH_BLOCKS: u64 = 1024;
// THRESHOLD: as many rows are folded by warps though they are longer; tested by
// crates/kernels/tests/parts/choices.rs::rows_of_enough_warps_are_folded_by_warps_though_they_are_longer
/// Warps that fill a GPU several times over.
const ENOUGH_WARPS: u64 = 16_384;
/// Threads of a block that folds rows.
const BLOCK: u32 = 256;
/// Independent loads of a thread: 256 threads x 8 blocks x 4 x 16 bytes are 128 KiB in flight per
/// SM, where an H200 needs 48 (4.8 TB/s for 1.3 us over 132 SMs).
const UNROLL: u32 = 4;
/// Bytes in flight of a thread that folds columns, and the registers that they may take.
const BYTES: u32 = 64;
const REGISTERS: u32 = 16;

/// Which kernel folds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Threads are mapped along the reduced dimension.
    Rows(Rows),
    /// Threads are mapped along a kept dimension.
    Columns(Columns),
}

/// How a fold is carried out. A value: it can be printed, compared and changed; it decides the
/// order of the fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The kernel.
    pub algorithm: Algorithm,
    /// The launch; `None` if there is no result.
    pub launch: Option<LaunchConfig>,
    /// 8-byte words of workspace.
    pub(super) workspace_words: u64,
    /// Counters, zero before and after the launch.
    pub(super) tickets: u64,
    pub(super) geometry: Geometry,
}

impl Choice {
    /// Whether blocks share results: each folds a part, and the last one folds the parts.
    #[must_use]
    pub const fn is_split(&self) -> bool {
        self.tickets > 0
    }

    /// Bytes of loads that a thread has in flight.
    pub(super) fn bytes_in_flight(&self, dtypes: &[Dtype]) -> u64 {
        let items = match &self.algorithm {
            Algorithm::Rows(rows) => rows.vector * rows.unroll,
            Algorithm::Columns(columns) => columns.vector * columns.unroll,
        };
        dtypes.iter().map(|dtype| dtype.bytes() * u64::from(items)).sum()
    }
}

impl fmt::Display for Choice {
    /// The path, who shares a result, and what a thread loads at a time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |num: u32, what: &str| if num == 1 { format!("1 {what}") } else { format!("{num} {what}s") };
        match &self.algorithm {
            Algorithm::Rows(Rows { block, lanes, vector, unroll, .. }) => {
                let team = match *lanes {
                    1 => "a thread".to_owned(),
                    lanes if lanes == *block => "a block".to_owned(),
                    32 => "a warp".to_owned(),
                    lanes => format!("{lanes} lanes"),
                };
                let load = count(*vector, "element");
                write!(f, "rows, {team} per result, {load} per load, {} in flight", count(*unroll, "load"))?;
            }
            Algorithm::Columns(Columns { warps, vector, unroll, .. }) => write!(
                f,
                "columns, a thread per {}, {} per block, {} in flight",
                if *vector == 1 { "result".to_owned() } else { count(*vector, "result") },
                count(*warps, "warp"),
                count(*unroll, "load")
            )?,
        }
        match self.launch.filter(|_| self.is_split()) {
            Some(launch) => write!(f, ", {} blocks share a result", launch.grid[1]),
            None => Ok(()),
        }
    }
}

/// What the rules look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// Registers of an accumulator.
    pub(super) registers: u32,
    /// Whether the reduced dimensions may be walked in any order.
    pub(super) any_order: bool,
    pub(super) commutes: bool,
    pub(super) inputs: &'a [TensorSpec],
}

/// Chooses how to fold over `axes`, positions in order.
pub(super) fn choose(problem: &Facts<'_>, axes: &[usize]) -> Result<Choice, Error> {
    let layouts: Vec<&Layout> = problem.inputs.iter().map(|input| &input.layout).collect();
    let kept = dims(&layouts, |axis| !axes.contains(&axis));
    let mut folded = dims(&layouts, |axis| axes.contains(&axis));
    if problem.any_order {
        folded = in_memory_order(folded);
    }
    let size = |dims: &[Dim]| {
        let product = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(dim.size));
        product.ok_or(Error::from(ErrorKind::TooLarge { what: "a fold", size: u64::MAX, limit: u64::MAX }))
    };
    let (results, len) = (size(&kept)?, size(&folded)?);
    let geometry = Geometry { results, len, part_len: len, kept, folded };
    // Two long accumulators and their combination need more registers than a thread has.
    let is_short = problem.registers <= 16;
    if is_short && is_columns(&geometry) { columns(problem, geometry) } else { rows(problem, geometry) }
}

/// The dimensions ordered by stride, the longest outermost, and merged again.
fn in_memory_order(mut dims: Vec<Dim>) -> Vec<Dim> {
    dims.sort_by_key(|dim| std::cmp::Reverse(dim.strides[0].unsigned_abs()));
    merge(dims)
}

fn is_unit(dim: &Dim) -> bool {
    dim.strides.iter().all(|stride| matches!(stride, 0 | 1))
}

/// Whether neighbouring results come from neighbouring elements, and neighbouring items do not:
/// threads along the reduced dimension would not load coalesced.
fn is_columns(geometry: &Geometry) -> bool {
    let Some(inner) = geometry.kept.last() else { return false };
    let rows_are_runs = geometry.folded.last().is_none_or(|dim| is_unit(dim) && dim.size > 8);
    is_unit(inner)
        && inner.strides.contains(&1)
        && inner.size >= 8
        && !rows_are_runs
        && geometry.len > 0
        && geometry.results > 0
}

/// Whether accesses of `vector` elements from every position that the other dimensions lead to are
/// aligned.
fn is_aligned<'a>(problem: &Facts<'_>, input: usize, vector: u32, mut others: impl Iterator<Item = &'a Dim>) -> bool {
    let bytes = problem.inputs[input].dtype.bytes();
    let access = (u64::from(vector) * bytes).min(16);
    problem.inputs[input].alignment().is_multiple_of(access)
        && others.all(|dim| (dim.strides[input].unsigned_abs() * bytes).is_multiple_of(access))
}

/// Elements of a 16-byte access to the widest input whose stride along a dimension is not zero.
fn vector_len(problem: &Facts<'_>, inner: &Dim) -> u32 {
    let inputs = problem.inputs.iter().zip(&inner.strides);
    let widest = inputs.filter(|(_, stride)| **stride != 0).map(|(input, _)| input.dtype.bytes()).max();
    // An accumulator of many registers leaves few registers for items.
    let most = if problem.registers > 8 { 4 } else { 16 };
    (16 / widest.unwrap_or(8) as u32).min(most)
}

fn runs_of(problem: &Facts<'_>, inner: &Dim, vector: u32, others: &[&Dim]) -> [Run; MAX_INPUTS] {
    let mut runs = [Run::Narrow; MAX_INPUTS];
    for (input, place) in runs.iter_mut().enumerate().take(problem.inputs.len()) {
        *place = run(inner.strides[input], is_aligned(problem, input, vector, others.iter().copied()));
    }
    runs
}

fn is_small(geometry: &Geometry) -> bool {
    geometry.results.max(geometry.len) < 1 << 32
}

fn rows(problem: &Facts<'_>, mut geometry: Geometry) -> Result<Choice, Error> {
    let (results, len) = (geometry.results, geometry.len);
    let alone = Dim { size: 1, strides: vec![1; problem.inputs.len()] };
    let inner = geometry.folded.last().unwrap_or(&alone);
    let direct = geometry.folded.len() <= 1 && is_unit(inner);
    let vector = match geometry.folded.len() {
        _ if !is_unit(inner) => 1,
        0 | 1 => vector_len(problem, inner),
        // No vector crosses the end of a contiguous run.
        _ => vector_len(problem, inner).min(1 << inner.size.trailing_zeros().min(4)),
    };
    let outer = &geometry.folded[..geometry.folded.len().saturating_sub(1)];
    let others: Vec<&Dim> = geometry.kept.iter().chain(outer).collect();
    let runs = runs_of(problem, inner, vector, &others);
    let vectors = len.div_ceil(vector.into()).max(1);
    // Short rows: a group of lanes each. Long ones, or few: a block each. A warp needs no barrier,
    // so where rows are many it takes longer ones, too.
    let most_of_lane = if results >= ENOUGH_WARPS { 32 } else { 8 };
    let is_long = vectors > 32 * most_of_lane || (vectors > 64 && results < ENOUGH_BLOCKS / 4);
    // Lanes of short rows take several vectors each, all in flight, unless that leaves too few
    // lanes. Four lanes still read whole sectors.
    let shared_by = vectors / u64::from(UNROLL);
    let are_enough = results * shared_by >= ENOUGH_BLOCKS * u64::from(BLOCK);
    let lanes = match () {
        () if is_long => BLOCK,
        () if problem.commutes && vectors.is_power_of_two() && (4..=16).contains(&shared_by) && are_enough => {
            shared_by as u32
        }
        () => vectors.next_power_of_two().min(32) as u32,
    };
    let each = vectors.div_ceil(lanes.into());
    let wide_vectors = if problem.registers * vector > 64 { 2 } else { UNROLL };
    let wide_vectors = if problem.registers > 8 { 1 } else { wide_vectors };
    let unroll = if problem.commutes { wide_vectors.min(1 << each.ilog2()) } else { 1 };
    let tile = u64::from(lanes) * u64::from(vector) * u64::from(unroll);
    let mut parts = 1;
    if is_long && results < ENOUGH_BLOCKS / 2 {
        let wanted = (ENOUGH_BLOCKS / results.max(1)).min(len.div_ceil(tile)).max(1);
        geometry.part_len = len.div_ceil(tile).div_ceil(wanted) * tile;
        parts = len.div_ceil(geometry.part_len).max(1);
    }
    let algorithm = Algorithm::Rows(Rows {
        block: BLOCK,
        lanes,
        vector,
        unroll,
        runs,
        direct,
        kept: geometry.kept.len(),
        folded: geometry.folded.len(),
        split: parts > 1,
        small: is_small(&geometry),
    });
    let blocks = results.div_ceil(u64::from(BLOCK / lanes));
    finish(problem, algorithm, geometry, [blocks, parts], BLOCK, results)
}

fn columns(problem: &Facts<'_>, mut geometry: Geometry) -> Result<Choice, Error> {
    let len = geometry.len;
    let (inner, outer) = geometry.kept.split_last().expect("columns are a kept dimension");
    let others: Vec<&Dim> = outer.iter().chain(&geometry.folded).collect();
    let outer_size: u64 = outer.iter().map(|dim| dim.size).product();
    let blocks_of = |vector: u32| outer_size * inner.size.div_ceil(32 * u64::from(vector));
    // As many columns a thread as one aligned access loads, while registers and blocks last.
    let most = vector_len(problem, inner).min(8 / problem.registers.clamp(1, 8)).clamp(1, 4);
    let is_good = |vector: &u32| {
        let aligned = (0..problem.inputs.len())
            .all(|input| inner.strides[input] == 0 || is_aligned(problem, input, *vector, others.iter().copied()));
        inner.size.is_multiple_of(u64::from(*vector)) && aligned && blocks_of(*vector) >= 64
    };
    let vector = [4, 2].into_iter().filter(|vector| *vector <= most).find(is_good).unwrap_or(1);
    let runs = runs_of(problem, inner, vector, &others);
    // All warps but the first store 32 accumulators to shared memory, of which every device has 48
    // KiB a block; blocks that share columns do so twice; a few bytes say which block is the last.
    let most_warps = 1 + (24 * 1024 - 64) / (32 * 8 * problem.registers.max(1));
    let warps = len.next_power_of_two().min(8).min(1 << most_warps.ilog2()) as u32;
    let unroll = rows_under_way(problem, inner, vector, len / u64::from(warps));
    let blocks = blocks_of(vector);
    let tile = u64::from(warps * unroll);
    let mut parts = 1;
    if blocks < ENOUGH_BLOCKS / 2 {
        let wanted = (ENOUGH_BLOCKS / blocks).min(len.div_ceil(4 * tile)).max(1);
        geometry.part_len = len.div_ceil(tile).div_ceil(wanted) * tile;
        parts = len.div_ceil(geometry.part_len);
    }
    let algorithm = Algorithm::Columns(Columns {
        warps,
        vector,
        unroll,
        runs,
        kept: geometry.kept.len(),
        folded: geometry.folded.len(),
        split: parts > 1,
        small: is_small(&geometry),
    });
    finish(problem, algorithm, geometry, [blocks, parts], 32 * warps, blocks)
}

/// Rows in flight of a thread of `columns`, whose warp has `rows`: 64 bytes of its columns, in at
/// most 16 registers.
fn rows_under_way(problem: &Facts<'_>, inner: &Dim, vector: u32, rows: u64) -> u32 {
    let moving = problem.inputs.iter().zip(&inner.strides).filter(|(_, stride)| **stride != 0);
    let bytes = moving.clone().map(|(input, _)| input.dtype.bytes() as u32).sum::<u32>().max(1);
    let words = moving.map(|(input, _)| input.dtype.bytes().div_ceil(4) as u32).sum::<u32>().max(1);
    let most = (BYTES / (vector * bytes)).min(REGISTERS / (vector * words)).max(1);
    // The code that puts an item into a long accumulator is long.
    let most = if problem.registers > 8 { 1 } else { most };
    // The rest of a warp's rows is loaded one by one, so it should be a small part.
    let few = (rows / 4).max(rows.min(UNROLL.into())).clamp(1, most.into());
    1 << few.ilog2()
}

fn finish(
    problem: &Facts<'_>,
    algorithm: Algorithm,
    geometry: Geometry,
    [blocks, parts]: [u64; 2],
    block: u32,
    tickets: u64,
) -> Result<Choice, Error> {
    let blocks = grid_size(blocks)?;
    let launch = (geometry.results > 0).then(|| LaunchConfig::new((blocks, parts as u32), block));
    let (workspace_words, tickets) = match parts {
        0 | 1 => (0, 0),
        _ => (geometry.results * parts * u64::from(problem.registers), tickets),
    };
    Ok(Choice { algorithm, launch, workspace_words, tickets, geometry })
}

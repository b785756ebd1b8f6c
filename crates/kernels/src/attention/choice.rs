//! Which kernel attends, and how keys are split over blocks.

use std::fmt;

use super::copy_rows::wide;
use super::family::mma_tile;
use super::mma::MmaTile;
use super::problem::{Problem, Queries};
use super::swapped::SwappedTile;
use super::wgmma::WgmmaTile;
use super::{segment_keys, simt};
use crate::Dtype;
use crate::plan::Planner;

/// Which kernel, and how keys are split over blocks. All choices of one algorithm give the same
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The kernel.
    pub algorithm: Algorithm,
    /// Blocks that share the keys of a row.
    pub splits: u64,
    /// Segments that each of them takes.
    pub segments: u64,
    /// How they are folded.
    pub order: Order,
    /// Whether the last of the blocks that share a tile of rows combines their parts; else another
    /// launch does. Tensor cores only.
    pub single_launch: bool,
}

/// How a block folds several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Each by itself, as the contract demands.
    Segments,
    /// As if there were one. Other bits: to measure what the order costs.
    OneSegment,
}

/// A kernel for attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CUDA cores, in f32: every type.
    Simt,
    /// The tensor cores of Hopper: f16 and bf16, and e4m3 where it is asked for.
    Wgmma(WgmmaTile),
    /// The same for few queries: keys and values are the first factors, converted from 8-bit floats
    /// in registers.
    Swapped(SwappedTile),
    /// The tensor cores of GPUs without WGMMA (`mma.sync`): f16 and bf16.
    Mma(MmaTile),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, splits, segments, order, single_launch } = self;
        match algorithm {
            Algorithm::Simt => write!(f, "CUDA cores")?,
            Algorithm::Wgmma(tile) => {
                let turns = if tile.ping_pong { ", ping-pong" } else { "" };
                let states = if tile.keeps_states { ", states in shared memory" } else { "" };
                let (rows, WgmmaTile { keys, stages, blocks, .. }) = (tile.rows(), tile);
                let of = if tile.element_bytes == 1 { " of e4m3" } else { "" };
                write!(f, "WGMMA{of} {rows} x {keys}, {stages} stages, {blocks} block(s) per SM{turns}{states}")?;
            }
            Algorithm::Swapped(SwappedTile { rows, keys, stages, blocks }) => {
                write!(f, "WGMMA swapped {rows} x {keys}, {stages} stages, {blocks} block(s) per SM")?;
            }
            Algorithm::Mma(tile) => {
                let (rows, MmaTile { keys, blocks }) = (tile.rows(), tile);
                write!(f, "mma.sync {rows} x {keys}, {blocks} block(s) per SM")?;
            }
        }
        write!(f, ", {splits} part(s) of {segments} segment(s)")?;
        if *splits > 1 {
            write!(f, "{}", if *single_launch { ", merged by the last block" } else { ", merged by a launch" })?;
        }
        if *order == Order::OneSegment { write!(f, ", as one segment") } else { Ok(()) }
    }
}

impl Algorithm {
    /// Rows of a block.
    pub(super) const fn rows(self) -> u32 {
        match self {
            Self::Simt => simt::ROWS,
            Self::Wgmma(tile) => tile.rows(),
            Self::Swapped(tile) => tile.rows,
            Self::Mma(tile) => tile.rows(),
        }
    }

    /// Blocks of a multiprocessor that a launch asks for.
    pub(super) const fn blocks_per_sm(self) -> u64 {
        match self {
            Self::Simt => 4,
            Self::Wgmma(tile) => tile.blocks as u64,
            Self::Swapped(tile) => tile.blocks as u64,
            Self::Mma(tile) => tile.blocks as u64,
        }
    }

    /// Elements of a type that are loaded at once, where tensors allow it.
    pub(super) const fn wide(self) -> fn(Dtype) -> u64 {
        match self {
            Self::Simt => simt::wide,
            Self::Wgmma(_) | Self::Swapped(_) | Self::Mma(_) => wide,
        }
    }
}

impl Choice {
    /// Takes tensor cores where there is a kernel for them, and splits keys where blocks would be
    /// idle or too few to fill the memory's pipes.
    pub(super) fn new(problem: &Problem, planner: &Planner<'_>) -> Self {
        let all = num_segments(problem);
        let (rows, limits) = (rows_per_head(problem), planner.limits);
        let num_sms = u64::from(limits.num_sms).max(1);
        let suits_tensor_cores = suits_tensor_cores(problem);
        let algorithm = |splits: u64, is_alone: bool| {
            if suits_tensor_cores && limits.has_wgmma {
                let (folds, room) = ([splits == 1 && all > 1, is_alone], limits.shared_bytes_per_block_optin);
                let swapped = SwappedTile::choose(problem, rows, folds, room).map(Algorithm::Swapped);
                swapped.unwrap_or_else(|| Algorithm::Wgmma(WgmmaTile::choose(problem, rows, folds, room)))
            } else if suits_tensor_cores && limits.has_mma && problem.products.is_none() {
                Algorithm::Mma(mma_tile(problem, limits))
            } else {
                Algorithm::Simt
            }
        };
        let items = expected_items(problem, algorithm(1, false));
        let of_parts = |segments: u64| {
            let splits = all.div_ceil(segments);
            let algorithm = algorithm(splits, items * splits <= num_sms);
            // Few rows a head: the last block has them merged before another launch would begin.
            let single_launch = splits > 1 && rows <= 64 && algorithm != Algorithm::Simt;
            Self { algorithm, splits, segments, order: Order::Segments, single_launch }
        };
        let candidates = (1..all.min(MOST_SEGMENTS)).rev().map(of_parts);
        let cost = |choice: &Self| choice.nanoseconds(problem, items, num_sms);
        std::iter::once(of_parts(all)).chain(candidates).min_by_key(cost).expect("there is the whole")
    }

    /// About how long it takes, to be compared with other choices: keys and values at the share of
    /// the memory's speed that a multiprocessor has, as the last one of them is done. (Constants
    /// from `cargo bench --bench attention`, H200, 2026-11-23.)
    fn nanoseconds(&self, problem: &Problem, items: u64, num_sms: u64) -> u64 {
        let bytes = (problem.head_dim + problem.value_dim) * problem.kv_dtype.bytes();
        let segment = u64::from(segment_keys(problem.head_dim, problem.value_dim)) * bytes / BYTES_PER_NANOSECOND;
        let of_sm = (items * self.splits).div_ceil(num_sms);
        let keys = of_sm * self.segments * segment;
        // One block does not keep a multiprocessor's share of the memory busy.
        let keys = if of_sm == 1 { keys + keys / 4 } else { keys };
        let merge = if self.splits > 1 {
            let states = problem.rows() * (problem.value_dim + 2) * num_segments(problem) * 4;
            MERGE_NANOSECONDS + 2 * states / (BYTES_PER_NANOSECOND * num_sms)
        } else {
            0
        };
        keys + of_sm * ITEM_NANOSECONDS + merge
    }
}

// THRESHOLD: more are not compared, but all of them in one part; tested by
// crates/kernels/tests/parts/choices.rs::parts_of_keys_have_no_more_segments_than_are_compared
/// Segments of a part at most, unless there is one part.
const MOST_SEGMENTS: u64 = 64;

/// What a multiprocessor loads.
const BYTES_PER_NANOSECOND: u64 = 32;

/// The beginning and the end of an item.
const ITEM_NANOSECONDS: u64 = 4000;

/// The launch that merges.
const MERGE_NANOSECONDS: u64 = 6000;

/// Whether tensor cores take it. It must not depend on the batch: neither on how many queries and
/// keys there are, nor on how they lie.
pub(super) fn suits_tensor_cores(problem: &Problem) -> bool {
    let Problem { dtype, kv_dtype, .. } = *problem;
    let is_half = matches!(dtype, Dtype::F16 | Dtype::Bf16);
    is_half && (kv_dtype == dtype || kv_dtype.bytes() == 1) || problem.products.is_some()
}

/// Segments of the longest sequence; one without keys.
pub(super) fn num_segments(problem: &Problem) -> u64 {
    problem.max_keys().div_ceil(segment_keys(problem.head_dim, problem.value_dim).into()).max(1)
}

/// Rows of a head of keys: those of a sequence, or of the mean sequence.
pub(super) fn rows_per_head(problem: &Problem) -> u64 {
    let queries = match problem.queries {
        Queries::Dense { len, .. } => len,
        Queries::Packed { batch, total, .. } => total.div_ceil(batch.max(1)),
    };
    queries * problem.group()
}

/// About how many [`items`] there are: where sequences are packed, as if all had the same length.
fn expected_items(problem: &Problem, algorithm: Algorithm) -> u64 {
    match problem.queries {
        Queries::Dense { .. } => items(problem, algorithm),
        Queries::Packed { batch, total, .. } => {
            let tiles = rows_per_head(problem).div_ceil(algorithm.rows().into());
            batch.min(total) * tiles * problem.kv_heads
        }
    }
}

/// Tiles of rows with a head of keys, if keys are not split; where sequences are packed, at most.
pub(super) fn items(problem: &Problem, algorithm: Algorithm) -> u64 {
    let (group, rows) = (problem.group(), u64::from(algorithm.rows()));
    let tiles = match problem.queries {
        Queries::Dense { batch, len, .. } => batch * (len * group).div_ceil(rows),
        Queries::Packed { batch, total, .. } => (total * group) / rows + batch.min(total),
    };
    tiles * problem.kv_heads
}

//! Attention: `softmax(q kᵀ · scale) v`, for prefill, decode and any mix of them, over contiguous
//! or paged keys.
//!
//! # The order of the fold, and what it promises
//! Attention is a fold over keys with the monoid of [`state`]: running maximum, sum of
//! exponentials, weighted values (Milakov and Gimelshein 2018; Dao, FlashAttention-2, 2023). The
//! order of this fold is fixed by the **position of the keys alone**:
//! - a *tile* of keys, at positions that are multiples of its length, is pushed as a whole: 32 keys
//!   on CUDA cores; by WGMMA 128, or 64 where heads have more than 128 elements or there is a mask;
//!   by `mma.sync` half as many as heads allow (see [`MmaTile`]);
//! - a *segment* of [`segment_keys`] keys folds its tiles from the first to the last;
//! - segments are combined from the first to the last.
//!
//! So a thread block may take any number of segments, and how many is a matter of scheduling: **no
//! bit of a row depends on the batch, on how queries are chunked, on how keys are split over
//! blocks, or on the order of pages**. Prefill, chunked prefill, decode and a prefix hit give the
//! same bits. Two conditions: values are finite, and the kernels are those of one element type and
//! one architecture (which of them is used follows from types, head sizes and device).
//!
//! # Files
//! Start with [`Problem`] and [`Attention`]. [`state`] is the monoid, `work` finds what a block is
//! to do and `items` draws it, `scores` and `output` are the two ends of a row, `running` combines
//! segments inside a block and `merge` the partial results of split keys. The kernels are `simt`,
//! on CUDA cores, for every type, and for f16 and bf16 `wgmma`, on the tensor cores of Hopper, and
//! `mma`, on those of other GPUs; both share `softmax`, `copy_rows` and `factor`. `choice` says
//! which, and `family` plans.

mod args;
mod boxes;
mod choice;
mod config;
mod copy_rows;
mod factor;
mod family;
mod items;
mod merge;
mod mma;
mod output;
mod problem;
mod running;
mod scores;
mod simt;
mod softmax;
pub mod state;
mod swapped;
mod wgmma;
mod work;

pub use choice::{Algorithm, Choice, Order};
pub use family::Attention;
pub(crate) use family::kernels;
pub use mma::MmaTile;
pub use swapped::SwappedTile;
pub use wgmma::WgmmaTile;

pub use problem::{Causal, Keys, MaskLayout, Problem, Queries, Score, ScoreAt};

/// Keys that are pushed at a time on CUDA cores: one for each lane of a warp.
pub(crate) const TILE: u32 = 32;

/// Keys of a segment, for heads with so many elements: what a segment costs grows with them, and
/// what it gains does not.
#[must_use]
pub const fn segment_keys(head_dim: u64, value_dim: u64) -> u32 {
    if head_dim > 128 || value_dim > 128 { 2048 } else { 1024 }
}

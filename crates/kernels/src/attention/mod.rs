//! Attention: `softmax(q kᵀ · scale) v`, for prefill, decode and any mix of them, over contiguous or
//! paged keys.
//!
//! # The order of the fold, and what it promises
//! Attention is a fold over keys with the monoid of [`state`]: running maximum, sum of exponentials,
//! weighted values (Milakov and Gimelshein 2018; Dao, FlashAttention-2, 2023). The order of this fold
//! is fixed by the **position of the keys alone**:
//! - a *tile* of [`TILE`] keys, at positions that are multiples of it, is pushed as a whole;
//! - a *segment* of [`SEGMENT`] keys folds its tiles from the first to the last;
//! - segments form a balanced binary tree over their index; a missing right child passes through.
//!
//! So a thread block may take any aligned power of two of segments, and how many is a matter of
//! scheduling: **no bit of a row depends on the batch, on how queries are chunked, on how keys are
//! split over blocks, or on the order of pages**. Prefill, chunked prefill, decode and a prefix hit
//! give the same bits. Two conditions: values are finite, and the kernels are those of one element
//! type and one architecture.
//!
//! # Files
//! Start with [`Problem`] and [`Attention`]. [`state`] is the monoid, `work` finds what a block is to
//! do, `simt` is the kernel on CUDA cores, `merge` combines the partial results of split keys, and
//! `family` plans.

mod family;
mod merge;
mod problem;
mod simt;
pub mod state;
mod work;

pub(crate) use family::kernels;
pub use family::{Attention, Choice};
pub(crate) use simt::BLOCK;

pub use problem::{Causal, Keys, MaskLayout, Problem, Queries, Score, ScoreAt};

/// Keys that are pushed at a time: one for each lane of a warp.
pub const TILE: u32 = 32;

/// Keys of a leaf of the tree of segments.
pub const SEGMENT: u32 = 1024;

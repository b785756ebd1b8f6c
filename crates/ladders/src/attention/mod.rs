//! Attention: `softmax(q kᵀ / sqrt(d)) v` for every head, where query heads may share one of keys
//! and values.
//!
//! Contract: the rows of a head lie side by side, and heads one after the other, sequence by
//! sequence, from a multiple of 16 bytes on; a row has 64 or 128 elements. A row that is causal
//! sees the keys up to its own. Results overlap no input.
//!
//! Accuracy: products and sums are `f32`. Tensor cores multiply weights that are rounded to the
//! type of the values, and add in an order of their own. What is more than that of a result's error
//! comes from the scores, whose error exponentials make a relative one: see `reference`.
//!
//! [`ladder`] is for many queries at once, prefill; [`decode`] for one query of each sequence,
//! whose keys are in a cache. `work` says what a row is and sees. Shared parts: `rows` for kernels
//! on CUDA cores, `softmax`, `warpgroup` and `tiles` for tensor cores, `cache` for decode. The last
//! rung of both is the library's attention ([`warpfold_kernels::attention`]), which takes every
//! option and keeps one order of the fold: `shipped`.

pub mod decode;
pub mod ladder;

mod cache;
mod decode_instance;
mod element;
mod instance;
mod reference;
mod rows;
mod shipped;
mod softmax;
mod softmax_rows;
mod tiles;
mod warpgroup;
mod work;

pub use cache::CACHE_WORDS;
pub use decode::LADDER as DECODE;
pub use element::AttentionElement;
pub use ladder::LADDER;
pub use softmax_rows::{SoftmaxRows, softmax_rows};
pub use work::WORDS;

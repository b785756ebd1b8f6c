//! Products of matrices with what comes behind them: `c = epilogue(a b)`, for one product or a batch.
//!
//! Contract: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, of any sizes, 0 included, with any strides (so NN, NT, TN
//! and TT are one kernel family); a batch has up to three dimensions, in which a matrix may repeat. A sum of nothing is 0.
//! Sums of `f32` and narrower floats are kept in `f32`, of `f64` in `f64`, of integers in `i32`, which wraps; halves are
//! multiplied exactly and rounded once, at the end. Each sum is a chain of multiply-adds in the order of `k`, or one chain a
//! part and then the parts in order: no float is added by an atomic, and results repeat bit for bit. With
//! [`Rows::Invariant`] the bits of a row depend on that row, `b` and `k` alone.
//!
//! Accuracy: `|error| <= d u / (1 - d u) * sum |a||b|` before the epilogue, with the unit roundoff `u` of the type that is
//! added in and the choice's [`depth`](Choice::depth) `d`. Tensor cores of sm_90 keep about 14 bits of sums of eight-bit floats until a
//! stage ends, where they are added up outside: up to `2^-13 * sum |a||b|` more. The virtual GPU's are exact to `f32`.
//!
//! Start with [`Problem`], [`Epilogue`], [`Matmul`] and [`Choice::new`]. A main loop gives its sums to [`Finish`], which is
//! the same for every one: `simt` is that of ordinary cores, the others are in folders of their own.

mod accumulator;
mod algorithm;
mod choice;
mod cost;
mod epilogue;
mod family;
mod finish;
mod load;
mod main_loop;
mod mma;
mod possible;
mod problem;
mod rates;
mod repack;
mod shipped;
mod simt;
mod split_k_reduce;
mod supply;
mod tile;
mod vector;
mod wgmma;
mod work;

pub use accumulator::Accumulator;
pub use algorithm::Algorithm;
pub use choice::Choice;
pub use epilogue::{Activation, Custom, Epilogue, Function, MAX_INPUTS, MAX_SCALARS, Place, Step};
pub use family::Matmul;
pub use finish::{Ending, Finish, GROUP, Outputs, Position, STRIDES, scalar_words, stride_words};
pub use load::Load;
pub use mma::{MmaConfiguration, MmaTile, Pieces, mma};
pub use problem::{MAX_BATCH_RANK, Matrix, Problem, Rows, Singles};
pub use simt::{Configuration, Simt, simt};
pub use split_k_reduce::{FoldParts, fold_parts};
pub use supply::Along;
pub use tile::Tile;
pub use wgmma::{Lying, Walk, Wgmma, WgmmaConfiguration, WgmmaTile, wgmma};

pub(crate) use choice::{mma_tile, simt_tile, wgmma_tile};
pub(crate) use cost::{LAUNCH_CLOCKS, copy_clocks};
pub(crate) use family::{make_wgmma, no_map, tensor_map, with_ending};
pub(crate) use load::Loader;
pub(crate) use main_loop::Sums;
pub(crate) use mma::{Feed, Ring, Strided, WarpTile};
pub(crate) use rates::ArchRates;
pub(crate) use shipped::kernels;
pub(crate) use simt::{Block, MATRICES, SIZES, size_words};
pub(crate) use supply::{Bring, Supply, Unit, Units};
pub(crate) use work::Bands;

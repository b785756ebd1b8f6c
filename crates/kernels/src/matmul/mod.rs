//! GEMM with an epilogue, for one product or a batch: `c = epilogue(a b)`.
//!
//! Contract: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, of any sizes, 0 included, with
//! any strides (NN, NT, TN and TT are one family); a batch has up to six dimensions, in which a
//! matrix may repeat. A sum of nothing is 0. Sums of `f32` and narrower floats are kept in `f32`,
//! of `f64` in `f64`, of integers in `i32`, which wraps; f16 and bf16 are multiplied exactly and
//! rounded once, at the end. Each sum is a chain of FMAs in the order of `k`, or one chain per part
//! of split-K and then the parts in order: no float is added by an atomic, and results repeat bit
//! for bit. With [`BatchInvariance::On`] the bits of a row depend on that row, `b` and `k` alone.
//!
//! Accuracy: `|error| <= d u / (1 - d u) * sum |a||b|` before the epilogue, with the unit roundoff
//! `u` of the type that is added in and the choice's [`depth`](Choice::depth) `d`. Tensor cores of
//! sm_90 keep about 14 bits of sums of fp8 until a stage ends, where they are added up in `f32`: up
//! to `2^-13 * sum |a||b|` more. The virtual GPU's are exact to `f32`.
//!
//! Start with [`Problem`], [`Epilogue`], [`Matmul`] and [`Choice::new`]. On Hopper, f16, bf16, fp8,
//! int8 and (opt-in) tf32 go to WGMMA fed by TMA (`wgmma/`); from sm_80 on all but fp8 go to
//! `mma.sync` (`mma/`); other types and layouts to CUDA cores (`simt`). Every main loop hands its
//! sums to one epilogue (`epilogue_writer`). One row or column goes to [`gemv`](crate::gemv).

mod accumulator;
mod algorithm;
mod args;
mod choice;
mod cost;
mod eligibility;
mod epilogue;
mod epilogue_writer;
mod family;
mod gate;
mod kernels;
mod load;
mod main_loop;
mod mma;
mod operand_major;
mod problem;
pub mod quantized;
mod rates;
mod repack;
mod simt;
mod split_k_reduce;
mod tile;
mod tile_loader;
mod tile_scheduler;
mod vector;
mod wgmma;

pub(crate) use accumulator::Accumulator;
pub use algorithm::Algorithm;
pub(crate) use args::{EpilogueArgs, ProductSizes, WgmmaArgs};
pub use choice::Choice;
pub use epilogue::{Activation, Epilogue, OutputCoord};
pub(crate) use epilogue_writer::{BatchCoord, EpilogueKey, EpilogueWriter};
pub use family::Matmul;
pub(crate) use load::Load;
pub use mma::MmaTile;
pub(crate) use mma::Pieces;
pub(crate) use operand_major::OperandMajor;
pub use problem::{BatchInvariance, F32Math, Matrix, Problem};
pub(crate) use split_k_reduce::split_k_reduce;
pub use tile::Tile;
pub use wgmma::WgmmaTile;
pub(crate) use wgmma::{Im2col, WgmmaProductConfig, layout as tensor_layout, wgmma};

pub(crate) use choice::{mma_tile, simt_tile, wgmma_tile};
pub(crate) use cost::{LAUNCH_CLOCKS, copy_clocks};
pub(crate) use family::{make_wgmma, tensor_map};
pub(crate) use kernels::kernels;
pub(crate) use load::MatrixLoader;
pub(crate) use main_loop::Sums;
pub(crate) use mma::{Ring, StageLoader, Strided, WarpTile};
pub(crate) use rates::ArchRates;
pub(crate) use simt::Block;
pub(crate) use tile_loader::{LoadUnit, TileLoader, Unit, Units};
pub(crate) use tile_scheduler::TileScheduler;

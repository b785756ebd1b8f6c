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
//! added in and the plan's [`depth`](Plan::depth) `d`.
//!
//! Start with [`Problem`], [`Epilogue`], [`Plan::new`] and [`launch()`]. A main loop gives its sums to [`Finish`], which is
//! the same for every one: `simt` is that of ordinary cores, the others are in folders of their own.

mod accumulator;
mod cost;
mod epilogue;
mod finish;
mod fold_parts;
mod launch;
mod load;
mod plan;
mod problem;
mod simt;
mod tile;

pub use accumulator::Accumulator;
pub use epilogue::{Activation, Custom, Epilogue, Function, MAX_INPUTS, MAX_SCALARS, Place, Step};
pub use finish::{Ending, Finish, GROUP, Outputs, Position, STRIDES, scalar_words, stride_words};
pub use fold_parts::{FoldParts, fold_parts};
pub use launch::{Operands, kernels_of, launch};
pub use load::{Along, Load};
pub use plan::{Code, Plan};
pub use problem::{BATCH_RANK, Matrix, Problem, Rows};
pub use simt::{Configuration, Simt, simt};
pub use tile::Tile;

use warpfold_device::{Device, Profile};

use crate::{AnyKernel, Dtype};

/// Kernels of every tile, of each way to read and of each type that is added in, with their blocks.
pub(crate) fn kernels() -> Vec<(AnyKernel, u32)> {
    let plain = |dtype| Problem::new(dtype, 4096, 4096, 4096);
    let odd = |dtype| Problem::new(dtype, 4095, 4095, 4095);
    let turned = |problem: Problem| {
        let (a, b) = (Matrix::rows(problem.a.dtype, problem.m), Matrix::rows(problem.b.dtype, problem.k));
        Problem { a: a.transposed(), b: b.transposed(), ..problem }
    };
    let layer = Epilogue::new().scale(1.0).add().activate(Activation::Gelu).add_scaled(1.0);
    let with_layer =
        |problem: Problem| Problem { inputs: vec![Matrix { row_stride: 0, ..problem.c }, problem.c], ..problem };
    let none = Epilogue::new;
    let chosen = [
        (plain(Dtype::F32), none(), Tile::LARGE, 1),
        (turned(plain(Dtype::F32)), none(), Tile::LARGE, 1),
        (odd(Dtype::F32), none(), Tile::LARGE, 1),
        (with_layer(plain(Dtype::F32)), layer, Tile::MEDIUM, 1),
        (plain(Dtype::F32), none(), Tile::SMALL, 4),
        (odd(Dtype::Bf16), none(), Tile::MEDIUM, 1),
        (plain(Dtype::F16), none(), Tile::FLAT, 1),
        (plain(Dtype::F64), none(), Tile::MEDIUM, 1),
        (plain(Dtype::I32), none(), Tile::SMALL, 1),
    ];
    let limits = Device::virtual_gpu(Profile::H200);
    chosen
        .into_iter()
        .flat_map(|(problem, epilogue, tile, parts)| {
            let plan = Plan::with(problem, epilogue, limits.limits(), Code::Simt(tile), parts).expect("it is possible");
            let blocks = [tile.threads(), fold_parts::BLOCK];
            kernels_of(&plan).into_iter().zip(blocks).collect::<Vec<_>>()
        })
        .collect()
}

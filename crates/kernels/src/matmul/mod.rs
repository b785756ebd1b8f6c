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
//! added in and the plan's [`depth`](Plan::depth) `d`. Tensor cores of sm_90 keep about 14 bits of sums of eight-bit floats until a
//! stage ends, where they are added up outside: up to `2^-13 * sum |a||b|` more. The virtual GPU's are exact to `f32`.
//!
//! Start with [`Problem`], [`Epilogue`], [`Plan::new`] and [`launch()`]. A main loop gives its sums to [`Finish`], which is
//! the same for every one: `simt` is that of ordinary cores, the others are in folders of their own.

mod accumulator;
mod code;
mod cost;
mod epilogue;
mod finish;
mod fold_parts;
mod launch;
mod load;
mod main_loop;
mod mma;
mod plan;
mod possible;
mod problem;
mod simt;
mod supply;
mod tile;
mod wgmma;
mod work;

pub use accumulator::Accumulator;
pub use code::Code;
pub use epilogue::{Activation, Custom, Epilogue, Function, MAX_INPUTS, MAX_SCALARS, Place, Step};
pub use finish::{Ending, Finish, GROUP, Outputs, Position, STRIDES, scalar_words, stride_words};
pub use fold_parts::{FoldParts, fold_parts};
pub use launch::{Operands, Ready, kernels_of, launch};
pub use load::Load;
pub use mma::{MmaConfiguration, MmaTile, Pieces, mma};
pub use plan::Plan;
pub use problem::{BATCH_RANK, Matrix, Problem, Rows, Singles};
pub use simt::{Configuration, Simt, simt};
pub use supply::Along;
pub use tile::Tile;
pub use wgmma::{Lying, Walk, Wgmma, WgmmaConfiguration, WgmmaTile, wgmma};

pub(crate) use cost::copy_clocks;
pub(crate) use epilogue::check as check_epilogue;
pub(crate) use launch::{ending, make_wgmma, with_ending};
pub(crate) use load::Loader;
pub(crate) use main_loop::Sums;
pub(crate) use mma::{Feed, Ring, Strided, WarpTile};
pub(crate) use plan::{mma_tile, simt_tile, wgmma_tile};
pub(crate) use simt::{Block, MATRICES, SIZES, size_words};
pub(crate) use supply::{Bring, Supply, Unit, Units};
pub(crate) use work::Bands;

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
    let simt = chosen.into_iter().map(|(problem, epilogue, tile, parts)| (problem, epilogue, Code::Simt(tile), parts));
    let limits = Device::virtual_gpu(Profile::H200);
    simt.chain(warp_plans())
        .chain(tensor_plans())
        .flat_map(|(problem, epilogue, code, parts)| {
            let plan = Plan::with(problem, epilogue, limits.limits(), code, parts).expect("it is possible");
            let blocks = [code.threads(), fold_parts::BLOCK];
            kernels_of(&plan).into_iter().zip(blocks).collect::<Vec<_>>()
        })
        .collect()
}

/// A product of factors with steps side by side.
fn of_steps(dtype: Dtype, to: Dtype) -> Problem {
    let b = Matrix::rows(dtype, 4096).transposed();
    let c = Matrix::rows(to, 4096);
    Problem { b, c, singles: Singles::Tf32, ..Problem::new(dtype, 4096, 4096, 4096) }
}

/// One of halves with a whole layer behind it.
fn with_layer() -> (Problem, Epilogue) {
    let halves = of_steps(Dtype::Bf16, Dtype::Bf16);
    let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, 4096) };
    let layer = Epilogue::new().scale(1.0).add().activate(Activation::Gelu).add();
    (Problem { inputs: vec![bias, halves.c], ..halves }, layer)
}

/// What warps multiply: every tile, type, layout and piece.
fn warp_plans() -> Vec<(Problem, Epilogue, Code, u32)> {
    let halves = of_steps(Dtype::Bf16, Dtype::Bf16);
    let turned = Problem { a: halves.b, b: halves.a, ..halves.clone() };
    // Rows whose rest is copied by 4 bytes.
    let (k, row) = (4094, Matrix::rows(Dtype::Bf16, 4094));
    let odd = Problem { k, a: row, b: row.transposed(), ..halves.clone() };
    let (layer, epilogue) = with_layer();
    let none = Epilogue::new;
    let plans = MmaTile::ALL.into_iter().map(|tile| (halves.clone(), none(), tile, 1));
    let others = [
        (turned.clone(), none(), MmaTile::LARGE, 1),
        (turned, none(), MmaTile::FLAT, 1),
        (odd, none(), MmaTile::SMALL, 1),
        (layer, epilogue, MmaTile::LARGE, 1),
        (of_steps(Dtype::F16, Dtype::F32), none(), MmaTile::SMALL, 4),
        (of_steps(Dtype::F32, Dtype::F32), none(), MmaTile::LARGE, 1),
        (of_steps(Dtype::I8, Dtype::I32), none(), MmaTile::LARGE, 1),
        (of_steps(Dtype::U8, Dtype::I32), none(), MmaTile::MEDIUM, 1),
    ];
    plans.chain(others).map(|(problem, epilogue, tile, parts)| (problem, epilogue, Code::Mma(tile), parts)).collect()
}

/// What warpgroups multiply: every tile, type, layout and end.
fn tensor_plans() -> Vec<(Problem, Epilogue, Code, u32)> {
    let of = of_steps;
    let halves = of(Dtype::Bf16, Dtype::Bf16);
    let (with_layer, layer) = with_layer();
    let turned = Problem { a: halves.b, b: halves.a, ..halves.clone() };
    let one = [4096 * 4096, 0, 0];
    let [a, b, c] = [halves.a, halves.b, halves.c].map(|matrix| Matrix { batch_strides: one, ..matrix });
    let batch = Problem { batch: [3, 1, 1], a, b, c, ..halves.clone() };
    let plain = WgmmaTile::ALL.into_iter().map(|tile| (halves.clone(), Epilogue::new(), tile, 1));
    let few = Problem { m: 16, ..halves.clone() };
    let hundred = Problem { m: 128, ..halves.clone() };
    let others = [
        (few.clone(), Epilogue::new(), WgmmaTile::SMALL, 1),
        (few.clone(), Epilogue::new(), WgmmaTile::DEEP, 1),
        (few.clone(), Epilogue::new(), WgmmaTile::DEEP_APART, 1),
        (few.clone(), Epilogue::new(), WgmmaTile { split: 2, ..WgmmaTile::DEEP }, 2),
        (hundred.clone(), Epilogue::new(), WgmmaTile::APART, 1),
        (hundred.clone(), Epilogue::new(), WgmmaTile::APART_NARROW, 1),
        (hundred, Epilogue::new(), WgmmaTile::wave(128, 28_672, 132, 16), 1),
        (with_layer.clone(), layer.clone(), WgmmaTile::LARGE, 1),
        (Problem { c: Matrix::rows(Dtype::F32, 4096), ..with_layer }, layer, WgmmaTile::MEDIUM, 1),
        (turned, Epilogue::new(), WgmmaTile::LARGE, 1),
        (batch, Epilogue::new(), WgmmaTile::LARGE, 1),
        (of(Dtype::F16, Dtype::F32), Epilogue::new(), WgmmaTile::FLAT, 4),
        (of(Dtype::F32, Dtype::F32), Epilogue::new(), WgmmaTile::LARGE, 1),
        (of(Dtype::F8E4M3, Dtype::Bf16), Epilogue::new(), WgmmaTile::MEDIUM, 1),
        (of(Dtype::F8E4M3, Dtype::Bf16), Epilogue::new(), WgmmaTile::WIDE, 1),
        (of(Dtype::F8E5M2, Dtype::F32), Epilogue::new(), WgmmaTile::FLAT, 1),
        (of(Dtype::I8, Dtype::I32), Epilogue::new(), WgmmaTile::LARGE, 1),
        (of(Dtype::U8, Dtype::I32), Epilogue::new(), WgmmaTile::SMALL, 1),
    ];
    let code = |(problem, epilogue, tile, parts)| (problem, epilogue, Code::Wgmma(tile), parts);
    let turned = [1, 2].map(|split| (few.clone(), Epilogue::new(), Code::Turned(WgmmaTile::turned(16, split)), split));
    plain.chain(others).map(code).chain(turned).collect()
}

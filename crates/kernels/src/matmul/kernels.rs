//! One kernel of every tile, layout and type, for the list of all kernels.

use super::quantized;
use super::{
    Activation, Algorithm, BatchInvariance, Choice, Epilogue, F32Math, Matmul, Matrix, MmaTile, Problem, Tile,
    WgmmaTile,
};
use crate::{Dtype, Shipped};

/// The kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    let choices = [simt_choices(), mma_choices(), wgmma_choices()].concat();
    let products = Shipped::of_plans(|planner| {
        let plan = |(problem, algorithm, parts)| {
            let choice = Choice::with(problem, planner.target.arch, planner.limits, algorithm, parts);
            Matmul.plan_with(&choice?, planner)
        };
        choices.into_iter().map(plan).collect()
    });
    products.into_iter().chain(quantized::shipped()).collect()
}

/// A product of factors with steps side by side.
fn of_steps(dtype: Dtype, to: Dtype) -> Problem {
    let b = Matrix::rows(dtype, 4096).transposed();
    let c = Matrix::rows(to, 4096);
    Problem { b, c, f32_math: F32Math::Tf32, ..Problem::new(dtype, 4096, 4096, 4096) }
}

/// One of halves with a whole layer as its epilogue.
fn with_layer() -> Problem {
    let halves = of_steps(Dtype::Bf16, Dtype::Bf16);
    let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, 4096) };
    let epilogue = Epilogue::new().scale(1.0).add().activate(Activation::Gelu).add();
    Problem { inputs: vec![bias, halves.c], epilogue, ..halves }
}

/// The same with a gate.
fn gated(problem: Problem) -> Problem {
    let epilogue = Epilogue::new().gate(Activation::Silu);
    Problem { c: Matrix::rows(problem.c.dtype, problem.n / 2), epilogue, ..problem }
}

/// Of CUDA cores.
fn simt_choices() -> Vec<(Problem, Algorithm, u32)> {
    let plain = |dtype| Problem::new(dtype, 4096, 4096, 4096);
    let odd = |dtype| Problem::new(dtype, 4095, 4095, 4095);
    let turned = |problem: Problem| {
        let (a, b) = (Matrix::rows(problem.a.dtype, problem.m), Matrix::rows(problem.b.dtype, problem.k));
        Problem { a: a.transposed(), b: b.transposed(), ..problem }
    };
    let epilogue = Epilogue::new().scale(1.0).add().activate(Activation::Gelu).add_scaled(1.0);
    let with_layer = |problem: Problem| Problem {
        inputs: vec![Matrix { row_stride: 0, ..problem.c }, problem.c],
        epilogue,
        ..problem
    };
    let chosen = [
        (plain(Dtype::F32), Tile::LARGE, 1),
        (turned(plain(Dtype::F32)), Tile::LARGE, 1),
        (odd(Dtype::F32), Tile::LARGE, 1),
        (with_layer(plain(Dtype::F32)), Tile::MEDIUM, 1),
        (plain(Dtype::F32), Tile::SMALL, 4),
        (odd(Dtype::Bf16), Tile::MEDIUM, 1),
        (plain(Dtype::F16), Tile::FLAT, 1),
        (plain(Dtype::F64), Tile::MEDIUM, 1),
        (plain(Dtype::I32), Tile::SMALL, 1),
        (plain(Dtype::I64), Tile::SMALL, 1),
    ];
    chosen.into_iter().map(|(problem, tile, parts)| (problem, Algorithm::Simt(tile), parts)).collect()
}

/// What `mma.sync` multiplies: every tile, type, layout and piece.
fn mma_choices() -> Vec<(Problem, Algorithm, u32)> {
    let halves = of_steps(Dtype::Bf16, Dtype::Bf16);
    let turned = Problem { a: halves.b, b: halves.a, ..halves.clone() };
    // Rows whose rest is copied by 4 bytes.
    let (k, row) = (4094, Matrix::rows(Dtype::Bf16, 4094));
    let odd = Problem { k, a: row, b: row.transposed(), ..halves.clone() };
    let plain = MmaTile::ALL.into_iter().map(|tile| (halves.clone(), tile, 1));
    let others = [
        (turned.clone(), MmaTile::LARGE, 1),
        (turned, MmaTile::FLAT, 1),
        (odd, MmaTile::SMALL, 1),
        (with_layer(), MmaTile::LARGE, 1),
        (of_steps(Dtype::F16, Dtype::F32), MmaTile::SMALL, 4),
        (of_steps(Dtype::F32, Dtype::F32), MmaTile::LARGE, 1),
        (of_steps(Dtype::I8, Dtype::I32), MmaTile::LARGE, 1),
        (of_steps(Dtype::U8, Dtype::I32), MmaTile::MEDIUM, 1),
    ];
    plain.chain(others).map(|(problem, tile, parts)| (problem, Algorithm::Mma(tile), parts)).collect()
}

/// What WGMMA multiplies: every tile, type, layout and end.
fn wgmma_choices() -> Vec<(Problem, Algorithm, u32)> {
    let of = of_steps;
    let halves = of(Dtype::Bf16, Dtype::Bf16);
    let turned = Problem { a: halves.b, b: halves.a, ..halves.clone() };
    let [a, b, c] = [halves.a, halves.b, halves.c].map(|matrix| matrix.in_batch([4096 * 4096, 0, 0]));
    let batch = Problem { a, b, c, ..halves.clone() }.in_batch([3, 1, 1]);
    let plain = WgmmaTile::ALL.into_iter().map(|tile| (halves.clone(), tile, 1));
    let few = Problem { m: 16, ..halves.clone() };
    let hundred = Problem { m: 128, ..halves.clone() };
    let others = [
        (few.clone(), WgmmaTile::SMALL, 1),
        (few.clone(), WgmmaTile::DEEP, 1),
        (few.clone(), WgmmaTile::DEEP_APART, 1),
        (few.clone(), WgmmaTile { split: 2, ..WgmmaTile::DEEP }, 2),
        (hundred.clone(), WgmmaTile::APART, 1),
        (hundred.clone(), WgmmaTile::APART_NARROW, 1),
        (gated(halves.clone()), WgmmaTile::LARGE, 1),
        (gated(few.clone()), WgmmaTile::DEEP, 1),
        (gated(hundred.clone()), WgmmaTile::wave(128, 28_672, 132, 32), 1),
        (hundred.clone(), WgmmaTile::wave(128, 28_672, 132, 16), 1),
        (Problem { m: 1, weights: true, ..halves.clone() }, WgmmaTile::few_rows([4096, 4096, 4096], 2, 132, 8), 1),
        (Problem { weights: true, ..hundred }, WgmmaTile::PAIR, 1),
        (
            gated(Problem { m: 8, weights: true, ..halves.clone() }),
            WgmmaTile::few_rows([6144, 1024, 1024], 2, 132, 16),
            1,
        ),
        (with_layer(), WgmmaTile::LARGE, 1),
        (Problem { c: Matrix::rows(Dtype::F32, 4096), ..with_layer() }, WgmmaTile::MEDIUM, 1),
        (turned, WgmmaTile::LARGE, 1),
        (batch, WgmmaTile::LARGE, 1),
        (of(Dtype::F16, Dtype::F32), WgmmaTile::FLAT, 4),
        (of(Dtype::F32, Dtype::F32), WgmmaTile::LARGE, 1),
        (of(Dtype::F8E4M3, Dtype::Bf16), WgmmaTile::MEDIUM, 1),
        (of(Dtype::F8E4M3, Dtype::Bf16), WgmmaTile::WIDE, 1),
        (of(Dtype::F8E5M2, Dtype::F32), WgmmaTile::FLAT, 1),
        (of(Dtype::I8, Dtype::I32), WgmmaTile::LARGE, 1),
        (of(Dtype::U8, Dtype::I32), WgmmaTile::SMALL, 1),
    ];
    let tree = |k_parts| Problem { batch_invariance: BatchInvariance::On, k_parts, ..halves.clone() };
    let layer = Problem { batch_invariance: BatchInvariance::On, k_parts: 8, ..with_layer() };
    let of_trees = [
        (tree(8), WgmmaTile::ALONE_TREE, 1),
        (layer, WgmmaTile::ALONE_TREE, 1),
        (tree(4), WgmmaTile::ALONE, 1),
        (tree(8), WgmmaTile::SHARED_TREE, 2),
        (Problem { m: 1, weights: true, ..tree(8) }, WgmmaTile::few_rows([4096, 512, 4096], 2, 132, 8), 1),
    ];
    let tiles =
        plain.chain(others).chain(of_trees).map(|(problem, tile, parts)| (problem, Algorithm::Wgmma(tile), parts));
    let turned = [1, 2].map(|split| (few.clone(), Algorithm::SwapAb(WgmmaTile::swap_ab(16, split)), split));
    tiles.chain(turned).collect()
}

//! Convolution of images with filters:
//! `y[i, f, p, q] = sum over c, r, s of x[i, c, p u - a + r d, q v - b + s e] w[f, c, r, s]` with
//! strides `u, v`, padding `a, b` (zeros) and dilations `d, e`; each group of filters sees its
//! group of channels.
//!
//! Contract: any sizes, NCHW or NHWC ([`Layout`]), floats of 16 to 64 bits. Sums are kept in `f32`
//! (`f64` for `f64`), one chain over the elements of a filter in the order of the kernel, rounded
//! once after the [`Epilogue`]. Results repeat bit for bit.
//!
//! Accuracy: that of [`matmul`](crate::matmul) with a depth of channels times the filter's size.
//!
//! Start with [`Problem`], [`Conv`] and [`Choice::new`]. A convolution is an implicit GEMM of
//! filters and pixels. On CUDA cores:
//! - `direct`: a thread per output, for groups of few filters;
//! - `implicit`: the main loop of `matmul` with a tile loader that gathers from the image;
//! - `planes`: the same for NCHW with many channels, over one element of the filters after the
//!   other;
//! - `patches`: few channels are loaded to shared memory once for all elements of the filters;
//!
//! and on tensor cores, for f16, bf16 and tf32
//! - `mma`: by `mma.sync`, for NHWC;
//! - `wgmma`: by WGMMA, fed by TMA in im2col mode; images and filters that it cannot gather are
//!   repacked first (`repack/`) (`tensor_core_layout`).
//!
//! The ladder `conv` of the crate `warpfold-ladders` shows the way there.

mod args;
mod catalogue;
mod choice;
mod direct;
mod family;
mod gather;
mod geometry;
mod implicit;
mod mma;
mod patch_tile;
mod patches;
mod planes;
mod problem;
mod tensor_core_layout;
mod wgmma;

pub use catalogue::PROBLEMS;
pub use choice::{Algorithm, Choice};
pub use family::Conv;
pub(crate) use geometry::Order;
pub use patch_tile::PatchTile;
pub use problem::{Layout, Problem, Window};

use crate::matmul::{Activation, Epilogue, F32Math, MmaTile, Tile, WgmmaTile};
use crate::plan::Family;
use crate::{Dtype, Shipped};

/// Kernels of both kinds and layouts.
pub(crate) fn kernels() -> Vec<Shipped> {
    let window = |padding| Window { stride: [2, 2], padding: [padding; 2], dilation: [1, 1] };
    let problem = |dtype, layout, channels, groups| Problem {
        dtype,
        result: dtype,
        layout,
        images: 16,
        channels,
        size: [56, 56],
        filters: 128,
        filter: [3, 3],
        groups,
        window: window(1),
        f32_math: F32Math::Ieee,
        epilogue: Epilogue::new().add().activate(Activation::Relu),
    };
    let tf32 = |problem| Problem { f32_math: F32Math::Tf32, ..problem };
    let chosen = [
        problem(Dtype::F32, Layout::Nchw, 3, 1),
        problem(Dtype::F32, Layout::Nhwc, 64, 1),
        problem(Dtype::F32, Layout::Nchw, 20, 1),
        problem(Dtype::Bf16, Layout::Nchw, 64, 1),
        problem(Dtype::F32, Layout::Nchw, 128, 128),
        problem(Dtype::F16, Layout::Nhwc, 128, 128),
        problem(Dtype::Bf16, Layout::Nhwc, 64, 1),
    ];
    let told = [
        (problem(Dtype::F32, Layout::Nchw, 64, 1), Algorithm::Planes(Tile::LARGE)),
        (problem(Dtype::F32, Layout::Nchw, 3, 1), Algorithm::Patches(PatchTile::WIDE)),
        (problem(Dtype::Bf16, Layout::Nhwc, 3, 1), Algorithm::Patches(PatchTile::BEHIND)),
        (problem(Dtype::Bf16, Layout::Nhwc, 64, 1), Algorithm::Mma(MmaTile::MEDIUM)),
        (problem(Dtype::F16, Layout::Nhwc, 12, 2), Algorithm::Mma(MmaTile::SMALL)),
        (tf32(problem(Dtype::F32, Layout::Nhwc, 3, 1)), Algorithm::Mma(MmaTile::SMALL)),
        (problem(Dtype::F16, Layout::Nhwc, 72, 1), Algorithm::Wgmma(WgmmaTile::ALONE)),
        (problem(Dtype::Bf16, Layout::Nhwc, 3, 1), Algorithm::Wgmma(WgmmaTile::NARROW)),
        (tf32(problem(Dtype::F32, Layout::Nhwc, 16, 1)), Algorithm::Wgmma(WgmmaTile::SMALL)),
        (tf32(problem(Dtype::F32, Layout::Nchw, 20, 1)), Algorithm::Wgmma(WgmmaTile::FLAT)),
    ];
    Shipped::of_plans(|planner| {
        let told = told.into_iter().map(|(problem, algorithm)| {
            Ok(Conv.plan_with(&Choice::with(problem, planner.limits, algorithm)?, planner))
        });
        chosen.iter().map(|problem| Conv.plan(problem, planner)).chain(told).collect()
    })
}

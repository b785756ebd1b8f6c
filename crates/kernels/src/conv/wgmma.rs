//! Implicit GEMM on tensor cores by WGMMA (sm_90a): the kernel of `matmul`, whose left factor TMA
//! gathers from the images in im2col mode.
//!
//! Pixels of all images are M, filters are N. K are the elements of a filter, each in stages of its
//! channels; TMA fills what is outside the image, or after its channels, with zeros.
//! [`TensorCoreLayout`] says which layout that needs, and whether images and filters are repacked
//! first.

use warpfold_device::{LaunchConfig, Limits, MapMode, MapSwizzle, TensorLayout};
use warpfold_lang::Arch;

use super::problem::{Layout, Problem};
use super::tensor_core_layout::TensorCoreLayout;
use crate::matmul::{
    self, ArchRates, EpilogueKey, F32Math, Im2col, Matrix, OperandMajor, WgmmaArgs, WgmmaProductConfig, WgmmaTile,
};
use crate::plan::{Operand, Planner, Step};
use crate::{Dtype, Error};

/// Whether tensor cores can do it: halves, or f32 in tf32, in one group, and a window that a copy
/// can walk (CUDA driver API, `cuTensorMapEncodeIm2col`; PTX ISA, "Im2col mode").
pub(super) fn is_possible(problem: &Problem, limits: &Limits) -> bool {
    let Problem { dtype, f32_math, images, channels, filters, filter, groups, window, .. } = *problem;
    let corners = [0, 1].map(|i| {
        let reach = (filter[i].max(1) - 1) as i64 * i64::from(window.dilation[i]);
        let padding = i64::from(window.padding[i]);
        let is_corner = |offset: i64| (-128..128).contains(&offset);
        is_corner(-padding) && is_corner(padding - reach) && reach <= 255
    });
    let is_type = match dtype {
        Dtype::F16 | Dtype::Bf16 => true,
        Dtype::F32 => f32_math == F32Math::Tf32,
        _ => false,
    };
    let has_products = images > 0 && channels > 0 && filters > 0;
    limits.has_wgmma
        && is_type
        && groups == 1
        && window.stride.into_iter().all(|stride| stride <= 8)
        && corners.into_iter().all(|is_fine| is_fine)
        && has_products
        && images * problem.num_pixels() < 1 << 31
        // Planes are found by counting results.
        && (problem.layout == Layout::Nhwc || problem.num_results() < 1 << 32)
        && TensorCoreLayout::of(problem).pixels().into_iter().all(|pixels| pixels < 1 << 31)
}

/// The product that the kernel computes: pixels of all images times filters, over the channels of
/// each stage of each element of a filter. Rows of a result of planes count its pixels image by
/// image, which its strides do not say.
pub(super) fn product(problem: &Problem) -> matmul::Problem {
    let Problem { result, layout, images, filters, .. } = *problem;
    let m = images * problem.num_pixels();
    let k = TensorCoreLayout::of(problem).depth();
    let whole = match layout {
        Layout::Nhwc => Matrix::rows(result, filters),
        Layout::Nchw => {
            Matrix { row_stride: 1, column_stride: problem.num_pixels() as i64, ..Matrix::rows(result, filters) }
        }
    };
    let bias = Matrix { row_stride: 0, column_stride: 1, ..whole };
    problem.product_of([m, filters, k], whole, bias)
}

/// The tile that the cost model takes, and the clocks of all launches.
pub(super) fn choice(problem: &Problem, arch: Arch, limits: &Limits) -> Result<(f64, WgmmaTile), Error> {
    let tc_layout = TensorCoreLayout::of(problem);
    let bytes = tc_layout.bytes().into_iter().sum();
    let (clocks, tile) = matmul::wgmma_tile(&product(problem), bytes, arch, limits)?;
    let rows = problem.images * problem.num_pixels() * tc_layout.filter()[0] * tc_layout.stages();
    let rows = rows.div_ceil(limits.num_sms.max(1).into()) as f64;
    // Rows that overlap wait for the unit that copies: 8.4 to 13 clocks each of halves and 12.5 to
    // 15.5 of f32, at the four problems of three channels in the catalogue (H200, driver 580,
    // 2026-11-20).
    let of_row = if tc_layout.is_merged() { 5.0 + 2.0 * problem.dtype.bytes() as f64 } else { 0.0 };
    let clocks = clocks.max(rows * of_row);
    Ok((clocks + if tc_layout.needs_repack() { matmul::copy_clocks(bytes, ArchRates::of(arch)) } else { 0.0 }, tile))
}

pub(super) fn kernel_config(problem: &Problem, tile: WgmmaTile) -> WgmmaProductConfig {
    let Problem { dtype, result, layout, filters, window, .. } = *problem;
    let is_copied = layout == Layout::Nhwc && matches!(result, Dtype::F16 | Dtype::Bf16) && filters.is_multiple_of(8);
    let tc_layout = TensorCoreLayout::of(problem);
    let of_rows = |walk: [u32; 2], across: u32| [walk[0], if tc_layout.is_merged() { across } else { walk[1] }];
    WgmmaProductConfig {
        dtype,
        tile,
        majors: [OperandMajor::K; 2],
        is_batch: false,
        is_ragged: false,
        copied: is_copied.then_some(result),
        is_promoted: false,
        im2col: Some(Im2col {
            row_bytes: tc_layout.row_bytes(),
            stages_of_channels: tc_layout.stages() as u32,
            filter_width: tc_layout.filter()[1] as u32,
            stride: of_rows(window.stride, 1),
            padding: of_rows(window.padding, 0),
            dilation: of_rows(window.dilation, 1),
            has_planes: layout == Layout::Nchw,
        }),
        rows: tile.rows(),
        read_once: [false; 2],
        parts: 1,
        weights: false,
        epilogue: EpilogueKey::new(&product(problem)),
    }
}

/// The images' map: a pixel's channels of a stage for each row of a tile.
fn images_map(problem: &Problem, tile: WgmmaTile) -> TensorLayout {
    let Problem { images, size: [height, _], window, .. } = *problem;
    let tc_layout = TensorCoreLayout::of(problem);
    let walk = |i: usize, padding: u32| {
        let reach = (tc_layout.filter()[i] as i32 - 1) * window.dilation[i] as i32;
        (-(padding as i32), padding as i32 - reach)
    };
    let (down, across) = (walk(0, window.padding[0]), walk(1, window.padding[1]));
    let across = if tc_layout.is_merged() { (0, 0) } else { across };
    let pitch = tc_layout.width() * tc_layout.channels();
    // Where a row of the filter is one pixel, its pixels overlap.
    let (width, step, stride) = match tc_layout.is_merged() {
        true => (problem.result_size()[1], u64::from(window.stride[1]) * tc_layout.channels(), 1),
        false => (tc_layout.width(), tc_layout.channels(), window.stride[1]),
    };
    let elements = tc_layout.row_bytes() / problem.dtype.bytes() as u32;
    TensorLayout {
        mode: MapMode::Im2col {
            lower: vec![across.0, down.0],
            upper: vec![across.1, down.1],
            channels_per_pixel: elements,
            pixels_per_column: tile.rows(),
        },
        element_strides: vec![1, stride, window.stride[0], 1],
        ..TensorLayout::tiled(
            &[tc_layout.line(), width, height, images],
            &[step, pitch, height * pitch],
            &[1; 4],
            swizzle(tc_layout.row_bytes()),
        )
    }
}

/// The filters' map: channels of a stage, one element, as many filters as a block copies.
fn filters_map(problem: &Problem, tile: WgmmaTile) -> TensorLayout {
    let tc_layout = TensorCoreLayout::of(problem);
    let [rows, columns] = tc_layout.filter();
    let elements = rows * columns;
    let boxes = [tc_layout.row_bytes() / problem.dtype.bytes() as u32, 1, tile.copied_columns()];
    let strides = [tc_layout.filter_pitch(), elements * tc_layout.filter_pitch()];
    TensorLayout::tiled(
        &[tc_layout.line(), elements, problem.filters],
        &strides,
        &boxes,
        swizzle(tc_layout.row_bytes()),
    )
}

fn swizzle(row_bytes: u32) -> MapSwizzle {
    match row_bytes {
        32 => MapSwizzle::Bytes32,
        64 => MapSwizzle::Bytes64,
        _ => MapSwizzle::Bytes128,
    }
}

/// The step that convolves images with filters.
pub(super) fn step(
    problem: &Problem,
    tile: WgmmaTile,
    config: LaunchConfig,
    tensors: [Operand; 2],
    inputs: &[Operand],
    planner: &Planner<'_>,
) -> Result<Step, Error> {
    let ([images, filters], product, kernel) = (tensors, product(problem), kernel_config(problem, tile));
    let rows = || TensorLayout::matrix(product.m, product.n, product.n, 64, 64, MapSwizzle::Bytes128);
    let [height, width] = problem.result_size().map(|size| size as i64);
    let args = WgmmaArgs {
        a: matmul::tensor_map(images, images_map(problem, tile), problem.dtype),
        b: matmul::tensor_map(filters, filters_map(problem, tile), problem.dtype),
        c: kernel.copied.map(|dtype| matmul::tensor_map(Operand::Output(0), rows(), dtype)),
        sizes: product.sizes(product.k, 1),
        batch_a: [0; 3],
        batch_b: [0; 3],
        part_stride: 0,
        height,
        width,
        end: product.end(Operand::Output(0), inputs),
    };
    Step::new(planner.kernel(kernel, matmul::make_wgmma), config).with(args)
}

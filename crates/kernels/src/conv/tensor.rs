//! Convolution on tensor cores (sm_90a): the kernel for warpgroups of `matmul`, whose left factor a copy in im2col mode
//! gathers from the images.
//!
//! Pixels of all images are rows of the product, filters its columns. Steps of the sums are the filter's elements, each in
//! stages of 64 channels; what lies beside an image or behind its channels the copy fills with zeros.

use warpfold_device::{Arguments, Limits, MapMode, MapSwizzle, TensorLayout, View, ViewMut};

use half::bf16;

use super::problem::{Layout, Problem};
use crate::matmul::{self, BATCH_RANK, Ending, Epilogue, Lying, MATRICES, Matrix, Walk, WgmmaConfiguration, WgmmaTile};
use crate::{Dtype, Error};

/// Channels of a stage: halves in 128 bytes.
const CHANNELS: u64 = 64;

/// Whether tensor cores can do it: halves with the channels last, in one group, and a window that a copy can walk (CUDA
/// driver API, `cuTensorMapEncodeIm2col`; PTX ISA, "Im2col mode").
pub(super) fn is_possible(problem: &Problem, limits: &Limits) -> bool {
    let Problem { dtype, layout, images, channels, filters, filter, groups, window, .. } = *problem;
    let corners = [0, 1].map(|i| {
        let reach = (filter[i].max(1) - 1) as i64 * i64::from(window.dilation[i]);
        let padding = i64::from(window.padding[i]);
        let is_corner = |offset: i64| (-128..128).contains(&offset);
        is_corner(-padding) && is_corner(padding - reach) && reach <= 255
    });
    let has_products = images > 0 && channels > 0 && filters > 0;
    limits.has_wgmma
        && matches!(dtype, Dtype::F16 | Dtype::Bf16)
        && layout == Layout::Nhwc
        && groups == 1
        && channels.is_multiple_of(8)
        && window.stride.into_iter().all(|stride| stride <= 8)
        && corners.into_iter().all(|is_fine| is_fine)
        && has_products
        && images * problem.num_pixels() < 1 << 31
}

/// The product that the kernel computes: pixels of all images times filters, over the channels of each stage of each element
/// of a filter.
pub(super) fn product(problem: &Problem) -> matmul::Problem {
    let Problem { dtype, result, images, channels, filters, filter, .. } = *problem;
    let m = images * problem.num_pixels();
    let k = filter[0] * filter[1] * channels.div_ceil(CHANNELS) * CHANNELS;
    let whole = Matrix::rows(result, filters);
    let inputs = [Matrix { row_stride: 0, ..whole }, whole][..problem.num_inputs].to_vec();
    matmul::Problem { c: whole, inputs, ..matmul::Problem::new(dtype, m, filters, k) }
}

pub(super) fn configuration(problem: &Problem, epilogue: &Epilogue, tile: WgmmaTile) -> WgmmaConfiguration {
    let Problem { dtype, result, channels, filters, filter, window, .. } = *problem;
    let is_copied = matches!(result, Dtype::F16 | Dtype::Bf16) && filters.is_multiple_of(8);
    WgmmaConfiguration {
        dtype,
        tile,
        lying: [Lying::Steps; 2],
        is_batch: false,
        copied: is_copied.then_some(result),
        is_promoted: false,
        walk: Some(Walk {
            stages_of_channels: channels.div_ceil(CHANNELS) as u32,
            filter_width: filter[1] as u32,
            stride: window.stride,
            padding: window.padding,
            dilation: window.dilation,
        }),
        rows: tile.rows(),
        ending: Ending::new(&product(problem), epilogue),
    }
}

/// The images' map: a pixel's channels of a stage for each row of a tile.
fn images_map(problem: &Problem, tile: WgmmaTile) -> TensorLayout {
    let Problem { images, channels, size: [height, width], filter, window, .. } = *problem;
    let lower = [1, 0].map(|i| -(window.padding[i] as i32));
    let upper = [1, 0].map(|i| window.padding[i] as i32 - (filter[i] as i32 - 1) * window.dilation[i] as i32);
    TensorLayout {
        mode: MapMode::Im2col {
            lower: lower.to_vec(),
            upper: upper.to_vec(),
            channels_per_pixel: CHANNELS as u32,
            pixels_per_column: tile.rows(),
        },
        element_strides: vec![1, window.stride[1], window.stride[0], 1],
        ..TensorLayout::tiled(
            &[channels, width, height, images],
            &[channels, width * channels, height * width * channels],
            &[1; 4],
            MapSwizzle::Bytes128,
        )
    }
}

/// The filters' map: channels of a stage, one element, as many filters as a block copies.
fn filters_map(problem: &Problem, tile: WgmmaTile) -> TensorLayout {
    let Problem { channels, filters, filter, .. } = *problem;
    let elements = filter[0] * filter[1];
    let boxes = [CHANNELS as u32, 1, tile.columns / tile.cluster];
    let strides = [channels, elements * channels];
    TensorLayout::tiled(&[channels, elements, filters], &strides, &boxes, MapSwizzle::Bytes128)
}

/// The maps, sizes and strides that the kernel takes.
pub(super) fn arguments<'a>(
    problem: &Problem,
    tile: WgmmaTile,
    [images, filters]: [&View<'a, u8>; 2],
    result: &mut ViewMut<'_, u8>,
    is_copied: bool,
) -> Result<Arguments<'a>, Error> {
    let product = product(problem);
    let arguments = Arguments::new()
        .tensor_map(&images.tensor_map_of::<bf16>(0, &images_map(problem, tile))?)
        .tensor_map(&filters.tensor_map_of::<bf16>(0, &filters_map(problem, tile))?);
    let arguments = if is_copied {
        let rows = TensorLayout::matrix(product.m, product.n, product.n, 64, CHANNELS as u32, MapSwizzle::Bytes128);
        // The launch holds the result's memory as another argument.
        arguments.raw(result.reborrow().into_tensor_map_of::<bf16>(0, &rows)?.bytes(), 64)
    } else {
        arguments.raw(&[0; 128], 64)
    };
    let sizes: Vec<u8> =
        matmul::size_words(&product, product.k, 1).iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut words = [0_i64; MATRICES];
    for (word, size) in words.iter_mut().zip(problem.result_size()) {
        *word = size as i64;
    }
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    const { assert!(BATCH_RANK > 0, "the words have room for the result's height and width") };
    Ok(arguments.raw(&sizes, 4).raw(&words, 8))
}

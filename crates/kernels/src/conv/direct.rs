//! Direct convolution, a thread per output: for groups of few filters, whose products fill no tile.

use warpfold_lang::{Array, Global, Val, block_idx, kernel, range, thread_idx, var, wait_for_dependencies, when};

use super::gather::Image;
use super::geometry::{Geometry, Order, Tap};
use super::implicit::{Convolution, IMAGE, TENSORS};
use crate::Dtype;
use crate::elements;
use crate::matmul::{
    Accumulator, BatchCoord, EpilogueKey, EpilogueOperands, EpilogueWriter, MAX_INPUTS, MAX_SCALARS, SIZES, STRIDES,
};

/// Threads of a block.
pub(super) const BLOCK: u32 = 256;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    /// Filters of a group.
    pub(super) filters: u32,
    pub(super) epilogue: EpilogueKey,
}

/// Each thread computes one element of the result: neighbours in memory, so neighbours in a warp.
pub(super) fn direct<A: Accumulator>(configuration: &Config) -> Convolution {
    let Config { dtype, geometry, filters: filters_of_group, epilogue } = configuration.clone();
    let name = format!("conv_direct_{dtype}_{}_f{filters_of_group}_{}", geometry.key(), epilogue.key());
    let body = move |images: Global<u8>,
                     filters: Global<u8>,
                     sizes: Array<u32, SIZES>,
                     image: Array<u32, IMAGE>,
                     strides: Array<i64, TENSORS>,
                     result: Global<u8>,
                     inputs: [Global<u8>; MAX_INPUTS],
                     ends: Array<i64, STRIDES>,
                     scalars: Array<f64, MAX_SCALARS>| {
        wait_for_dependencies();
        // Roles
        let (m, n) = (sizes.at(0), sizes.at(1));
        let element = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        let of_image = m.mul_wide(n);
        let image_idx = element / of_image;
        when(image_idx.lt(sizes.at(6).cast::<u64>()), || {
            let place = (element - image_idx * of_image).cast::<u32>();
            let row = place / n;
            let column = place - row * n;
            let is_first = geometry.order == Order::ChannelsFirst;
            let (filter, pixel) = if is_first { (row, column) } else { (column, row) };
            let bytes = dtype.bytes() as i64;
            let group = (filter / filters_of_group).cast::<i64>();
            let corner = geometry.corner(pixel, image.at(2));
            let image = Image {
                dtype,
                geometry,
                first: images.at((group * strides.at(0) + image_idx.cast::<i64>() * strides.at(1)) * bytes),
                strides: [2, 3, 4].map(|word| strides.at(word).cast()),
                size: [image.at(0), image.at(1)],
            };
            let weights = filters.at(filter.cast::<i64>() * strides.at(6) * bytes);
            // Main loop
            let sum = var::<A>(Val::constant(A::ZERO));
            let add = |l: Val<u32>, tap: Tap| {
                let pixel = image.get::<A>(corner, tap, None, 1)[0];
                let weight = elements::load::<A, _>(dtype, weights.at(l * bytes as u32), 1, false)[0];
                sum.update(|sum| pixel.mul_add(weight, sum));
            };
            range(0_u32, geometry.depth(), 1_u32, |l| add(l, geometry.tap(l)));
            // Epilogue
            let outputs = EpilogueOperands { result, inputs, strides: ends, scalars };
            let flat = image_idx.cast::<u32>();
            let position = BatchCoord { flat, each: [Val::constant(0), flat, Val::constant(0)] };
            EpilogueWriter::<A>::new(&epilogue, outputs, [m, n], position).store_inside(&[sum.get()], row, column);
        });
    };
    kernel(name, body).required_block(BLOCK)
}

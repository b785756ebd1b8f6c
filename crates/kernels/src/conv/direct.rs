//! Direct convolution, a thread per output: for groups of few filters, whose products fill no tile.

use warpfold_lang::{Val, block_idx, kernel, range, thread_idx, var, wait_for_dependencies, when};

use super::args::{ConvArgs, Convolution};
use super::gather::Image;
use super::geometry::{Geometry, Order, Tap};
use crate::Dtype;
use crate::elements;
use crate::matmul::{Accumulator, BatchCoord, EpilogueKey, EpilogueWriter};

/// Threads of a block.
pub(super) const BLOCK: u32 = 256;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DirectConfig {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    /// Filters of a group.
    pub(super) filters: u32,
    pub(super) epilogue: EpilogueKey,
}

/// Each thread computes one element of the result: neighbours in memory, so neighbours in a warp.
pub(super) fn direct<A: Accumulator>(config: &DirectConfig) -> Convolution {
    let DirectConfig { dtype, geometry, filters: filters_of_group, epilogue } = config.clone();
    let name = format!("conv_direct_{dtype}_{}_f{filters_of_group}_{}", geometry.key(), epilogue.key());
    let body = move |args: ConvArgs| {
        wait_for_dependencies();
        // Roles
        let [m, n] = args.lines();
        let element = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        let of_image = m.mul_wide(n);
        let image_idx = element / of_image;
        when(image_idx.lt(args.images.size(0).cast::<u64>()), || {
            let place = (element - image_idx * of_image).cast::<u32>();
            let row = place / n;
            let column = place - row * n;
            let is_first = geometry.order == Order::ChannelsFirst;
            let (filter, pixel) = if is_first { (row, column) } else { (column, row) };
            let bytes = dtype.bytes() as i64;
            let group = (filter / filters_of_group).cast::<i64>();
            let corner = geometry.corner(pixel, args.result_width);
            let image = Image {
                dtype,
                geometry,
                first: args.images.base().at(args.image(group, image_idx.cast::<i64>()) * bytes),
                strides: args.steps(),
                size: [2, 3].map(|dim| args.images.size(dim)),
            };
            let weights = args.filters.at(dtype.bytes(), [filter]);
            // Main loop
            let sum = var::<A>(Val::constant(A::ZERO));
            let add = |l: Val<u32>, tap: Tap| {
                let pixel = image.get::<A>(corner, tap, None, 1)[0];
                let weight = elements::load::<A, _>(dtype, weights.at(l * bytes as u32), 1, false)[0];
                sum.update(|sum| pixel.mul_add(weight, sum));
            };
            range(0_u32, geometry.depth(), 1_u32, |l| add(l, geometry.tap(l)));
            // Epilogue
            let flat = image_idx.cast::<u32>();
            let position = BatchCoord { flat, each: [Val::constant(0), flat, Val::constant(0)] };
            EpilogueWriter::<A>::new(&epilogue, args.end, [m, n], position).store_inside(&[sum.get()], row, column);
        });
    };
    kernel(name, body).required_block(BLOCK)
}

//! Implicit GEMM on CUDA cores: one operand is gathered from the images, tile by tile.

use warpfold_lang::{Val, dynamic_shared, kernel, wait_for_dependencies};

use super::args::{ConvArgs, Convolution};
use super::gather::{Image, Pixels};
use super::geometry::{Geometry, Order};
use crate::Dtype;
use crate::matmul::{
    Accumulator, Block, EpilogueKey, EpilogueWriter, Load, MatrixLoader, OperandMajor, Sums, Tile, TileLoader, Units,
};

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ImplicitConfig {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    pub(super) tile: Tile,
    /// Whether four channels of a pixel are loaded at once, and four elements of a filter.
    pub(super) wide: [bool; 2],
    pub(super) epilogue: EpilogueKey,
}

/// Each block computes a tile of one group's result of one image.
pub(super) fn implicit<A: Accumulator>(config: &ImplicitConfig) -> Convolution {
    let ImplicitConfig { dtype, geometry, tile, wide: [wide_pixels, wide_filters], epilogue } = config.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let wide = [wide_pixels, wide_filters].map(|wide| if wide { "w" } else { "" });
    let [rows, columns] = [tile.rows, tile.columns];
    let key = format!("{dtype}_{}{}_{}_{}", wide[0], wide[1], geometry.key(), epilogue.key());
    let body = move |args: ConvArgs| {
        wait_for_dependencies();
        // Shared-memory map
        let sides = [tile.rows, tile.columns];
        let tiles = sides.map(|side| dynamic_shared::<A>(tile.elements(side)));
        // Roles: filters are rows where the channels lie before the pixels.
        let (of_filters, of_pixels) = if geometry.order == Order::ChannelsFirst { (0, 1) } else { (1, 0) };
        let block = Block::this(tile, args.product);
        let lines = args.lines();
        let first = [block.row, block.column];
        let [group, image_idx, _] = block.position.each.map(|place| place.cast::<i64>());
        let bytes = dtype.bytes() as i64;
        let image = Image {
            dtype,
            geometry,
            first: args.images.base().at(args.image(group, image_idx) * bytes),
            strides: args.steps(),
            size: [2, 3].map(|dim| args.images.size(dim)),
        };
        let width = if wide_pixels { 4 } else { 1 };
        let major = if geometry.order == Order::ChannelsFirst { OperandMajor::Mn } else { OperandMajor::K };
        let units = Units::new(major, width, [sides[of_pixels], tile.depth], tile.threads(), tiles[of_pixels]);
        let has_rest = !geometry.depth().is_multiple_of(tile.depth);
        let of_block = [first[of_pixels], lines[of_pixels], args.result_width];
        let pixels = Pixels::new(image, units, of_block, width, has_rest);
        let loader = MatrixLoader {
            load: Load { dtype, major: OperandMajor::K, wide: wide_filters, copied: false },
            sides: [sides[of_filters], tile.depth],
            threads: tile.threads(),
            first: args.filters.base().at(group * args.group_of_filters * bytes),
            strides: [args.filters.stride(0), Val::constant(1)],
            lines: [first[of_filters], lines[of_filters]],
            tile: tiles[of_filters],
            end: has_rest.then(|| Val::constant(geometry.depth())),
        };
        let filters = loader.ready();
        let supplies: [&dyn TileLoader<A>; 2] = if of_filters == 0 { [&filters, &pixels] } else { [&pixels, &filters] };
        // Main loop
        let sums = Sums::<A>::new(tile);
        if geometry.depth() > 0 {
            sums.add_products(supplies, [Val::constant(0), Val::constant(geometry.depth())]);
        }
        // Epilogue
        let writer = EpilogueWriter::<A>::new(&epilogue, args.end, lines, block.position);
        sums.store(&writer, first);
    };
    kernel(format!("conv_implicit_{rows}x{columns}_{key}"), body).required_block(tile.threads())
}

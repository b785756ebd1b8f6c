//! Implicit GEMM on CUDA cores: one operand is gathered from the images, tile by tile.

use warpfold_lang::{Array, Global, Kernel, Val, dynamic_shared, kernel, wait_for_dependencies};

use super::gather::{Image, Pixels};
use super::geometry::{Geometry, Order};
use crate::Dtype;
use crate::matmul::{
    Accumulator, Block, EpilogueKey, EpilogueOperands, EpilogueWriter, Load, MAX_INPUTS, MAX_SCALARS, MatrixLoader,
    OperandMajor, SIZES, STRIDES, Sums, Tile, TileLoader, Units,
};

/// Words of the sizes beside those of a product: height and width of the image, width of the
/// result.
pub(super) const IMAGE: usize = 3;
/// Words of the strides: of the images from group to group, image to image, along channels, rows
/// and columns; of the filters from group to group and filter to filter.
pub(super) const TENSORS: usize = 7;

/// What the kernels take: images, filters, sizes of the product and the image, strides, and what
/// their [end](EpilogueOperands) takes.
pub(super) type Convolution = Kernel<(
    Global<u8>,
    Global<u8>,
    [u32; SIZES],
    [u32; IMAGE],
    [i64; TENSORS],
    Global<u8>,
    [Global<u8>; MAX_INPUTS],
    [i64; STRIDES],
    [f64; MAX_SCALARS],
)>;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    pub(super) tile: Tile,
    /// Whether four channels of a pixel are loaded at once, and four elements of a filter.
    pub(super) wide: [bool; 2],
    pub(super) epilogue: EpilogueKey,
}

/// Each block computes a tile of one group's result of one image.
pub(super) fn implicit<A: Accumulator>(configuration: &Config) -> Convolution {
    let Config { dtype, geometry, tile, wide: [wide_pixels, wide_filters], epilogue } = configuration.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let wide = [wide_pixels, wide_filters].map(|wide| if wide { "w" } else { "" });
    let [rows, columns] = [tile.rows, tile.columns];
    let key = format!("{dtype}_{}{}_{}_{}", wide[0], wide[1], geometry.key(), epilogue.key());
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
        // Shared-memory map
        let sides = [tile.rows, tile.columns];
        let tiles = sides.map(|side| dynamic_shared::<A>(tile.elements(side)));
        // Roles: filters are rows where the channels lie before the pixels.
        let (of_filters, of_pixels) = if geometry.order == Order::ChannelsFirst { (0, 1) } else { (1, 0) };
        let block = Block::this(tile, sizes);
        let lines = [sizes.at(0), sizes.at(1)];
        let first = [block.row, block.column];
        let [group, image_idx, _] = block.position.each.map(|place| place.cast::<i64>());
        let bytes = dtype.bytes() as i64;
        let row_len = image.at(2);
        let image = Image {
            dtype,
            geometry,
            first: images.at((group * strides.at(0) + image_idx * strides.at(1)) * bytes),
            strides: [2, 3, 4].map(|word| strides.at(word).cast()),
            size: [image.at(0), image.at(1)],
        };
        let width = if wide_pixels { 4 } else { 1 };
        let major = if geometry.order == Order::ChannelsFirst { OperandMajor::Mn } else { OperandMajor::K };
        let units = Units::new(major, width, [sides[of_pixels], tile.depth], tile.threads(), tiles[of_pixels]);
        let has_rest = !geometry.depth().is_multiple_of(tile.depth);
        let of_block = [first[of_pixels], lines[of_pixels], row_len];
        let pixels = Pixels::new(image, units, of_block, width, has_rest);
        let loader = MatrixLoader {
            load: Load { dtype, major: OperandMajor::K, wide: wide_filters, copied: false },
            sides: [sides[of_filters], tile.depth],
            threads: tile.threads(),
            first: filters.at(group * strides.at(5) * bytes),
            strides: [strides.at(6), Val::constant(1)],
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
        let outputs = EpilogueOperands { result, inputs, strides: ends, scalars };
        let writer = EpilogueWriter::<A>::new(&epilogue, outputs, lines, block.position);
        sums.store(&writer, first);
    };
    kernel(format!("conv_implicit_{rows}x{columns}_{key}"), body).required_block(tile.threads())
}

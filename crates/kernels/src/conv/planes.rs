//! Implicit GEMM on CUDA cores for NCHW images with many channels: K goes over one element of the
//! filters after the other, and over all channels of each.
//!
//! A step of K has a single element of the filters, so a thread, which loads channels of one pixel,
//! computes once where that pixel is and whether it is inside. The filters are repacked first,
//! those of a channel contiguous. Channels are a multiple of a step's.

use warpfold_device::Limits;
use warpfold_lang::{Arch, Global, Val, dynamic_shared, kernel, wait_for_dependencies};

use super::args::{ConvArgs, Convolution};
use super::geometry::{Geometry, Order};
use super::problem::{Layout, Problem};
use crate::kernel_name::KernelName;
use crate::matmul::{
    self, ArchRates, Block, EpilogueKey, EpilogueWriter, Load, LoadUnit, Matrix, MatrixLoader, OperandMajor, Sums,
    Tile, TileLoader, Units,
};
use crate::plan::TensorSpec;
use crate::repack::{self, ChannelsLast};
use crate::{Dtype, Error};

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlanesConfig {
    pub(super) geometry: Geometry,
    pub(super) tile: Tile,
    /// Filters in all.
    pub(super) filters: u32,
    pub(super) epilogue: EpilogueKey,
}

/// Whether f32 lie so: in planes, in one group, channels in whole steps, and a thread for each
/// pixel of a tile at least.
pub(super) fn is_possible(problem: &Problem, tile: Tile) -> bool {
    let Problem { dtype, layout, images, channels, size: [height, width], filters, groups, window, .. } = *problem;
    let [down, across] = window.padding.map(u64::from);
    dtype == Dtype::F32
        && layout == Layout::Nchw
        && groups == 1
        && filters > 0
        && channels > 0
        && channels.is_multiple_of(tile.depth.into())
        && tile.threads().is_multiple_of(tile.columns)
        // The bytes of an image are counted in 32 bits.
        && channels * height * width < 1 << 30
        // The offset of a filter's element from the first one, inside the image, is counted in 32
        // bits.
        && (height + down) * width + width + across < 1 << 31
        && images * problem.num_pixels() < 1 << 31
        && images * channels < 1 << 32
        // Planes are found by counting results.
        && problem.num_results() < 1 << 32
        && padded(problem) * problem.depth() < 1 << 31
}

/// The product that the kernel computes: filters times pixels of all images, which columns count
/// image by image, as strides do not say.
pub(super) fn product(problem: &Problem) -> matmul::Problem {
    let Problem { result, images, filters, .. } = *problem;
    let pixels = problem.num_pixels();
    let whole = Matrix { row_stride: pixels as i64, ..Matrix::rows(result, pixels) };
    let bias = Matrix { row_stride: 1, column_stride: 0, ..whole };
    problem.product_of([filters, images * pixels, problem.depth()], whole, bias)
}

/// The tile that the cost model takes, and the clocks of both launches.
pub(super) fn choice(problem: &Problem, arch: Arch, limits: &Limits) -> Result<Option<(f64, Tile)>, Error> {
    let (clocks, tile) = matmul::simt_tile(&product(problem), arch, limits)?;
    let copy_clocks = || matmul::copy_clocks(repack(problem).bytes()[1], ArchRates::of(arch));
    Ok(is_possible(problem, tile).then(|| (clocks + copy_clocks(), tile)))
}

/// Filters side by side where they are repacked.
fn padded(problem: &Problem) -> u64 {
    problem.filters.next_multiple_of(4)
}

/// The launch that repacks filters: as an image of as many rows as a filter has elements, whose
/// channels are the filters.
pub(super) fn repack(problem: &Problem) -> ChannelsLast {
    let (channels, depth) = (problem.channels, problem.depth());
    let elements = depth / channels;
    let tensor = |shape: [u64; 4], strides: [u64; 4]| {
        let (shape, strides) = (shape.map(|size| size as usize), strides.map(|stride| stride as isize));
        let layout = crate::layout::Layout::new(shape.to_vec(), strides.to_vec()).expect("a problem is counted");
        TensorSpec::new(Dtype::F32, layout, 0)
    };
    ChannelsLast {
        config: repack::RepackConfig {
            element_bytes: 4,
            channels: problem.filters as u32,
            padded: padded(problem) as u32,
        },
        tensors: [tensor([0; 4], [0; 4]), tensor([1, problem.filters, elements, channels], [0, depth, 1, elements])],
        widths: [0, channels],
        left: 0,
        pixels: [0, depth],
    }
}

/// Pixels of a thread under each element of the filters.
struct Pixels {
    units: Units<f32>,
    geometry: Geometry,
    /// Height and width of an image.
    size: [Val<u32>; 2],
    /// The pixel under the filters' first element, which may be outside, and where its first
    /// channel that the thread brings is.
    corner: [Val<u32>; 2],
    from: Global<f32>,
}

impl Pixels {
    /// The pixels from `first` on, of `num` in all; of those beyond the last nothing is stored.
    fn new(units: Units<f32>, geometry: Geometry, args: &ConvArgs, [first, num]: [Val<u32>; 2]) -> Self {
        let images = args.images.base().reinterpret::<f32>();
        let [channels, height, width] = [1, 2, 3].map(|dim| args.images.size(dim));
        let mine = &units.units[0];
        let pixel = (first + mine.line).min(num - 1);
        let (image, corner) = geometry.corner_in(args.result_pixels, args.result_width, pixel);
        let plane = (image * channels + mine.deep).cast::<i64>() * (height * width).cast::<i64>();
        let in_plane = (corner[0] * width.cast::<i32>() + corner[1]).cast::<i64>();
        let (from, corner) = (images.at(plane + in_plane), corner.map(Val::cast::<u32>));
        Self { units, geometry, size: [height, width], corner, from }
    }
}

impl TileLoader<f32> for Pixels {
    fn units(&self) -> &Units<f32> {
        &self.units
    }

    fn copies(&self) -> bool {
        true
    }

    fn tile_at(&self, step: Val<u32>) -> LoadUnit<'_, f32> {
        let Geometry { window, .. } = self.geometry;
        // All of a step's channels are of one element of the filters.
        let tap = self.geometry.tap(step);
        let [down, across] = [0, 1].map(|i| tap.place[i] * window.dilation[i]);
        let [height, width] = self.size;
        // Of a number below 0 the bits are those of a large one.
        let inside = (self.corner[0] + down).lt(height) & (self.corner[1] + across).lt(width);
        let plane = height * width;
        let offset = tap.channel * plane + down * width + across;
        Box::new(move |index, to| {
            let deep = self.units.units[index].apart.map_or(0, |[_, deep]| deep);
            to.copy_async_or_zero::<1>(self.from.at(offset + plane * deep), inside);
            None
        })
    }
}

/// Each block computes a tile of filters and pixels.
pub(super) fn planes(config: &PlanesConfig) -> Convolution {
    let PlanesConfig { geometry, tile, filters: num_filters, epilogue } = config.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let geometry = Geometry { order: Order::ChannelsLast, ..geometry };
    let Tile { rows, columns, thread: [down, across], .. } = tile;
    let name = KernelName::new("conv_planes")
        .part(format_args!("{rows}x{columns}"))
        .part(format_args!("{down}x{across}"))
        .part(format_args!("f{num_filters}"))
        .part(geometry.key())
        .part(epilogue.key());
    let body = move |args: ConvArgs| {
        wait_for_dependencies();
        // Shared-memory map
        let sides = [tile.rows, tile.columns];
        let tiles = sides.map(|side| dynamic_shared::<f32>(tile.elements(side)));
        // Roles
        let block = Block::this(tile, args.product);
        let lines = args.lines();
        let units = Units::new(OperandMajor::Mn, 1, [tile.columns, tile.depth], tile.threads(), tiles[1]);
        let pixels = Pixels::new(units, geometry, &args, [block.column, lines[1]]);
        let padded = num_filters.next_multiple_of(4);
        let loader = MatrixLoader {
            load: Load { dtype: Dtype::F32, major: OperandMajor::Mn, wide: true, copied: true },
            sides: [tile.rows, tile.depth],
            threads: tile.threads(),
            first: args.filters.base(),
            strides: [1, i64::from(padded)].map(Val::constant),
            lines: [block.row, Val::constant(padded)],
            tile: tiles[0],
            end: None,
        };
        let filters = loader.ready();
        // Main loop
        let sums = Sums::<f32>::new(tile);
        sums.add_products([&filters, &pixels], [Val::constant(0), Val::constant(geometry.depth())]);
        // Epilogue
        let writer = EpilogueWriter::<f32>::new(&epilogue, args.end, lines, block.position);
        let of_image = args.result_pixels;
        // Between the pixels of two images lie the planes of the other filters.
        let place = |pixel: Val<u32>| pixel / of_image * (of_image * (num_filters - 1)) + pixel;
        sums.store_planes(&writer, [block.row, block.column], lines, place);
    };
    kernel(String::from(name), body).required_block(tile.threads())
}

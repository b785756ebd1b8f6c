//! Implicit GEMM on tensor cores by `mma.sync` (sm_80 on). It is the main loop of `matmul`; threads
//! gather the left factor from the images by `cp.async`, a piece of a pixel's channels at a time.
//!
//! Pixels of all images are M, the filters of a group are N. K are the elements of a filter, each
//! with its channels; pieces outside the image and after the end of K are zeros.

use warpfold_device::Limits;
use warpfold_lang::{Arch, Global, Multiplicand, Sum, Val, block_idx, kernel, wait_for_dependencies};

use super::args::{ConvArgs, Convolution};
use super::geometry::Geometry;
use super::problem::{Layout, Problem};
use crate::kernel_name::KernelName;
use crate::matmul::{
    self, Accumulator, EpilogueKey, EpilogueWriter, F32Math, Matrix, MmaTile, OperandMajor, Pieces, Ring, StageLoader,
    Strided, TileScheduler, WarpTile,
};
use crate::{Dtype, Error};

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MmaConvConfig {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    pub(super) tile: MmaTile,
    /// Bytes of channels that lie side by side wherever a pixel, or an element of a filter, begins.
    pub(super) piece: u32,
    pub(super) epilogue: EpilogueKey,
}

/// Whether tensor cores can do it: halves, or f32 in tf32, with the channels last, pieces of 4
/// bytes at least.
pub(super) fn is_possible(problem: &Problem, limits: &Limits) -> bool {
    let Problem { dtype, layout, images, channels, size: [height, width], filters, window, f32_math, .. } = *problem;
    let has_products = match dtype {
        Dtype::F16 | Dtype::Bf16 => true,
        Dtype::F32 => f32_math == F32Math::Tf32,
        _ => false,
    };
    // The offset of an element of a filter from the first one, inside the image, is counted in 32
    // bits.
    let [down, across] = window.padding.map(u64::from);
    // THRESHOLD: offsets that need 64 bits leave tensor cores; tested by
    // crates/kernels/tests/parts/plans.rs::images_beyond_32_bits_go_to_kernels_that_count_in_64
    let reach = ((height + down) * width + width + across).checked_mul(channels);
    limits.has_mma
        && has_products
        && reach.is_some_and(|reach| reach < 1 << 31)
        && layout == Layout::Nhwc
        && images > 0
        && channels > 0
        && filters > 0
        && piece(problem).is_some()
        && images * problem.num_pixels() < 1 << 31
}

/// The largest piece of a group's channels.
fn piece(problem: &Problem) -> Option<u32> {
    let bytes = problem.channels / problem.groups * problem.dtype.bytes();
    [16, 8, 4].into_iter().find(|piece| bytes.is_multiple_of(u64::from(*piece)))
}

/// The product that the kernel computes: pixels of all images times the filters of each group.
pub(super) fn product(problem: &Problem) -> matmul::Problem {
    let Problem { result, images, filters, groups, .. } = *problem;
    let (m, n) = (images * problem.num_pixels(), filters / groups);
    let whole = Matrix::rows(result, filters).in_batch([n as i64, 0, 0]);
    let bias = Matrix { row_stride: 0, ..whole };
    problem.product_of([m, n, problem.depth()], whole, bias).in_batch([groups, 1, 1])
}

/// The tile that the cost model takes, and its clocks.
pub(super) fn choice(problem: &Problem, arch: Arch, limits: &Limits) -> Result<(f64, MmaTile), Error> {
    let Problem { dtype, images, channels, size: [height, width], filters, .. } = *problem;
    let factors = images * channels * height * width + filters * problem.depth();
    matmul::mma_tile(&product(problem), factors * dtype.bytes(), arch, limits)
}

pub(super) fn config(problem: &Problem, tile: MmaTile, epilogue: EpilogueKey) -> MmaConvConfig {
    let piece = piece(problem).expect("plans with warps are made for channels that they can copy");
    MmaConvConfig { dtype: problem.dtype, geometry: Geometry::of(problem), tile, piece, epilogue }
}

/// The pixels of a block's tile of the result under each element of the filters.
struct Pixels<T> {
    ring: Ring<T>,
    geometry: Geometry,
    /// Height and width of an image, and its channels.
    image: [Val<u32>; 3],
    /// For each of the thread's pieces the pixel under the filter's first element, which may be
    /// outside, and where it lies.
    corners: Vec<([Val<i32>; 2], Global<T>)>,
    has_rest: bool,
}

impl<T: Multiplicand> Pixels<T> {
    /// The pixels from `first` on, of `num` in all; of those beyond the last nothing is stored.
    fn new(ring: Ring<T>, geometry: Geometry, images: Global<T>, args: &ConvArgs, [first, num]: [Val<u32>; 2]) -> Self {
        let [channels, height, width] = [1, 2, 3].map(|dim| args.images.size(dim));
        let corner = |line: Val<u32>| {
            let pixel = (first + line).min(num - 1);
            let (image, corner) = geometry.corner_in(args.result_pixels, args.result_width, pixel);
            let in_image = (corner[0] * width.cast::<i32>() + corner[1]).cast::<i64>();
            let of_images = image.cast::<i64>() * (height * width).cast::<i64>();
            (corner, images.at((of_images + in_image) * channels.cast::<i64>()))
        };
        let corners = ring.rows().map(corner).collect();
        let has_rest = !geometry.depth().is_multiple_of(ring.depth());
        Self { ring, geometry, image: [height, width, channels], corners, has_rest }
    }
}

impl<T: Multiplicand> StageLoader<T> for Pixels<T> {
    fn ring(&self) -> &Ring<T> {
        &self.ring
    }

    fn copy(&self, stage: Val<u32>, step: Val<u32>) {
        let [height, width, channels] = self.image;
        let l = step + self.ring.column;
        // All of the thread's pieces are of one element of the filter.
        let tap = self.geometry.tap(l);
        let [down, across] = [0, 1].map(|i| tap.place[i] * self.geometry.window.dilation[i]);
        let offset = (down * width + across) * channels + tap.channel;
        let whole: Val<u32> = if self.has_rest {
            l.lt(self.geometry.depth()).select(self.ring.piece_bytes(), 0_u32)
        } else {
            Val::constant(self.ring.piece_bytes())
        };
        let pieces = self.corners.iter().map(|([row, column], corner)| {
            // Of a number below 0 the bits are those of a large one.
            let [row, column] = [row.cast::<u32>() + down, column.cast::<u32>() + across];
            let inside = row.lt(height) & column.lt(width);
            (corner.at(offset), inside.select(whole, 0_u32))
        });
        self.ring.copy(stage, pieces);
    }
}

/// Each block computes a tile of pixels and filters of a group.
pub(super) fn mma<T: Multiplicand>(config: &MmaConvConfig) -> Convolution
where
    T::Sum: Accumulator + Sum,
{
    let MmaConvConfig { dtype, geometry, tile, piece, epilogue } = config.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let name = KernelName::new("conv_mma").part(tile.key()).part(dtype).part(piece);
    let name = name.part(geometry.key()).part(epilogue.key());
    let body = move |args: ConvArgs| {
        wait_for_dependencies();
        // Shared-memory map
        let sides = [tile.rows(), tile.columns()];
        let [of_pixels, of_filters] =
            sides.map(|side| Ring::<T>::new(Pieces { major: OperandMajor::K, bytes: piece }, tile, side));
        // Roles
        let work = TileScheduler::new(sides, 1, tile.band, args.product).work(block_idx().x, Val::constant(0));
        let (first, lines) = ([work.row, work.column], args.lines());
        let group = work.position.flat;
        let depth = geometry.depth();
        let images = args.images.base().reinterpret::<T>().at(group * geometry.channels);
        let pixels = Pixels::new(of_pixels, geometry, images, &args, [first[0], lines[0]]);
        let filters = args.filters.base().reinterpret::<T>().at((group * lines[1]).cast::<i64>() * i64::from(depth));
        let end = pixels.has_rest.then(|| Val::constant(depth));
        let strides = [i64::from(depth), 1].map(Val::constant);
        let filters = Strided::new(of_filters, filters, strides, [first[1], lines[1]], end);
        // Main loop
        let sums = WarpTile::new(tile);
        sums.add_products([&pixels, &filters], [Val::constant(0), Val::constant(depth)]);
        // Epilogue
        let writer = EpilogueWriter::<T::Sum>::new(&epilogue, args.end, lines, work.position);
        sums.store(&writer, first);
    };
    kernel(String::from(name), body).required_block(tile.threads()).min_blocks(1)
}

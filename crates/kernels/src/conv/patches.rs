//! Convolution on CUDA cores for few channels. A block keeps its filters in shared memory, and for
//! one tile of pixels after the other the patch of the image under them.
//!
//! A thread computes eight filters at eight pixels of a column: what it reads of a column serves
//! all rows of the filters, and a filter's element all pixels. Columns are ordered in shared memory
//! by their position in a stride, so that neighbouring lanes read neighbouring words. A sum goes
//! over channels, columns, and rows of the filter.

use std::collections::BTreeMap;

use half::f16;
use warpfold_lang::{
    Global, Shared, Val, Var, block_idx, commit_copies, dynamic_shared, grid_dim, kernel, lane_id, range, sync_threads,
    thread_idx, var, wait_for_copies, wait_for_dependencies, warp_id, when,
};

use super::args::{ConvArgs, Convolution};
use super::geometry::{Geometry, Order};
use super::patch_tile::{FILTERS, PatchTile, ROWS, Shape};
use crate::Dtype;
use crate::kernel_name::KernelName;
use crate::matmul::{BatchCoord, EpilogueKey, EpilogueWriter};

/// Elements of a patch that a thread brings without a loop.
const AT_ONCE: u32 = 8;
/// Elements of a filter that stand in the loop's body, unless a column has more: with all 27 of a
/// filter of 3 x 3, and all copies of a patch, instructions come too late (194.5 us become 146.7
/// for 128 x 3 x 225 x 225 `f32`, 32 filters, strides of 2; H200, driver 580, 2026-11-21).
const UNROLLED: u32 = 9;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PatchesConfig {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    pub(super) tile: PatchTile,
    /// Filters in all.
    pub(super) filters: u32,
    pub(super) epilogue: EpilogueKey,
}

/// An element as it is added up, or zero where a condition does not hold.
fn get(dtype: Dtype, from: Global<u8>, condition: Val<bool>) -> Val<f32> {
    let halves = || from.reinterpret::<u16>().get_or(0, condition);
    match dtype {
        Dtype::F16 => halves().bitcast::<f16>().cast(),
        // A `bf16` is the upper half of an `f32`.
        Dtype::Bf16 => (halves().cast::<u32>() << 16).bitcast(),
        _ => from.reinterpret::<f32>().get_or(0.0, condition),
    }
}

/// An element that is brought to shared memory.
struct Element {
    /// Where it goes.
    place: Val<u32>,
    from: Global<u8>,
    /// Whether it is no zero.
    inside: Val<bool>,
}

/// Whether elements are copied in the background: what does not change on the way.
fn is_copied(dtype: Dtype) -> bool {
    dtype == Dtype::F32
}

/// All threads bring some elements, each of which is known by its number: f32 by copies in the
/// background, others by way of registers.
fn bring(dtype: Dtype, threads: u32, num: u32, to: Shared<f32>, element: impl Fn(Val<u32>) -> Element) {
    let is_copied = is_copied(dtype);
    let at_once = num.div_ceil(threads).min(AT_ONCE);
    range(thread_idx().x, num, at_once * threads, |first| {
        let mut loaded = Vec::new();
        for i in 0..at_once {
            let number = first + i * threads;
            // All threads have it where elements are brought at once.
            let exists = (num < (i + 1) * threads || num > at_once * threads).then(|| number.lt(num));
            let Element { place, from, inside } = element(number);
            let to = to.at(place);
            if is_copied {
                let copy = || to.copy_async_or_zero::<1>(from.reinterpret::<f32>(), inside);
                exists.map_or_else(copy, |exists| when(exists, copy));
            } else {
                loaded.push((to, exists, get(dtype, from, exists.map_or(inside, |exists| exists & inside))));
            }
        }
        // All loads before the first store.
        for (to, exists, value) in loaded {
            exists.map_or_else(|| to.set(value), |exists| to.set_if(value, exists));
        }
    });
}

fn divide(number: Val<u32>, by: u32) -> [Val<u32>; 2] {
    if by == 1 { [number, Val::constant(0)] } else { [number / by, number % by] }
}

/// The sums of a thread: of each pixel those of its filters.
struct Sums {
    shape: Shape,
    /// Filters from one group of four to the next.
    apart: u32,
    /// The thread's first filter, and the first row that its first pixel looks at.
    weights: Shared<f32>,
    patch: Shared<f32>,
    sums: Vec<Var<f32>>,
}

impl Sums {
    fn new(shape: Shape, apart: u32, weights: Shared<f32>, patch: Shared<f32>) -> Self {
        Self { shape, apart, weights, patch, sums: (0..FILTERS * ROWS).map(|_| var::<f32>(0.0)).collect() }
    }

    /// Adds the products of a channel and column of the filters: of all rows.
    fn add(&self, acc: &mut [Val<f32>], stage: Val<u32>, l: Val<u32>) {
        let Shape { geometry, pitches, filters, .. } = self.shape;
        let Geometry { filter: [rows, columns], window, .. } = geometry;
        let [channel, column] = divide(l, columns);
        let patch = self.patch.at(stage + channel * pitches[2] + self.shape.column(column * window.dilation[1]));
        let weights = self.weights.at(l * (rows * filters));
        let mut pixels = BTreeMap::new();
        for row in 0..rows {
            let weights: Vec<_> = (0..FILTERS / 4)
                .flat_map(|group| weights.at(row * filters + group * self.apart).get_vec::<4>())
                .collect();
            for (j, acc) in (0..ROWS).zip(acc.chunks_exact_mut(FILTERS as usize)) {
                let down = j * window.stride[0] + row * window.dilation[0];
                let pixel = *pixels.entry(down).or_insert_with(|| patch.at(down * pitches[1]).get());
                acc.iter_mut().zip(&weights).for_each(|(acc, weight)| *acc = pixel.mul_add(*weight, *acc));
            }
        }
    }

    /// Sums up all products of a tile, whose patch begins at an element.
    fn add_all(&self, stage: Val<u32>) {
        let Geometry { channels, filter: [rows, columns], .. } = self.shape.geometry;
        let steps = channels * columns;
        let fits = |n: &u32| steps.is_multiple_of(*n) && n * rows <= UNROLLED;
        let at_once = (1..=UNROLLED).rev().find(fits).unwrap_or(1);
        self.sums.iter().for_each(|sum| sum.set(0.0));
        range(0_u32, steps, at_once, |l| {
            let mut acc: Vec<Val<f32>> = self.sums.iter().map(|sum| sum.get()).collect();
            for i in 0..at_once {
                self.add(&mut acc, stage, l + i);
            }
            self.sums.iter().zip(acc).for_each(|(sum, acc)| sum.set(acc));
        });
    }
}

/// What a thread takes of each tile, and of which filters.
struct Roles {
    tile: PatchTile,
    /// Filters in all.
    num_filters: u32,
    /// The block's first filter, and the thread's from there on.
    first_filter: Val<u32>,
    filter: Val<u32>,
    /// The thread's first pixel in a tile.
    row: Val<u32>,
    column: Val<u32>,
}

impl Roles {
    fn new(tile: PatchTile, num_filters: u32, tile_of_filters: Val<u32>) -> Self {
        let PatchTile { lanes_across, warps: [over_filters, down, _] } = tile;
        let first_filter = tile_of_filters * tile.filters();
        let (warp, lane) = (warp_id(), lane_id());
        let filter = warp % over_filters * (FILTERS * tile.lanes_of_filters()) + lane / lanes_across * 4;
        let row = warp / over_filters % down * ROWS;
        let column = warp / (over_filters * down) * lanes_across + lane % lanes_across;
        Self { tile, num_filters, first_filter, filter, row, column }
    }

    /// Filters from one group of four to the next.
    const fn apart(&self) -> u32 {
        4 * self.tile.lanes_of_filters()
    }

    /// Does what is to be done with a filter, if there is such a one.
    fn when_there(&self, filter: Val<u32>, body: impl FnOnce()) {
        if self.num_filters.is_multiple_of(self.tile.filters()) {
            body();
        } else {
            when(filter.lt(self.num_filters), body);
        }
    }

    /// Finishes and stores the sums of the filters at a pixel.
    fn store(&self, writer: &EpilogueWriter<'_, f32>, order: Order, sums: &[Var<f32>], pixel: Val<u32>) {
        for (group, four) in (0..).zip(sums.chunks_exact(4)) {
            let filter = self.first_filter + self.filter + group * self.apart();
            let values: Vec<_> = four.iter().map(|sum| sum.get()).collect();
            if order == Order::ChannelsLast && self.num_filters.is_multiple_of(4) {
                self.when_there(filter, || writer.store_inside(&values, pixel, filter));
                continue;
            }
            for (i, value) in (0..).zip(values) {
                let filter = filter + i;
                let [row, column] = if order == Order::ChannelsFirst { [filter, pixel] } else { [pixel, filter] };
                self.when_there(filter, || writer.store_inside(&[value], row, column));
            }
        }
    }
}

/// The images, while the kernel is recorded.
struct Images {
    dtype: Dtype,
    memory: Global<u8>,
    /// Height and width.
    size: [Val<u32>; 2],
    /// From one image, channel, row, column to the next.
    of_image: Val<i64>,
    strides: [Val<u32>; 3],
}

impl Images {
    /// All threads bring the patch of an image under the tile that begins at a pixel.
    fn bring(&self, shape: &Shape, threads: u32, image: Val<u32>, pixel: [Val<u32>; 2], patch: Shared<f32>) {
        let Shape { geometry, sides: [rows, columns], pitches, .. } = *shape;
        let bytes = self.dtype.bytes() as u32;
        let [top, left] = [0, 1].map(|i| pixel[i] * geometry.window.stride[i] - geometry.window.padding[i]);
        let first = self.memory.at(image.cast::<i64>() * self.of_image * i64::from(bytes));
        let [of_channel, of_row, of_column] = self.strides;
        bring(self.dtype, threads, geometry.channels * rows * columns, patch, |i| {
            let [channel, row, column] = match geometry.order {
                Order::ChannelsFirst => {
                    let [rest, column] = divide(i, columns);
                    let [channel, row] = divide(rest, rows);
                    [channel, row, column]
                }
                Order::ChannelsLast => {
                    let [rest, channel] = divide(i, geometry.channels);
                    let [row, column] = divide(rest, columns);
                    [channel, row, column]
                }
            };
            let (y, x) = (top + row, left + column);
            // Of a number below 0 the bits are those of a large one.
            let inside = y.lt(self.size[0]) & x.lt(self.size[1]);
            let offset = channel * of_channel + y * of_row + x * of_column;
            let from = first.at(offset.cast::<u64>() * u64::from(bytes));
            Element { place: channel * pitches[2] + row * pitches[1] + shape.column(column), from, inside }
        });
    }
}

/// All threads bring the block's filters: those of a channel, column and row side by side.
fn bring_filters(dtype: Dtype, shape: &Shape, roles: &Roles, filters: Global<u8>, weights: Shared<f32>) {
    let Shape { geometry, filters: pitch, .. } = *shape;
    let ([rows, columns], depth, bytes) = (geometry.filter, geometry.depth(), dtype.bytes() as u32);
    let of_block = filters.at((roles.first_filter * depth).cast::<i64>() * i64::from(bytes));
    bring(dtype, roles.tile.threads(), roles.tile.filters() * depth, weights, |i| {
        let [filter, l] = divide(i, depth);
        let tap = geometry.tap(l);
        let [row, column] = tap.place;
        let place = ((tap.channel * columns + column) * rows + row) * pitch + filter;
        let inside = (roles.first_filter + filter).lt(roles.num_filters);
        Element { place, from: of_block.at(i * bytes), inside }
    });
}

/// The results of all images in tiles of pixels, one after the other.
struct Tiles {
    /// Rows and columns of an image's results.
    size: [Val<u32>; 2],
    /// Tiles of an image: down, and across.
    of_image: [Val<u32>; 2],
    /// Pixels of a tile.
    pixels: [u32; 2],
    /// Tiles of all images.
    end: Val<u32>,
}

impl Tiles {
    /// Of this many images, whose results have `pixels` pixels in rows of `width`.
    fn new(num_images: Val<u32>, pixels: Val<u32>, width: Val<u32>, tile: PatchTile) -> Self {
        let size = [pixels / width, width];
        let pixels = tile.pixels();
        let of_image = [0, 1].map(|i| (size[i] - 1) / pixels[i] + 1);
        Self { size, of_image, pixels, end: num_images * of_image[0] * of_image[1] }
    }

    /// The image of a tile, and its first row and column there.
    fn place(&self, number: Val<u32>) -> (Val<u32>, [Val<u32>; 2]) {
        let [down, across] = self.of_image;
        let rest = number / across;
        let image = rest / down;
        (image, [(rest - image * down) * self.pixels[0], (number - rest * across) * self.pixels[1]])
    }
}

/// Each block computes the results of its filters in tile after tile.
pub(super) fn patches(config: &PatchesConfig) -> Convolution {
    let PatchesConfig { dtype, geometry, tile, filters: num_filters, epilogue } = config.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let PatchTile { lanes_across, warps: [over_filters, down, across] } = tile;
    let name = KernelName::new("conv_patches")
        .part(lanes_across)
        .part(format_args!("{over_filters}x{down}x{across}"))
        .part(dtype)
        .part(geometry.key())
        .part(format_args!("f{num_filters}"))
        .part(epilogue.key());
    let body = move |args: ConvArgs| {
        wait_for_dependencies();
        // Shared-memory map
        let shape = Shape::of(geometry, tile);
        let [of_patch, of_filters] = shape.words().map(|words| words as u32);
        let (patch, weights) = (dynamic_shared::<f32>(2 * of_patch), dynamic_shared::<f32>(of_filters));
        // Roles
        let of_filters = num_filters.div_ceil(tile.filters());
        let [first_block, tile_of_filters] = divide(block_idx().x, of_filters);
        let roles = Roles::new(tile, num_filters, tile_of_filters);
        let mine = roles.row * (geometry.window.stride[0] * shape.pitches[1]) + roles.column;
        let sums = Sums::new(shape, roles.apart(), weights.at(roles.filter), patch.at(mine));
        let images = Images {
            dtype,
            memory: args.images.base(),
            size: [2, 3].map(|dim| args.images.size(dim)),
            of_image: args.images.stride(0),
            strides: args.steps(),
        };
        bring_filters(dtype, &shape, &roles, args.filters.base(), weights);
        // Tiles
        let [m, n] = args.lines();
        let pixels = if geometry.order == Order::ChannelsFirst { n } else { m };
        let tiles = Tiles::new(args.images.size(0), pixels, args.result_width, tile);
        let next = grid_dim().x / of_filters;
        let bring = |number: Val<u32>, stage: Val<u32>| {
            let (image, first) = tiles.place(number);
            when(number.lt(tiles.end), || images.bring(&shape, tile.threads(), image, first, patch.at(stage)));
            if is_copied(dtype) {
                commit_copies();
            }
        };
        let stage = var(0_u32);
        bring(first_block, stage.get());
        range(first_block, tiles.end, next, |number| {
            let (image_idx, first) = tiles.place(number);
            let (current, free) = (stage.get(), Val::<u32>::constant(of_patch) - stage.get());
            // After it the patch is there, for all threads, and the one before may be overwritten.
            if is_copied(dtype) {
                wait_for_copies(0);
            }
            sync_threads();
            bring(number + next, free);
            // Main loop
            sums.add_all(current);
            stage.set(free);
            // Epilogue
            let none = Val::constant(0);
            let position = BatchCoord { flat: image_idx, each: [none, image_idx, none] };
            let writer = EpilogueWriter::<f32>::new(&epilogue, args.end, [m, n], position);
            let x = first[1] + roles.column;
            let [height, width] = tiles.size;
            for (j, sums) in (0..ROWS).zip(sums.sums.chunks_exact(FILTERS as usize)) {
                let y = first[0] + roles.row + j;
                when(y.lt(height) & x.lt(width), || roles.store(&writer, geometry.order, sums, y * width + x));
            }
        });
    };
    kernel(String::from(name), body).required_block(tile.threads()).min_blocks(tile.resident())
}

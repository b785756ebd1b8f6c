//! Convolution on ordinary cores where channels are few: a block keeps its filters in shared memory, and of tile after tile
//! of pixels the patch of the image that lies under them.
//!
//! A thread has eight filters at eight pixels, one below the other: what it reads of a column serves all rows of the filters,
//! and a filter's element all pixels. Columns lie in shared memory by their place in a stride, so that neighbouring lanes
//! read neighbouring words. A sum goes over channels, columns, and rows of the filter.

use std::collections::BTreeMap;

use half::f16;
use warpfold_lang::{
    Array, Global, Shared, Val, Var, block_idx, dynamic_shared, grid_dim, kernel, lane_id, range, sync_threads,
    thread_idx, var, wait_for_dependencies, warp_id, when,
};

use super::geometry::{Geometry, Order};
use super::implicit::{Convolution, IMAGE, TENSORS};
use super::patch_tile::{FILTERS, PatchTile, ROWS, Shape};
use crate::Dtype;
use crate::matmul::{Ending, Finish, MAX_INPUTS, MAX_SCALARS, Outputs, Position, SIZES, STRIDES};

/// Loads that a thread has under way while a patch is brought.
const LOADS: u32 = 8;
/// Elements of a filter that stand in the loop's body.
const UNROLLED: u32 = 16;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Configuration {
    pub(super) dtype: Dtype,
    pub(super) geometry: Geometry,
    pub(super) tile: PatchTile,
    /// Filters in all.
    pub(super) filters: u32,
    pub(super) ending: Ending,
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

/// All threads bring so many elements: of each its number says what it is and where it goes.
fn fill(threads: u32, num: u32, to: Shared<f32>, element: impl Fn(Val<u32>, Val<bool>) -> (Val<u32>, Val<f32>)) {
    let at_once = num.div_ceil(threads).min(LOADS);
    range(thread_idx().x, num, at_once * threads, |first| {
        let bring = |i: u32| {
            let number = first + i * threads;
            let exists = number.lt(num);
            (exists, element(number, exists))
        };
        // All loads before the first store.
        let brought: Vec<_> = (0..at_once).map(bring).collect();
        for (exists, (place, value)) in brought {
            to.at(place).set_if(value, exists);
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
    /// Adds the products of a channel and column of the filters: of all rows.
    fn add(&self, acc: &mut [Val<f32>], l: Val<u32>) {
        let Shape { geometry, pitches, filters, .. } = self.shape;
        let Geometry { filter: [rows, columns], window, .. } = geometry;
        let [channel, column] = divide(l, columns);
        let patch = self.patch.at(channel * pitches[2] + self.shape.column(column * window.dilation[1]));
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

    fn add_all(&self) {
        let geometry = self.shape.geometry;
        let steps = geometry.channels * geometry.filter[1];
        let at_once = (1..=steps).rev().find(|n| {
            steps.is_multiple_of(*n) && n * geometry.filter[0] <= if *n == steps { 2 * UNROLLED } else { UNROLLED }
        });
        let at_once = at_once.unwrap_or(1);
        self.sums.iter().for_each(|sum| sum.set(0.0));
        range(0_u32, steps, at_once, |l| {
            let mut acc: Vec<Val<f32>> = self.sums.iter().map(|sum| sum.get()).collect();
            for i in 0..at_once {
                self.add(&mut acc, if at_once == steps { Val::constant(i) } else { l + i });
            }
            self.sums.iter().zip(acc).for_each(|(sum, acc)| sum.set(acc));
        });
    }
}

/// The kernel.
pub(super) fn patches(configuration: &Configuration) -> Convolution {
    let Configuration { dtype, geometry, tile, filters: num_filters, ending } = configuration.clone();
    if let Err(rule) = tile.validate() {
        panic!("{rule}");
    }
    let PatchTile { lanes_across, warps: [over_filters, down, across] } = tile;
    let key = format!("{lanes_across}_{over_filters}x{down}x{across}_{dtype}_{}_f{num_filters}", geometry.key());
    let name = format!("conv_patches_{key}_{}", ending.key());
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
        let shape = Shape::of(geometry, tile);
        let [patch, weights] = shape.words().map(|words| dynamic_shared::<f32>(words as u32));
        // Roles
        let (threads, bytes) = (tile.threads(), dtype.bytes() as u32);
        let of_filters = num_filters.div_ceil(tile.filters());
        let [first_block, tile_of_filters] = divide(block_idx().x, of_filters);
        let first_filter = tile_of_filters * tile.filters();
        let (warp, lane) = (warp_id(), lane_id());
        let my_filter = warp % over_filters * (FILTERS * tile.lanes_of_filters()) + lane / lanes_across * 4;
        let my_row = warp / over_filters % down * ROWS;
        let my_column = warp / (over_filters * down) * lanes_across + lane % lanes_across;
        let is_first = geometry.order == Order::ChannelsFirst;
        let [rows, columns] = geometry.filter;
        let sums = Sums {
            shape,
            apart: 4 * tile.lanes_of_filters(),
            weights: weights.at(my_filter),
            patch: patch.at(my_row * (geometry.window.stride[0] * shape.pitches[1]) + my_column),
            sums: (0..FILTERS * ROWS).map(|_| var::<f32>(0.0)).collect(),
        };
        // Filters
        let depth = geometry.depth();
        let of_block = filters.at((first_filter * depth).cast::<i64>() * i64::from(bytes));
        fill(threads, tile.filters() * depth, weights, |i, exists| {
            let [filter, l] = divide(i, depth);
            let tap = geometry.tap(l);
            let [row, column] = tap.place;
            let place = ((tap.channel * columns + column) * rows + row) * shape.filters + filter;
            (place, get(dtype, of_block.at(i * bytes), exists & (first_filter + filter).lt(num_filters)))
        });
        // Tiles
        let (height, width) = (image.at(0), image.at(1));
        let row_len = image.at(2);
        let (m, n, num_images) = (sizes.at(0), sizes.at(1), sizes.at(6));
        let num_rows = if is_first { n } else { m } / row_len;
        let [tile_rows, tile_columns] = tile.pixels();
        let tiles = [(num_rows - 1) / tile_rows + 1, (row_len - 1) / tile_columns + 1];
        range(first_block, num_images * tiles[0] * tiles[1], grid_dim().x / of_filters, |number| {
            let rest = number / tiles[1];
            let image_idx = rest / tiles[0];
            let place = [(rest - image_idx * tiles[0]) * tile_rows, (number - rest * tiles[1]) * tile_columns];
            // Patch
            let [top, left] = [0, 1].map(|i| place[i] * geometry.window.stride[i] - geometry.window.padding[i]);
            let first = images.at(image_idx.cast::<i64>() * strides.at(1) * i64::from(bytes));
            let [of_channel, of_row, of_column] = [2, 3, 4].map(|word| strides.at(word).cast::<u32>());
            sync_threads();
            fill(threads, geometry.channels * shape.sides[0] * shape.sides[1], patch, |i, exists| {
                let (channel, row, column) = if is_first {
                    let [rest, column] = divide(i, shape.sides[1]);
                    let [channel, row] = divide(rest, shape.sides[0]);
                    (channel, row, column)
                } else {
                    let [rest, channel] = divide(i, geometry.channels);
                    let [row, column] = divide(rest, shape.sides[1]);
                    (channel, row, column)
                };
                let (y, x) = (top + row, left + column);
                // Of a number below 0 the bits are those of a large one.
                let inside = exists & y.lt(height) & x.lt(width);
                let offset = channel * of_channel + y * of_row + x * of_column;
                let value = get(dtype, first.at(offset.cast::<u64>() * u64::from(bytes)), inside);
                (channel * shape.pitches[2] + row * shape.pitches[1] + shape.column(column), value)
            });
            sync_threads();
            // Main loop
            sums.add_all();
            // Epilogue
            let outputs = Outputs { result, inputs, strides: ends, scalars };
            let none = Val::constant(0);
            let position = Position { flat: image_idx, each: [none, image_idx, none] };
            let finish = Finish::<f32>::new(&ending, outputs, [m, n], position);
            let has_rest = !num_filters.is_multiple_of(tile.filters());
            let x = place[1] + my_column;
            for (j, sums) in (0..ROWS).zip(sums.sums.chunks_exact(FILTERS as usize)) {
                let y = place[0] + my_row + j;
                when(y.lt(num_rows) & x.lt(row_len), || {
                    let pixel = y * row_len + x;
                    for (group, four) in (0..).zip(sums.chunks_exact(4)) {
                        let filter = first_filter + my_filter + group * (4 * tile.lanes_of_filters());
                        let values: Vec<_> = four.iter().map(|sum| sum.get()).collect();
                        if !is_first && num_filters.is_multiple_of(4) {
                            let store = || finish.inside(&values, pixel, filter);
                            if has_rest {
                                when(filter.lt(num_filters), store)
                            } else {
                                store()
                            }
                            continue;
                        }
                        for (i, value) in (0..).zip(values) {
                            let filter = filter + i;
                            let [row, column] = if is_first { [filter, pixel] } else { [pixel, filter] };
                            let store = || finish.inside(&[value], row, column);
                            if has_rest { when(filter.lt(num_filters), store) } else { store() }
                        }
                    }
                });
            }
        });
    };
    kernel(name, body).required_block(tile.threads()).min_blocks(tile.resident())
}

//! Tiles from global memory to shared memory, by way of registers, so that the next one is under way during arithmetic.

use warpfold_lang::{Global, Shared, Val, thread_idx};

use super::accumulator::Accumulator;
use super::problem::Matrix;
use super::tile::PAD;
use crate::Dtype;
use crate::elements;

/// Elements of a wide access.
const WIDTH: u32 = 4;

/// How a matrix is read. Its *lines* are the rows of `a` or the columns of `b`: what becomes rows or columns of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// The element type.
    pub dtype: Dtype,
    /// Which elements neighbouring threads take.
    pub along: Along,
    /// Whether a thread takes four of them at once.
    pub wide: bool,
}

/// A direction in a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Along {
    /// That of the sums.
    Depth,
    /// From line to line.
    Lines,
}

impl Load {
    /// The best way to read a matrix whose rows are lines, of so many lines, each of `k` elements.
    pub(super) fn of(matrix: &Matrix, lines: u64, k: u64) -> Self {
        let dtype = matrix.dtype;
        let load = |along, wide| Self { dtype, along, wide };
        if matrix.groups_are_wide(k, WIDTH.into()) {
            load(Along::Depth, true)
        } else if matrix.transposed().groups_are_wide(lines, WIDTH.into()) {
            load(Along::Lines, true)
        } else if matrix.column_stride.unsigned_abs() <= matrix.row_stride.unsigned_abs() {
            load(Along::Depth, false)
        } else {
            load(Along::Lines, false)
        }
    }

    /// As part of a kernel's name: `f32_dw`.
    pub(super) fn key(self) -> String {
        let along = if self.along == Along::Depth { "d" } else { "l" };
        format!("{}_{along}{}", self.dtype, if self.wide { "w" } else { "" })
    }

    fn width(self) -> u32 {
        if self.wide { WIDTH } else { 1 }
    }
}

/// A tile's place in both memories, while a kernel is recorded.
pub(super) struct Loader<A: Accumulator> {
    pub(super) load: Load,
    /// Lines of the tile, and its depth.
    pub(super) sides: [u32; 2],
    pub(super) threads: u32,
    /// The matrix's first element at the block's position in the batch.
    pub(super) first: Global<u8>,
    /// From line to line, and along the sums.
    pub(super) strides: [Val<i64>; 2],
    /// The block's first line, and how many lines there are.
    pub(super) lines: [Val<u32>; 2],
    /// Two stages of `depth` rows of all lines.
    pub(super) tile: Shared<A>,
    /// Where sums end, if a step may reach beyond it.
    pub(super) end: Option<Val<u32>>,
}

/// What a thread brings of each tile.
struct Unit {
    /// The first element's line in the tile, and its depth.
    place: [Val<u32>; 2],
    /// The line in the matrix. Beyond the last line it is the last: what comes of it is not stored.
    line: Global<u8>,
    /// Whether the thread has such a unit at all; unknown if all have.
    exists: Option<Val<bool>>,
}

/// A thread's part of a tile, and its way there.
pub(super) struct Ready<A: Accumulator> {
    loader: Loader<A>,
    units: Vec<Unit>,
}

impl<A: Accumulator> Loader<A> {
    fn pitch(&self) -> u32 {
        self.sides[0] + PAD
    }

    /// Computes the addresses that do not change from step to step.
    pub(super) fn ready(self) -> Ready<A> {
        let (width, [lines, depth]) = (self.load.width(), self.sides);
        let num_units = lines * depth / width;
        let unit = |i: u32| {
            let number = thread_idx().x + i * self.threads;
            let exists = (num_units % self.threads != 0).then(|| number.lt(num_units));
            let number = if exists.is_some() { number.min(num_units - 1) } else { number };
            let [line, deep] = match self.load.along {
                Along::Depth => [number / (depth / width), number % (depth / width) * width],
                Along::Lines => [number % (lines / width) * width, number / (lines / width)],
            };
            let [first, num_lines] = self.lines;
            let last = if self.load.along == Along::Lines { num_lines - width } else { num_lines - 1 };
            let offset = (first + line).min(last).cast::<i64>() * self.strides[0];
            Unit { place: [line, deep], line: self.at(self.first, offset), exists }
        };
        let units = (0..num_units.div_ceil(self.threads)).map(unit).collect();
        Ready { loader: self, units }
    }

    fn at(&self, from: Global<u8>, elements: Val<i64>) -> Global<u8> {
        from.at(elements * self.load.dtype.bytes() as i64)
    }
}

impl<A: Accumulator> Ready<A> {
    /// Both stages in shared memory.
    pub(super) fn tile(&self) -> Shared<A> {
        self.loader.tile
    }

    /// Elements from one row to the next in shared memory.
    pub(super) fn pitch(&self) -> u32 {
        self.loader.pitch()
    }

    /// Loads the thread's part of the tile whose sums begin at `step`.
    pub(super) fn load(&self, step: Val<u32>) -> Vec<Vec<Val<A>>> {
        self.units.iter().map(|unit| self.load_unit(unit, step)).collect()
    }

    fn load_unit(&self, unit: &Unit, step: Val<u32>) -> Vec<Val<A>> {
        let Loader { load, strides, end, .. } = &self.loader;
        let deep = step + unit.place[1];
        // Beyond the end the last element is loaded in place of none.
        let last = if load.along == Along::Depth { load.width() } else { 1 };
        let inside = end.map(|end| deep.lt(end));
        let deep = end.map_or(deep, |end| deep.min(end - last));
        let from = self.loader.at(unit.line, deep.cast::<i64>() * strides[1]);
        let values = elements::load::<A, _>(load.dtype, from, load.width(), load.wide);
        match inside {
            None => values,
            Some(inside) => values.into_iter().map(|value| inside.select::<A>(value, A::ZERO)).collect(),
        }
    }

    /// Stores what was loaded to the stage that begins at an element.
    pub(super) fn store(&self, stage: Val<u32>, units: &[Vec<Val<A>>]) {
        let pitch = self.loader.pitch();
        for (unit, values) in self.units.iter().zip(units) {
            let [line, deep] = unit.place;
            let place = self.loader.tile.at(stage + deep * pitch + line);
            match (self.loader.load.along, values.as_slice()) {
                (Along::Lines, [a, b, c, d]) => A::set_four(place, [*a, *b, *c, *d], unit.exists),
                (_, values) => {
                    for (i, value) in (0_u32..).zip(values) {
                        let place = place.at(i * pitch);
                        match unit.exists {
                            None => place.set(*value),
                            Some(exists) => place.set_if(*value, exists),
                        }
                    }
                }
            }
        }
    }
}

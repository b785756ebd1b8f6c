//! Matrices whose elements lie at strides, as the main loop takes them.

use warpfold_lang::{Global, Shared, Val};

use super::accumulator::Accumulator;
use super::problem::Matrix;
use super::supply::{Along, Supply, Unit, Units};
use crate::Dtype;
use crate::elements;

/// Elements of a wide access.
const WIDTH: u32 = 4;

/// How a matrix is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// The element type.
    pub dtype: Dtype,
    /// Which elements neighbouring threads take.
    pub along: Along,
    /// Whether a thread takes four of them at once.
    pub wide: bool,
}

impl Load {
    /// The best way to read a matrix whose rows are lines, of so many lines, each of `k` elements.
    pub(crate) fn of(matrix: &Matrix, lines: u64, k: u64) -> Self {
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
    pub(crate) fn key(self) -> String {
        let along = if self.along == Along::Depth { "d" } else { "l" };
        format!("{}_{along}{}", self.dtype, if self.wide { "w" } else { "" })
    }

    fn width(self) -> u32 {
        if self.wide { WIDTH } else { 1 }
    }
}

/// A tile's place in both memories, while a kernel is recorded.
pub(crate) struct Loader<A: Accumulator> {
    pub(crate) load: Load,
    /// Lines of the tile, and its depth.
    pub(crate) sides: [u32; 2],
    pub(crate) threads: u32,
    /// The matrix's first element at the block's position in the batch.
    pub(crate) first: Global<u8>,
    /// From line to line, and along the sums.
    pub(crate) strides: [Val<i64>; 2],
    /// The block's first line, and how many lines there are.
    pub(crate) lines: [Val<u32>; 2],
    /// Two stages of `depth` rows of all lines.
    pub(crate) tile: Shared<A>,
    /// Where sums end, if a step may reach beyond it.
    pub(crate) end: Option<Val<u32>>,
}

/// A thread's part of the tiles of a matrix.
pub(crate) struct Strided<A: Accumulator> {
    loader: Loader<A>,
    units: Units<A>,
    /// Where the line of each unit begins. Beyond the last line it is the last: what comes of it is not stored.
    lines: Vec<Global<u8>>,
}

impl<A: Accumulator> Loader<A> {
    /// Computes the addresses that do not change from step to step.
    pub(crate) fn ready(self) -> Strided<A> {
        let width = self.load.width();
        let units = Units::new(self.load.along, width, self.sides, self.threads, self.tile);
        let [first, num_lines] = self.lines;
        let last = if self.load.along == Along::Lines { num_lines - width } else { num_lines - 1 };
        let line = |unit: &Unit| self.at(self.first, (first + unit.line).min(last).cast::<i64>() * self.strides[0]);
        let lines = units.units.iter().map(line).collect();
        Strided { units, lines, loader: self }
    }

    fn at(&self, from: Global<u8>, elements: Val<i64>) -> Global<u8> {
        from.at(elements * self.load.dtype.bytes() as i64)
    }
}

impl<A: Accumulator> Supply<A> for Strided<A> {
    fn units(&self) -> &Units<A> {
        &self.units
    }

    fn load_unit(&self, index: usize, unit: &Unit, step: Val<u32>) -> Vec<Val<A>> {
        let Loader { load, strides, end, .. } = &self.loader;
        let deep = step + unit.deep;
        // Beyond the end the last element is loaded in place of none.
        let last = if load.along == Along::Depth { load.width() } else { 1 };
        let inside = end.map(|end| deep.lt(end));
        let deep = end.map_or(deep, |end| deep.min(end - last));
        let from = self.loader.at(self.lines[index], deep.cast::<i64>() * strides[1]);
        let values = elements::load::<A, _>(load.dtype, from, load.width(), load.wide);
        match inside {
            None => values,
            Some(inside) => values.into_iter().map(|value| inside.select::<A>(value, A::ZERO)).collect(),
        }
    }
}

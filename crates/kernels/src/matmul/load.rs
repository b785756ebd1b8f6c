//! Loads of a strided matrix for the main loop on CUDA cores.

use warpfold_lang::{Global, Shared, Val, when};

use super::accumulator::Accumulator;
use super::operand_major::OperandMajor;
use super::problem::Matrix;
use super::tile_loader::{LoadUnit, TileLoader, Unit, Units};
use crate::Dtype;
use crate::elements;

/// Elements of a wide access.
const WIDTH: u32 = 4;

/// How a matrix is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    /// The element type.
    pub dtype: Dtype,
    /// Which elements neighbouring threads take.
    pub major: OperandMajor,
    /// Whether a thread takes four of them at once.
    pub wide: bool,
    /// Whether they are copied in the background; else they go by way of registers.
    pub copied: bool,
}

impl Load {
    /// The best way to read a matrix whose rows are lines, of this many lines, each of `k`
    /// elements.
    pub(crate) fn of(matrix: &Matrix, lines: u64, k: u64) -> Self {
        let copied = is_kept(matrix.dtype) && is_near(matrix);
        let load = |major, wide| {
            // What is copied along the sums goes to as many rows of shared memory as it has
            // elements, and so one by one.
            let wide = wide && !(copied && major == OperandMajor::K);
            Self { dtype: matrix.dtype, major, wide, copied }
        };
        if matrix.groups_are_wide(k, WIDTH.into()) {
            load(OperandMajor::K, true)
        } else if matrix.transposed().groups_are_wide(lines, WIDTH.into()) {
            load(OperandMajor::Mn, true)
        } else if matrix.column_stride.unsigned_abs() <= matrix.row_stride.unsigned_abs() {
            load(OperandMajor::K, false)
        } else {
            load(OperandMajor::Mn, false)
        }
    }

    /// As part of a kernel's name: `f32_dc`.
    pub(crate) fn key(self) -> String {
        let major = if self.major == OperandMajor::K { "d" } else { "l" };
        let flag = |is: bool, key: &'static str| if is { key } else { "" };
        format!("{}_{major}{}{}", self.dtype, flag(self.wide, "w"), flag(self.copied, "c"))
    }

    fn width(self) -> u32 {
        if self.wide { WIDTH } else { 1 }
    }
}

/// Whether elements are multiplied as they lie, so that they can be copied.
fn is_kept(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64)
}

/// Whether 32 bits count the bytes of any tile: so a thread keeps the places of its copies in half
/// the registers.
fn is_near(matrix: &Matrix) -> bool {
    let Matrix { row_stride, column_stride, .. } = *matrix;
    let reach = i128::from(row_stride.max(column_stride)) * 1024 * i128::from(matrix.dtype.bytes());
    row_stride.min(column_stride) >= 0 && reach < 1 << 32
}

/// A tile's place in both memories, while a kernel is recorded.
pub(crate) struct MatrixLoader<A: Accumulator> {
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
    /// Stages of `depth` rows of all lines.
    pub(crate) tile: Shared<A>,
    /// Where sums end, if a step may reach beyond it.
    pub(crate) end: Option<Val<u32>>,
}

/// A thread's part of the tiles of a matrix.
pub(crate) struct Strided<A: Accumulator> {
    loader: MatrixLoader<A>,
    units: Units<A>,
    places: Places,
}

/// Where a thread's units begin. Beyond the last line it is the last: what comes of it is not
/// stored.
enum Places {
    /// The line of each unit.
    Lines(Vec<Global<u8>>),
    /// The block's first line, and the bytes from there to each unit.
    Bytes(Global<u8>, Vec<Val<u32>>),
}

impl<A: Accumulator> MatrixLoader<A> {
    /// Computes the addresses that do not change from step to step.
    pub(crate) fn ready(self) -> Strided<A> {
        let width = self.load.width();
        let units = Units::new(self.load.major, width, self.sides, self.threads, self.tile);
        let [first, num_lines] = self.lines;
        let last = if self.load.major == OperandMajor::Mn { num_lines - width } else { num_lines - 1 };
        let line = |unit: &Unit| (first + unit.line).min(last);
        let at = |line: Val<u32>| self.at(self.first, line.cast::<i64>() * self.strides[0]);
        let places = if self.load.copied {
            let bytes = self.load.dtype.bytes() as u32;
            let [major, deep] = self.strides.map(|stride| stride.cast::<u32>() * bytes);
            let offset = |unit: &Unit| (line(unit) - first) * major + unit.deep * deep;
            Places::Bytes(at(first), units.units.iter().map(offset).collect())
        } else {
            Places::Lines(units.units.iter().map(|unit| at(line(unit))).collect())
        };
        Strided { units, places, loader: self }
    }

    fn at(&self, from: Global<u8>, elements: Val<i64>) -> Global<u8> {
        from.at(elements * self.load.dtype.bytes() as i64)
    }
}

impl<A: Accumulator> Strided<A> {
    fn copy_unit(&self, unit: &Unit, step: Val<u32>, from: Global<u8>, to: Shared<A>) {
        let MatrixLoader { load, end, .. } = &self.loader;
        let from = from.reinterpret::<A>();
        let inside = end.map(|end| (step + unit.deep).lt(end));
        let copy = || match (load.wide, inside) {
            (true, inside) => A::copy_four(to, from, inside),
            (false, Some(inside)) => to.copy_async_or_zero::<1>(from, inside),
            (false, None) => to.copy_async::<1>(from),
        };
        match unit.exists {
            None => copy(),
            Some(exists) => when(exists, copy),
        }
    }

    fn load_unit(&self, unit: &Unit, step: Val<u32>, line: Global<u8>) -> Vec<Val<A>> {
        let MatrixLoader { load, strides, end, .. } = &self.loader;
        let deep = step + unit.deep;
        // Beyond the end the last element is loaded instead of none.
        let last = if load.major == OperandMajor::K { load.width() } else { 1 };
        let inside = end.map(|end| deep.lt(end));
        let deep = end.map_or(deep, |end| deep.min(end - last));
        let from = self.loader.at(line, deep.cast::<i64>() * strides[1]);
        let values = elements::load::<A, _>(load.dtype, from, load.width(), load.wide);
        match inside {
            None => values,
            Some(inside) => values.into_iter().map(|value| inside.select::<A>(value, A::ZERO)).collect(),
        }
    }
}

impl<A: Accumulator> TileLoader<A> for Strided<A> {
    fn units(&self) -> &Units<A> {
        &self.units
    }

    fn copies(&self) -> bool {
        self.loader.load.copied
    }

    fn tile_at(&self, step: Val<u32>) -> LoadUnit<'_, A> {
        let units = &self.units.units;
        match &self.places {
            Places::Lines(lines) => Box::new(move |index, _| Some(self.load_unit(&units[index], step, lines[index]))),
            Places::Bytes(first, offsets) => {
                let first = self.loader.at(*first, step.cast::<i64>() * self.loader.strides[1]);
                Box::new(move |index, to| {
                    self.copy_unit(&units[index], step, first.at(offsets[index]), to);
                    None
                })
            }
        }
    }
}

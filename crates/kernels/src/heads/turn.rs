//! What a thread does with its part of a head: it turns some pairs, or takes elements that stay.

use half::{bf16, f16};
use warpfold_lang::{Global, Val, when_else};

use super::Pairs;
use crate::Dtype;
use crate::elements::load;

/// How a head is dealt to threads: units of some pairs each, then units of elements that stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HeadTurn {
    pub(super) pairs: Pairs,
    pub(super) head_dim: u32,
    pub(super) rotary_dim: u32,
    /// Pairs of a unit, and its elements where they stay.
    pub(super) width: u32,
}

/// Elements of a head in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// The first element.
    pub(super) memory: Global<u8>,
    pub(super) dtype: Dtype,
    /// From one element to the next.
    pub(super) stride: Val<i64>,
}

impl Line {
    /// The address of an element.
    pub(super) fn at(&self, column: Val<u32>) -> Global<u8> {
        self.memory.at(column.cast::<i64>() * self.stride * self.dtype.bytes() as i64)
    }

    /// Elements from a column on, at most one where they do not lie side by side.
    pub(super) fn load(&self, column: Val<u32>, width: u32) -> Vec<Val<f32>> {
        load(self.dtype, self.at(column), width, width > 1)
    }
}

/// The cosines and sines of a position: side by side, one of each for a pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tables {
    pub(super) cos: Line,
    pub(super) sin: Line,
}

impl HeadTurn {
    /// Units of a head.
    pub(super) const fn units(&self) -> u32 {
        (self.rotary_dim / 2 + self.head_dim - self.rotary_dim) / self.width
    }

    /// Does a unit of a head: gives what becomes of its elements to `store`, with the column of the
    /// first.
    pub(super) fn each(&self, unit: Val<u32>, from: Line, tables: Tables, store: impl Fn(Val<u32>, &[Val<f32>])) {
        let Self { head_dim, rotary_dim, width, .. } = *self;
        let turning = rotary_dim / 2 / width;
        let stay = || {
            let column = (unit - turning) * width + rotary_dim;
            store(column, &from.load(column, width));
        };
        match (turning, rotary_dim == head_dim) {
            (0, _) => stay(),
            (_, true) => self.turn(unit, from, tables, &store),
            _ => when_else(unit.lt(turning), || self.turn(unit, from, tables, &store), stay),
        }
    }

    fn turn(&self, unit: Val<u32>, from: Line, tables: Tables, store: &impl Fn(Val<u32>, &[Val<f32>])) {
        let Self { pairs, rotary_dim, width, .. } = *self;
        let columns = match pairs {
            Pairs::Halves => [unit * width, unit * width + rotary_dim / 2],
            Pairs::Interleaved => [unit * (2 * width), unit * (2 * width) + width],
        };
        let loaded = columns.map(|column| from.load(column, width));
        let (cos, sin) = (tables.cos.load(unit * width, width), tables.sin.load(unit * width, width));
        let pair = |i: usize| match pairs {
            Pairs::Halves => (loaded[0][i], loaded[1][i]),
            Pairs::Interleaved => {
                let element = |i: usize| loaded[i / width as usize][i % width as usize];
                (element(2 * i), element(2 * i + 1))
            }
        };
        let turned = (0..width as usize).map(|i| {
            let (x, y) = pair(i);
            (x * cos[i] - y * sin[i], x * sin[i] + y * cos[i])
        });
        let (real, imaginary): (Vec<_>, Vec<_>) = turned.unzip();
        let results: Vec<Val<f32>> = match pairs {
            Pairs::Halves => real.into_iter().chain(imaginary).collect(),
            Pairs::Interleaved => real.into_iter().zip(imaginary).flat_map(|(x, y)| [x, y]).collect(),
        };
        for (column, results) in columns.into_iter().zip(results.chunks(width as usize)) {
            store(column, results);
        }
    }
}

/// Reads a position of a list, kept inside of a table.
pub(super) fn position(dtype: Dtype, place: Global<u8>, rows: Val<u32>) -> Val<i64> {
    let position = load::<i64, _>(dtype, place, 1, false)[0];
    position.max(0).min(rows.cast::<i64>() - 1)
}

/// Rounds to a type of 16 bits.
pub(super) fn rounded(dtype: Dtype, value: Val<f32>) -> Val<f32> {
    match dtype {
        Dtype::F16 => value.cast::<f16>().cast(),
        Dtype::Bf16 => value.cast::<bf16>().cast(),
        _ => value,
    }
}

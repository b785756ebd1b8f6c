//! Tiles from global memory to shared memory, by way of registers, so that the next one is under way during arithmetic.

use warpfold_lang::{Shared, Val, thread_idx};

use super::accumulator::Accumulator;
use super::tile::PAD;

/// A direction in a matrix of *lines*: the rows of `a` or the columns of `b`, what becomes rows or columns of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Along {
    /// That of the sums.
    Depth,
    /// From line to line.
    Lines,
}

/// What a thread brings of each tile: one element, or four neighbours along a direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    /// The first element's line in the tile.
    pub(crate) line: Val<u32>,
    /// Its depth.
    pub(crate) deep: Val<u32>,
    /// Whether the thread has such a unit at all; unknown if all have.
    exists: Option<Val<bool>>,
}

/// How a tile comes to shared memory: which elements a thread brings, and where they go.
#[derive(Debug)]
pub(crate) struct Units<A: Accumulator> {
    /// Those of the thread.
    pub(crate) units: Vec<Unit>,
    along: Along,
    /// Elements from one row to the next in shared memory: a row has all lines at one depth.
    pub(crate) pitch: u32,
    /// Two stages, one behind the other.
    pub(crate) tile: Shared<A>,
}

/// One of the two matrices, as the main loop sees it.
pub(crate) trait Supply<A: Accumulator> {
    /// How its tiles come to shared memory.
    fn units(&self) -> &Units<A>;

    /// Loads the elements of a unit from the tile whose sums begin at `step`.
    fn load_unit(&self, index: usize, unit: &Unit, step: Val<u32>) -> Vec<Val<A>>;

    /// Loads the thread's part of the tile whose sums begin at `step`.
    fn load(&self, step: Val<u32>) -> Vec<Vec<Val<A>>> {
        self.units().units.iter().enumerate().map(|(index, unit)| self.load_unit(index, unit, step)).collect()
    }
}

impl<A: Accumulator> Units<A> {
    /// Shares a tile of so many lines and so much depth out to threads, `width` elements (1 or 4) at a time.
    pub(crate) fn new(along: Along, width: u32, [lines, depth]: [u32; 2], threads: u32, tile: Shared<A>) -> Self {
        let num_units = lines * depth / width;
        let unit = |i: u32| {
            let number = thread_idx().x + i * threads;
            let exists = (!num_units.is_multiple_of(threads)).then(|| number.lt(num_units));
            let number = if exists.is_some() { number.min(num_units - 1) } else { number };
            let [line, deep] = match along {
                Along::Depth => [number / (depth / width), number % (depth / width) * width],
                Along::Lines => [number % (lines / width) * width, number / (lines / width)],
            };
            Unit { line, deep, exists }
        };
        let units = (0..num_units.div_ceil(threads)).map(unit).collect();
        Self { units, along, pitch: lines + PAD, tile }
    }

    /// Stores what was loaded to the stage that begins at an element.
    pub(crate) fn store(&self, stage: Val<u32>, loaded: &[Vec<Val<A>>]) {
        for (unit, values) in self.units.iter().zip(loaded) {
            let place = self.tile.at(stage + unit.deep * self.pitch + unit.line);
            match (self.along, values.as_slice()) {
                (Along::Lines, [a, b, c, d]) => A::set_four(place, [*a, *b, *c, *d], unit.exists),
                (_, values) => {
                    for (i, value) in (0_u32..).zip(values) {
                        let place = place.at(i * self.pitch);
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

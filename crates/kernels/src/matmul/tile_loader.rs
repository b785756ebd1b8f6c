//! Tiles from global to shared memory: by `cp.async`, or through registers where elements are
//! converted.

use warpfold_lang::{Shared, Val, thread_idx};

use super::accumulator::Accumulator;
use super::operand_major::OperandMajor;
use super::tile::PAD;

/// What a thread brings of each tile: one element, or four neighbours along a direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    /// The first element's line in the tile.
    pub(crate) line: Val<u32>,
    /// Its depth.
    pub(crate) deep: Val<u32>,
    /// Lines and steps from the thread's first unit, where every thread has the same ones from unit
    /// to unit: so addresses differ by constants.
    pub(crate) apart: Option<[u32; 2]>,
    /// Whether the thread has such a unit at all; unknown if all have.
    pub(crate) exists: Option<Val<bool>>,
}

/// How a tile comes to shared memory: which elements a thread brings, and where they go.
#[derive(Debug)]
pub(crate) struct Units<A: Accumulator> {
    /// Those of the thread.
    pub(crate) units: Vec<Unit>,
    major: OperandMajor,
    /// Elements from one row to the next in shared memory: a row has all lines at one depth.
    pub(crate) pitch: u32,
    /// Stages, one after the other.
    pub(crate) tile: Shared<A>,
}

/// Brings a unit of a tile: begins to copy it to its place, or loads it, and what is returned is to
/// be stored there.
pub(crate) type LoadUnit<'a, A> = Box<dyn Fn(usize, Shared<A>) -> Option<Vec<Val<A>>> + 'a>;

/// One of the two matrices, as the main loop sees it.
pub(crate) trait TileLoader<A: Accumulator> {
    /// How its tiles come to shared memory.
    fn units(&self) -> &Units<A>;

    /// Whether units are copied.
    fn copies(&self) -> bool {
        false
    }

    /// The way of the tile whose sums begin at `step`.
    fn tile_at(&self, step: Val<u32>) -> LoadUnit<'_, A>;
}

/// Steps of a line that neighbouring threads of large blocks bring, before they go on to the next
/// line: these and four lines lie in all banks of shared memory, each in one (46.6 TFLOP/s become
/// 48.5 where both factors lie along the sums, 4,096 rows and columns, H200, 2026-11-20). Small
/// blocks bring more often, and are faster with whole lines.
const STEPS: u32 = 32 / PAD;

// THRESHOLD: large blocks bring a tile in steps; tested by
// crates/kernels/tests/matmul/main.rs::every_tile_is_exact_at_every_boundary
/// Threads of a large block.
const LARGE: u32 = 256;

impl<A: Accumulator> Units<A> {
    /// Shares a tile of this many lines and so much depth out to threads, `width` elements (1 or 4)
    /// at a time.
    pub(crate) fn new(
        major: OperandMajor,
        width: u32,
        [lines, depth]: [u32; 2],
        threads: u32,
        tile: Shared<A>,
    ) -> Self {
        let num_units = lines * depth / width;
        let deep = if threads >= LARGE && depth.is_multiple_of(STEPS) { STEPS } else { depth };
        // Units side by side along the direction, before the next row of them begins.
        let per_row = if major == OperandMajor::K { deep } else { lines } / width;
        let place = |number: Val<u32>| {
            let (row, side) = (number / per_row, number % per_row * width);
            match major {
                OperandMajor::K => [row % lines, side + row / lines * deep],
                OperandMajor::Mn => [side, row],
            }
        };
        let first = place(thread_idx().x);
        let rows = threads / per_row;
        let is_even = num_units.is_multiple_of(threads) && threads.is_multiple_of(per_row);
        let unit = |i: u32| {
            if is_even && (major == OperandMajor::Mn || lines.is_multiple_of(rows)) {
                let rows = i * rows;
                let apart = if major == OperandMajor::K { [rows % lines, rows / lines * deep] } else { [0, rows] };
                return Unit { line: first[0] + apart[0], deep: first[1] + apart[1], apart: Some(apart), exists: None };
            }
            let number = thread_idx().x + i * threads;
            let exists = (!num_units.is_multiple_of(threads)).then(|| number.lt(num_units));
            let number = if exists.is_some() { number.min(num_units - 1) } else { number };
            let [line, deep] = place(number);
            Unit { line, deep, apart: None, exists }
        };
        let units = (0..num_units.div_ceil(threads)).map(unit).collect();
        Self { units, major, pitch: lines + PAD, tile }
    }

    /// The place of a unit in the stage that begins at an element.
    pub(crate) fn place(&self, stage: Val<u32>, index: usize) -> Shared<A> {
        let at = |unit: &Unit| self.tile.at(stage + unit.deep * self.pitch + unit.line);
        match self.units[index].apart {
            None => at(&self.units[index]),
            Some([lines, steps]) => at(&self.units[0]).at(steps * self.pitch + lines),
        }
    }

    /// Stores a unit that was loaded at its place.
    pub(crate) fn store(&self, index: usize, place: Shared<A>, values: &[Val<A>]) {
        let exists = self.units[index].exists;
        match (self.major, values) {
            (OperandMajor::Mn, [a, b, c, d]) => A::set_four(place, [*a, *b, *c, *d], exists),
            (_, values) => {
                for (i, value) in (0_u32..).zip(values) {
                    let place = place.at(i * self.pitch);
                    match exists {
                        None => place.set(*value),
                        Some(exists) => place.set_if(*value, exists),
                    }
                }
            }
        }
    }
}

//! The main loop by `mma.sync`: all threads copy a few stages ahead, and each warp multiplies its
//! fragments of the current stage while it loads those of the next step, also across stages.
//! (Without that, tiles of 128 x 256 reach 372 instead of 440 TFLOP/s: bf16 4096^3, H200, driver
//! 580, 2026-11-20.)

use warpfold_lang::{
    Fragment, FragmentVar, LinesOfA, LinesOfB, Multiplicand, Sum, Val, Var, WarpSums, commit_copies, range,
    sync_threads, var, wait_for_copies, warp_id, when,
};

use super::ring::Ring;
use super::tile::MmaTile;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::epilogue_writer::EpilogueWriter;

/// Where a factor's tiles come from.
pub(crate) trait StageLoader<T> {
    /// Where they go.
    fn ring(&self) -> &Ring<T>;

    /// Begins to copy this thread's pieces of the tile that begins at a step of the sums.
    fn copy(&self, stage: Val<u32>, step: Val<u32>);
}

/// What a warp multiplies in a step: its lines of both factors.
struct Fragments<T> {
    of_a: Vec<Fragment<T, 4>>,
    of_b: Vec<Fragment<T, 2>>,
}

/// Registers for that of a stage's first step.
struct First<T> {
    of_a: Vec<FragmentVar<T, 4>>,
    of_b: Vec<FragmentVar<T, 2>>,
}

/// A warp's lines of both factors in the ring of stages, or in one of them.
struct Lines<T> {
    of_a: LinesOfA<T>,
    of_b: LinesOfB<T>,
    /// How many there are of each.
    num: [u32; 2],
}

/// The sums of a warp: its share of the block's tile.
pub(crate) struct WarpTile<T: Multiplicand> {
    tile: MmaTile,
    /// Which warp it is, from above and from the left.
    warp: [Val<u32>; 2],
    /// For each 16 rows, those of each 8 columns.
    sums: Vec<Vec<WarpSums<T>>>,
}

impl<T: Multiplicand> WarpTile<T> {
    /// Zeros.
    pub(crate) fn new(tile: MmaTile) -> Self {
        let warp = [warp_id() / tile.warps[1], warp_id() % tile.warps[1]];
        let [rows, columns] = tile.warp;
        let row_of_sums = |_| (0..columns / 8).map(|_| WarpSums::zero()).collect();
        Self { tile, warp, sums: (0..rows / 16).map(row_of_sums).collect() }
    }

    /// Adds the products from `begin` to `end`, of which there is one at least.
    pub(crate) fn add_products(&self, [a, b]: [&dyn StageLoader<T>; 2], [begin, end]: [Val<u32>; 2]) {
        let (depth, ahead) = (self.tile.depth(T::BYTES), self.tile.stages - 1);
        let copy = |stage: Val<u32>, step: Val<u32>| {
            when(step.lt(end), || {
                a.copy(stage, step);
                b.copy(stage, step);
            });
            // A group for every stage, also where there is nothing left to copy, so that waits can
            // count.
            commit_copies();
        };
        // After it the next stage is there for all, and the one before it nobody reads any more.
        let wait = || {
            wait_for_copies(ahead - 1);
            sync_threads();
        };
        let lines = Lines::new(self.tile, self.warp, [a.ring(), b.ring()]);
        for stage in 0..ahead {
            copy(Val::constant(stage), begin + stage * depth);
        }
        wait();
        let (full, empty) = (var(0_u32), var(ahead));
        let first = lines.load(0).var();
        let last = begin + (end - begin - 1) / depth * depth;
        range(begin, last, depth, |step| {
            copy(empty.get(), step + ahead * depth);
            self.multiply_stage(&lines.of_stage(full), first.get(), || {
                wait();
                for stage in [full, empty] {
                    stage.set(stage.get().eq(ahead).select(0_u32, stage.get() + 1));
                }
                first.set(lines.of_stage(full).load(0));
            });
        });
        self.multiply_stage(&lines.of_stage(full), first.get(), || ());
    }

    /// Multiplies a stage, while the fragments of the next step are loaded: those of the next
    /// stage's first step by `next`.
    fn multiply_stage(&self, stage: &Lines<T>, first: Fragments<T>, next: impl FnOnce()) {
        let mut now = first;
        for step in (T::STEP..self.tile.depth(T::BYTES)).step_by(T::STEP as usize) {
            let then = stage.load(step);
            self.multiply(&now);
            now = then;
        }
        next();
        self.multiply(&now);
    }

    fn multiply(&self, fragments: &Fragments<T>) {
        for (row_of_sums, a) in self.sums.iter().zip(&fragments.of_a) {
            row_of_sums.iter().zip(&fragments.of_b).for_each(|(sums, b)| sums.add_product(*a, *b));
        }
    }

    /// Finishes and stores the sums of a block whose tile begins at this row and column.
    pub(crate) fn store(&self, writer: &EpilogueWriter<'_, T::Sum>, [row, column]: [Val<u32>; 2])
    where
        T::Sum: Accumulator + Sum,
    {
        let [row, column] = [row + self.warp[0] * self.tile.warp[0], column + self.warp[1] * self.tile.warp[1]];
        for (i, row_of_sums) in (0..).zip(&self.sums) {
            for (j, sums) in (0..).zip(row_of_sums) {
                for (down, along, pair) in sums.pairs() {
                    writer.store_row(&pair, row + 16 * i + down, column + 8 * j + along);
                }
            }
        }
    }
}

impl<T: Multiplicand> Lines<T> {
    fn new(tile: MmaTile, [down, along]: [Val<u32>; 2], [a, b]: [&Ring<T>; 2]) -> Self {
        let num = tile.warp;
        let of_a = a.tiles.lines_of_a(a.major(), down, num[0]);
        Self { of_a, of_b: b.tiles.lines_of_b(b.major(), along, num[1]), num }
    }

    fn of_stage(&self, stage: Var<u32>) -> Self {
        Self { of_a: self.of_a.of_tile(stage), of_b: self.of_b.of_tile(stage), num: self.num }
    }

    /// Loads what is multiplied in a step.
    fn load(&self, step: u32) -> Fragments<T> {
        let of_a = (0..self.num[0] / 16).map(|i| self.of_a.fragment(16 * i, step)).collect();
        Fragments { of_a, of_b: (0..self.num[1] / 16).flat_map(|j| self.of_b.fragments(16 * j, step)).collect() }
    }
}

impl<T> Fragments<T> {
    fn var(self) -> First<T> {
        let of_a = self.of_a.into_iter().map(Fragment::var).collect();
        First { of_a, of_b: self.of_b.into_iter().map(Fragment::var).collect() }
    }
}

impl<T> First<T> {
    fn get(&self) -> Fragments<T> {
        let of_a = self.of_a.iter().map(FragmentVar::get).collect();
        Fragments { of_a, of_b: self.of_b.iter().map(FragmentVar::get).collect() }
    }

    fn set(&self, next: Fragments<T>) {
        self.of_a.iter().zip(next.of_a).for_each(|(first, next)| first.set(next));
        self.of_b.iter().zip(next.of_b).for_each(|(first, next)| first.set(next));
    }
}

//! The main loop of warps: all threads copy a few stages ahead, and each warp multiplies its lines of the stage at hand
//! while it loads those of the step behind, into the next stage. (Without that tiles of 128 x 256 reach 372 in place of 440
//! TFLOP/s: bf16 4096^3, H200, driver 580, 2026-11-20.)

use warpfold_lang::{
    Fragment, FragmentVar, LinesOfA, LinesOfB, Multiplicand, Sum, Val, Var, WarpSums, commit_copies, range,
    sync_threads, var, wait_for_copies, warp_id, when,
};

use super::ring::Ring;
use super::tile::MmaTile;
use crate::matmul::accumulator::Accumulator;
use crate::matmul::finish::Finish;

/// Where a factor's tiles come from.
pub(crate) trait Feed<T> {
    /// Where they go.
    fn ring(&self) -> &Ring<T>;

    /// Begins to copy this thread's pieces of the tile that begins at a step of the sums.
    fn copy(&self, stage: Val<u32>, step: Val<u32>);
}

/// Pieces of A and of B in registers.
type Fragments<T> = (Vec<Fragment<T, 4>>, Vec<Fragment<T, 2>>);

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
    pub(crate) fn add_products(&self, [a, b]: [&dyn Feed<T>; 2], [begin, end]: [Val<u32>; 2]) {
        let Self { tile: MmaTile { warp: [rows, columns], stages, .. }, warp, sums } = self;
        let depth = self.tile.depth(T::BYTES);
        let lines_a = a.ring().tiles.lines_of_a(a.ring().major(), warp[0], *rows);
        let lines_b = b.ring().tiles.lines_of_b(b.ring().major(), warp[1], *columns);
        let copy = |stage: Val<u32>, step: Val<u32>| {
            when(step.lt(end), || {
                a.copy(stage, step);
                b.copy(stage, step);
            });
            // A group for every stage, also where there is nothing left to copy, so that waits can count.
            commit_copies();
        };
        let load = |(a, b): (&LinesOfA<T>, &LinesOfB<T>), step: u32| -> Fragments<T> {
            let left = (0..rows / 16).map(|i| a.fragment(16 * i, step)).collect();
            (left, (0..columns / 16).flat_map(|j| b.fragments(16 * j, step)).collect())
        };
        let multiply = |(left, right): &Fragments<T>| {
            for (row_of_sums, a) in sums.iter().zip(left) {
                row_of_sums.iter().zip(right).for_each(|(sums, b)| sums.add_product(*a, *b));
            }
        };
        let ahead = stages - 1;
        for stage in 0..ahead {
            copy(Val::constant(stage), begin + stage * depth);
        }
        // The next stage is there for all, and the one before it nobody reads any more.
        let wait = || {
            wait_for_copies(ahead - 1);
            sync_threads();
        };
        wait();
        let (full, empty) = (var(0_u32), var(ahead));
        let advance = |stage: Var<u32>| stage.set(stage.get().eq(ahead).select(0_u32, stage.get() + 1));
        let (left, right) = load((&lines_a, &lines_b), 0);
        let first_a: Vec<_> = left.into_iter().map(Fragment::var).collect();
        let first_b: Vec<_> = right.into_iter().map(Fragment::var).collect();
        // Multiplies the stage at hand, while the fragments of the step behind are loaded; `next` gives those of the next stage.
        let multiply_stage = |next: &dyn Fn()| {
            let (a, b) = (lines_a.of_tile(full), lines_b.of_tile(full));
            let mut now: Fragments<T> =
                (first_a.iter().map(FragmentVar::get).collect(), first_b.iter().map(FragmentVar::get).collect());
            for step in (T::STEP..depth).step_by(T::STEP as usize) {
                let then = load((&a, &b), step);
                multiply(&now);
                now = then;
            }
            next();
            multiply(&now);
        };
        let last = begin + (end - begin - 1) / depth * depth;
        range(begin, last, depth, |step| {
            copy(empty.get(), step + ahead * depth);
            multiply_stage(&|| {
                wait();
                advance(full);
                advance(empty);
                let (left, right) = load((&lines_a.of_tile(full), &lines_b.of_tile(full)), 0);
                first_a.iter().zip(left).for_each(|(first, next)| first.set(next));
                first_b.iter().zip(right).for_each(|(first, next)| first.set(next));
            });
        });
        multiply_stage(&|| ());
    }

    /// Finishes and stores the sums of a block whose tile begins at this row and column.
    pub(crate) fn finish(&self, finish: &Finish<'_, T::Sum>, [row, column]: [Val<u32>; 2])
    where
        T::Sum: Accumulator + Sum,
    {
        let [row, column] = [row + self.warp[0] * self.tile.warp[0], column + self.warp[1] * self.tile.warp[1]];
        for (i, row_of_sums) in (0..).zip(&self.sums) {
            for (j, sums) in (0..).zip(row_of_sums) {
                for (down, along, pair) in sums.pairs() {
                    finish.row(&pair, row + 16 * i + down, column + 8 * j + along);
                }
            }
        }
    }
}

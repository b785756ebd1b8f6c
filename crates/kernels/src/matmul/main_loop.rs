//! The main loop on CUDA cores: a thread's sums, and the FMAs that add tiles in shared memory to
//! them.

use warpfold_lang::{
    Shared, Val, Var, commit_copies, lane_id, range, sync_threads, var, wait_for_copies, warp_id, when,
};

use super::accumulator::Accumulator;
use super::epilogue_writer::{EpilogueWriter, GROUP};
use super::tile::{STAGES, Tile};
use super::tile_loader::{LoadUnit, TileLoader};

/// Steps of the sums from a load to its store: the clocks that a load takes.
const LATENCY: u32 = 4;

/// The sums of a thread: its groups of four by four in the block's tile.
pub(crate) struct Sums<A: Accumulator> {
    tile: Tile,
    /// The first row and column.
    mine: [Val<u32>; 2],
    sums: Vec<Var<A>>,
}

/// A thread's rows of `a` and columns of `b` at one step of the sums.
type Fragments<A> = [Vec<Val<A>>; 2];

/// What a thread loaded of a tile by way of registers, and its place.
struct Loaded<A: Accumulator> {
    /// Which factor's.
    which: usize,
    /// Which of the thread's units.
    index: usize,
    place: Shared<A>,
    values: Vec<Val<A>>,
}

/// Adds the products of one step, to and fro: so each shares a factor with the one before, which is
/// not read from registers again.
fn multiply<A: Accumulator>(acc: &mut [Val<A>], [a, b]: &Fragments<A>) {
    for (i, (a, acc)) in a.iter().zip(acc.chunks_mut(b.len())).enumerate() {
        for j in 0..b.len() {
            let j = if i % 2 == 0 { j } else { b.len() - 1 - j };
            acc[j] = a.mul_add(b[j], acc[j]);
        }
    }
}

impl<A: Accumulator> Sums<A> {
    /// Zeros, for the thread's place in the block.
    pub(crate) fn new(tile: Tile) -> Self {
        let [rows, columns] = tile.warp();
        let (warp, lane) = (warp_id(), lane_id());
        let row = warp / tile.warps_across * rows + lane / tile.lanes_across * 4;
        let column = warp % tile.warps_across * columns + lane % tile.lanes_across * 4;
        let [thread_rows, thread_columns] = tile.thread;
        let sums = (0..thread_rows * thread_columns).map(|_| var::<A>(Val::constant(A::ZERO))).collect();
        Self { tile, mine: [row, column], sums }
    }

    /// Adds the products from `begin` to `end`, of which there is one at least. While a tile is
    /// multiplied the next one is there, and the one after it is loaded, a piece of it beside each
    /// step: brought at once, copies hold up the multiply-adds after them (48.9 instead of 51.2
    /// TFLOP/s at 4,096 rows and columns, H200, 2026-11-20).
    pub(crate) fn add_products(&self, supplies: [&dyn TileLoader<A>; 2], [begin, end]: [Val<u32>; 2]) {
        let depth = self.tile.depth;
        let units = supplies.map(|supply| supply.units());
        let sizes = units.map(|units| depth * units.pitch);
        let last = begin + (end - begin - 1) / depth * depth;
        let has_copies = supplies.iter().any(|supply| supply.copies());
        let commit = || {
            if has_copies {
                commit_copies()
            }
        };
        // After it the next tile is there, for all threads, and the one before the current one may
        // be overwritten.
        let arrive = || {
            if has_copies {
                wait_for_copies(STAGES - 2);
            }
            sync_threads();
        };
        let pieces: Vec<(usize, usize)> =
            (0..2).flat_map(|which| (0..units[which].units.len()).map(move |index| (which, index))).collect();
        let bring = |tiles: &[LoadUnit<'_, A>; 2], stage: Val<u32>, (which, index): (usize, usize)| {
            let place = units[which].place(stage * sizes[which], index);
            tiles[which](index, place).map(|values| Loaded { which, index, place, values })
        };
        let store = |loaded: &Loaded<A>| units[loaded.which].store(loaded.index, loaded.place, &loaded.values);
        // Fragments
        let apart = [4 * self.tile.lanes_down(), 4 * self.tile.lanes_across];
        let fragments = |stage: Val<u32>, l: u32| -> Fragments<A> {
            [0, 1].map(|i| {
                let row = units[i].tile.at(stage * sizes[i] + self.mine[i]).at(l * units[i].pitch);
                (0..self.tile.thread[i] / 4).flat_map(|group| A::get_four(row.at(group * apart[i]))).collect()
            })
        };
        // Main loop
        let stage = var(0_u32);
        for ahead in 0..STAGES - 1 {
            let tiles = supplies.map(|supply| supply.tile_at((begin + ahead * depth).min(last)));
            for piece in &pieces {
                bring(&tiles, Val::constant(ahead), *piece).iter().for_each(store);
            }
            commit();
        }
        arrive();
        let held = fragments(Val::constant(0), 0)
            .map(|side| side.into_iter().map(|value| var::<A>(value)).collect::<Vec<_>>());
        range(begin, end, depth, |step| {
            let current = stage.get();
            let after = |stage: Val<u32>| stage.eq(STAGES - 1).select(0_u32, stage + 1);
            let (next, free) = (after(current), after(after(current)));
            let tiles = supplies.map(|supply| supply.tile_at((step + (STAGES - 1) * depth).min(last)));
            // What is loaded, and the step beside which it is stored.
            let mut loaded: Vec<(u32, Loaded<A>)> = Vec::new();
            let mut acc: Vec<Val<A>> = self.sums.iter().map(|sum| sum.get()).collect();
            let mut ahead: Fragments<A> = held.each_ref().map(|side| side.iter().map(|value| value.get()).collect());
            for l in 0..depth {
                let share = |l: u32| pieces.len() * l as usize / (depth - 1) as usize;
                let now = &pieces[share(l)..share((l + 1).min(depth - 1))];
                loaded.extend(now.iter().filter_map(|piece| Some((l + LATENCY, bring(&tiles, free, *piece)?))));
                let is_last = l + 1 == depth;
                for (_, loaded) in loaded.extract_if(.., |(due, _)| *due <= l || is_last) {
                    store(&loaded);
                }
                // The last step begins with the next tile's fragments.
                if is_last {
                    commit();
                    arrive();
                }
                let (of, l) = if is_last { (next, 0) } else { (current, l + 1) };
                multiply(&mut acc, &std::mem::replace(&mut ahead, fragments(of, l)));
            }
            self.sums.iter().zip(acc).for_each(|(sum, acc)| sum.set(acc));
            held.iter().flatten().zip(ahead.into_iter().flatten()).for_each(|(held, value)| held.set(value));
            stage.set(next);
        });
        if has_copies {
            wait_for_copies(0);
        }
    }

    /// Finishes and stores them, in a block's tile that begins at a row and a column of the result.
    pub(crate) fn store(&self, writer: &EpilogueWriter<'_, A>, first: [Val<u32>; 2]) {
        self.each_group(first, |values, row, column| writer.store_row(values, row, column));
    }

    /// The same where a column's elements lie at a place of its own, as far as it is inside the
    /// result's `m` and `n`.
    pub(crate) fn store_planes(
        &self,
        writer: &EpilogueWriter<'_, A>,
        first: [Val<u32>; 2],
        [m, n]: [Val<u32>; 2],
        place: impl Fn(Val<u32>) -> Val<u32>,
    ) {
        let len = if writer.is_wide() { GROUP } else { 1 };
        let first_column = first[1] + self.mine[1];
        let groups = (0..self.tile.thread[1] / GROUP).map(|j| first_column + j * (4 * self.tile.lanes_across));
        let columns = groups.flat_map(|column| (0..GROUP).step_by(len as usize).map(move |i| column + i));
        let places: Vec<_> = columns.map(|column| (column.lt(n), place(column))).collect();
        let num = self.tile.thread[1] / len;
        let mut next = 0;
        self.each_group(first, |values, row, _| {
            for values in values.chunks(len as usize) {
                let (exists, place) = places[next % num as usize];
                next += 1;
                when(row.lt(m) & exists, || writer.store_inside(values, row, place));
            }
        });
    }

    /// Neighbours in a row, row by row, each with its row and column.
    fn each_group(
        &self,
        [block_row, block_column]: [Val<u32>; 2],
        mut each: impl FnMut(&[Val<A>], Val<u32>, Val<u32>),
    ) {
        let [rows, columns] = self.tile.thread;
        for (i, sums) in (0..rows).zip(self.sums.chunks(columns as usize)) {
            let row = block_row + self.mine[0] + (i / 4 * (4 * self.tile.lanes_down()) + i % 4);
            for (j, four) in (0..columns / GROUP).zip(sums.chunks(GROUP as usize)) {
                let column = block_column + self.mine[1] + j * (4 * self.tile.lanes_across);
                each(&four.iter().map(|sum| sum.get()).collect::<Vec<_>>(), row, column);
            }
        }
    }
}

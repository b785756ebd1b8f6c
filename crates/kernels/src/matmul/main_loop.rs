//! The main loop on ordinary cores: a thread's sums, and how products are added to them from tiles in shared memory.

use warpfold_lang::{Val, Var, lane_id, range, sync_threads, var, warp_id};

use super::accumulator::Accumulator;
use super::finish::{Finish, GROUP};
use super::supply::Supply;
use super::tile::Tile;

/// The sums of a thread: its groups of four by four in the block's tile.
pub(crate) struct Sums<A: Accumulator> {
    tile: Tile,
    /// The first row and column.
    mine: [Val<u32>; 2],
    sums: Vec<Var<A>>,
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

    /// Adds the products from `begin` to `end`, of which there is one at least: while a step is multiplied the next one is
    /// under way to registers, and goes to the other stage behind the arithmetic.
    pub(crate) fn add_products(&self, supplies: [&dyn Supply<A>; 2], [begin, end]: [Val<u32>; 2]) {
        let depth = self.tile.depth;
        let units = supplies.map(|supply| supply.units());
        let stages = units.map(|units| depth * units.pitch);
        let last = begin + (end - begin - 1) / depth * depth;
        let load = |step: Val<u32>| supplies.map(|supply| supply.load(step));
        let store = |stage: Val<u32>, loaded: &[Vec<Vec<Val<A>>>; 2]| {
            for i in 0..2 {
                units[i].store(stage * stages[i], &loaded[i]);
            }
        };
        // Fragments
        let apart = [4 * self.tile.lanes_down(), 4 * self.tile.lanes_across];
        let fragments = |stage: Val<u32>, l: u32| {
            [0, 1].map(|i| -> Vec<Val<A>> {
                let row = units[i].tile.at(stage * stages[i] + self.mine[i]).at(l * units[i].pitch);
                (0..self.tile.thread[i] / 4).flat_map(|group| A::get_four(row.at(group * apart[i]))).collect()
            })
        };
        // Main loop
        let stage = var(0_u32);
        store(Val::constant(0), &load(begin));
        sync_threads();
        range(begin, end, depth, |step| {
            let (current, other) = (stage.get(), stage.get() ^ 1);
            let next = load((step + depth).min(last));
            let mut acc: Vec<Val<A>> = self.sums.iter().map(|sum| sum.get()).collect();
            let mut ahead = Some(fragments(current, 0));
            for l in 0..depth {
                let [a, b] = ahead.take().expect("there are fragments of every step");
                ahead = (l + 1 < depth).then(|| fragments(current, l + 1));
                for (a, acc) in a.iter().zip(acc.chunks_mut(b.len())) {
                    for (b, acc) in b.iter().zip(acc) {
                        *acc = a.mul_add(*b, *acc);
                    }
                }
            }
            self.sums.iter().zip(acc).for_each(|(sum, acc)| sum.set(acc));
            store(other, &next);
            stage.set(other);
            sync_threads();
        });
    }

    /// Finishes and stores them, in a block's tile that begins at a row and a column of the result.
    pub(crate) fn finish(&self, finish: &Finish<'_, A>, [block_row, block_column]: [Val<u32>; 2]) {
        let [rows, columns] = self.tile.thread;
        for (i, sums) in (0..rows).zip(self.sums.chunks(columns as usize)) {
            let row = block_row + self.mine[0] + (i / 4 * (4 * self.tile.lanes_down()) + i % 4);
            for (j, four) in (0..columns / GROUP).zip(sums.chunks(GROUP as usize)) {
                let column = block_column + self.mine[1] + j * (4 * self.tile.lanes_across);
                finish.row(&four.iter().map(|sum| sum.get()).collect::<Vec<_>>(), row, column);
            }
        }
    }
}

//! The tree over segments inside a block: states of finished subtrees wait on a stack in scratch
//! memory, and are combined as a binary counter carries.

use warpfold_lang::{Global, Val, Var, var, when, while_loop};

use super::state::State;

/// The states of a thread's rows.
pub(super) trait RowStates {
    /// How many rows the thread has.
    fn num(&self) -> u32;
    /// The state of one of them.
    fn get(&self, row: u32) -> State;
    /// Gives it another one.
    fn set(&self, row: u32, state: &State);
}

/// The stack of a thread.
pub(super) struct Tree {
    /// Of the thread. Its words lie by fours, those of the threads side by side, so that accesses of
    /// a warp are wide and coalesced.
    stack: Global<f32>,
    threads: u32,
    /// Columns of a row that a thread has.
    columns: u32,
    rows: u32,
    /// Which levels hold something.
    occupied: Var<u32>,
}

/// Words of the states of a thread.
pub(super) const fn state_words(rows: u32, columns: u32) -> u32 {
    rows * (columns + 2).next_multiple_of(4)
}

impl Tree {
    /// Of this thread, with nothing on the stack, which is in the scratch memory of the block.
    pub(super) fn new(of_block: Global<f32>, (thread, threads): (Val<u32>, u32), rows: u32, columns: u32) -> Self {
        Self { stack: of_block.at(thread * 4), threads, columns, rows, occupied: var(0_u32) }
    }

    /// Makes the stack empty.
    pub(super) fn clear(&self) {
        self.occupied.set(0_u32);
    }

    /// Pushes the states of a segment on the stack, and combines complete pairs: what was pushed
    /// for the segments before is to their left. The states at hand are then of no use.
    pub(super) fn push(&self, states: &dyn RowStates, segment: Val<u32>) {
        let level = var(0_u32);
        while_loop(
            || ((segment >> level.get()) & 1).ne(0),
            || {
                when(((self.occupied.get() >> level.get()) & 1).ne(0), || {
                    self.combine_with_level(states, level.get());
                    self.occupied.set(self.occupied.get() & !(Val::constant(1_u32) << level.get()));
                });
                level.set(level.get() + 1);
            },
        );
        let place = self.level(level.get());
        for row in 0..self.rows {
            let State { max, sum, mut output } = states.get(row);
            output.extend([max, sum]);
            output.resize(output.len().next_multiple_of(4), Val::constant(0.0));
            for (four, place) in output.chunks_exact(4).zip(self.fours(place, row)) {
                place.set_vec([four[0], four[1], four[2], four[3]]);
            }
        }
        self.occupied.set(self.occupied.get() | (Val::constant(1_u32) << level.get()));
    }

    /// Combines all that is left on the stack with the states at hand, which come after it.
    pub(super) fn fold(&self, states: &dyn RowStates) {
        while_loop(
            || self.occupied.get().ne(0),
            || {
                self.combine_with_level(states, self.occupied.get().ctz());
                self.occupied.set(self.occupied.get() & (self.occupied.get() - 1));
            },
        );
    }

    fn level(&self, level: Val<u32>) -> Global<f32> {
        self.stack.at(level.mul_wide(state_words(self.rows, self.columns) * self.threads))
    }

    /// Where the words of a row lie in a level, by fours.
    fn fours(&self, level: Global<f32>, row: u32) -> impl Iterator<Item = Global<f32>> {
        let (of_row, threads) = (state_words(1, self.columns) / 4, self.threads);
        (row * of_row..(row + 1) * of_row).map(move |i| level.at(i * threads * 4))
    }

    /// The states of a level, which come before, combined with those at hand.
    fn combine_with_level(&self, states: &dyn RowStates, level: Val<u32>) {
        let place = self.level(level);
        for row in 0..states.num() {
            let mut output: Vec<_> = self.fours(place, row).flat_map(|place| place.get_vec::<4>()).collect();
            let columns = self.columns as usize;
            let [max, sum] = [output[columns], output[columns + 1]];
            output.truncate(columns);
            let left = State { max, sum, output };
            states.set(row, &left.combine(&states.get(row)));
        }
    }
}

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
    /// Of the thread: its words lie `threads` apart, so that those of a warp are coalesced.
    pub(super) stack: Global<f32>,
    pub(super) threads: u32,
    /// Columns of a row that a thread has.
    pub(super) columns: u32,
    pub(super) rows: u32,
    /// Which levels hold something.
    occupied: Var<u32>,
}

/// Words of the states of a thread.
pub(super) const fn state_words(rows: u32, columns: u32) -> u32 {
    rows * (columns + 2)
}

impl Tree {
    /// With nothing on the stack.
    pub(super) fn new(stack: Global<f32>, threads: u32, rows: u32, columns: u32) -> Self {
        Self { stack, threads, columns, rows, occupied: var(0_u32) }
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
            let State { max, sum, output } = states.get(row);
            for (value, i) in [max, sum].into_iter().chain(output).zip(0_u32..) {
                place.at((row * (self.columns + 2) + i) * self.threads).set(value);
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

    /// The states of a level, which come before, combined with those at hand.
    fn combine_with_level(&self, states: &dyn RowStates, level: Val<u32>) {
        let place = self.level(level);
        for row in 0..states.num() {
            let at = |i: u32| place.at((row * (self.columns + 2) + i) * self.threads).get();
            let output = (0..self.columns).map(|column| at(2 + column)).collect();
            let left = State { max: at(0), sum: at(1), output };
            states.set(row, &left.combine(&states.get(row)));
        }
    }
}

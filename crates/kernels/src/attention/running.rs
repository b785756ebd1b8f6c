//! The fold over segments inside a block: the state of all segments before the one at hand waits in
//! memory.

use warpfold_lang::{Pointer, Space, Val, Var, var, when, when_else};

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

/// The state of the segments before, for the rows of a thread.
pub(super) struct Running<S: Space> {
    /// Of the thread. Its words lie by fours, those of the threads side by side, so that accesses
    /// of a warp are wide and coalesced.
    place: Pointer<f32, S>,
    threads: u32,
    /// Columns of a row that a thread has.
    columns: u32,
    /// Maximum and sum of each row.
    stats: Vec<[Var<f32>; 2]>,
    /// Whether there was a segment before.
    has_any: Var<bool>,
}

/// Words that a thread has in memory for the outputs of its rows.
pub(super) const fn state_words(rows: u32, columns: u32) -> u32 {
    rows * columns.next_multiple_of(4)
}

impl<S: Space> Running<S> {
    /// Of this thread, in memory of the block.
    pub(super) fn new(
        of_block: Pointer<f32, S>,
        (thread, threads): (Val<u32>, u32),
        [rows, columns]: [u32; 2],
    ) -> Self {
        let stats = (0..rows).map(|_| [var(f32::NEG_INFINITY), var(0.0_f32)]).collect();
        Self { place: of_block.at(thread * 4), threads, columns, stats, has_any: var(false) }
    }

    /// Forgets what was.
    pub(super) fn clear(&self) {
        self.has_any.set(false);
    }

    /// Adds a segment, whose states are then of no use.
    pub(super) fn push(&self, states: &dyn RowStates) {
        when_else(
            self.has_any.get(),
            || (0..states.num()).for_each(|row| self.write(row, self.read(row).combine(&states.get(row)))),
            || (0..states.num()).for_each(|row| self.write(row, states.get(row))),
        );
        self.has_any.set(true);
    }

    /// As [`Self::push`], four columns after the other: where a row takes most registers.
    pub(super) fn push_by_fours(&self, states: &dyn RowStates) {
        let combine = |row: u32| {
            let State { max, sum, output } = states.get(row);
            let [of_max, of_sum] = self.stats[row as usize];
            let (old_max, old_sum) = (of_max.get(), of_sum.get());
            for (four, place) in output.chunks_exact(4).zip(self.fours(row)) {
                let before = State { max: old_max, sum: old_sum, output: place.get_vec::<4>().to_vec() };
                let state = before.combine(&State { max, sum, output: four.to_vec() });
                place.set_vec([0, 1, 2, 3].map(|i| state.output[i]));
                of_max.set(state.max);
                of_sum.set(state.sum);
            }
        };
        when_else(
            self.has_any.get(),
            || (0..states.num()).for_each(combine),
            || (0..states.num()).for_each(|row| self.write(row, states.get(row))),
        );
        self.has_any.set(true);
    }

    /// Combines what was before with the last segment, at hand.
    pub(super) fn finish(&self, states: &dyn RowStates) {
        when(self.has_any.get(), || {
            (0..states.num()).for_each(|row| states.set(row, &self.read(row).combine(&states.get(row))));
        });
    }

    fn write(&self, row: u32, state: State) {
        let State { max, sum, mut output } = state;
        let stats = &self.stats[row as usize];
        stats[0].set(max);
        stats[1].set(sum);
        output.resize(output.len().next_multiple_of(4), Val::constant(0.0));
        for (four, place) in output.chunks_exact(4).zip(self.fours(row)) {
            place.set_vec([four[0], four[1], four[2], four[3]]);
        }
    }

    fn read(&self, row: u32) -> State {
        let mut output: Vec<_> = self.fours(row).flat_map(|place| place.get_vec::<4>()).collect();
        output.truncate(self.columns as usize);
        let [max, sum] = self.stats[row as usize].map(Var::get);
        State { max, sum, output }
    }

    /// Where the words of a row lie, by fours.
    fn fours(&self, row: u32) -> impl Iterator<Item = Pointer<f32, S>> {
        let (of_row, threads, place) = (state_words(1, self.columns) / 4, self.threads, self.place);
        (row * of_row..(row + 1) * of_row).map(move |i| place.at(i * threads * 4))
    }
}

//! The warpgroups that multiply: scores, weights, weighted values, tile after tile of keys.

use warpfold_lang::{
    Cursor, GlobalSpace, Major, Multiplicand, NamedBarrier, NamedBarriers, Operands, Pipeline, SharedSpace, Val, Var,
    WarpgroupFragment, WarpgroupSums, block_idx, fence_async, lane_id, range, thread_idx, var, warpgroup_idx,
    wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::super::factor::Factor;
use super::super::merge::{Team, merge_if_last};
use super::super::output::Columns;
use super::super::running::{RowStates, Running};
use super::super::softmax::{Results, Scores, Stats, no_stats, stats};
use super::super::work::{Item, KeyLens, Row};
use super::kernel::{Block, Cursors};

/// What a warpgroup holds: registers for scores, weights and results, and where it is in the rings.
pub(super) struct Attending<'a, T: Multiplicand> {
    block: &'a Block<'a, T>,
    at: Cursors,
    /// Which of those that multiply this warpgroup is.
    own: Val<u32>,
    scores: WarpgroupSums<T>,
    weights: WarpgroupFragment<T>,
    results: Results<T>,
    /// Whether the results have been begun in this segment.
    has_begun: Var<bool>,
    running: Option<Before>,
    /// Where changes wait, if they do.
    pending: Option<Pending>,
}

/// What a tile asks of the results before it.
struct Change {
    /// What multiplies them.
    factors: [Val<f32>; 2],
    /// Whether the tile is the first of a segment.
    begins_segment: Val<bool>,
    /// The statistics of before.
    before: [[Val<f32>; 2]; 2],
}

/// A change that waits until the products of the next keys are under way.
struct Pending {
    factors: [Var<f32>; 2],
    begins_segment: Var<bool>,
    before: Stats,
}

impl Pending {
    fn new() -> Self {
        Self { factors: [var(1.0_f32), var(1.0_f32)], begins_segment: var(false), before: stats() }
    }

    /// The first tile of an item asks for nothing.
    fn clear(&self) {
        self.factors.iter().for_each(|factor| factor.set(1.0));
        self.begins_segment.set(false);
    }

    fn set(&self, change: &Change) {
        self.factors.iter().zip(change.factors).for_each(|(var, factor)| var.set(factor));
        self.begins_segment.set(change.begins_segment);
        self.before.set(change.before);
    }

    fn get(&self) -> Change {
        let factors = self.factors.map(Var::get);
        Change { factors, begins_segment: self.begins_segment.get(), before: self.before.get() }
    }
}

/// Where the states of the segments before wait.
enum Before {
    Shared(Running<SharedSpace>),
    Scratch(Running<GlobalSpace>),
}

impl Before {
    fn clear(&self) {
        match self {
            Self::Shared(running) => running.clear(),
            Self::Scratch(running) => running.clear(),
        }
    }

    fn push(&self, states: &dyn RowStates) {
        match self {
            Self::Shared(running) => running.push(states),
            Self::Scratch(running) => running.push(states),
        }
    }

    fn finish(&self, states: &dyn RowStates) {
        match self {
            Self::Shared(running) => running.finish(states),
            Self::Scratch(running) => running.finish(states),
        }
    }
}

impl<'a, T: Factor> Attending<'a, T> {
    pub(super) fn new(block: &'a Block<'a, T>, at: Cursors) -> Self {
        let tile = block.config.tile;
        let (columns, threads) = (block.value_columns(), 128 * tile.consumers);
        let thread = (thread_idx().x - 128, threads);
        let running = || match block.states {
            Some(states) => Before::Shared(Running::new(states, thread, [2, columns / 4])),
            None => {
                let words = Val::constant(tile.state_words(block.launch.config.value_dim));
                Before::Scratch(Running::new(
                    block.launch.args.states.at(words.mul_wide(block_idx().x)),
                    thread,
                    [2, columns / 4],
                ))
            }
        };
        Self {
            block,
            at,
            own: warpgroup_idx() - 1,
            scores: WarpgroupSums::new(tile.keys),
            weights: WarpgroupFragment::new(tile.keys),
            results: Results { sums: WarpgroupSums::new(columns), stats: stats() },
            has_begun: var(false),
            running: block.launch.config.folds().then(running),
            pending: block.config.defers().then(Pending::new),
        }
    }

    /// Attends to all keys of an item.
    pub(super) fn attend(&self, item: &Item) {
        let Block { config, launch, rings: [ring_q, ring], .. } = *self.block;
        let [at_q, at] = self.at;
        // Roles: each warpgroup that multiplies has 64 rows.
        let first_row = self.own * 64;
        let rows = WarpgroupSums::<T>::rows().map(|row| item.row(&launch.args, row + first_row));
        let positions = [0, 63].map(|row: u32| item.row(&launch.args, first_row + row).position);
        let Results { sums, stats } = &self.results;
        let (keys, is_plain) = (config.tile.keys, config.is_plain);
        let scores = Scores { launch, keys, is_plain, item, rows, positions, sums: &self.scores };
        stats.set(no_stats());
        sums.fill(0.0);
        self.has_begun.set(false);
        self.running.iter().for_each(Before::clear);
        let [begin, end] = self.block.tiles_of(item);
        ring_q.wait(at_q);
        when(begin.lt(end), || {
            // The first tile: S = Q Kᵀ, P = softmax(S)
            ring.wait(at);
            self.wait_for_turn();
            self.multiply_keys();
            self.pass_turn();
            wgmma_wait(0);
            release(ring, at);
            let _ = scores.softmax(begin * config.tile.keys, no_stats(), stats);
            T::set_weights(&self.weights, &self.scores);
            self.pending.iter().for_each(Pending::clear);
            // Main loop: while O += P V of the tile before is under way, S of this one becomes P.
            range(begin + 1, end, 1_u32, |tile| {
                // S = Q Kᵀ
                ring.wait(at);
                self.wait_for_turn();
                self.multiply_keys();
                // O += P V
                let keys = at.copy();
                at.advance();
                ring.wait(at);
                self.pending.iter().for_each(|pending| self.change(&scores, tile - 1, &pending.get()));
                self.multiply_values();
                self.pass_turn();
                // P = softmax(S)
                wgmma_wait(1);
                when(lane_id().eq(0), || ring.empty(keys).arrive());
                self.next(&scores, tile);
            });
        });
        // All queries are read.
        release(ring_q, at_q);
        // The last tile: O += P V
        when(begin.lt(end), || {
            ring.wait(at);
            self.pending.iter().for_each(|pending| self.change(&scores, end - 1, &pending.get()));
            self.clear_values(item, (end - 1) * config.tile.keys);
            self.multiply_values();
            wgmma_wait(0);
            release(ring, at);
        });
        // Epilogue
        self.results.fold_sums();
        if launch.config.work.split {
            when(begin.lt(end), || {
                self.write_partials(
                    item,
                    rows,
                    (end - 1) / self.block.launch.tiles_of_segment(self.block.config.tile.keys),
                )
            });
            if launch.config.merges {
                let threads = 128 * config.tile.consumers;
                let sync = || NamedBarrier { id: OF_CONSUMERS, threads }.sync();
                let team = Team { thread: thread_idx().x - 128, threads, sync: &sync };
                merge_if_last(&launch, self.block.tickets, item, &team);
            }
            return;
        }
        self.running.iter().for_each(|running| running.finish(&self.results));
        for (row, i) in rows.iter().zip(0_u32..) {
            launch.finish_if(item, row, &|| self.results.get(i), Columns::Pairs);
        }
    }

    fn write_partials(&self, item: &Item, rows: [Row; 2], segment: Val<u32>) {
        let Self { block, results, .. } = self;
        let number = |i: usize| WarpgroupSums::<T>::rows()[i] + self.own * 64;
        results.write_partials(&block.launch, (item, rows), segment, number);
    }

    fn turns(&self) -> Option<NamedBarriers> {
        self.block.config.tile.ping_pong.then_some(NamedBarriers { first: FIRST_TURN, num: 2, threads: 256 })
    }

    fn wait_for_turn(&self) {
        self.turns().iter().for_each(|turns| turns.sync(self.own));
    }

    fn pass_turn(&self) {
        self.turns().iter().for_each(|turns| turns.arrive(self.own ^ 1));
    }

    /// Before the first item: the first warpgroup's turn.
    pub(super) fn begin(&self) {
        self.turns().iter().for_each(|turns| when(self.own.eq(1), || turns.arrive(0)));
    }

    /// Behind the last item: takes the turn that nobody needs.
    pub(super) fn end(&self) {
        self.turns().iter().for_each(|turns| when(self.own.eq(0), || turns.sync(0)));
    }

    /// Makes weights of the scores of a tile while the values of the one before are added, and says
    /// how that changes the results.
    fn next(&self, scores: &Scores<'_, T>, tile: Val<u32>) {
        let Self { block, results, .. } = self;
        let (keys, [_, at], has_segments) = (block.config.tile.keys, self.at, block.launch.config.segments);
        let before = results.stats.get();
        let (begins_segment, base) = if has_segments {
            let begins = (tile & (block.launch.tiles_of_segment(keys) - 1)).eq(0);
            let none = no_stats();
            (begins, [0, 1].map(|i| [0, 1].map(|row| begins.select(none[i][row], before[i][row]))))
        } else {
            (Val::constant(false), before)
        };
        let factors = scores.softmax(tile * keys, base, &results.stats);
        wgmma_wait(0);
        release(block.rings[1], at);
        let change = Change { factors, begins_segment, before };
        self.has_begun.set(true);
        match &self.pending {
            Some(pending) => pending.set(&change),
            None => self.change(scores, tile, &change),
        }
        T::set_weights(&self.weights, &self.scores);
    }

    /// Changes the results before a tile to its maximum, or begins a segment with it.
    fn change(&self, scores: &Scores<'_, T>, tile: Val<u32>, change: &Change) {
        let Self { block, results, .. } = self;
        let Change { factors, begins_segment, before } = *change;
        if !block.launch.config.segments {
            self.results.scale(factors, Val::constant(true));
            return;
        }
        when(begins_segment, || {
            let next = results.stats.get();
            results.stats.set(before);
            self.results.fold_sums();
            match &self.running {
                // Where there is no row, nothing waits: a tile of decode has few.
                Some(running) => when(scores.rows[0].exists, || running.push(results)),
                None => self.write_partials(
                    scores.item,
                    scores.rows,
                    tile / block.launch.tiles_of_segment(block.config.tile.keys) - 1,
                ),
            }
            results.stats.set(next);
        });
        self.results.scale(factors, !begins_segment);
        self.has_begun.set(self.has_begun.get() & !begins_segment);
    }

    /// Starts the products of the queries with a tile of keys.
    fn multiply_keys(&self) {
        let Block { queries, stages: [keys, _], .. } = self.block;
        let a = queries.at(self.own);
        let b = keys.at(self.at[1].stage());
        wgmma_fence();
        self.scores.add_product(&Operands { a, a_major: Major::K, b, b_major: Major::K }, false);
        wgmma_commit();
    }

    /// Starts the products of the weights with a tile of values.
    fn multiply_values(&self) {
        let values = self.block.stages[1].at(self.at[1].stage());
        // The wait for the values stands between the fence before the scores' product and this one:
        // ptxas asks for another behind such a branch.
        wgmma_fence();
        self.results.sums.add_product_of(&self.weights, values, T::VALUES, self.has_begun.get());
        wgmma_commit();
    }

    /// Clears values beyond the sequence, where something lies there: a weight of zero times what
    /// is no number is no number.
    fn clear_values(&self, item: &Item, first: Val<u32>) {
        let Block { config, launch, stages: [_, values], .. } = self.block;
        if !self.block.values_by_tma() || launch.config.work.key_lens == KeyLens::Same {
            return;
        }
        let (keys, threads) = (config.tile.keys, 128 * config.tile.consumers);
        when((first + keys).gt(item.num_keys), || {
            let tile = values.at(self.at[1].stage());
            let of_row = tile.columns() / 8;
            let begin = (item.num_keys - first) * of_row + (thread_idx().x - 128);
            range(begin, keys * of_row, threads, |unit| {
                tile.at(unit / of_row, unit % of_row * 8).reinterpret::<u32>().set_vec([0_u32; 4]);
            });
            fence_async();
            NamedBarrier { id: OF_CONSUMERS, threads }.sync();
        });
    }
}

/// The named barrier of all warpgroups that multiply.
const OF_CONSUMERS: u32 = 15;

/// The named barriers of turns.
const FIRST_TURN: u32 = 8;

/// Says that this warp has read a stage, and goes on to the next one.
fn release(ring: Pipeline, at: Cursor) {
    when(lane_id().eq(0), || ring.empty(at).arrive());
    at.advance();
}

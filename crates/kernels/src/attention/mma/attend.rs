//! A block's work on an item: scores, weights, weighted values, tile after tile of keys.

use warpfold_lang::{
    Fragment, Global, GlobalSpace, LinesOfA, LinesOfB, Major, Multiplicand, Shared, Val, WarpgroupFragment,
    WarpgroupSums, block_idx, commit_copies, range, shared, sync_threads, thread_idx, tiles, wait_for_copies, warp_id,
    when,
};

use super::super::config::{Launch, padded, swizzle};
use super::super::factor::Factor;
use super::super::merge::{Team, merge_if_last};
use super::super::output::Columns;
use super::super::running::{RowStates, Running};
use super::super::softmax::{Results, Scores, no_stats, stats};
use super::super::work::{Item, Row};
use super::kernel::{MmaConfig, state_words_of_block};
use super::load::Pieces;
use super::tile::{ROWS, STAGES, THREADS, multiplied};

/// What a block holds: tiles in shared memory, and registers for scores, weights and results.
pub(super) struct Attending<'a, T: Multiplicand> {
    config: &'a MmaConfig,
    launch: Launch<'a>,
    /// This thread's pieces of queries, keys and values.
    pieces: [Pieces<T>; 3],
    queries: LinesOfA<T>,
    keys: LinesOfB<T>,
    values: LinesOfB<T>,
    scores: WarpgroupSums<T>,
    weights: WarpgroupFragment<T>,
    results: Results<T>,
    running: Option<Running<GlobalSpace>>,
    /// Where what only the end of an item needs waits, for this thread: wide results leave too few
    /// registers.
    waiting: Option<Shared<u32>>,
    /// One for each tile of rows, where the last of its blocks combines parts.
    tickets: Global<u32>,
}

/// A warp's queries.
enum Queries<'a, T> {
    Registers(Vec<Fragment<T, 4>>),
    Shared(&'a LinesOfA<T>),
}

impl<T: Multiplicand> Queries<'_, T> {
    fn fragment(&self, k: u32) -> Fragment<T, 4> {
        match self {
            Self::Registers(fragments) => fragments[(k / T::STEP) as usize],
            Self::Shared(lines) => lines.fragment(0, k),
        }
    }
}

impl<'a, T: Factor> Attending<'a, T> {
    pub(super) fn new(config: &'a MmaConfig, launch: Launch<'a>) -> Self {
        let (common, num) = (&config.common, config.tile.keys);
        // Shared-memory map
        let of = |count, rows, dim: u32| tiles::<T>(count, rows, padded(dim), swizzle(2 * padded(dim)));
        let [head_dim, value_dim] = [common.head_dim, common.value_dim];
        let (queries, keys) = (of(1, ROWS, head_dim), of(STAGES, num, head_dim));
        let values = of(STAGES, num, value_dim);
        // Roles
        let columns = multiplied(value_dim);
        let has_running = common.segments && !common.work.split;
        let running = || {
            let of_block = Val::constant(state_words_of_block(config)).mul_wide(block_idx().x);
            Running::new(launch.args.states.at(of_block), (thread_idx().x, THREADS), [2, columns / 4])
        };
        Self {
            config,
            launch,
            pieces: [Pieces::new(queries, head_dim), Pieces::new(keys, head_dim), Pieces::new(values, value_dim)],
            queries: queries.lines_of_a(Major::K, warp_id(), 16),
            keys: keys.lines_of_b(Major::K, 0, num),
            values: values.lines_of_b(Major::Mn, 0, padded(value_dim)),
            scores: WarpgroupSums::new(num),
            weights: WarpgroupFragment::new(num),
            results: Results { sums: WarpgroupSums::new(columns), stats: stats() },
            waiting: (has_running && columns > 128).then(|| shared(3 * THREADS).at(thread_idx().x)),
            running: has_running.then(running),
            tickets: launch.args.counter.at(1),
        }
    }

    /// Attends to all keys of an item. All threads come here together, and nobody reads a tile of
    /// the item before.
    pub(super) fn attend(&self, item: &Item) {
        let Self { config, launch, results, .. } = self;
        // Roles: a warp has 16 rows; all warps copy.
        let keys = config.tile.keys;
        let rows = WarpgroupSums::<T>::rows().map(|row| item.row(&launch.args, row));
        let positions = [0, 15].map(|row: u32| item.row(&launch.args, warp_id() * 16 + row).position);
        // Where rows are few, as in decode, the other warps copy.
        let has_rows = (item.first_row + warp_id() * 16).lt(item.num_rows);
        let scores =
            Scores { launch: *launch, keys, is_plain: config.is_plain, item, rows, positions, sums: &self.scores };
        self.put_away(item);
        results.stats.set(no_stats());
        results.sums.fill(0.0);
        self.running.iter().for_each(Running::clear);
        let (begin, end) = (item.keys.0 / keys, item.keys.1.div_ceil(keys));
        when(begin.lt(end), || {
            launch.copy_queries(item, &self.pieces[0]);
            self.copy_tile(item, begin);
            self.wait_for_all();
            let queries = self.load_queries();
            // Main loop
            range(begin, end, 1_u32, |tile| {
                when((tile + 1).lt(end), || self.copy_tile(item, tile + 1));
                when(has_rows, || {
                    self.begin_segment(item, rows, begin, tile);
                    // S = Q Kᵀ
                    self.multiply_keys(&queries, tile);
                    // P = softmax(S)
                    let factors = scores.softmax(tile * keys, results.stats.get(), &results.stats);
                    results.scale(factors, Val::constant(true));
                    T::set_weights(&self.weights, &self.scores);
                    // O += P V
                    self.multiply_values(tile);
                });
                // The next tile is there, and this one's stage may be filled again.
                self.wait_for_all();
            });
        });
        // Epilogue
        results.fold_sums();
        let item = &self.bring_back(item);
        // Computed again: registers are few in the loop.
        let rows = WarpgroupSums::<T>::rows().map(|row| item.row(&launch.args, row));
        if launch.config.work.split {
            when(begin.lt(end), || {
                self.write_partials(item, rows, (end - 1) / self.launch.tiles_of_segment(self.config.tile.keys))
            });
            if launch.config.merges {
                let team = Team { thread: thread_idx().x, threads: THREADS, sync: &sync_threads };
                merge_if_last(launch, self.tickets, item, &team);
            }
            return;
        }
        self.running.iter().for_each(|running| running.finish(results));
        for (row, i) in rows.iter().zip(0_u32..) {
            launch.finish_if(item, row, &|| results.get(i), Columns::Pairs);
        }
    }

    fn put_away(&self, item: &Item) {
        let words = [item.first_row, item.num_rows, item.first_query];
        if let Some(place) = self.waiting {
            words.iter().zip(0_u32..).for_each(|(word, i)| place.at(i * THREADS).set(*word));
        }
    }

    fn bring_back(&self, item: &Item) -> Item {
        let Some(place) = self.waiting else { return *item };
        let [first_row, num_rows, first_query] = [0, 1, 2].map(|i: u32| place.at(i * THREADS).get());
        Item { first_row, num_rows, first_query, ..*item }
    }

    /// Begins to copy a tile of keys and their values.
    fn copy_tile(&self, item: &Item, tile: Val<u32>) {
        let [_, keys, values] = &self.pieces;
        let first = tile * self.config.tile.keys;
        for (which, pieces) in [keys, values].into_iter().enumerate() {
            self.launch.copy_keys((item, which), first, (pieces, stage(tile)));
        }
        if self.launch.copies_in_background() {
            commit_copies();
        }
    }

    /// Waits for the copies of all threads, and for all threads.
    fn wait_for_all(&self) {
        if self.launch.copies_in_background() {
            wait_for_copies(0);
        }
        sync_threads();
    }

    /// Registers hold the queries where they leave room for them.
    fn load_queries(&self) -> Queries<'_, T> {
        let head = multiplied(self.config.common.head_dim);
        if head > 128 {
            return Queries::Shared(&self.queries);
        }
        Queries::Registers((0..head).step_by(16).map(|k| self.queries.fragment(0, k)).collect())
    }

    /// Where a tile is the first of a segment, but not of all: puts away what was before.
    fn begin_segment(&self, item: &Item, rows: [Row; 2], begin: Val<u32>, tile: Val<u32>) {
        if !self.launch.config.segments {
            return;
        }
        let is_first = (tile & (self.launch.tiles_of_segment(self.config.tile.keys) - 1)).eq(0);
        when(is_first & tile.gt(begin), || {
            let results = &self.results;
            results.fold_sums();
            match &self.running {
                // The columns of a thread are whole fours.
                Some(running) => running.push_by_fours(results),
                None => self.write_partials(item, rows, tile / self.launch.tiles_of_segment(self.config.tile.keys) - 1),
            }
            results.stats.set(no_stats());
            results.sums.fill(0.0);
        });
    }

    /// The products of the queries with a tile of keys.
    fn multiply_keys(&self, queries: &Queries<'_, T>, tile: Val<u32>) {
        let keys = self.keys.of_tile(stage(tile));
        self.scores.fill(0.0);
        for k in (0..multiplied(self.config.common.head_dim)).step_by(16) {
            let a = queries.fragment(k);
            add_products(&self.scores, a, |column| keys.fragments(column, k));
        }
    }

    /// Adds the products of the weights with a tile of values.
    fn multiply_values(&self, tile: Val<u32>) {
        let values = self.values.of_tile(stage(tile));
        for k in (0..self.config.tile.keys).step_by(16) {
            let a = self.weights.of_warp(k);
            add_products(&self.results.sums, a, |column| values.fragments(column, k));
        }
    }

    fn write_partials(&self, item: &Item, rows: [Row; 2], segment: Val<u32>) {
        let Self { launch, results, .. } = self;
        let number = |i: usize| WarpgroupSums::<T>::rows()[i];
        results.write_partials(launch, (item, rows), segment, number);
    }
}

/// Adds a step of products to all columns of sums.
fn add_products<T: Multiplicand>(sums: &WarpgroupSums<T>, a: Fragment<T, 4>, b: impl Fn(u32) -> [Fragment<T, 2>; 2]) {
    for column in (0..sums.columns()).step_by(16) {
        let [low, high] = b(column);
        sums.add_fragments(column, a, low);
        sums.add_fragments(column + 8, a, high);
    }
}

/// The stage of a tile.
fn stage(tile: Val<u32>) -> Val<u32> {
    tile % STAGES
}

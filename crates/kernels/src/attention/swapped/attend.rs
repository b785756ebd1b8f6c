//! The warpgroup that converts and multiplies: scores, weights, weighted values, tile after tile of
//! keys.

use warpfold_lang::{
    Cursor, HalfOfPair, Lanes, Major, Pipeline, Shared, SharedSpace, Val, Var, WarpgroupFragment, WarpgroupSums,
    fence_async, lane_id, load_matrices, range, sync_warp, sync_warpgroup, thread_idx, var, warp_id, wgmma_commit,
    wgmma_fence, wgmma_wait, when,
};

use super::super::config::padded;
use super::super::factor::Factor;
use super::super::merge::{Team, merge_if_last};
use super::super::output::Columns;
use super::super::running::{RowStates, Running};
use super::super::state::State;
use super::super::work::{Item, KeyLens, Row};
use super::kernel::{Block, Cursors};
use super::softmax::{Places, Scored, index, rows_of, rows_of_thread};
use super::widen::Widen;

/// What a warpgroup holds.
pub(super) struct Attending<'a, T: Factor + HalfOfPair> {
    block: &'a Block<'a, T>,
    at: Cursors,
    widen: Widen,
    /// Where the lanes' rows of matrices lie in the first stage: of keys for each 32 elements, of
    /// values for each 64.
    lines: [Vec<Shared<u8>>; 2],
    /// Keys and their products with queries, 64 keys after the other.
    keys: Vec<WarpgroupFragment<T>>,
    scores: Vec<WarpgroupSums<T>>,
    /// Values, 64 columns after the other.
    values: Vec<WarpgroupFragment<T>>,
    results: Results<T>,
    places: Places<T>,
    /// Whether the results have been begun in this segment.
    has_begun: Var<bool>,
    running: Option<Running<SharedSpace>>,
}

/// The states of a thread's rows of queries, which are columns of sums.
struct Results<T: Factor> {
    /// 64 columns of values after the other.
    sums: Vec<WarpgroupSums<T>>,
    maxima: Vec<Var<f32>>,
    /// What weights come to, where a segment ends.
    of_weights: Vec<Var<f32>>,
}

impl<T: Factor> RowStates for Results<T> {
    fn num(&self) -> u32 {
        self.maxima.len() as u32
    }

    fn get(&self, row: u32) -> State {
        let i = row as usize;
        let output = self.sums.iter().flat_map(|sums| sums.row_values().map(|values| values[i])).collect();
        State { max: self.maxima[i].get(), sum: self.of_weights[i].get(), output }
    }

    fn set(&self, row: u32, state: &State) {
        let i = row as usize;
        self.maxima[i].set(state.max);
        self.of_weights[i].set(state.sum);
        for (sums, two) in self.sums.iter().zip(state.output.chunks_exact(2)) {
            sums.update(|half, column, old| if index(column) == i { two[half] } else { old });
        }
    }
}

impl<'a, T: Factor + HalfOfPair> Attending<'a, T> {
    pub(super) fn new(block: &'a Block<'a, T>, at: Cursors) -> Self {
        let (config, tile) = (block.launch.config, block.config.tile);
        let [head, value] = [config.head_dim, config.value_dim].map(padded);
        let (warp, lane) = (warp_id() & 3, lane_id());
        let [keys, values] = block.stages.map(|stages| stages.at(0));
        let of_keys = (0..head).step_by(32).map(|column| keys.at(warp * 16 + (lane & 15), (lane >> 4) * 16 + column));
        // Behind the last columns a warp multiplies the last ones once more, for nobody.
        let of_values = (0..value.div_ceil(64)).map(|i| values.at(lane, (warp + 4 * i).min(value / 16 - 1) * 16));
        let sums = |num: u32| (0..num).map(|_| WarpgroupSums::new(tile.rows)).collect::<Vec<_>>();
        let fragments = |num: u32, depth| (0..num).map(|_| WarpgroupFragment::new(depth)).collect::<Vec<_>>();
        let (of_keys, of_values) = (of_keys.collect(), of_values.collect::<Vec<_>>());
        let num_values = of_values.len() as u32;
        let vars = || (0..tile.rows / 4).map(|_| var(0.0_f32)).collect();
        let thread = (thread_idx().x - 128, 128);
        Self {
            block,
            at,
            widen: Widen::new(config.kv_dtype, config.dtype),
            lines: [of_keys, of_values],
            keys: fragments(tile.keys / 64, head),
            scores: sums(tile.keys / 64),
            values: fragments(num_values, tile.keys),
            results: Results { sums: sums(num_values), maxima: vars(), of_weights: vars() },
            places: Places::new(block),
            has_begun: var(false),
            running: block.states.map(|states| Running::new(states, thread, [tile.rows / 4, 2 * num_values])),
        }
    }

    /// Attends to all keys of an item.
    pub(super) fn attend(&self, item: &Item) {
        let Block { config, launch, rings: [ring_q, ring], .. } = *self.block;
        // Roles: warps share the keys; queries are columns of Sᵀ, and of Oᵀ.
        let [at_q, at] = self.at;
        let (positions, rows) = rows_of(&launch, item, config.tile.rows);
        let scored = Scored { item, rows: &rows, positions };
        let Results { sums, maxima, .. } = &self.results;
        sums.iter().for_each(|sums| sums.fill(0.0));
        maxima.iter().for_each(|max| max.set(f32::NEG_INFINITY));
        self.has_begun.set(false);
        self.running.iter().for_each(Running::clear);
        let [begin, end] = self.block.tiles_of(item);
        let of_segment = launch.tiles_of_segment(config.tile.keys);
        // Main loop
        ring_q.wait(at_q);
        range(begin, end, 1_u32, |tile| {
            let first = tile * config.tile.keys;
            // Sᵀ = K Qᵀ
            ring.wait(at);
            self.load_keys();
            release(ring, at);
            // The values of the tile before are added, and its weights read.
            wgmma_wait(0);
            self.multiply_keys();
            if launch.config.segments {
                when((tile & (of_segment - 1)).eq(0) & tile.gt(begin), || {
                    self.end_segment(item, &rows, tile / of_segment)
                });
            }
            ring.wait(at);
            self.clear_values(item, first);
            self.load_values();
            release(ring, at);
            wgmma_wait(0);
            // P = softmax(S)
            let keeps = self.has_begun.get();
            let factors = self.block.softmax(&scored, &self.scores, &self.places, first, (maxima, keeps));
            // Oᵀ += Vᵀ Pᵀ
            self.scale(&factors, keeps);
            self.multiply_values(keeps);
            self.places.add(self.block, keeps);
            self.has_begun.set(true);
        });
        // Epilogue
        wgmma_wait(0);
        hand_back(ring_q, at_q);
        let sums_of_weights = self.places.folded(self.block, self.has_begun.get());
        self.results.of_weights.iter().zip(sums_of_weights).for_each(|(to, sum)| to.set(sum));
        if launch.config.work.split {
            when(begin.lt(end), || self.write_partials(item, &rows, (end - 1) / of_segment));
            if launch.config.merges {
                let team = Team { thread: thread_idx().x - 128, threads: 128, sync: &sync_warpgroup };
                merge_if_last(&launch, self.block.tickets, item, &team);
            }
            return;
        }
        self.running.iter().for_each(|running| running.finish(&self.results));
        for (row, i) in rows.iter().zip(0_u32..) {
            launch.finish_if(item, row, &|| self.results.get(i), Columns::Transposed);
        }
    }

    /// Leaves what the segment before `next` has come to, and begins the next one.
    fn end_segment(&self, item: &Item, rows: &[Row], next: Val<u32>) {
        let sums = self.places.folded(self.block, Val::constant(true));
        self.results.of_weights.iter().zip(sums).for_each(|(to, sum)| to.set(sum));
        match &self.running {
            Some(running) => running.push(&self.results),
            None => self.write_partials(item, rows, next - 1),
        }
        self.has_begun.set(false);
    }

    fn write_partials(&self, item: &Item, rows: &[Row], segment: Val<u32>) {
        let launch = &self.block.launch;
        let numbers = rows_of_thread(self.block.config.tile.rows);
        for ((row, number), i) in rows.iter().zip(numbers).zip(0_u32..) {
            when(row.exists, || {
                let place = launch.partial(item, number, segment);
                launch.write_partial(place, &self.results.get(i), Columns::Transposed);
            });
        }
    }

    /// Multiplies results by what became of their maximum. Most often nothing did: a factor of one
    /// changes no bit.
    fn scale(&self, factors: &[Val<f32>], is_needed: Val<bool>) {
        let changes = factors.iter().map(|factor| factor.ne(1.0)).reduce(|a, b| a | b).expect("a thread has rows");
        when(Lanes::all_lanes().any(is_needed & changes), || {
            for sums in &self.results.sums {
                sums.update(|_, column, sum| sum * factors[index(column)]);
            }
        });
    }

    /// Keys of the stage at hand, 16 of them and 32 elements at a time.
    fn load_keys(&self) {
        let tile = self.block.stages[0].at(0);
        let lines = self.lines_of(0);
        for (fragment, rows) in self.keys.iter().zip((0..).step_by(64)) {
            let pairs = lines.iter().flat_map(|line| {
                let words = load_matrices(line.at(rows * tile.panel_columns()), Major::K);
                let [[a, a_odd], [b, b_odd], [c, c_odd], [d, d_odd]] = words.map(|word| self.widen.pairs::<T>(word));
                [a, b, a_odd, b_odd, c, d, c_odd, d_odd]
            });
            self.widen.set(fragment, &pairs.collect::<Vec<_>>());
        }
    }

    /// Values of the stage at hand, 32 keys and 16 columns at a time: the even columns are the
    /// upper rows of A.
    fn load_values(&self) {
        let tile = self.block.stages[1].at(0);
        for (fragment, line) in self.values.iter().zip(self.lines_of(1)) {
            let pairs = (0..tile.rows()).step_by(32).flat_map(|row| {
                let words = load_matrices(line.at(row * tile.panel_columns()), Major::Mn);
                words.into_iter().flat_map(|word| self.widen.pairs::<T>(word))
            });
            self.widen.set(fragment, &pairs.collect::<Vec<_>>());
        }
    }

    /// The lines in the stage at hand, of keys or of values.
    fn lines_of(&self, which: usize) -> Vec<Shared<u8>> {
        // From one stage to the next it is as far as the wider ones take.
        let bytes = self.block.stages.map(|stages| stages.at(0).bytes()).into_iter().max().expect("there are two");
        let offset = self.at[1].stage() * bytes;
        self.lines[which].iter().map(|line| line.at(offset)).collect()
    }

    /// Starts the products of a tile of keys with the queries.
    fn multiply_keys(&self) {
        let queries = self.block.queries.at(self.at[0].stage());
        wgmma_fence();
        for (scores, keys) in self.scores.iter().zip(&self.keys) {
            scores.add_product_of(keys, queries, Major::K, false);
        }
        wgmma_commit();
    }

    /// Starts the products of a tile of values with the weights.
    fn multiply_values(&self, keeps: Val<bool>) {
        wgmma_fence();
        for (sums, values) in self.results.sums.iter().zip(&self.values) {
            sums.add_product_of(values, self.block.weights, Major::K, keeps);
        }
        wgmma_commit();
    }

    /// Clears values beyond the sequence, where something lies there: a weight of zero times what
    /// is no number is no number.
    fn clear_values(&self, item: &Item, first: Val<u32>) {
        let Block { config, launch, stages: [_, values], .. } = self.block;
        if launch.config.work.key_lens == KeyLens::Same {
            return;
        }
        let keys = config.tile.keys;
        when((first + keys).gt(item.num_keys), || {
            let tile = values.at(self.at[1].stage());
            let of_row = tile.columns() / 16;
            let begin = (item.num_keys - first) * of_row + (thread_idx().x - 128);
            range(begin, keys * of_row, 128_u32, |unit| {
                tile.at(unit / of_row, unit % of_row * 16).reinterpret::<u32>().set_vec([0_u32; 4]);
            });
            fence_async();
            sync_warpgroup();
        });
    }
}

/// Says that this warp has loaded what a stage had, and goes on to the next one.
fn release(ring: Pipeline, at: Cursor) {
    // TMA is to write where this thread has read.
    fence_async();
    sync_warp();
    hand_back(ring, at);
}

/// The same of what was multiplied alone.
fn hand_back(ring: Pipeline, at: Cursor) {
    when(lane_id().eq(0), || ring.empty(at).arrive());
    at.advance();
}

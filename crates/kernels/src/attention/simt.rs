//! Attention on CUDA cores, in f32: every type, head size, layout and option.
//!
//! A block takes [`ROWS`] rows, a warp [`WARP_ROWS`] of them. Keys come by tiles of 32 through
//! shared memory, one for each lane; then their values, whose columns are dealt to the lanes. Each
//! thread pushes the states of finished segments on a stack in scratch memory of its own and
//! combines as a binary counter carries, so that segments form the tree that the contract demands.

use warpfold_lang::{
    Array, Global, Kernel, Shared, Val, Var, block_idx, dynamic_shared, grid_dim, kernel, lane_id, range, shfl_xor,
    sync_threads, thread_idx, var, wait_for_dependencies, warp_id, when, while_loop,
};

use super::problem::{MaskLayout, Problem, Score, ScoreAt};
use super::state::{State, log_sum_exp, shift};
use super::work::{Item, KeyLens, Lists, Row, SIZES, STRIDES, Size, WorkConfig, bytes_at, find};
use super::{Keys, Queries, SEGMENT, TILE};
use crate::Dtype;
use crate::elements::{load, store};

/// Rows of a warp.
pub(super) const WARP_ROWS: u32 = 8;
const WARPS: u32 = 4;
/// Rows of a block.
pub(super) const ROWS: u32 = WARPS * WARP_ROWS;
/// Threads of a block.
pub(crate) const BLOCK: u32 = 32 * WARPS;

/// The lowest score: no infinity, times log2(e), either.
const LOWEST: f32 = -2e38;

/// Scale, soft cap and its reciprocal, scale of values.
pub(super) const FLOATS: usize = 4;

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub(super) work: WorkConfig,
    dtype: Dtype,
    kv_dtype: Dtype,
    output: Dtype,
    head_dim: u32,
    pub(super) value_dim: u32,
    /// Whether four elements of queries, keys and values are loaded at once.
    wide: bool,
    paged: bool,
    softcap: bool,
    mask: Option<Dtype>,
    sinks: Option<Dtype>,
    lse: bool,
    score: Option<Score>,
    /// Whether a block folds several segments.
    pub(super) tree: bool,
}

impl Config {
    pub(super) fn new(problem: &Problem, split: bool, tree: bool) -> Self {
        let of = |strides: &[i64]| (strides[..strides.len() - 1].to_vec(), strides[strides.len() - 1]);
        let lie = match &problem.queries {
            Queries::Dense { strides, .. } => vec![(problem.dtype, of(strides))],
            Queries::Packed { strides, .. } => vec![(problem.dtype, of(strides))],
        };
        let kv = problem.keys.strides().map(|strides| (problem.kv_dtype, of(strides)));
        let is_wide = |(dtype, (outer, inner)): &(Dtype, (Vec<i64>, i64))| {
            *inner == 1
                && outer.iter().all(|stride| stride % 4 == 0)
                && problem.alignment.is_multiple_of((4 * dtype.bytes()).min(16))
        };
        let dims = [problem.head_dim, problem.value_dim];
        Self {
            work: WorkConfig::of(problem, ROWS, split),
            dtype: problem.dtype,
            kv_dtype: problem.kv_dtype,
            output: problem.output,
            head_dim: problem.head_dim as u32,
            value_dim: problem.value_dim as u32,
            wide: dims.iter().all(|dim| dim % 4 == 0) && lie.iter().chain(&kv).all(is_wide),
            paged: matches!(problem.keys, Keys::Paged { .. }),
            softcap: problem.softcap_bits.is_some(),
            mask: problem.mask.map(|MaskLayout { dtype, .. }| dtype),
            sinks: problem.sinks,
            lse: problem.lse,
            score: problem.score.clone(),
            tree,
        }
    }

    /// Columns of a key in shared memory, and words from one key to the next: four more than a
    /// multiple of 32, so that lanes that read four words each of their keys meet no bank twice.
    fn key_row(&self) -> (u32, u32) {
        (self.head_dim.next_multiple_of(4), self.head_dim.next_multiple_of(32) + 4)
    }

    /// Values of a row that a lane has.
    pub(super) fn columns(&self) -> u32 {
        self.value_dim.div_ceil(32)
    }

    /// Words of a state in the scratch memory of a thread: for its rows.
    pub(super) fn state_words(&self) -> u32 {
        WARP_ROWS * (self.columns() + 2)
    }

    /// Words of a partial result for a row.
    pub(super) fn partial_words(&self) -> u32 {
        self.value_dim + 2
    }

    /// Words of shared memory: queries, keys or values, weights.
    fn shared_words(&self) -> [u32; 3] {
        let values = TILE * self.columns() * 32;
        [ROWS * self.key_row().0, (TILE * self.key_row().1).max(values), WARPS * TILE * WARP_ROWS]
    }

    /// Bytes of shared memory of a block.
    pub(super) fn shared_bytes(&self) -> u32 {
        4 * self.shared_words().iter().sum::<u32>()
    }

    pub(super) fn name(&self) -> String {
        let Self { dtype, kv_dtype, head_dim, value_dim, .. } = self;
        let options = [
            ("_packed", self.work.packed),
            ("_paged", self.paged),
            ("_causal", self.work.causal.is_some()),
            ("_window", self.work.window),
            ("_softcap", self.softcap),
            ("_mask", self.mask.is_some()),
            ("_sinks", self.sinks.is_some()),
            ("_score", self.score.is_some()),
            ("_split", self.work.split),
            ("_tree", self.tree),
        ];
        let options: String = options.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        format!("attention_simt_{dtype}_{kv_dtype}_{head_dim}_{value_dim}{options}")
    }
}

/// Inputs at most: queries, keys, values, mask, sinks, and three lists.
pub(super) const MAX_INPUTS: usize = 8;

/// What the kernel takes: inputs; results and log-sum-exp; stacks and partial results; sizes,
/// strides, floats.
pub(super) type Attend = Kernel<(
    [Global<u8>; MAX_INPUTS],
    Global<u8>,
    Global<f32>,
    Global<f32>,
    Global<f32>,
    [u32; SIZES],
    [i64; STRIDES],
    [f32; FLOATS],
)>;

/// The tensors of a launch. Those that a problem does not have are never looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tensors {
    q: Global<u8>,
    k: Global<u8>,
    v: Global<u8>,
    mask: Global<u8>,
    sinks: Global<u8>,
    pub(super) lists: Lists,
    pub(super) out: Global<u8>,
    pub(super) lse: Global<f32>,
}

impl Config {
    /// The tensors: inputs come in a fixed order, without those that are missing.
    pub(super) fn tensors(&self, inputs: [Global<u8>; MAX_INPUTS], out: Global<u8>, lse: Global<f32>) -> Tensors {
        let mut inputs = inputs.into_iter();
        let first = [inputs.next(), inputs.next(), inputs.next()].map(|input| input.expect("there are three"));
        let mut next = |is_there: bool| if is_there { inputs.next().expect("there are eight") } else { first[0] };
        let (mask, sinks) = (next(self.mask.is_some()), next(self.sinks.is_some()));
        let cu_queries = next(self.work.packed).reinterpret::<i32>();
        let key_lens = next(self.work.key_lens != KeyLens::Same).reinterpret::<i32>();
        let block_table = next(self.paged).reinterpret::<i32>();
        let lists = Lists { cu_queries, key_lens, block_table };
        let [q, k, v] = first;
        Tensors { q, k, v, mask, sinks, lists, out, lse }
    }
}

/// A kernel that is being recorded.
struct Block<'a> {
    config: &'a Config,
    tensors: Tensors,
    sizes: Array<u32, SIZES>,
    strides: Array<i64, STRIDES>,
    floats: Array<f32, FLOATS>,
    /// Of the thread, for the stack of segments.
    stack: Global<f32>,
    partials: Global<f32>,
    queries: Shared<f32>,
    /// Keys, then values.
    tile: Shared<f32>,
    /// Of the warp.
    weights: Shared<f32>,
}

/// The state of the rows of a warp, as variables of a thread.
struct Rows {
    max: Vec<Var<f32>>,
    /// Of the keys of the lane alone, until a segment ends.
    sum: Vec<Var<f32>>,
    output: Vec<Vec<Var<f32>>>,
}

impl Rows {
    fn new(columns: u32) -> Self {
        let zeros = || (0..columns).map(|_| var(0.0_f32)).collect();
        Self {
            max: (0..WARP_ROWS).map(|_| var(f32::NEG_INFINITY)).collect(),
            sum: (0..WARP_ROWS).map(|_| var(0.0_f32)).collect(),
            output: (0..WARP_ROWS).map(|_| zeros()).collect(),
        }
    }

    fn reset(&self) {
        self.max.iter().for_each(|max| max.set(f32::NEG_INFINITY));
        self.sum.iter().chain(self.output.iter().flatten()).for_each(|var| var.set(0.0_f32));
    }

    fn get(&self, row: usize) -> State {
        let output = self.output[row].iter().map(|var| var.get()).collect();
        State { max: self.max[row].get(), sum: self.sum[row].get(), output }
    }

    fn set(&self, row: usize, state: &State) {
        self.max[row].set(state.max);
        self.sum[row].set(state.sum);
        self.output[row].iter().zip(&state.output).for_each(|(var, value)| var.set(*value));
    }
}

/// The kernel.
pub(super) fn attend(config: &Config) -> Attend {
    let config = config.clone();
    let name = config.name();
    let body = move |inputs: [Global<u8>; MAX_INPUTS],
                     out: Global<u8>,
                     lse: Global<f32>,
                     stacks: Global<f32>,
                     partials: Global<f32>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, STRIDES>,
                     floats: Array<f32, FLOATS>| {
        wait_for_dependencies();
        // Contract: any grid; a block takes every `gridDim.x`-th item. With a tree, scratch for a
        // stack of `Levels` states for each thread of the grid.
        let [queries, tile, weights] = config.shared_words();
        let shared = dynamic_shared::<f32>(queries + tile + weights);
        let tensors = config.tensors(inputs, out, lse);
        let levels = sizes.at(Size::Levels as usize);
        let of_block = levels.mul_wide(config.state_words() * BLOCK) * block_idx().x.cast::<u64>();
        let block = Block {
            config: &config,
            tensors,
            sizes,
            strides,
            floats,
            stack: stacks.at(of_block).at(thread_idx().x),
            partials,
            queries: shared.at(warp_id() * (WARP_ROWS * config.key_row().0)),
            tile: shared.at(queries),
            weights: shared.at(warp_id() * (TILE * WARP_ROWS) + (queries + tile)),
        };
        range(block_idx().x, sizes.at(Size::Items as usize), grid_dim().x, |number| {
            let item = find(&config.work, sizes, &tensors.lists, number);
            when(item.exists, || block.attend(&item));
        });
    };
    // Two blocks at least: left alone, ptxas spills for a fourth one.
    kernel(name, body).required_block(BLOCK).min_blocks(2)
}

impl Block<'_> {
    fn attend(&self, item: &Item) {
        let rows: Vec<Row> = (0..WARP_ROWS).map(|i| item.row(self.sizes, warp_id() * WARP_ROWS + i)).collect();
        self.load_queries(item, &rows);
        let state = Rows::new(self.config.columns());
        let (begin, end) = item.keys;
        if self.config.tree {
            let first_of_part = if self.config.work.split {
                item.split * self.sizes.at(Size::Segments as usize)
            } else {
                Val::constant(0)
            };
            let occupied = var(0_u32);
            range(begin / SEGMENT, end.div_ceil(SEGMENT), 1_u32, |segment| {
                let first = (segment * SEGMENT).max(begin);
                self.segment(item, &rows, &state, (first, (segment * SEGMENT + SEGMENT).min(end)));
                self.push(&state, segment - first_of_part, occupied);
            });
            self.pop_all(&state, occupied);
        } else {
            self.segment(item, &rows, &state, (begin, end));
        }
        if self.config.work.split {
            self.write_partial(item, &state);
        } else {
            for (i, row) in rows.iter().enumerate() {
                when(row.exists, || self.config.finish(&self.epilogue(), item, row, &state.get(i)));
            }
        }
    }

    /// What the epilogue reads and writes.
    pub(super) fn epilogue(&self) -> Epilogue {
        let Self { tensors, sizes, strides, floats, .. } = *self;
        Epilogue { tensors, sizes, strides, floats }
    }

    /// Queries of the warp, converted to f32, with zeros behind each.
    fn load_queries(&self, item: &Item, rows: &[Row]) {
        let columns = self.config.key_row().0;
        let stride = |i: usize| self.strides.at(i);
        for (row, i) in rows.iter().zip(0_u32..) {
            let sequence = if self.config.work.packed {
                item.first_query.cast::<i64>() * stride(2)
            } else {
                item.sequence.cast::<i64>() * stride(0)
            };
            let first = sequence + row.head.cast::<i64>() * stride(1) + row.query.cast::<i64>() * stride(2);
            range(lane_id() * 4, columns, 128_u32, |column| {
                let q = Elements { memory: self.tensors.q, dtype: self.config.dtype, first, stride: stride(3) };
                let values = self.four(&q, column, self.config.head_dim, Val::constant(true));
                self.queries.at(column + i * columns).set_vec(values);
            });
        }
    }

    /// Four elements from a column on; zeros beyond `dim`, and where there is nothing.
    fn four(&self, from: &Elements, column: Val<u32>, dim: u32, exists: Val<bool>) -> [Val<f32>; 4] {
        let Elements { memory, dtype, first, stride } = *from;
        let loaded: Vec<Val<f32>> = if self.config.wide {
            load(dtype, memory.at(bytes_at(dtype, first + column.cast::<i64>())), 4, true)
        } else {
            let one = |i: u32| {
                let inside = (column + i).min(dim - 1);
                load::<f32, _>(dtype, memory.at(bytes_at(dtype, first + inside.cast::<i64>() * stride)), 1, false)[0]
            };
            (0..4).map(one).collect()
        };
        std::array::from_fn(|i| {
            let is_element = if dim.is_multiple_of(4) { exists } else { exists & (column + i as u32).lt(dim) };
            is_element.select(loaded[i], 0.0)
        })
    }

    /// Pushes the keys of a segment.
    fn segment(&self, item: &Item, rows: &[Row], state: &Rows, (begin, end): (Val<u32>, Val<u32>)) {
        state.reset();
        range(begin & !(TILE - 1), end, TILE, |first| {
            let key_strides = std::array::from_fn(|i| self.strides.at(4 + i));
            self.load_tile(item, first, (self.tensors.k, key_strides), self.config.head_dim, self.config.key_row().1);
            sync_threads();
            let scores = self.scores(item, rows, first + lane_id());
            self.push_scores(state, &scores);
            sync_threads();
            let value_strides = std::array::from_fn(|i| self.strides.at(8 + i));
            let pitch = self.config.columns() * 32;
            self.load_tile(item, first, (self.tensors.v, value_strides), self.config.value_dim, pitch);
            sync_threads();
            self.push_values(state);
            sync_threads();
        });
        for sum in &state.sum {
            let total = [16_u32, 8, 4, 2, 1].iter().fold(sum.get(), |sum, lanes| sum + shfl_xor(sum, *lanes));
            sum.set(total);
        }
    }

    /// Brings 32 keys or values to shared memory; zeros beyond the last one, whatever lies there.
    fn load_tile(
        &self,
        item: &Item,
        first: Val<u32>,
        (memory, strides): (Global<u8>, [Val<i64>; 4]),
        dim: u32,
        pitch: u32,
    ) {
        let units = dim.div_ceil(4);
        let num_units = TILE * units;
        let dtype = self.config.kv_dtype;
        range(thread_idx().x, num_units, BLOCK, |unit| {
            let (key, column) = (unit / units, unit % units * 4);
            let position = first + key;
            let exists = position.lt(item.num_keys);
            let inside = position.min(item.num_keys - 1);
            let place = if self.config.paged {
                let [page_size, width] = [Size::Page, Size::Width].map(|size| self.sizes.at(size as usize));
                let entry = item.sequence.cast::<u64>() * width.cast::<u64>() + (inside / page_size).cast::<u64>();
                let page = self.tensors.lists.block_table.at(entry).get();
                page.cast::<i64>() * strides[0] + (inside % page_size).cast::<i64>() * strides[2]
            } else if self.config.work.key_lens == KeyLens::Packed {
                (item.first_key + inside).cast::<i64>() * strides[2]
            } else {
                item.sequence.cast::<i64>() * strides[0] + inside.cast::<i64>() * strides[2]
            };
            let first = place + item.kv_head.cast::<i64>() * strides[1];
            let values = self.four(&Elements { memory, dtype, first, stride: strides[3] }, column, dim, exists);
            self.tile.at(key * pitch + column).set_vec(values);
        });
        if dim.next_multiple_of(4) < pitch && pitch.is_multiple_of(32) {
            // Columns that lanes have and values do not.
            let (from, rest) = (dim.next_multiple_of(4), pitch - dim.next_multiple_of(4));
            range(thread_idx().x, TILE * rest, BLOCK, |i| {
                self.tile.at(i / rest * pitch + i % rest + from).set(0.0_f32);
            });
        }
    }

    /// The scores of the rows with the key of this lane, times log2(e); minus infinity where it is
    /// not seen.
    fn scores(&self, item: &Item, rows: &[Row], key: Val<u32>) -> Vec<Val<f32>> {
        let (columns, pitch) = self.config.key_row();
        let dots: Vec<Var<f32>> = rows.iter().map(|_| var(0.0_f32)).collect();
        range(0_u32, columns, 4_u32, |column| {
            let of_key = self.tile.at(lane_id() * pitch + column).get_vec::<4>();
            for (dot, i) in dots.iter().zip(0_u32..) {
                let of_query = self.queries.at(column + i * columns).get_vec::<4>();
                let sum = of_query.iter().zip(&of_key).fold(dot.get(), |sum, (q, k)| q.mul_add(*k, sum));
                dot.set(sum);
            }
        });
        let score = |(row, dot): (&Row, &Var<f32>)| self.score(item, row, key, dot.get());
        rows.iter().zip(&dots).map(score).collect()
    }

    fn score(&self, item: &Item, row: &Row, key: Val<u32>, dot: Val<f32>) -> Val<f32> {
        let Config { softcap, mask, score, work, .. } = self.config;
        let position = key.cast::<i32>();
        let mut scaled = dot * self.floats.at(0);
        if let Some(score) = score {
            let at = ScoreAt { batch: item.sequence, head: row.head, query: row.position, key: position };
            scaled = score.apply(scaled, at);
        }
        if *softcap {
            scaled = self.floats.at(1) * (scaled * self.floats.at(2)).tanh();
        }
        let mut is_seen = key.lt(item.num_keys) & row.exists;
        if work.causal.is_some() {
            is_seen &= position.le(row.position);
        }
        if work.window {
            let window = self.sizes.at(Size::Window as usize).cast::<i32>();
            is_seen &= position.gt(row.position - window);
            if work.causal.is_none() {
                is_seen &= position.lt(row.position + window);
            }
        }
        if let Some(dtype) = *mask {
            let strides: [Val<i64>; 4] = std::array::from_fn(|i| self.strides.at(15 + i));
            let mask_keys = self.sizes.at(Size::MaskKeys as usize);
            is_seen &= key.lt(mask_keys);
            let inside = key.min(item.num_keys.min(mask_keys) - 1);
            let at = [item.sequence, row.head, row.query, inside];
            let at = at.iter().zip(strides).map(|(i, stride)| i.cast::<i64>() * stride).reduce(|a, b| a + b);
            let place = self.tensors.mask.at(bytes_at(dtype, at.expect("there are four")));
            if dtype == Dtype::Bool {
                is_seen &= load::<u32, _>(dtype, place, 1, false)[0].ne(0);
            } else {
                scaled += load::<f32, _>(dtype, place, 1, false)[0];
                is_seen &= scaled.ne(f32::NEG_INFINITY);
                // The lowest number of a mask is no infinity: a row of them is a mean of its
                // values.
                scaled = scaled.max_nan(LOWEST);
            }
        }
        is_seen.select(scaled * std::f32::consts::LOG2_E, f32::NEG_INFINITY)
    }

    /// Puts a tile's weights into shared memory and makes sums and outputs relative to its maximum.
    fn push_scores(&self, state: &Rows, scores: &[Val<f32>]) {
        let mut weights = Vec::new();
        for (row, score) in scores.iter().enumerate() {
            let of_tile = [16_u32, 8, 4, 2, 1].iter().fold(*score, |max, lanes| max.max(shfl_xor(max, *lanes)));
            let before = state.max[row].get();
            let max = before.max(of_tile);
            let base = shift(max);
            let weight = (*score - base).exp2();
            let correction = (before - base).exp2();
            state.max[row].set(max);
            state.sum[row].set(state.sum[row].get().mul_add(correction, weight));
            for column in &state.output[row] {
                column.set(column.get() * correction);
            }
            weights.push(weight);
        }
        for (four, i) in weights.chunks_exact(4).zip(0_u32..) {
            let place = self.weights.at(lane_id() * 4 + i * (4 * TILE));
            place.set_vec([four[0], four[1], four[2], four[3]]);
        }
    }

    /// Adds the values of a tile by the weights of its keys, key after key.
    fn push_values(&self, state: &Rows) {
        let pitch = self.config.columns() * 32;
        range(0_u32, TILE, 1_u32, |key| {
            let groups = (0..WARP_ROWS / 4).map(|i| self.weights.at(key * 4 + i * (4 * TILE)).get_vec::<4>());
            let weights: Vec<Val<f32>> = groups.flatten().collect();
            for column in 0..self.config.columns() {
                let value = self.tile.at(key * pitch + lane_id() + column * 32).get();
                for (weight, output) in weights.iter().zip(&state.output) {
                    let output = output[column as usize];
                    output.set(weight.mul_add(value, output.get()));
                }
            }
        });
    }

    /// Pushes the states of a segment on the stack, and combines complete pairs: what was pushed
    /// for the segments before is to their left.
    fn push(&self, state: &Rows, segment: Val<u32>, occupied: Var<u32>) {
        let level = var(0_u32);
        while_loop(
            || ((segment >> level.get()) & 1).ne(0),
            || {
                when(((occupied.get() >> level.get()) & 1).ne(0), || {
                    self.combine_with_level(state, level.get());
                    occupied.set(occupied.get() & !(Val::constant(1_u32) << level.get()));
                });
                level.set(level.get() + 1);
            },
        );
        let place = self.level(level.get());
        for row in 0..WARP_ROWS {
            let State { max, sum, output } = state.get(row as usize);
            for (value, i) in [max, sum].into_iter().chain(output).zip(0_u32..) {
                place.at((row * (self.config.columns() + 2) + i) * BLOCK).set(value);
            }
        }
        occupied.set(occupied.get() | (Val::constant(1_u32) << level.get()));
    }

    /// Combines all that is left on the stack, from the last segments to the first.
    fn pop_all(&self, state: &Rows, occupied: Var<u32>) {
        state.reset();
        while_loop(
            || occupied.get().ne(0),
            || {
                self.combine_with_level(state, occupied.get().ctz());
                occupied.set(occupied.get() & (occupied.get() - 1));
            },
        );
    }

    fn level(&self, level: Val<u32>) -> Global<f32> {
        self.stack.at(level.mul_wide(self.config.state_words() * BLOCK))
    }

    /// The states of a level, which come before, combined with those at hand.
    fn combine_with_level(&self, state: &Rows, level: Val<u32>) {
        let place = self.level(level);
        for row in 0..WARP_ROWS {
            let at = |i: u32| place.at((row * (self.config.columns() + 2) + i) * BLOCK).get();
            let output = (0..self.config.columns()).map(|column| at(2 + column)).collect();
            let left = State { max: at(0), sum: at(1), output };
            state.set(row as usize, &left.combine(&state.get(row as usize)));
        }
    }

    /// Leaves the states of a part of the keys for the launch that merges.
    fn write_partial(&self, item: &Item, state: &Rows) {
        let words = self.config.partial_words();
        let of_split = self.sizes.at(Size::Items as usize) / self.sizes.at(Size::Splits as usize);
        let tile = item.split.mul_wide(of_split) + item.number.cast::<u64>();
        for row in 0..WARP_ROWS {
            let number = tile * u64::from(ROWS) + (warp_id() * WARP_ROWS + row).cast::<u64>();
            let place = self.partials.at(number * u64::from(words));
            let State { max, sum, output } = state.get(row as usize);
            when(lane_id().eq(0), || {
                place.at(self.config.value_dim).set(max);
                place.at(self.config.value_dim + 1).set(sum);
            });
            for (value, i) in output.into_iter().zip(0_u32..) {
                let column = lane_id() + 32 * i;
                place.at(column).set_if(value, column.lt(self.config.value_dim));
            }
        }
    }
}

/// Where elements of a row lie.
#[derive(Clone, Copy)]
struct Elements {
    memory: Global<u8>,
    dtype: Dtype,
    /// Of the row, in elements.
    first: Val<i64>,
    stride: Val<i64>,
}

/// What an epilogue reads and writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epilogue {
    pub(super) tensors: Tensors,
    pub(super) sizes: Array<u32, SIZES>,
    pub(super) strides: Array<i64, STRIDES>,
    pub(super) floats: Array<f32, FLOATS>,
}

impl Config {
    /// Writes the result of a row, of which a lane has every 32nd column. An attention sink is one
    /// more logit without a value.
    pub(super) fn finish(&self, epilogue: &Epilogue, item: &Item, row: &Row, state: &State) {
        let Epilogue { tensors, strides, floats, .. } = *epilogue;
        let stride = |i: usize| strides.at(12 + i);
        let mut state = state.clone();
        if let Some(dtype) = self.sinks {
            let sink = load::<f32, _>(dtype, tensors.sinks.at(row.head.mul_wide(dtype.bytes() as u32)), 1, false)[0];
            let score = sink * std::f32::consts::LOG2_E;
            let weight = score.eq(f32::NEG_INFINITY).select(0.0, 1.0);
            let output = vec![Val::constant(0.0); state.output.len()];
            state = state.combine(&State { max: score, sum: weight, output });
        }
        let factor = state.sum.eq(0.0).select(0.0, floats.at(3) / state.sum);
        let query = item.first_query + row.query;
        let sequence = if self.work.packed { Val::constant(0) } else { item.sequence };
        let index = [sequence, row.head, query].into_iter().enumerate();
        let index = index.map(|(i, n)| n.cast::<i64>() * stride(i)).reduce(|a, b| a + b).expect("there are three");
        for (value, i) in state.output.iter().zip(0_u32..) {
            let column = lane_id() + 32 * i;
            when(column.lt(self.value_dim), || {
                let place = tensors.out.at(bytes_at(self.output, index + column.cast::<i64>()));
                // A zero has no sign: which it had would depend on how many tiles were passed over.
                store(self.output, place, &[*value * factor + 0.0], false);
            });
        }
        if self.lse {
            when(lane_id().eq(0), || {
                let place = self.lse_index(epilogue, item, row, query);
                tensors.lse.at(place).set(log_sum_exp(state.max, state.sum));
            });
        }
    }

    /// `[batch, heads, queries]`, or `[total, heads]` where sequences are packed.
    fn lse_index(&self, epilogue: &Epilogue, item: &Item, row: &Row, query: Val<u32>) -> Val<u64> {
        let of = |size: Size| epilogue.sizes.at(size as usize).cast::<u64>();
        let (heads, queries) = (of(Size::KvHeads) * of(Size::Group), of(Size::Queries));
        if self.work.packed {
            query.cast::<u64>() * heads + row.head.cast::<u64>()
        } else {
            (item.sequence.cast::<u64>() * heads + row.head.cast::<u64>()) * queries + query.cast::<u64>()
        }
    }
}

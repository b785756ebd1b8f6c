//! Attention on CUDA cores, in f32: every type, head size, layout and option.
//!
//! A block takes [`ROWS`] rows, a warp [`WARP_ROWS`] of them. Keys come by tiles of 32 through
//! shared memory, one for each lane; then their values, whose columns are dealt to the lanes.

use warpfold_lang::{
    Global, GlobalSpace, Kernel, Shared, Val, Var, block_idx, dynamic_shared, grid_dim, kernel, lane_id, range,
    shfl_xor, sync_threads, thread_idx, var, wait_for_dependencies, warp_id, when,
};

use super::TILE;
use super::args::{AttentionArgs, HeadsArgs};
use super::config::{AttentionConfig, Launch};
use super::output::Columns;
use super::running::{RowStates, Running, state_words};
use super::state::{State, shift};
use super::work::{Item, Row, bytes_at, find};
use crate::Dtype;
use crate::elements::load;

/// Rows of a warp.
pub(super) const WARP_ROWS: u32 = 8;
const WARPS: u32 = 4;
/// Rows of a block.
pub(super) const ROWS: u32 = WARPS * WARP_ROWS;
/// Threads of a block.
pub(crate) const BLOCK: u32 = 32 * WARPS;
/// Elements that are loaded at once, where tensors allow it.
pub(super) const fn wide(_: Dtype) -> u64 {
    4
}

/// Columns of a key in shared memory, and words from one key to the next: four more than a multiple
/// of 32, so that lanes that read four words each of their keys meet no bank twice.
fn key_row(config: &AttentionConfig) -> (u32, u32) {
    (config.head_dim.next_multiple_of(4), config.head_dim.next_multiple_of(32) + 4)
}

/// Values of a row that a lane has.
pub(super) fn columns(config: &AttentionConfig) -> u32 {
    config.value_dim.div_ceil(32)
}

/// Words of the scratch memory of a block that folds several segments.
pub(super) fn state_words_of_block(config: &AttentionConfig) -> u32 {
    BLOCK * state_words(WARP_ROWS, columns(config))
}

/// Words of shared memory: queries, keys or values, weights.
fn shared_words(config: &AttentionConfig) -> [u32; 3] {
    let (columns_of_key, pitch) = key_row(config);
    let values = TILE * columns(config) * 32;
    [ROWS * columns_of_key, (TILE * pitch).max(values), WARPS * TILE * WARP_ROWS]
}

/// Bytes of shared memory of a block.
pub(super) fn shared_bytes(config: &AttentionConfig) -> u32 {
    4 * shared_words(config).iter().sum::<u32>()
}

/// A kernel that is being recorded.
struct Block<'a> {
    launch: Launch<'a>,
    running: Option<Running<GlobalSpace>>,
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
}

impl RowStates for Rows {
    fn num(&self) -> u32 {
        WARP_ROWS
    }

    fn get(&self, row: u32) -> State {
        let row = row as usize;
        let output = self.output[row].iter().map(|var| var.get()).collect();
        State { max: self.max[row].get(), sum: self.sum[row].get(), output }
    }

    fn set(&self, row: u32, state: &State) {
        let row = row as usize;
        self.max[row].set(state.max);
        self.sum[row].set(state.sum);
        self.output[row].iter().zip(&state.output).for_each(|(var, value)| var.set(*value));
    }
}

/// The kernel.
pub(super) fn attend(config: &AttentionConfig) -> Kernel<AttentionArgs> {
    let config = config.clone();
    let name = format!("attention_simt_{}", config.name());
    let body = move |args: AttentionArgs| {
        wait_for_dependencies();
        // Contract: any grid; a block takes every `gridDim.x`-th item. With segments, scratch for
        // the states of each thread of the grid.
        // Shared-memory map
        let [queries, tile, weights] = shared_words(&config);
        let shared = dynamic_shared::<f32>(queries + tile + weights);
        let running = config.segments.then(|| {
            let of_block = Val::constant(state_words_of_block(&config)).mul_wide(block_idx().x);
            Running::new(args.states.at(of_block), (thread_idx().x, BLOCK), [WARP_ROWS, columns(&config)])
        });
        let block = Block {
            launch: Launch { config: &config, args },
            running,
            queries: shared.at(warp_id() * (WARP_ROWS * key_row(&config).0)),
            tile: shared.at(queries),
            weights: shared.at(warp_id() * (TILE * WARP_ROWS) + (queries + tile)),
        };
        range(block_idx().x, args.items.get(), grid_dim().x, |number| {
            let item = find(&config.work, &args, number);
            when(item.exists, || block.attend(&item));
        });
    };
    // Two blocks at least: left alone, ptxas spills for a fourth one.
    kernel(name, body).required_block(BLOCK).min_blocks(2)
}

impl Block<'_> {
    fn attend(&self, item: &Item) {
        let Self { launch, .. } = self;
        let work = &launch.config.work;
        // Roles: a warp has its rows, a lane a key of each tile.
        let rows: Vec<Row> = (0..WARP_ROWS).map(|i| item.row(&launch.args, warp_id() * WARP_ROWS + i)).collect();
        self.load_queries(item, &rows);
        let state = Rows::new(columns(launch.config));
        let (begin, end) = item.keys;
        let write = |write: &dyn Fn(u32, &Row, Val<u32>)| {
            for (row, i) in rows.iter().zip(0_u32..) {
                when(row.exists, || write(i, row, warp_id() * WARP_ROWS + i));
            }
        };
        let keys = work.segment;
        let each_segment = |body: &dyn Fn(Val<u32>)| {
            range(begin / keys, end.div_ceil(keys), 1_u32, |segment| {
                let first = (segment * keys).max(begin);
                self.segment(item, &rows, &state, (first, (segment * keys + keys).min(end)));
                body(segment);
            });
        };
        if work.split {
            each_segment(&|segment| {
                write(&|i, _, number| {
                    let place = launch.partial(item, number, segment);
                    launch.write_partial(place, &state.get(i), Columns::Strided);
                });
            });
            return;
        }
        if let Some(running) = &self.running {
            running.clear();
            each_segment(&|_| running.push(&state));
            state.reset();
            running.finish(&state);
        } else {
            self.segment(item, &rows, &state, (begin, end));
        }
        // Epilogue
        write(&|i, row, _| launch.finish(item, row, &state.get(i), Columns::Strided));
    }

    /// Queries of the warp, converted to f32, with zeros behind each.
    fn load_queries(&self, item: &Item, rows: &[Row]) {
        let Launch { config, args } = self.launch;
        let columns = key_row(config).0;
        for (row, i) in rows.iter().zip(0_u32..) {
            let first = self.launch.place_of_query(item, row);
            range(lane_id() * 4, columns, 128_u32, |column| {
                let stride = args.q.element.get();
                let q = Elements { memory: args.q.memory, dtype: config.dtype, wide: config.wide[0], first, stride };
                let values = four(&q, column, config.head_dim, Val::constant(true));
                self.queries.at(column + i * columns).set_vec(values);
            });
        }
    }

    /// Pushes the keys of a segment.
    fn segment(&self, item: &Item, rows: &[Row], state: &Rows, (begin, end): (Val<u32>, Val<u32>)) {
        state.reset();
        // Main loop
        range(begin & !(TILE - 1), end, TILE, |first| {
            let Launch { config, args } = self.launch;
            self.load_tile(item, first, args.k, config.head_dim, key_row(config).1);
            sync_threads();
            // S = Q Kᵀ
            let scores = self.scores(item, rows, first + lane_id());
            // P = softmax(S)
            self.push_scores(state, &scores);
            sync_threads();
            let pitch = columns(config) * 32;
            self.load_tile(item, first, args.v, config.value_dim, pitch);
            sync_threads();
            // O += P V
            self.push_values(state);
            sync_threads();
        });
        for sum in &state.sum {
            let total = [16_u32, 8, 4, 2, 1].iter().fold(sum.get(), |sum, lanes| sum + shfl_xor(sum, *lanes));
            sum.set(total);
        }
    }

    /// Brings 32 keys or values to shared memory; zeros beyond the last one, whatever lies there.
    fn load_tile(&self, item: &Item, first: Val<u32>, tensor: HeadsArgs, dim: u32, pitch: u32) {
        // Whole multiples of 32 columns, zeros behind the last one: lanes that go on in the next
        // row then meet no others in a bank, and lanes have columns that values do not.
        let (strides, memory) = (tensor.strides(), tensor.memory);
        let units = dim.next_multiple_of(32) / 4;
        let (dtype, wide) = (self.launch.config.kv_dtype, self.launch.config.wide[1]);
        range(thread_idx().x, TILE * units, BLOCK, |unit| {
            let (key, column) = (unit / units, unit % units * 4);
            let position = first + key;
            let mut exists = position.lt(item.num_keys);
            if !dim.is_multiple_of(32) {
                exists &= column.lt(dim);
            }
            let inside = position.min(item.num_keys - 1);
            let first = self.launch.place_of_key(item, inside, strides);
            let from = Elements { memory, dtype, wide, first, stride: strides[3] };
            let values = four(&from, column, dim, exists);
            self.tile.at(key * pitch + column).set_vec(values);
        });
    }

    /// The scores of the rows with the key of this lane, times log2(e); minus infinity where it is
    /// not seen.
    fn scores(&self, item: &Item, rows: &[Row], key: Val<u32>) -> Vec<Val<f32>> {
        let (columns, pitch) = key_row(self.launch.config);
        let dots: Vec<Var<f32>> = rows.iter().map(|_| var(0.0_f32)).collect();
        range(0_u32, columns, 4_u32, |column| {
            let of_key = self.tile.at(lane_id() * pitch + column).get_vec::<4>();
            for (dot, i) in dots.iter().zip(0_u32..) {
                let of_query = self.queries.at(column + i * columns).get_vec::<4>();
                let sum = of_query.iter().zip(&of_key).fold(dot.get(), |sum, (q, k)| q.mul_add(*k, sum));
                dot.set(sum);
            }
        });
        let score = |(row, dot): (&Row, &Var<f32>)| self.launch.score(item, row, key, dot.get());
        rows.iter().zip(&dots).map(score).collect()
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
        let columns = columns(self.launch.config);
        let pitch = columns * 32;
        range(0_u32, TILE, 1_u32, |key| {
            let groups = (0..WARP_ROWS / 4).map(|i| self.weights.at(key * 4 + i * (4 * TILE)).get_vec::<4>());
            let weights: Vec<Val<f32>> = groups.flatten().collect();
            for column in 0..columns {
                let value = self.tile.at(key * pitch + lane_id() + column * 32).get();
                for (weight, output) in weights.iter().zip(&state.output) {
                    let output = output[column as usize];
                    output.set(weight.mul_add(value, output.get()));
                }
            }
        });
    }
}

/// Four elements from a column on; zeros beyond `dim`, and where there is nothing.
fn four(from: &Elements, column: Val<u32>, dim: u32, exists: Val<bool>) -> [Val<f32>; 4] {
    let Elements { memory, dtype, wide, first, stride } = *from;
    let loaded: Vec<Val<f32>> = if wide {
        // Rows have whole fours then.
        let inside = if dim.is_multiple_of(32) { column } else { column.min(dim - 4) };
        load(dtype, memory.at(bytes_at(dtype, first + inside.cast::<i64>())), 4, true)
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

/// Where elements of a row lie.
#[derive(Clone, Copy)]
struct Elements {
    memory: Global<u8>,
    dtype: Dtype,
    /// Whether four of them are loaded at once.
    wide: bool,
    /// Of the row, in elements.
    first: Val<i64>,
    stride: Val<i64>,
}

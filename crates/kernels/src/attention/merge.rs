//! The launch that combines the partial results of split keys, in the order of the tree.

use warpfold_lang::{Array, Global, Val, Var, block_idx, kernel, range, var, wait_for_dependencies, warp_id, when};

use super::SEGMENT;
use super::config::{Config, FLOATS, Launch, MAX_INPUTS};
use super::output::Columns;
use super::simt::{Attend, BLOCK};
use super::state::State;
use super::work::{SIZES, STRIDES, Size, WorkConfig, find};

/// What the kernel takes: as [`Attend`], whose partial results it reads.
pub(super) type Merge = Attend;

/// The kernel: a block for each tile of rows, one warp per row. `levels` are those of the tree over
/// the parts.
pub(super) fn merge(config: &Config, levels: u32) -> Merge {
    let config = config.clone();
    let rows = config.work.rows;
    let name = format!("attention_merge{rows}_{levels}_{}", config.name());
    let body = move |inputs: [Global<u8>; MAX_INPUTS],
                     out: Global<u8>,
                     lse: Global<f32>,
                     _: Global<f32>,
                     partials: Global<f32>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, STRIDES>,
                     floats: Array<f32, FLOATS>| {
        wait_for_dependencies();
        // Contract: a grid of a block for each item of one part.
        let tensors = config.tensors(inputs, out, lse);
        let launch = Launch { config: &config, tensors, sizes, strides, floats };
        let whole = WorkConfig { split: false, ..config.work };
        let item = find(&whole, sizes, &tensors.lists, block_idx().x);
        let (begin, end) = item.keys;
        let part = launch.size(Size::Segments) * SEGMENT;
        when(item.exists, || {
            range(warp_id(), (item.num_rows - item.first_row).min(rows), BLOCK / 32, |number| {
                let stack = Stack::new(levels, config.value_dim.div_ceil(32));
                range(begin / part, end.div_ceil(part), 1_u32, |split| {
                    stack.push(&read(&config, launch.partial(partials, &item, number, split)), split);
                });
                let row = item.row(sizes, number);
                launch.finish(&item, &row, &stack.fold(), Columns::Strided);
            });
        });
    };
    kernel(name, body).required_block(BLOCK)
}

fn read(config: &Config, place: Global<f32>) -> State {
    let column = |i: u32| {
        let column = Columns::Strided.at(i);
        place.at(column).get_or(0.0, column.lt(config.value_dim))
    };
    let output = (0..config.value_dim.div_ceil(32)).map(column).collect();
    State { max: place.at(config.value_dim).get(), sum: place.at(config.value_dim + 1).get(), output }
}

/// States of finished subtrees, one for each level. An empty level is the identity, which leaves no
/// trace.
struct Stack(Vec<Level>);

struct Level {
    max: Var<f32>,
    sum: Var<f32>,
    output: Vec<Var<f32>>,
}

impl Level {
    fn get(&self) -> State {
        let output = self.output.iter().map(|var| var.get()).collect();
        State { max: self.max.get(), sum: self.sum.get(), output }
    }

    fn set(&self, state: &State) {
        self.max.set(state.max);
        self.sum.set(state.sum);
        self.output.iter().zip(&state.output).for_each(|(var, value)| var.set(*value));
    }
}

impl Stack {
    fn new(levels: u32, columns: u32) -> Self {
        let level = |_| Level {
            max: var(f32::NEG_INFINITY),
            sum: var(0.0_f32),
            output: (0..columns).map(|_| var(0.0_f32)).collect(),
        };
        Self((0..levels).map(level).collect())
    }

    /// Adds the state of the part with this number, as a binary counter carries.
    fn push(&self, state: &State, number: Val<u32>) {
        let carry = Level {
            max: var(state.max),
            sum: var(state.sum),
            output: state.output.iter().map(|value| var(*value)).collect(),
        };
        let identity = State::identity(state.output.len());
        for (level, i) in self.0.iter().zip(0_u32..) {
            // The bits below are all set where a carry comes this far.
            let comes = (number & ((1 << i) - 1)).eq((1 << i) - 1);
            let is_taken = ((number >> i) & 1).ne(0);
            when(comes & is_taken, || {
                carry.set(&level.get().combine(&carry.get()));
                level.set(&identity);
            });
            when(comes & !is_taken, || level.set(&carry.get()));
        }
    }

    /// All of them, the last parts first.
    fn fold(&self) -> State {
        let states = self.0.iter().map(Level::get);
        states.reduce(|right, left| left.combine(&right)).expect("there is a level")
    }
}

//! The end of a row: its result and log-sum-exp, or a partial result for the launch that merges.

use warpfold_lang::{Bf16x2, F16x2, Global, Lanes, Lazy, Val, lane_id, shfl_xor, warp_id, when};

use super::args::{AttentionArgs, HeadsArgs};
use super::config::Launch;
use super::state::{State, log_sum_exp};
use super::work::{Item, Row, bytes_at};
use crate::Dtype;
use crate::elements::{load, store};

/// Which columns of a row a lane has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Columns {
    /// Every 32nd from its own number on.
    Strided,
    /// Pairs: those of the sums of a warpgroup.
    Pairs,
    /// Pairs, where columns are the rows of the sums of a warpgroup, in the order of
    /// [`SwappedTile`](super::SwappedTile)'s kernel.
    Transposed,
}

impl Columns {
    /// The column of a value.
    pub(super) fn at(self, value: u32) -> Val<u32> {
        match self {
            Self::Strided => lane_id() + 32 * value,
            Self::Pairs => (lane_id() & 3) * 2 + (8 * (value / 2) + value % 2),
            Self::Transposed => (warp_id() & 3) * 16 + (lane_id() >> 2) * 2 + (64 * (value / 2) + value % 2),
        }
    }

    /// Whether this lane is the one that writes what a row has once.
    fn is_first_lane(self) -> Val<bool> {
        match self {
            Self::Strided => lane_id().eq(0),
            Self::Pairs => (lane_id() & 3).eq(0),
            Self::Transposed => ((warp_id() & 3) | (lane_id() >> 2)).eq(0),
        }
    }
}

/// Transposes four words in each lane of a quad: word `i` of lane `j` becomes word `j` of lane `i`.
fn transposed_in_quad(lane: Val<u32>, words: [Val<u32>; 4]) -> [Val<u32>; 4] {
    let [is_odd, is_upper] = [(lane & 1).ne(0), (lane & 2).ne(0)];
    let swapped = |is_second: Val<bool>, lanes: u32, [first, second]: [Val<u32>; 2]| {
        let other = shfl_xor(is_second.select(first, second), lanes);
        [is_second.select(other, first), is_second.select(second, other)]
    };
    let [[a, b], [c, d]] = [[words[0], words[1]], [words[2], words[3]]].map(|two| swapped(is_odd, 1, two));
    let [[a, c], [b, d]] = [[a, c], [b, d]].map(|two| swapped(is_upper, 2, two));
    [a, b, c, d]
}

impl Launch<'_> {
    /// Writes the result of a row where it exists. The lanes of a warp come here together.
    pub(super) fn finish_if(&self, item: &Item, row: &Row, state: &dyn Fn() -> State, columns: Columns) {
        if self.stores_quads(columns) {
            // Lanes of other rows exchange words, too.
            when(Lanes::all_lanes().any(row.exists), || self.finish(item, row, &state(), columns));
        } else {
            when(row.exists, || self.finish(item, row, &state(), columns));
        }
    }

    const fn stores_quads(&self, columns: Columns) -> bool {
        self.config.quads && matches!(columns, Columns::Pairs)
    }

    /// Writes the result of a row that exists (or, by quads, of any row: nothing where there is
    /// none). An attention sink is one more logit without a value.
    pub(super) fn finish(&self, item: &Item, row: &Row, state: &State, columns: Columns) {
        let Self { config, args } = *self;
        let mut state = state.clone();
        if let Some(dtype) = config.sinks {
            let sink = load::<f32, _>(dtype, args.sinks.at(row.head.mul_wide(dtype.bytes() as u32)), 1, false)[0];
            let score = sink * std::f32::consts::LOG2_E;
            let weight = score.eq(f32::NEG_INFINITY).select(0.0, 1.0);
            let output = vec![Val::constant(0.0); state.output.len()];
            state = state.combine(&State { max: score, sum: weight, output });
        }
        let factor = state.sum.eq(0.0).select(0.0, args.value_scale.get() / state.sum);
        let query = item.first_query + row.query;
        let sequence = if config.work.packed { Val::constant(0) } else { item.sequence };
        let HeadsArgs { memory, sequence: of_sequence, head, position, .. } = args.out;
        let index = [(sequence, of_sequence), (row.head, head), (query, position)];
        let index = index.into_iter().map(|(n, stride)| n.cast::<i64>() * stride.get());
        let index = index.reduce(|sum, term| sum + term).expect("there are three");
        let out = memory.at(bytes_at(config.output, index));
        // A zero has no sign: which it had would depend on how many tiles were passed over.
        let values: Vec<_> = state.output.iter().map(|value| *value * factor + 0.0).collect();
        let by_quads = self.stores_quads(columns);
        if by_quads {
            self.store_quads(out, &values, row.exists);
        } else {
            let width = if config.pairs && !matches!(columns, Columns::Strided) { 2 } else { 1 };
            for (values, i) in values.chunks(width).zip(0_u32..) {
                let column = columns.at(i * width as u32);
                when(column.lt(config.value_dim), || {
                    store(config.output, out.at(column * config.output.bytes() as u32), values, width > 1);
                });
            }
        }
        if config.lse {
            let is_writing = columns.is_first_lane();
            when(if by_quads { is_writing & row.exists } else { is_writing }, || {
                args.lse.at(self.lse_index(item, row, query)).set(log_sum_exp(state.max, state.sum));
            });
        }
    }

    /// Stores the pairs of a row as 16-bit elements, 16 bytes at a time: of four times 8 columns
    /// each lane of a quad gets 8.
    fn store_quads(&self, out: Global<u8>, values: &[Val<f32>], exists: Val<bool>) {
        let lane = lane_id() & 3;
        for (eight, i) in values.chunks(8).zip(0_u32..) {
            let pair = |i: usize| match (eight.get(2 * i..2 * i + 2), self.config.output) {
                (Some(&[low, high]), Dtype::F16) => Val::<F16x2>::from_f32(low, high).bitcast::<u32>(),
                (Some(&[low, high]), _) => Val::<Bf16x2>::from_f32(low, high).bitcast::<u32>(),
                // Behind the last columns that a thread has.
                _ => Val::constant(0),
            };
            let column = lane * 8 + 32 * i;
            let words = transposed_in_quad(lane, [0, 1, 2, 3].map(pair));
            out.at(column * 2).reinterpret::<u32>().set_vec_if(words, exists & column.lt(self.config.value_dim));
        }
    }

    /// `[batch, heads, queries]`, or `[total, heads]` where sequences are packed.
    fn lse_index(&self, item: &Item, row: &Row, query: Val<u32>) -> Val<u64> {
        let AttentionArgs { kv_heads, group, queries, .. } = self.args;
        let of = |size: Lazy<u32>| size.get().cast::<u64>();
        let (heads, queries) = (of(kv_heads) * of(group), of(queries));
        if self.config.work.packed {
            query.cast::<u64>() * heads + row.head.cast::<u64>()
        } else {
            (item.sequence.cast::<u64>() * heads + row.head.cast::<u64>()) * queries + query.cast::<u64>()
        }
    }

    /// Where the state of a row after one segment lies: weighted values, maximum, sum.
    pub(super) fn partial(&self, item: &Item, row: Val<u32>, segment: Val<u32>) -> Global<f32> {
        let (group, queries) = (self.args.group.get(), self.args.queries.get());
        let first = if self.config.work.packed { item.first_query } else { item.sequence * queries };
        let of_sequence = first * group * self.args.kv_heads.get();
        let number = of_sequence + item.kv_head * item.num_rows + item.first_row + row;
        let number = segment.mul_wide(self.args.rows.get()) + number.cast::<u64>();
        self.args.partials.at(number * u64::from(self.config.partial_words()))
    }

    /// Leaves the state of a row for the launch that merges.
    pub(super) fn write_partial(&self, place: Global<f32>, state: &State, columns: Columns) {
        let dim = self.config.value_dim;
        when(columns.is_first_lane(), || {
            place.at(dim).set(state.max);
            place.at(dim + 1).set(state.sum);
        });
        for (value, i) in state.output.iter().zip(0_u32..) {
            let column = columns.at(i);
            place.at(column).set_if(*value, column.lt(dim));
        }
    }
}

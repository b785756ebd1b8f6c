//! The end of a row: its result and log-sum-exp, or a partial result for the launch that merges.

use warpfold_lang::{Global, Val, lane_id, when};

use super::config::Launch;
use super::state::{State, log_sum_exp};
use super::work::{Item, Row, Size, bytes_at};
use crate::elements::{load, store};

/// Which columns of a row a lane has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Columns {
    /// Every 32nd from its own number on.
    Strided,
    /// Pairs: those of the sums of a warpgroup.
    Pairs,
}

impl Columns {
    /// The column of a value.
    pub(super) fn at(self, value: u32) -> Val<u32> {
        match self {
            Self::Strided => lane_id() + 32 * value,
            Self::Pairs => (lane_id() & 3) * 2 + (8 * (value / 2) + value % 2),
        }
    }

    /// Whether this lane is the one that writes what a row has once.
    fn is_first_lane(self) -> Val<bool> {
        match self {
            Self::Strided => lane_id().eq(0),
            Self::Pairs => (lane_id() & 3).eq(0),
        }
    }
}

impl Launch<'_> {
    /// Writes the result of a row. An attention sink is one more logit without a value.
    pub(super) fn finish(&self, item: &Item, row: &Row, state: &State, columns: Columns) {
        let Self { config, tensors, strides, floats, .. } = *self;
        let stride = |i: usize| strides.at(12 + i);
        let mut state = state.clone();
        if let Some(dtype) = config.sinks {
            let sink = load::<f32, _>(dtype, tensors.sinks.at(row.head.mul_wide(dtype.bytes() as u32)), 1, false)[0];
            let score = sink * std::f32::consts::LOG2_E;
            let weight = score.eq(f32::NEG_INFINITY).select(0.0, 1.0);
            let output = vec![Val::constant(0.0); state.output.len()];
            state = state.combine(&State { max: score, sum: weight, output });
        }
        let factor = state.sum.eq(0.0).select(0.0, floats.at(3) / state.sum);
        let query = item.first_query + row.query;
        let sequence = if config.work.packed { Val::constant(0) } else { item.sequence };
        let index = [sequence, row.head, query].into_iter().enumerate();
        let index = index.map(|(i, n)| n.cast::<i64>() * stride(i)).reduce(|a, b| a + b).expect("there are three");
        let width = if config.pairs && matches!(columns, Columns::Pairs) { 2 } else { 1 };
        let out = tensors.out.at(bytes_at(config.output, index));
        for (values, i) in state.output.chunks(width).zip(0_u32..) {
            let column = columns.at(i * width as u32);
            when(column.lt(config.value_dim), || {
                // A zero has no sign: which it had would depend on how many tiles were passed over.
                let values: Vec<_> = values.iter().map(|value| *value * factor + 0.0).collect();
                store(config.output, out.at(column * config.output.bytes() as u32), &values, width > 1);
            });
        }
        if config.lse {
            when(columns.is_first_lane(), || {
                tensors.lse.at(self.lse_index(item, row, query)).set(log_sum_exp(state.max, state.sum));
            });
        }
    }

    /// `[batch, heads, queries]`, or `[total, heads]` where sequences are packed.
    fn lse_index(&self, item: &Item, row: &Row, query: Val<u32>) -> Val<u64> {
        let of = |size: Size| self.size(size).cast::<u64>();
        let (heads, queries) = (of(Size::KvHeads) * of(Size::Group), of(Size::Queries));
        if self.config.work.packed {
            query.cast::<u64>() * heads + row.head.cast::<u64>()
        } else {
            (item.sequence.cast::<u64>() * heads + row.head.cast::<u64>()) * queries + query.cast::<u64>()
        }
    }

    /// Where the state of a row after one segment lies: weighted values, maximum, sum.
    pub(super) fn partial(&self, partials: Global<f32>, item: &Item, row: Val<u32>, segment: Val<u32>) -> Global<f32> {
        let (group, queries) = (self.size(Size::Group), self.size(Size::Queries));
        let first = if self.config.work.packed { item.first_query } else { item.sequence * queries };
        let of_sequence = first * group * self.size(Size::KvHeads);
        let number = of_sequence + item.kv_head * item.num_rows + item.first_row + row;
        let number = segment.mul_wide(self.size(Size::Rows)) + number.cast::<u64>();
        partials.at(number * u64::from(self.config.partial_words()))
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

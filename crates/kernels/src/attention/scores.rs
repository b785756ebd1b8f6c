//! Scores: what is made of a product of a query and a key, and where tensors have keys.

use warpfold_lang::Val;

use super::args::HeadsArgs;
use super::config::{AttentionConfig, Launch};
use super::problem::ScoreAt;
use super::work::{Item, KeyLens, Row, bytes_at};
use crate::Dtype;
use crate::elements::load;

/// The lowest score: no infinity, times log2(e), either.
const LOWEST: f32 = -2e38;

impl Launch<'_> {
    /// The score of a row with a key, times log2(e); minus infinity where it is not seen.
    pub(super) fn score(&self, item: &Item, row: &Row, key: Val<u32>, dot: Val<f32>) -> Val<f32> {
        let AttentionConfig { softcap, mask, score, .. } = self.config;
        let mut scaled = dot * self.args.scale.get();
        if let Some(score) = score {
            let at = ScoreAt { batch: item.sequence, head: row.head, query: row.position, key: key.cast::<i32>() };
            scaled = score.apply(scaled, at);
        }
        if *softcap {
            scaled = self.args.softcap.get() * (scaled * self.args.softcap_reciprocal.get()).tanh();
        }
        let mut is_seen = self.is_seen(item, row, key);
        if let Some(dtype) = *mask {
            let strides = self.args.mask.strides();
            let mask_keys = self.args.mask_keys.get();
            is_seen &= key.lt(mask_keys);
            let inside = key.min(item.num_keys.min(mask_keys) - 1);
            let at = [item.sequence, row.head, row.query, inside];
            let at = at.iter().zip(strides).map(|(i, stride)| i.cast::<i64>() * stride).reduce(|a, b| a + b);
            let place = self.args.mask.memory.at(bytes_at(dtype, at.expect("there are four")));
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

    /// Whether a key is there, and is neither too late nor too early for the row.
    pub(super) fn is_seen(&self, item: &Item, row: &Row, key: Val<u32>) -> Val<bool> {
        let work = &self.config.work;
        let position = key.cast::<i32>();
        let mut is_seen = key.lt(item.num_keys);
        if work.causal.is_some() {
            is_seen &= position.le(row.position);
        }
        if work.window_left {
            is_seen &= position.ge(row.position - self.args.window_left.get().cast::<i32>());
        }
        if work.window_right {
            is_seen &= position.le(row.position + self.args.window_right.get().cast::<i32>());
        }
        is_seen
    }

    /// Whether any of some rows, from the first position to the last, does not see any of so many
    /// keys from `first` on.
    pub(super) fn has_edge(
        &self,
        item: &Item,
        [lowest, highest]: [Val<i32>; 2],
        first: Val<u32>,
        keys: u32,
    ) -> Val<bool> {
        let work = &self.config.work;
        let behind = first + keys;
        let mut has_edge = behind.gt(item.num_keys);
        let (first, last) = (first.cast::<i32>(), behind.cast::<i32>() - 1);
        if work.causal.is_some() {
            has_edge |= last.gt(lowest);
        }
        if work.window_left {
            has_edge |= first.lt(highest - self.args.window_left.get().cast::<i32>());
        }
        if work.window_right {
            has_edge |= last.gt(lowest + self.args.window_right.get().cast::<i32>());
        }
        has_edge
    }

    /// Where a key of the item, or its value, begins: elements from the first one of the tensor.
    pub(super) fn place_of_key(&self, item: &Item, key: Val<u32>, strides: [Val<i64>; 4]) -> Val<i64> {
        let [sequence, head, position, _] = strides;
        let place = if self.config.paged {
            let page_size = self.args.page.get();
            let page = self.page(item, key / page_size);
            page.cast::<i64>() * sequence + (key % page_size).cast::<i64>() * position
        } else if self.config.work.key_lens == KeyLens::Packed {
            (item.first_key + key).cast::<i64>() * position
        } else {
            item.sequence.cast::<i64>() * sequence + key.cast::<i64>() * position
        };
        place + item.kv_head.cast::<i64>() * head
    }

    /// An entry of the item's row of the block table.
    pub(super) fn page(&self, item: &Item, entry: Val<u32>) -> Val<i32> {
        let entry = item.sequence.cast::<u64>() * self.args.width.get().cast::<u64>() + entry.cast::<u64>();
        self.args.block_table.at(entry).get()
    }

    /// Where a row of queries begins: elements from the first one of the tensor.
    pub(super) fn place_of_query(&self, item: &Item, row: &Row) -> Val<i64> {
        let HeadsArgs { sequence, head, position, .. } = self.args.q;
        let sequence = if self.config.work.packed {
            item.first_query.cast::<i64>() * position.get()
        } else {
            item.sequence.cast::<i64>() * sequence.get()
        };
        sequence + row.head.cast::<i64>() * head.get() + row.query.cast::<i64>() * position.get()
    }
}

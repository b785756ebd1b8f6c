//! One query of each sequence against a cache of keys and values: a few lanes share a key, teams of
//! lanes take keys in turn, and what they have seen is combined.

use warpfold_kernels::attention::state::{State, shift};
use warpfold_lang::{
    Array, Global, Val, Var, block_idx, lane_id, range, shared_named, shfl_xor, sync_threads, thread_idx, var, warp_id,
    when,
};

use super::element::AttentionElement;
use super::work::scale;
use crate::ladder::Heads;
use crate::row::RowElement;

/// Words of the sizes: tokens that a cache has room for, query heads and heads of keys of a
/// sequence, pages of a row of the block table.
pub const CACHE_WORDS: usize = 4;

/// Query heads of a block, which share their keys: one for each warp at the end.
const ROWS: u32 = 4;
/// Threads of a block.
pub(super) const THREADS: u32 = 32 * ROWS;

/// Tokens of a page.
pub(super) const PAGE: u32 = 16;

/// The words of a problem.
pub(super) fn words(heads: Heads) -> [u32; CACHE_WORDS] {
    [heads.length, heads.heads, heads.kv_heads, heads.length.div_ceil(PAGE as usize)].map(|word| word as u32)
}

/// Blocks that the heads of a sequence make.
pub(super) fn blocks_of_heads(heads: Heads) -> u32 {
    heads.kv_heads as u32 * (heads.group() as u32).div_ceil(ROWS)
}

/// Work of a block: some query heads of a sequence that share a KV head.
#[derive(Clone, Copy)]
pub(super) struct Cache {
    words: Array<u32, CACHE_WORDS>,
    dim: u32,
}

impl Cache {
    pub(super) fn of(words: Array<u32, CACHE_WORDS>, dim: u32) -> Self {
        Self { words, dim }
    }

    fn group(self) -> Val<u32> {
        self.words.at(1) / self.words.at(2)
    }

    fn chunks(self) -> Val<u32> {
        self.group().div_ceil(ROWS)
    }

    /// The sequence of the block.
    pub(super) fn sequence(self) -> Val<u32> {
        block_idx().y
    }

    fn kv_head(self) -> Val<u32> {
        block_idx().x / self.chunks()
    }

    /// The query head of one of the block's rows, among those of all sequences, and whether there
    /// is one.
    fn row(self, row: Val<u32>) -> (Val<u32>, Val<bool>) {
        let in_group = block_idx().x % self.chunks() * ROWS + row;
        let exists = in_group.lt(self.group());
        let head = self.kv_head() * self.group() + in_group.min(self.group() - 1);
        (self.sequence() * self.words.at(1) + head, exists)
    }

    /// The query head of this warp at the end.
    pub(super) fn own_row(self) -> (Val<u32>, Val<bool>) {
        self.row(warp_id())
    }

    /// The first key of the block's head, in a cache with room for every token.
    pub(super) fn contiguous<T: AttentionElement>(self, cache: Global<T>) -> Global<T> {
        let head = self.sequence() * self.words.at(2) + self.kv_head();
        cache.at(head.mul_wide(self.words.at(0)) * u64::from(self.dim))
    }

    /// Returns the index of a key of the block's head in pages, by the block table. The table is
    /// not read where there is no such key.
    pub(super) fn in_page(self, table: Global<u32>, key: Val<u32>, exists: Val<bool>) -> Val<u64> {
        let entry = self.sequence() * self.words.at(3) + key / PAGE;
        let page = table.at(entry).get_or(0_u32, exists);
        let row = page.mul_wide(self.words.at(2)) + self.kv_head().cast::<u64>();
        (row * u64::from(PAGE) + (key % PAGE).cast::<u64>()) * u64::from(self.dim)
    }

    /// Folds keys from one position to another, of which there is one at least, for each of the
    /// block's query heads: what this warp's head has seen of them, every 32nd column a lane.
    /// `place` tells where a key and its value are, if they exist.
    pub(super) fn fold<T: AttentionElement>(
        self,
        queries: Global<T>,
        (begin, end): (Val<u32>, Val<u32>),
        place: impl Fn(Val<u32>, Val<bool>) -> [Global<T>; 2],
    ) -> State {
        let lanes = self.dim / T::WIDTH;
        let (teams, team) = (THREADS / lanes, thread_idx().x / lanes);
        let column = thread_idx().x % lanes * T::WIDTH;
        let query = |row: u32| {
            let (head, _) = self.row(Val::constant(row));
            T::load_wide(queries.at(head * self.dim).at(column), Val::constant(true))
        };
        let rows: Vec<_> = (0..ROWS).map(|row| (query(row), Seen::new(T::WIDTH))).collect();
        // As many keys at a time as keep 64 elements of keys and values in registers.
        let keys = 32 / T::WIDTH;
        range(begin, end, teams * keys, |first| {
            let load = |i: u32| {
                let key = first + team + i * teams;
                let exists = key.lt(end);
                let [key, value] = place(key, exists).map(|place| T::load_wide(place.at(column), exists));
                (exists, key, value)
            };
            let loaded: Vec<_> = (0..keys).map(load).collect();
            for (query, seen) in &rows {
                let score = |(exists, key, _): &(Val<bool>, Vec<Val<f32>>, _)| {
                    let products = query.iter().zip(key).fold(Val::constant(0.0), |sum, (q, k)| q.mul_add(*k, sum));
                    exists.select(self.sum_of_team(products, lanes) * self.scale(), f32::NEG_INFINITY)
                };
                let scores: Vec<_> = loaded.iter().map(score).collect();
                seen.push(&scores, loaded.iter().map(|(.., value)| value.as_slice()));
            }
        });
        self.combine_teams(&rows.into_iter().map(|(_, seen)| seen.get()).collect::<Vec<_>>(), lanes)
    }

    fn scale(self) -> f32 {
        scale(self.dim as usize) as f32
    }

    fn sum_of_team(self, own: Val<f32>, lanes: u32) -> Val<f32> {
        let bits = (0..lanes.ilog2()).map(|bit| 1 << bit);
        bits.fold(own, |sum, bit: u32| sum + shfl_xor(sum, bit))
    }

    /// Combines what the teams have seen, those of a warp by shuffles, then the warps' through
    /// shared memory: this warp's row of all.
    fn combine_teams(self, rows: &[State], lanes: u32) -> State {
        let width = self.dim / lanes;
        let shared = shared_named::<f32>("seen", ROWS * ROWS * self.words_of_state());
        let of = |warp: Val<u32>, row: Val<u32>| shared.at((warp * ROWS + row) * self.words_of_state());
        for (row, state) in (0_u32..).zip(rows) {
            let of_warp = (lanes.ilog2()..5).map(|bit| 1 << bit).fold(state.clone(), |state, bit: u32| {
                let [max, sum] = [state.max, state.sum].map(|own| shfl_xor(own, bit));
                let output = state.output.iter().map(|own| shfl_xor(*own, bit)).collect();
                state.combine(&State { max, sum, output })
            });
            let to = of(warp_id(), Val::constant(row));
            when(lane_id().lt(lanes), || {
                for (value, i) in of_warp.output.iter().zip(0_u32..) {
                    to.at(lane_id() * width + i).set(*value);
                }
            });
            when(lane_id().eq(0), || {
                to.at(self.dim).set(of_warp.max);
                to.at(self.dim + 1).set(of_warp.sum);
            });
        }
        sync_threads();
        let of_warp = |warp: u32| {
            let from = of(Val::constant(warp), warp_id());
            let output = (0..self.dim / 32).map(|i| from.at(lane_id() + 32 * i).get()).collect();
            State { max: from.at(self.dim).get(), sum: from.at(self.dim + 1).get(), output }
        };
        (0..ROWS).map(of_warp).reduce(|left, right| left.combine(&right)).expect("there are warps")
    }

    /// Words that the state of a row takes in memory.
    fn words_of_state(self) -> u32 {
        self.dim + 2
    }

    /// Returns the address of the state of a part of a row.
    fn part(self, parts: Global<f32>, num: Val<u32>, head: Val<u32>, part: Val<u32>) -> Global<f32> {
        parts.at((head.mul_wide(num) + part.cast::<u64>()) * u64::from(self.words_of_state()))
    }

    /// Parts that room is for, of so many keys each.
    fn room(self, keys: u32) -> Val<u32> {
        self.words.at(0).div_ceil(keys)
    }

    /// Stores what this warp's head has seen of a part of so many keys.
    pub(super) fn store_part(self, state: &State, parts: Global<f32>, part: Val<u32>, keys: u32) {
        let (head, exists) = self.own_row();
        let to = self.part(parts, self.room(keys), head, part);
        for (value, i) in state.output.iter().zip(0_u32..) {
            to.at(lane_id() + 32 * i).set_if(*value, exists);
        }
        when(lane_id().eq(0) & exists, || {
            to.at(self.dim).set(state.max);
            to.at(self.dim + 1).set(state.sum);
        });
    }

    /// Combines the parts of a head, in their order, of so many keys each.
    pub(super) fn combine_parts(self, parts: Global<f32>, head: Val<u32>, num: Val<u32>, keys: u32) -> State {
        let seen = Seen::new(self.dim / 32);
        range(0, num, 1, |part| {
            let from = self.part(parts, self.room(keys), head, part);
            let output = (0..self.dim / 32).map(|i| from.at(lane_id() + 32 * i).get()).collect();
            let right = State { max: from.at(self.dim).get(), sum: from.at(self.dim + 1).get(), output };
            seen.set(&seen.get().combine(&right));
        });
        seen.get()
    }

    /// Divides, and stores the result of a head.
    pub(super) fn store<O: RowElement>(self, state: &State, o: Global<O>, head: Val<u32>, exists: Val<bool>) {
        let factor = state.sum.recip();
        for (value, i) in state.output.iter().zip(0_u32..) {
            o.at(head * self.dim).at(lane_id() + 32 * i).set_if((*value * factor).cast::<O>(), exists);
        }
    }
}

/// State of a row, while it changes.
struct Seen {
    max: Var<f32>,
    sum: Var<f32>,
    output: Vec<Var<f32>>,
}

impl Seen {
    fn new(columns: u32) -> Self {
        let output = (0..columns).map(|_| var(0.0_f32)).collect();
        Self { max: var(f32::NEG_INFINITY), sum: var(0.0_f32), output }
    }

    fn get(&self) -> State {
        let output = self.output.iter().map(|column| column.get()).collect();
        State { max: self.max.get(), sum: self.sum.get(), output }
    }

    fn set(&self, state: &State) {
        self.max.set(state.max);
        self.sum.set(state.sum);
        self.output.iter().zip(&state.output).for_each(|(column, value)| column.set(*value));
    }

    /// Pushes scores with their values at once: what came before is rescaled once.
    fn push<'a>(&self, scores: &[Val<f32>], values: impl Iterator<Item = &'a [Val<f32>]>) {
        let before = self.max.get();
        let max = scores.iter().fold(before, |max, score| max.max(*score));
        let base = shift(max);
        let factor = (before - base).exp2();
        let weights: Vec<_> = scores.iter().map(|score| (*score - base).exp2()).collect();
        self.max.set(max);
        self.sum.set(weights.iter().fold(self.sum.get() * factor, |sum, weight| sum + *weight));
        let values: Vec<_> = values.collect();
        for (i, column) in self.output.iter().enumerate() {
            let rescaled = column.get() * factor;
            column
                .set(weights.iter().zip(&values).fold(rescaled, |sum, (weight, value)| weight.mul_add(value[i], sum)));
        }
    }
}

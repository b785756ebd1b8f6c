//! From scores to weights where keys are the rows of sums: what of a row of queries is all over a
//! warpgroup goes through shared memory.

use warpfold_lang::{
    HalfOfPair, Major, Shared, Val, Var, WarpgroupSums, fence_async, fold_quad, lane_id, shfl_xor, store_matrices,
    sync_warpgroup, thread_idx, var, warp_id, when,
};

use super::super::config::Launch;
use super::super::factor::Factor;
use super::super::state::shift;
use super::super::work::{Item, Row};
use super::kernel::Block;
use super::tile::GAP;

/// The rows of queries, columns of sums, that a thread has: as many as pairs times two, their
/// positions in the tile from left to right.
pub(super) fn rows_of_thread(rows: u32) -> Vec<Val<u32>> {
    (0..rows / 4).map(|i| place_of_thread() + column(i)).collect()
}

/// The first of them.
fn place_of_thread() -> Val<u32> {
    (lane_id() & 3) * 2
}

/// How far a thread's row of queries is from its first.
const fn column(i: u32) -> u32 {
    8 * (i / 2) + i % 2
}

/// The number of a thread's row of queries so far from its first.
pub(super) const fn index(column: u32) -> usize {
    (2 * (column / 8) + column % 2) as usize
}

/// What is scored.
pub(super) struct Scored<'a> {
    pub(super) item: &'a Item,
    /// Of the thread.
    pub(super) rows: &'a [Row],
    /// The positions of the first and the last of the tile's rows.
    pub(super) positions: [Val<i32>; 2],
}

/// Where a thread has its weights in shared memory, computed once.
pub(super) struct Places<T> {
    /// Of matrices of weights, four by four (or two).
    matrices: Vec<Shared<T>>,
    /// Of its first weight before it was rounded.
    exact: Shared<f32>,
    /// Of a row's sum: the first of the weights that this thread adds, and the row.
    adds: (Shared<f32>, Val<u32>),
    /// The sum of those.
    sum: Var<f32>,
}

impl<T: Factor + HalfOfPair> Places<T> {
    pub(super) fn new(block: &Block<'_, T>) -> Self {
        let (rows, keys) = (block.config.tile.rows, block.config.tile.keys);
        let (lane, first) = (lane_id(), (warp_id() & 3) * 16);
        let (matrix, row) = (lane >> 3, lane & 7);
        // Four by four: of 8 keys and 8 rows each.
        let matrices = (0..(rows * keys).div_ceil(1024)).map(|i| {
            let (rows_on, keys_on) = if keys == 128 {
                (Val::constant(8 * i), (matrix >> 1) * 64)
            } else {
                (((matrix >> 1) * 8 + 16 * i).min(rows - 8), Val::constant(0))
            };
            block.weights.at(row + rows_on, first + (matrix & 1) * 8 + keys_on)
        });
        let key = first + (lane >> 2);
        // A quad adds up a row, each lane the weights that it would have if rows were rows.
        let (quad, thread) = (lane >> 2, thread_idx().x - 128);
        let added = thread / 32 * 8 + (quad & 3) * 2 + (quad >> 2);
        Self {
            matrices: matrices.collect(),
            exact: block.exact.at(place_of_thread() * (keys + GAP) + key),
            adds: (block.exact.at(added * (keys + GAP) + (lane & 3) * 2), added),
            sum: var(0.0_f32),
        }
    }

    /// Whether this thread adds up weights.
    fn is_adding(block: &Block<'_, T>) -> Val<bool> {
        thread_idx().x.lt(128 + 4 * block.config.tile.rows)
    }

    /// Adds the weights of a tile to their sum, which is begun again where `keeps` does not hold.
    pub(super) fn add(&self, block: &Block<'_, T>, keeps: Val<bool>) {
        when(Self::is_adding(block), || {
            let (first, row) = self.adds;
            let weights = (0..block.config.tile.keys).step_by(8).flat_map(|key| first.at(key).get_vec::<2>());
            let added = weights.reduce(|a, b| a + b).expect("a tile has keys");
            let before = keeps.select(self.sum.get(), 0.0);
            self.sum.set(before.mul_add(block.factors.at(row).get(), added));
        });
    }

    /// The sums of the thread's rows, for all threads; none where `any` does not hold.
    pub(super) fn folded(&self, block: &Block<'_, T>, any: Val<bool>) -> Vec<Val<f32>> {
        when(Self::is_adding(block), || {
            let sum = fold_quad(any.select(self.sum.get(), 0.0), |a: Val<f32>, b| a + b);
            when((lane_id() & 3).eq(0), || block.sums.at(self.adds.1).set(sum));
        });
        sync_warpgroup();
        pairs_of_thread(block.sums, block.config.tile.rows)
    }
}

/// What shared memory has of the thread's rows.
fn pairs_of_thread(from: Shared<f32>, rows: u32) -> Vec<Val<f32>> {
    let first = from.at(place_of_thread());
    (0..rows).step_by(8).flat_map(|column| first.at(column).get_vec::<2>()).collect()
}

impl<T: Factor + HalfOfPair> Block<'_, T> {
    /// Turns products with the keys from `first` on into weights in shared memory, relative to the
    /// maximum of these and of what was before, which is changed; returns what multiplies what was
    /// before. A product may begin with them.
    pub(super) fn softmax(
        &self,
        scored: &Scored<'_>,
        scores: &[WarpgroupSums<T>],
        places: &Places<T>,
        first: Val<u32>,
        (maxima, keeps): (&[Var<f32>], Val<bool>),
    ) -> Vec<Val<f32>> {
        let (launch, rows) = (&self.launch, self.config.tile.rows);
        let scale = launch.args.scale.get() * std::f32::consts::LOG2_E;
        let own = first + (warp_id() & 3) * 16 + (lane_id() >> 2);
        let is_plain = self.config.is_plain;
        if is_plain {
            let keys = self.config.tile.keys;
            when(launch.has_edge(scored.item, scored.positions, first, keys), || self.mask(scored, scores, own));
        } else {
            for (block, sums) in (0..).zip(scores) {
                sums.update(|half, column, dot| {
                    let key = own + (64 * block + 8 * half as u32);
                    launch.score(scored.item, &scored.rows[index(column)], key, dot)
                });
            }
        }
        let values: Vec<_> = scores.iter().flat_map(WarpgroupSums::row_values).collect();
        let num = maxima.len();
        let of_warp: Vec<Val<f32>> = (0..num)
            .map(|i| {
                let largest = values.iter().map(|row| row[i]).reduce(Val::max).expect("there are keys");
                [4_u32, 8, 16].into_iter().fold(largest, |largest, lanes| largest.max(shfl_xor(largest, lanes)))
            })
            .collect();
        when(lane_id().lt(4), || {
            let to = self.maxima.at((warp_id() & 3) * rows + place_of_thread());
            (0..)
                .step_by(8)
                .zip(of_warp.chunks_exact(2))
                .for_each(|(i, two)| to.at(i as u32).set_vec([two[0], two[1]]));
        });
        sync_warpgroup();
        let of_warps: Vec<_> = (0..4).map(|warp| pairs_of_thread(self.maxima.at(warp * rows), rows)).collect();
        let (mut base, mut factors) = (Vec::new(), Vec::new());
        for (i, maximum) in maxima.iter().enumerate() {
            let largest = of_warps.iter().map(|warp| warp[i]).reduce(Val::max).expect("there are warps");
            let largest = if is_plain { largest * scale } else { largest };
            let old = keeps.select(maximum.get(), f32::NEG_INFINITY);
            let new = old.max(largest);
            maximum.set(new);
            base.push(shift(new));
            factors.push((old - shift(new)).exp2_flushed());
        }
        let down: Vec<_> = base.iter().map(|base| -*base).collect();
        for sums in scores {
            sums.update(|_, column, score| {
                let i = index(column);
                if is_plain { score.mul_add(scale, down[i]) } else { score - base[i] }.exp2_flushed()
            });
        }
        self.store_weights(scores, places);
        when(thread_idx().x.lt(128 + 4), || {
            let to = self.factors.at(place_of_thread());
            (0..)
                .step_by(8)
                .zip(factors.chunks_exact(2))
                .for_each(|(i, two)| to.at(i as u32).set_vec([two[0], two[1]]));
        });
        fence_async();
        sync_warpgroup();
        factors
    }

    fn store_weights(&self, scores: &[WarpgroupSums<T>], places: &Places<T>) {
        let stride = self.config.tile.keys + GAP;
        let values: Vec<_> = scores.iter().flat_map(WarpgroupSums::row_values).collect();
        // Of 8 keys and 8 rows each, for 8 rows after the other.
        let words: Vec<Val<u32>> = (0..values[0].len())
            .step_by(2)
            .flat_map(|i| values.iter().map(move |row| Val::<T::Pair>::from_f32(row[i], row[i + 1]).bitcast::<u32>()))
            .collect();
        for (words, to) in words.chunks(4).zip(&places.matrices) {
            match *words {
                [a, b] => store_matrices(*to, [a, b], Major::Mn),
                [a, b, c, d] => store_matrices(*to, [a, b, c, d], Major::Mn),
                _ => unreachable!("there are two or four matrices of 8 rows"),
            }
        }
        for (half, row) in (0..).zip(&values) {
            for (i, weight) in (0..).zip(row) {
                places.exact.at(column(i) * stride + 64 * (half / 2) + 8 * (half % 2)).set(*weight);
            }
        }
    }

    /// Minus infinity where a key is not seen: each row of queries sees an interval of keys.
    fn mask(&self, scored: &Scored<'_>, scores: &[WarpgroupSums<T>], own: Val<u32>) {
        let (launch, work) = (&self.launch, &self.launch.config.work);
        let [left, right] = [launch.args.window_left, launch.args.window_right].map(|size| size.get().cast::<i32>());
        let own = own.cast::<i32>();
        let interval = |row: &Row| {
            let mut end = scored.item.num_keys.cast::<i32>();
            if work.causal.is_some() {
                end = end.min(row.position + 1);
            } else if work.window_right {
                end = end.min(row.position + right + 1);
            }
            [row.position - left - own, end - own]
        };
        let intervals: Vec<_> = scored.rows.iter().map(interval).collect();
        for (block, sums) in (0..).zip(scores) {
            sums.update(|half, column, score| {
                let ([begin, end], key) = (intervals[index(column)], 64 * block + 8 * half as i32);
                let mut is_seen = end.gt(key);
                if work.window_left {
                    is_seen &= begin.le(key);
                }
                is_seen.select(score, f32::NEG_INFINITY)
            });
        }
    }
}

/// Positions of the first and the last of a tile's rows, and what each of a thread's rows is.
pub(super) fn rows_of(launch: &Launch<'_>, item: &Item, rows: u32) -> ([Val<i32>; 2], Vec<Row>) {
    let of = |row: Val<u32>| item.row(&launch.args, row);
    let positions = [0, rows - 1].map(|row| of(Val::constant(row)).position);
    (positions, rows_of_thread(rows).into_iter().map(of).collect())
}

//! Attention on CUDA cores: keys in shared memory, one for each lane of a warp, and what a row has
//! seen of them.

use warpfold_kernels::fold::{Extreme, Sum, Team};
use warpfold_lang::{Global, Shared, Val, Var, dynamic_shared, lane_id, range, shfl, thread_idx, var};

use super::element::AttentionElement;
use super::work::Head;
use crate::row::RowElement;

/// Keys that a warp takes at a time: one for each lane.
pub(super) const KEYS: u32 = 32;

/// Rows in shared memory, as `f32`. From one to the next it is four words more than a multiple of
/// 32: lanes that read four words each of their rows meet no bank twice.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    first: Shared<f32>,
    num: u32,
    dim: u32,
}

impl Rows {
    pub(super) fn new(num: u32, dim: u32) -> Self {
        Self { first: dynamic_shared(num * (dim + 4)), num, dim }
    }

    pub(super) fn row(self, row: Val<u32>) -> Shared<f32> {
        self.first.at(row * (self.dim + 4))
    }

    /// Fills them with rows of a head from `first` on, zeros beyond the last, by all threads of the
    /// block. Nobody sees it before the block synchronises.
    pub(super) fn fill<T: AttentionElement>(self, head: Head<T>, first: Val<u32>, threads: u32) {
        let pieces = self.dim / T::WIDTH;
        range(thread_idx().x, self.num * pieces, threads, |piece| {
            let (row, column) = (piece / pieces, piece % pieces * T::WIDTH);
            let exists = (first + row).lt(head.tokens);
            let values = T::load_wide(head.row(first + row).at(column), exists);
            for (four, i) in values.chunks_exact(4).zip((0_u32..).step_by(4)) {
                self.row(row).at(column + i).set_vec([four[0], four[1], four[2], four[3]]);
            }
        });
    }

    /// The products of a query, in the memory of the device, with the row of this lane.
    pub(super) fn dot<T: AttentionElement>(self, query: Global<T>) -> Val<f32> {
        let (sum, own) = (var(0.0_f32), self.row(lane_id()));
        range(0, self.dim, T::WIDTH, |column| {
            let query = T::load_wide(query.at(column), Val::constant(true));
            for (four, i) in query.chunks_exact(4).zip((0_u32..).step_by(4)) {
                add_products(sum, own.at(column + i).get_vec(), four);
            }
        });
        sum.get()
    }

    /// The products of `num` queries, in shared memory from a row on, with the row of this lane.
    pub(super) fn dots(self, queries: Self, first: Val<u32>, num: u32) -> Vec<Val<f32>> {
        let (sums, own): (Vec<_>, _) = ((0..num).map(|_| var(0.0_f32)).collect(), self.row(lane_id()));
        range(0, self.dim, 4, |column| {
            let own = own.at(column).get_vec();
            for (sum, row) in sums.iter().zip(0_u32..) {
                add_products(*sum, own, &queries.row(first + row).at(column).get_vec::<4>());
            }
        });
        sums.into_iter().map(Var::get).collect()
    }
}

fn add_products(sum: Var<f32>, own: [Val<f32>; 4], query: &[Val<f32>]) {
    sum.set(own.into_iter().zip(query).fold(sum.get(), |sum, (own, query)| own.mul_add(*query, sum)));
}

/// State of a warp's row: the largest score, the sum of exponentials that this lane pushed, and
/// every 32nd column of the weighted values. Scores are times log2(e).
pub(super) struct State {
    max: Var<f32>,
    sum: Var<f32>,
    output: Vec<Var<f32>>,
}

impl State {
    /// Creates the state of no keys.
    pub(super) fn new(dim: u32) -> Self {
        let output = (0..dim / 32).map(|_| var(0.0_f32)).collect();
        Self { max: var(f32::NEG_INFINITY), sum: var(0.0_f32), output }
    }

    /// Loads the state that [`store_scaled`](Self::store_scaled) stored; that of no keys where it
    /// stored none.
    pub(super) fn load_scaled(output: Global<f32>, statistics: Global<f32>, exists: Val<bool>, dim: u32) -> Self {
        let state = Self::new(dim);
        let [max, sum] = [f32::NEG_INFINITY, 0.0].map(Val::constant);
        state.max.set(statistics.get_or(max, exists));
        let all = statistics.at(1).get_or(sum, exists);
        state.sum.set(lane_id().eq(0).select(all, 0.0_f32));
        for (column, i) in state.output.iter().zip(0_u32..) {
            column.set(output.at(lane_id() + 32 * i).get_or(0.0_f32, exists) * all);
        }
        state
    }

    /// Pushes the score of this lane's key, and gives its weight.
    pub(super) fn push(&self, score: Val<f32>) -> Val<f32> {
        let before = self.max.get();
        let max = before.max(Team::Warp.fold(Extreme::max().ignoring_nan(), score));
        let (weight, factor) = ((score - max).exp2(), (before - max).exp2());
        self.max.set(max);
        self.sum.set(self.sum.get().mul_add(factor, weight));
        self.output.iter().for_each(|column| column.set(column.get() * factor));
        weight
    }

    /// The sum of all lanes.
    fn total(&self) -> Val<f32> {
        Team::Warp.fold(Sum::new(), self.sum.get())
    }

    /// Stores the result.
    pub(super) fn store<O: RowElement>(&self, output: Global<O>, exists: Val<bool>) {
        let factor = self.total().recip();
        self.store_times(factor, output, exists);
    }

    /// Stores the weighted values as they are: of weights whose sum is 1.
    pub(super) fn store_values<O: RowElement>(&self, output: Global<O>) {
        self.store_times(Val::constant(1.0), output, Val::constant(true));
    }

    /// Stores the result of the keys so far, their largest score and sum.
    pub(super) fn store_scaled(&self, output: Global<f32>, statistics: Global<f32>) {
        let total = self.total();
        self.store_times(total.recip(), output, Val::constant(true));
        statistics.set_vec_if([self.max.get(), total], lane_id().eq(0));
    }

    fn store_times<O: RowElement>(&self, factor: Val<f32>, output: Global<O>, exists: Val<bool>) {
        for (column, i) in self.output.iter().zip(0_u32..) {
            output.at(lane_id() + 32 * i).set_if((column.get() * factor).cast::<O>(), exists);
        }
    }
}

/// Adds the values of the warp's keys to its rows, each by the weights that the lanes hold.
pub(super) fn add_values(rows: &[State], weights: &[Val<f32>], values: Rows) {
    range(0, KEYS, 1, |key| {
        for i in 0..values.dim / 32 {
            let value = values.row(key).at(lane_id() + 32 * i).get();
            for (row, weight) in rows.iter().zip(weights) {
                let column = row.output[i as usize];
                column.set(shfl(*weight, key).mul_add(value, column.get()));
            }
        }
    });
}

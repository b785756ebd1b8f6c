//! From scores to weights, in the registers of tensor cores, and what their rows have come to.

use warpfold_lang::{Lanes, Multiplicand, Val, Vars, WarpgroupSums, fold_quad, vars, when};

use super::config::Launch;
use super::factor::Factor;
use super::output::Columns;
use super::running::RowStates;
use super::state::{State, shift};
use super::work::{Item, Row};

/// Maximum and sum of a thread's two rows; the sum is of its own columns alone.
pub(super) type Stats = Vars<[[Val<f32>; 2]; 2]>;

/// The statistics of no keys.
pub(super) fn no_stats() -> [[Val<f32>; 2]; 2] {
    [[f32::NEG_INFINITY; 2], [0.0; 2]].map(|pair| pair.map(Val::constant))
}

pub(super) fn stats() -> Stats {
    vars(no_stats())
}

/// The states of a thread's two rows.
pub(super) struct Results<T: Multiplicand> {
    pub(super) sums: WarpgroupSums<T>,
    pub(super) stats: Stats,
}

impl<T: Multiplicand<Sum = f32>> Results<T> {
    /// Multiplies results by what became of their maximum. Most often nothing did, for any row of a
    /// warp: a factor of one changes no bit.
    pub(super) fn scale(&self, factors: [Val<f32>; 2], is_needed: Val<bool>) {
        let changes = is_needed & (factors[0].ne(1.0) | factors[1].ne(1.0));
        when(Lanes::all_lanes().any(changes), || self.sums.scale_rows(factors));
    }

    /// Leaves the states of a segment for the launch that merges; `number` says which of the
    /// block's a row is.
    pub(super) fn write_partials(
        &self,
        launch: &Launch<'_>,
        (item, rows): (&Item, [Row; 2]),
        segment: Val<u32>,
        number: impl Fn(usize) -> Val<u32>,
    ) {
        for (i, row) in rows.iter().enumerate() {
            when(row.exists, || {
                let place = launch.partial(item, number(i), segment);
                launch.write_partial(place, &self.get(i as u32), Columns::Pairs);
            });
        }
    }

    /// Adds up what the lanes of a row have of its sum.
    pub(super) fn fold_sums(&self)
    where
        T: Factor,
    {
        let [max, sums] = self.stats.get();
        let sums = fold_quad(sums, |a, b| [0, 1].map(|row| a[row] + b[row]));
        // The sum is that of weights up to 1. Results are not changed before the end.
        let sums =
            if T::LOG2_LARGEST_WEIGHT == 0.0 { sums } else { sums.map(|sum| sum * (-T::LOG2_LARGEST_WEIGHT).exp2()) };
        self.stats.set([max, sums]);
    }
}

impl<T: Multiplicand<Sum = f32>> RowStates for Results<T> {
    fn num(&self) -> u32 {
        2
    }

    fn get(&self, row: u32) -> State {
        let (row, [max, sum]) = (row as usize, self.stats.get());
        let [first, second] = self.sums.row_values();
        State { max: max[row], sum: sum[row], output: if row == 0 { first } else { second } }
    }

    fn set(&self, row: u32, state: &State) {
        let (row, mut stats) = (row as usize, self.stats.get());
        stats[0][row] = state.max;
        stats[1][row] = state.sum;
        self.stats.set(stats);
        self.sums.set_row(row, &state.output);
    }
}

/// What scores are of.
pub(super) struct Scores<'a, T: Multiplicand> {
    pub(super) launch: Launch<'a>,
    /// Of a tile.
    pub(super) keys: u32,
    /// Whether scores are products times a scale above zero, and masks follow from positions.
    pub(super) is_plain: bool,
    pub(super) item: &'a Item,
    /// Of the thread.
    pub(super) rows: [Row; 2],
    /// The positions of the first and the last of the warpgroup's rows.
    pub(super) positions: [Val<i32>; 2],
    pub(super) sums: &'a WarpgroupSums<T>,
}

impl<T: Factor> Scores<'_, T> {
    /// Turns products with the keys from `first` on into weights, relative to the maximum of these
    /// and of what was before; returns what multiplies what was before.
    pub(super) fn softmax(&self, first: Val<u32>, before: [[Val<f32>; 2]; 2], stats: &Stats) -> [Val<f32>; 2] {
        let [old, sums] = before;
        let scale = self.launch.args.scale.get() * std::f32::consts::LOG2_E;
        if self.is_plain {
            when(self.launch.has_edge(self.item, self.positions, first, self.keys), || self.mask(first));
        } else {
            let column = first + WarpgroupSums::<T>::first_column();
            self.sums.update(|row, right, dot| self.launch.score(self.item, &self.rows[row], column + right, dot));
        }
        let largest = fold_quad(self.sums.fold_rows(Val::max), |a, b| [0, 1].map(|row| a[row].max(b[row])));
        let largest = if self.is_plain { largest.map(|score| score * scale) } else { largest };
        let new = [0, 1].map(|row| old[row].max(largest[row]));
        let (base, largest_weight) = (new.map(shift), T::LOG2_LARGEST_WEIGHT);
        if self.is_plain {
            let down =
                base.map(|base| if largest_weight == 0.0 { -base } else { Val::constant(largest_weight) - base });
            self.sums.update(|row, _, score| score.mul_add(scale, down[row]).exp2_flushed());
        } else {
            let base = base.map(|base| if largest_weight == 0.0 { base } else { base - largest_weight });
            self.sums.update(|row, _, score| (score - base[row]).exp2_flushed());
        }
        let factors = [0, 1].map(|row| (old[row] - base[row]).exp2_flushed());
        let added = self.sums.fold_rows(|a, b| a + b);
        stats.set([new, [0, 1].map(|row| sums[row].mul_add(factors[row], added[row]))]);
        factors
    }

    /// Minus infinity where a key is not seen: each row sees an interval of columns.
    fn mask(&self, first: Val<u32>) {
        let work = &self.launch.config.work;
        let start = (first + WarpgroupSums::<T>::first_column()).cast::<i32>();
        let [left, right] =
            [self.launch.args.window_left, self.launch.args.window_right].map(|size| size.get().cast::<i32>());
        let ends = self.rows.map(|row| {
            let mut end = self.item.num_keys.cast::<i32>();
            if work.causal.is_some() {
                end = end.min(row.position + 1);
            } else if work.window_right {
                end = end.min(row.position + right + 1);
            }
            end - start
        });
        let begins = self.rows.map(|row| row.position - left - start);
        self.sums.update(|row, right, score| {
            let mut is_seen = ends[row].gt(right as i32);
            if work.window_left {
                is_seen &= begins[row].le(right as i32);
            }
            is_seen.select(score, f32::NEG_INFINITY)
        });
    }
}

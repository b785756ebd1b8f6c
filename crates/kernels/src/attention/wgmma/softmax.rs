//! From scores to weights, in registers.

use warpfold_lang::{HalfOfPair, Multiplicand, Val, Vars, WarpgroupSums, fold_quad, vars, when};

use super::super::config::Launch;
use super::super::state::shift;
use super::super::work::{Item, Row, Size};
use super::kernel::WgmmaConfig;

/// Maximum and sum of a thread's two rows; the sum is of its own columns alone.
pub(super) type Stats = Vars<[[Val<f32>; 2]; 2]>;

/// The statistics of no keys.
pub(super) fn no_stats() -> [[Val<f32>; 2]; 2] {
    [[f32::NEG_INFINITY; 2], [0.0; 2]].map(|pair| pair.map(Val::constant))
}

pub(super) fn stats() -> Stats {
    vars(no_stats())
}

/// What scores are of.
pub(super) struct Scores<'a, T: Multiplicand> {
    pub(super) config: &'a WgmmaConfig,
    pub(super) launch: Launch<'a>,
    pub(super) item: &'a Item,
    /// Of the thread.
    pub(super) rows: [Row; 2],
    /// The positions of the first and the last of the warpgroup's rows.
    pub(super) positions: [Val<i32>; 2],
    pub(super) sums: &'a WarpgroupSums<T>,
}

impl<T: Multiplicand<Sum = f32> + HalfOfPair> Scores<'_, T> {
    /// Turns products with the keys from `first` on into weights, relative to the maximum of these
    /// and of what was before; returns what multiplies what was before.
    pub(super) fn softmax(&self, first: Val<u32>, before: [[Val<f32>; 2]; 2], stats: &Stats) -> [Val<f32>; 2] {
        let [old, sums] = before;
        let scale = self.launch.floats.at(0) * std::f32::consts::LOG2_E;
        if self.config.is_plain {
            when(self.has_edge(first), || self.mask(first));
        } else {
            let column = first + WarpgroupSums::<T>::first_column();
            self.sums.update(|row, right, dot| self.launch.score(self.item, &self.rows[row], column + right, dot));
        }
        let largest = fold_quad(self.sums.fold_rows(Val::max), |a, b| [0, 1].map(|row| a[row].max(b[row])));
        let largest = if self.config.is_plain { largest.map(|score| score * scale) } else { largest };
        let new = [0, 1].map(|row| old[row].max(largest[row]));
        let base = new.map(shift);
        if self.config.is_plain {
            let down = base.map(|base| -base);
            self.sums.update(|row, _, score| score.mul_add(scale, down[row]).exp2_flushed());
        } else {
            self.sums.update(|row, _, score| (score - base[row]).exp2_flushed());
        }
        let factors = [0, 1].map(|row| (old[row] - base[row]).exp2_flushed());
        let added = self.sums.fold_rows(|a, b| a + b);
        stats.set([new, [0, 1].map(|row| sums[row].mul_add(factors[row], added[row]))]);
        factors
    }

    /// Whether any row of the warpgroup does not see any of the keys from `first` on.
    fn has_edge(&self, first: Val<u32>) -> Val<bool> {
        let work = &self.launch.config.work;
        let behind = first + self.config.tile.keys;
        let mut has_edge = behind.gt(self.item.num_keys);
        let [lowest, highest] = self.positions;
        let (first, last) = (first.cast::<i32>(), behind.cast::<i32>() - 1);
        if work.causal.is_some() {
            has_edge |= last.gt(lowest);
        }
        if work.window {
            let window = self.launch.size(Size::Window).cast::<i32>();
            has_edge |= first.le(highest - window);
            if work.causal.is_none() {
                has_edge |= last.ge(lowest + window);
            }
        }
        has_edge
    }

    /// Minus infinity where a key is not seen: each row sees an interval of columns.
    fn mask(&self, first: Val<u32>) {
        let work = &self.launch.config.work;
        let start = (first + WarpgroupSums::<T>::first_column()).cast::<i32>();
        let window = self.launch.size(Size::Window).cast::<i32>();
        let ends = self.rows.map(|row| {
            let mut end = self.item.num_keys.cast::<i32>();
            if work.causal.is_some() {
                end = end.min(row.position + 1);
            } else if work.window {
                end = end.min(row.position + window);
            }
            end - start
        });
        let begins = self.rows.map(|row| row.position - window + 1 - start);
        self.sums.update(|row, right, score| {
            let mut is_seen = ends[row].gt(right as i32);
            if work.window {
                is_seen &= begins[row].le(right as i32);
            }
            is_seen.select(score, f32::NEG_INFINITY)
        });
    }
}

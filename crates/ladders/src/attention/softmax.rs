//! The softmax of tile after tile of scores that tensor cores leave in registers, and what becomes
//! of the sums: a thread holds pieces of two rows.

use warpfold_lang::{
    Fragment, Major, Multiplicand, Tile, Val, Vars, WarpSums, WarpgroupSums, fold_quad, vars, warp_id, when,
};

use super::work::{Head, Work};
use crate::hgemm::Half;

/// Sums of four warps, 16 rows each, as `mma` and `wgmma` leave them: a thread has two neighbouring
/// columns of every eight, in two rows.
pub(super) trait TwoRows {
    /// See [`WarpgroupSums::columns`].
    fn columns(&self) -> u32;
    /// See [`WarpgroupSums::update`].
    fn update(&self, f: impl Fn(usize, u32, Val<f32>) -> Val<f32>);
    /// See [`WarpgroupSums::pairs`].
    fn pairs(&self) -> Vec<(Val<u32>, Val<u32>, [Val<f32>; 2])>;

    /// See [`WarpgroupSums::fold_rows`].
    fn fold(&self, f: impl Fn(Val<f32>, Val<f32>) -> Val<f32>) -> [Val<f32>; 2] {
        let pairs = self.pairs();
        [0, 1].map(|row| {
            let of_row = pairs.iter().skip(row).step_by(2).flat_map(|(.., pair)| *pair);
            of_row.reduce(&f).expect("there are columns")
        })
    }

    /// Multiplies each of the thread's rows by a factor.
    fn scale(&self, factors: [Val<f32>; 2]) {
        self.update(|row, _, sum| sum * factors[row]);
    }
}

impl<T: Multiplicand<Sum = f32>> TwoRows for WarpgroupSums<T> {
    fn columns(&self) -> u32 {
        Self::columns(self)
    }

    fn update(&self, f: impl Fn(usize, u32, Val<f32>) -> Val<f32>) {
        Self::update(self, f);
    }

    fn pairs(&self) -> Vec<(Val<u32>, Val<u32>, [Val<f32>; 2])> {
        Self::pairs(self).collect()
    }

    fn fold(&self, f: impl Fn(Val<f32>, Val<f32>) -> Val<f32>) -> [Val<f32>; 2] {
        self.fold_rows(f)
    }
}

/// The 16 rows of a warp.
pub(super) struct WarpRows<T: Multiplicand>(Vec<WarpSums<T>>);

impl<T: Half> WarpRows<T> {
    pub(super) fn zero(columns: u32) -> Self {
        Self((0..columns / 8).map(|_| WarpSums::zero()).collect())
    }

    /// Adds the products of the warp's 16 queries of 64 with all keys of a tile.
    pub(super) fn add_keys(&self, queries: Tile<T>, keys: Tile<T>) {
        for step in (0..queries.columns()).step_by(T::STEP as usize) {
            self.add_product(queries.fragment_a(Major::K, warp_id() * 16, step), keys, Major::K, step);
        }
    }

    /// Adds the values of a tile, by weights that lie where scores came to be: as A of the product
    /// they stay in their registers.
    pub(super) fn add_values(&self, weights: &Self, values: Tile<T>) {
        for (step, columns) in weights.0.chunks_exact(2).enumerate() {
            let weights = Fragment::of_sums([columns[0], columns[1]]);
            self.add_product(weights, values, Major::Mn, T::STEP * step as u32);
        }
    }

    fn add_product(&self, a: Fragment<T, 4>, b: Tile<T>, major: Major, step: u32) {
        for (sums, column) in self.0.chunks(2).zip((0_u32..).step_by(16)) {
            sums.iter().zip(b.fragments_b(major, column, step)).for_each(|(sums, b)| sums.add_product(a, b));
        }
    }
}

impl<T: Half> TwoRows for WarpRows<T> {
    fn columns(&self) -> u32 {
        8 * self.0.len() as u32
    }

    fn update(&self, f: impl Fn(usize, u32, Val<f32>) -> Val<f32>) {
        for (sums, first) in self.0.iter().zip((0_u32..).step_by(8)) {
            sums.update(|row, column, sum| f(row, first + column, sum));
        }
    }

    fn pairs(&self) -> Vec<(Val<u32>, Val<u32>, [Val<f32>; 2])> {
        let of_warp = (warp_id() & 3) * 16;
        let of_sums = |(sums, first): (&WarpSums<T>, u32)| {
            sums.pairs().map(|(row, column, pair)| (of_warp + row, column + first, pair))
        };
        self.0.iter().zip((0_u32..).step_by(8)).flat_map(of_sums).collect()
    }
}

/// Online softmax state of the thread's two rows.
pub(super) struct Softmax {
    /// The largest score of each, and the sum of this thread's exponentials.
    state: Vars<[[Val<f32>; 2]; 2]>,
    /// Number of keys that each row sees, minus the thread's first column.
    bounds: [Val<i32>; 2],
    /// Keys that all rows of the four warps see.
    all: Val<u32>,
    /// Scale of the scores.
    scale: f32,
}

impl Softmax {
    /// For 64 rows from `first_row` on.
    pub(super) fn new(work: Work, first_row: Val<u32>) -> Self {
        type Sums = WarpgroupSums<half::bf16>;
        let column = Sums::first_column().cast::<i32>();
        Self {
            state: vars([[f32::NEG_INFINITY; 2], [0.0; 2]].map(|pair| pair.map(Val::constant))),
            bounds: Sums::rows().map(|row| work.seen(first_row + row).cast::<i32>() - column),
            all: work.seen(first_row),
            scale: work.scale(),
        }
    }

    /// Pushes the scores of a tile whose first key this is: they become weights. Gives the factors
    /// of what came before.
    pub(super) fn push(&self, scores: &impl TwoRows, first: Val<u32>) -> [Val<f32>; 2] {
        when((first + scores.columns()).gt(self.all), || {
            let bounds = self.bounds.map(|bound| bound - first.cast::<i32>());
            scores.update(|row, column, score| bounds[row].gt(column as i32).select(score, f32::NEG_INFINITY));
        });
        let [before, sums] = self.state.get();
        let largest = fold_quad(scores.fold(Val::max), |a, b| [0, 1].map(|row| a[row].max(b[row])));
        // The first tile has a key that the row sees: from there on the largest score is a number.
        let largest = [0, 1].map(|row| before[row].max(largest[row]));
        let shift = largest.map(|largest| largest * -self.scale);
        scores.update(|row, _, score| score.mul_add(self.scale, shift[row]).exp2_flushed());
        let factors = [0, 1].map(|row| ((before[row] - largest[row]) * self.scale).exp2_flushed());
        let added = scores.fold(|a, b| a + b);
        self.state.set([largest, [0, 1].map(|row| sums[row].mul_add(factors[row], added[row]))]);
        factors
    }

    /// Divides the rows, and stores those that the head has; `first_row` is that of the 64.
    pub(super) fn store<T: Half>(&self, sums: &impl TwoRows, o: Head<T>, first_row: Val<u32>) {
        let totals = fold_quad(self.state.get()[1], |a, b| [0, 1].map(|row| a[row] + b[row]));
        sums.scale(totals.map(Val::recip_approx));
        for (row, column, [low, high]) in sums.pairs() {
            let row = first_row + row;
            let place = o.row(row).at(column).reinterpret::<T::Pair>();
            place.set_if(Val::<T::Pair>::from_f32(low, high), row.lt(o.tokens));
        }
    }
}

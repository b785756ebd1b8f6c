//! 64 rows of a warpgroup: its products, in the background, and what is between them.

use warpfold_lang::{Major, Operands, Tile, Val, WarpgroupFragment, WarpgroupSums, wgmma_commit, wgmma_fence};

use super::softmax::Softmax;
use super::work::{Head, Work};
use crate::hgemm::Half;

/// The scores of a tile of keys, which become weights, and the weighted values so far.
pub(super) struct WarpgroupRows<T: Half> {
    first: Val<u32>,
    scores: WarpgroupSums<T>,
    weights: WarpgroupFragment<T>,
    sums: WarpgroupSums<T>,
    softmax: Softmax,
}

impl<T: Half> WarpgroupRows<T> {
    /// The rows from `first` on, which go through tiles of `keys` keys.
    pub(super) fn new(work: Work, first: Val<u32>, keys: u32) -> Self {
        let (scores, sums) = (WarpgroupSums::new(keys), WarpgroupSums::new(work.dim()));
        sums.fill(0.0);
        Self { first, scores, weights: WarpgroupFragment::new(keys), sums, softmax: Softmax::new(work, first) }
    }

    /// Starts the products of the queries with a tile of keys. The fence is behind the wait for the
    /// tile: a loop between it and the product makes ptxas put another one there.
    pub(super) fn start_scores(&self, queries: Tile<T>, keys: Tile<T>) {
        wgmma_fence();
        let operands = Operands { a: queries, a_major: Major::K, b: keys, b_major: Major::K };
        self.scores.add_product(&operands, false);
        wgmma_commit();
    }

    /// Turns the scores, once they are there, into exponentials. Returns the rescaling factors of
    /// the previous sums.
    pub(super) fn push(&self, first_key: Val<u32>) -> [Val<f32>; 2] {
        self.softmax.push(&self.scores, first_key)
    }

    /// Rescales the sums of the previous tile, once they are there, and finishes the weights.
    pub(super) fn rescale(&self, factors: [Val<f32>; 2]) {
        self.sums.scale_rows(factors);
        self.weights.set_sums(&self.scores);
    }

    /// Starts to add the weighted values.
    pub(super) fn start_values(&self, values: Tile<T>) {
        wgmma_fence();
        self.sums.add_product_of(&self.weights, values, Major::Mn, true);
        wgmma_commit();
    }

    /// Divides the rows, and stores those that the head has.
    pub(super) fn store(&self, o: Head<T>) {
        self.softmax.store(&self.sums, o, self.first);
    }
}

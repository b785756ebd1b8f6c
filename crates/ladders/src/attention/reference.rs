//! Attention of one row in double precision, and how far from it a computed result may be.

use std::ops::Range;

use super::element::AttentionElement;
use super::work::scale;

/// A row's results.
#[derive(Debug, Clone)]
pub(super) struct RowReference {
    /// The position of the first.
    pub(super) start: usize,
    /// Each result, and the sum of the magnitudes behind it.
    pub(super) results: Vec<[f64; 2]>,
    /// Number of keys that the row sees.
    keys: usize,
    /// A bound of every score's magnitude, times log2(e), its products' magnitudes added up.
    score: f64,
}

/// The result of a query with some keys and values. `start` is its first result's position.
pub(super) fn row(start: usize, query: &[f64], keys: &[f64], values: &[f64]) -> RowReference {
    let dim = query.len();
    let dot = |key: &[f64]| {
        query.iter().zip(key).fold([0.0, 0.0], |[sum, magnitude], (q, k)| [sum + q * k, magnitude + (q * k).abs()])
    };
    let scores: Vec<[f64; 2]> = keys.chunks(dim).map(dot).collect();
    let of_all = |i: usize| scores.iter().map(|score| score[i]).fold(f64::NEG_INFINITY, f64::max);
    let (largest, score) = (of_all(0), of_all(1) * scale(dim));
    let weights: Vec<f64> = scores.iter().map(|score| ((score[0] - largest) * scale(dim)).exp2()).collect();
    let total: f64 = weights.iter().sum();
    let mut results = vec![[0.0, 0.0]; dim];
    for (weight, value) in weights.iter().zip(values.chunks(dim)) {
        for (result, value) in results.iter_mut().zip(value) {
            let product = weight / total * value;
            *result = [result[0] + product, result[1] + product.abs()];
        }
    }
    RowReference { start, results, keys: scores.len(), score }
}

impl RowReference {
    /// Returns the range of its results.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.results.len()
    }

    /// The largest error of a row's results, and whether all are within their bounds: of results
    /// with this unit roundoff and smallest number, and of weights that are rounded to `T`, or not.
    pub(super) fn judge<T: AttentionElement>(
        &self,
        computed: &[f64],
        [unit_roundoff, smallest]: [f64; 2],
        rounds_weights: bool,
    ) -> (f64, bool) {
        let (eps, keys, dim) = (f64::from(f32::EPSILON), self.keys as f64, self.results.len() as f64);
        // The error of a score becomes a relative one of its weight, and of the sum of weights.
        let of_score = 2.0 * dim * eps * self.score + 4.0 * eps * (self.score + 1.0);
        let of_weight = if rounds_weights { T::UNIT_ROUNDOFF } else { 0.0 };
        let relative = of_weight + 2.0 * of_score + 2.0 * (keys + 16.0) * eps;
        // Weights, of which the largest is 1, may lose what is smaller than their type's numbers.
        let lost = if rounds_weights { keys * T::SMALLEST } else { 0.0 } + keys * f64::from(f32::MIN_POSITIVE);
        let judge = |(computed, [value, magnitude]): (&f64, &[f64; 2])| {
            let bound = relative * magnitude + lost;
            let error = (computed - value).abs();
            // A NaN is within no bound.
            (error, error <= bound + unit_roundoff * (value.abs() + bound) + smallest)
        };
        let judged = computed.iter().zip(&self.results).map(judge);
        judged.fold((0.0, true), |(worst, all), (error, ok)| (f64::max(worst, error), all && ok))
    }
}

//! The product of a matrix and a vector on the host, with its error bound.

use super::Product;
use crate::fold::sum_error_bound;

/// One element of a product, and the sum of the absolute values that it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// The element.
    pub sum: f64,
    /// `sum |a| |x|`.
    pub sum_of_magnitudes: f64,
}

impl Reference {
    /// The product, term by term in the order of rows or columns.
    #[must_use]
    pub fn of(
        product: Product,
        (rows, columns): (usize, usize),
        matrix: impl Fn(usize, usize) -> f64,
        vector: impl Fn(usize) -> f64,
    ) -> Vec<Self> {
        let dot = |terms: &mut dyn Iterator<Item = f64>| {
            terms.fold(Self { sum: 0.0, sum_of_magnitudes: 0.0 }, |so_far, term| Self {
                sum: so_far.sum + term,
                sum_of_magnitudes: so_far.sum_of_magnitudes + term.abs(),
            })
        };
        match product {
            Product::MatrixVector => {
                (0..rows).map(|row| dot(&mut (0..columns).map(|column| matrix(row, column) * vector(column)))).collect()
            }
            Product::VectorMatrix => {
                (0..columns).map(|column| dot(&mut (0..rows).map(|row| matrix(row, column) * vector(row)))).collect()
            }
        }
    }

    /// How far from it a product may be whose terms go through `depth` additions with the given
    /// unit roundoff, each term rounded once more before.
    #[must_use]
    pub fn error_bound(&self, depth: u64, unit_roundoff: f64) -> f64 {
        sum_error_bound(depth + 1, unit_roundoff, self.sum_of_magnitudes)
    }
}

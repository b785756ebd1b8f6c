//! Variance from the distances to a mean that is known: the second of two passes.

use warpfold_lang::Val;

use super::pairwise;
use crate::fold::{Monoid, Position};

/// The variance by the distances of items from their mean, in `f64`: `(Σ d² - (Σ d)² / n) / (n -
/// ddof)`.
///
/// The second term takes back what the mean was rounded by (Chan, Golub and LeVeque, Algorithms for
/// Computing the Sample Variance, 1983: the corrected two-pass algorithm). Divisor, NaN and
/// infinities are as [`Variance`](super::Variance) has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Deviations {
    /// Taken from the number of items.
    pub ddof: u64,
}

impl Monoid for Deviations {
    type Item = Val<f64>;
    type Acc = (Val<f64>, Val<f64>);
    type Output = Val<f64>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        (Val::constant(0.0), Val::constant(0.0))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        (left.0 + right.0, left.1 + right.1)
    }

    fn lift(self, distance: Val<f64>, _: Position) -> Self::Acc {
        (distance, distance * distance)
    }

    fn push_all(self, acc: Self::Acc, distances: &[Val<f64>], _: Position) -> Self::Acc {
        let squares: Vec<_> = distances.iter().map(|distance| *distance * *distance).collect();
        (acc.0 + pairwise(distances, |a, b| a + b), acc.1 + pairwise(&squares, |a, b| a + b))
    }

    fn finish(self, (sum, squares): Self::Acc, count: Val<u64>) -> Val<f64> {
        let divisor = count.max(self.ddof) - self.ddof;
        (squares - sum * (sum / count.cast::<f64>())) / divisor.cast::<f64>()
    }
}

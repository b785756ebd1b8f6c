//! Mean and variance, in double precision.

use warpfold_lang::Val;

use super::pairwise;
use crate::fold::{Monoid, Position};

/// The mean and the variance, by the number of items, their mean and the sum of squared distances
/// from it (Welford, 1962; combined as by Chan, Golub and LeVeque, 1979).
///
/// All is carried in `f64`, whatever was read: the distances from a mean far from zero do not
/// cancel, and squares of `f32` neither overflow nor vanish. The divisor is the number of items
/// less `ddof`, and at least 0 (NumPy's `var`): 0/0 is NaN, so of nothing both results are NaN, and
/// more than that over 0 is +∞. A NaN, or infinities of both signs, make both results NaN;
/// infinities of one sign are the mean, and the variance is NaN.
///
/// A thread takes the items that it loads together by their own mean, and combines with what it had
/// once for all of them, so that an item costs about three instructions and no division.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variance {
    /// Taken from the number of items.
    pub ddof: u64,
    /// Whether items have the precision of `f32` or less, so that weights may have as much.
    pub is_single: bool,
}

type Acc = (Val<u64>, Val<f64>, Val<f64>);

impl Variance {
    /// Both together, where `share` is the weight of the right one's mean.
    #[track_caller]
    fn merge(left: Acc, right: Acc, share: Val<f64>) -> Acc {
        let count = left.0 + right.0;
        let distance = right.1 - left.1;
        // Infinities have no distance, but a mean.
        let mean = distance.abs().lt(f64::INFINITY).select(distance.mul_add(share, left.1), left.1 + right.1);
        let between = distance * (left.0.cast::<f64>() * share) * distance;
        let is_first = left.0.eq(0);
        (count, is_first.select(right.1, mean), is_first.select(right.2, left.2 + right.2 + between))
    }
}

impl Monoid for Variance {
    type Item = Val<f64>;
    type Acc = Acc;
    type Output = (Val<f64>, Val<f64>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Acc {
        (Val::constant(0), Val::constant(0.0), Val::constant(0.0))
    }

    #[track_caller]
    fn combine(self, left: Acc, right: Acc) -> Acc {
        let count = left.0 + right.0;
        Self::merge(left, right, right.0.cast::<f64>() / count.max(1).cast::<f64>())
    }

    #[allow(clippy::eq_op, reason = "zero, or NaN for an infinity")]
    fn lift(self, item: Val<f64>, _: Position) -> Acc {
        (Val::constant(1), item, item - item)
    }

    fn finish(self, (count, mean, squares): Acc, _: Val<u64>) -> Self::Output {
        let divisor = count.max(self.ddof) - self.ddof;
        (count.eq(0).select(f64::NAN, mean), squares / divisor.cast::<f64>())
    }

    fn push(self, acc: Acc, item: Val<f64>, first: Position) -> Acc {
        self.push_all(acc, &[item], first)
    }

    fn push_all(self, acc: Acc, items: &[Val<f64>], _: Position) -> Acc {
        let num = items.len() as u64;
        let mean = if num == 1 { items[0] } else { pairwise(items, |a, b| a + b) * (1.0 / num as f64) };
        let squared = |item: &Val<f64>| {
            let distance = *item - mean;
            // Alone, its distance is zero, or NaN for an infinity.
            if num == 1 { distance } else { distance * distance }
        };
        let squares = pairwise(&items.iter().map(squared).collect::<Vec<_>>(), |a, b| a + b);
        let right = (Val::constant(num), mean, squares);
        let count = acc.0 + num;
        let share = if self.is_single {
            (count.cast::<f32>().recip_approx() * num as f32).cast::<f64>()
        } else {
            Val::constant(num as f64) / count.cast::<f64>()
        };
        Self::merge(acc, right, share)
    }
}

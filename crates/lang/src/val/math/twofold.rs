//! Sums of two values that together hold twice the digits (Dekker 1971; Ogita, Rump & Oishi 2005,
//! with a fused multiply-add for exact products).

use super::Functions;
use crate::Val;

/// `high + low`, where `low` is what `high` lacks.
pub(super) struct Twofold<T> {
    pub(super) high: Val<T>,
    pub(super) low: Val<T>,
}

impl<T> Clone for Twofold<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Twofold<T> {}

impl<T: Functions> Twofold<T> {
    /// `a + b` exactly, where `a` is 0 or not smaller than `b`.
    pub(super) fn sum_of_ordered(a: Val<T>, b: Val<T>) -> Self {
        let high = a + b;
        Self { high, low: b - (high - a) }
    }

    /// `a + b` exactly.
    pub(super) fn sum(a: Val<T>, b: Val<T>) -> Self {
        let high = a + b;
        let of_b = high - a;
        Self { high, low: (a - (high - of_b)) + (b - of_b) }
    }

    /// `a * b` exactly.
    pub(super) fn product(a: Val<T>, b: Val<T>) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    /// The product, but for the product of the low parts.
    pub(super) fn times(self, other: Self) -> Self {
        let Self { high, low } = Self::product(self.high, other.high);
        Self { high, low: self.high.mul_add(other.low, self.low.mul_add(other.high, low)) }
    }

    /// The same with more in the low part.
    pub(super) fn plus_low(self, more: Val<T>) -> Self {
        Self { high: self.high, low: self.low + more }
    }

    /// The same value, with the high part nearest to it.
    pub(super) fn normalized(self) -> Self {
        Self::sum_of_ordered(self.high, self.low)
    }
}

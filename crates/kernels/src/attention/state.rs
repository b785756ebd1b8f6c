//! The monoid of attention: running maximum, sum of exponentials, weighted values.
//!
//! `combine` is exact for the identity (but for the sign of a zero), so that segments without a
//! valid key leave no trace. Exponentials are of base 2: scores come multiplied by log2(e).

use warpfold_lang::Val;

use crate::fold::{Monoid, Position};

/// What a row has seen of its keys.
#[derive(Debug, Clone)]
pub struct State {
    /// The largest score, times log2(e); minus infinity without keys.
    pub max: Val<f32>,
    /// The sum of `2^(score - max)`.
    pub sum: Val<f32>,
    /// The sum of `2^(score - max)` times the value, for the columns that a thread holds.
    pub output: Vec<Val<f32>>,
}

/// What is subtracted from every score before its exponential, if the largest is this one: a
/// number, even where no key is valid.
#[must_use]
pub fn shift(max: Val<f32>) -> Val<f32> {
    max.eq(f32::NEG_INFINITY).select(0.0, max)
}

impl State {
    /// The state of no keys, with so many columns.
    #[must_use]
    pub fn identity(columns: usize) -> Self {
        let zero = Val::constant(0.0);
        Self { max: Val::constant(f32::NEG_INFINITY), sum: zero, output: vec![zero; columns] }
    }

    /// The state of the keys of `self`, then those of `right`.
    #[must_use]
    pub fn combine(&self, right: &Self) -> Self {
        let max = self.max.max(right.max);
        let base = shift(max);
        let (of_left, of_right) = ((self.max - base).exp2(), (right.max - base).exp2());
        // The factor of what is empty is 0 and that of the other 1, so that nothing is changed.
        let weigh = |left: Val<f32>, right: Val<f32>| left.mul_add(of_left, right * of_right);
        let output = self.output.iter().zip(&right.output).map(|(left, right)| weigh(*left, *right)).collect();
        Self { max, sum: weigh(self.sum, right.sum), output }
    }
}

/// The same as a [`Monoid`] of `N` columns: an item is a score, times log2(e), and its values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AttentionMonoid<const N: usize>;

impl<const N: usize> Monoid for AttentionMonoid<N> {
    type Item = (Val<f32>, [Val<f32>; N]);
    type Acc = (Val<f32>, Val<f32>, [Val<f32>; N]);
    /// The output, and the logarithm of the sum of exponentials.
    type Output = ([Val<f32>; N], Val<f32>);
    const COMMUTES: bool = false;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        to_acc(&State::identity(N))
    }

    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        to_acc(&from_acc(left).combine(&from_acc(right)))
    }

    fn lift(self, (score, values): Self::Item, _: Position) -> Self::Acc {
        let weight = (score - shift(score)).exp2();
        (score, weight, values.map(|value| value * weight))
    }

    fn finish(self, (max, sum, output): Self::Acc, _: Val<u64>) -> Self::Output {
        let reciprocal = sum.eq(0.0).select(0.0, Val::constant(1.0_f32) / sum);
        (output.map(|column| column * reciprocal), log_sum_exp(max, sum))
    }
}

/// The natural logarithm of the sum of exponentials of a state.
#[must_use]
pub fn log_sum_exp(max: Val<f32>, sum: Val<f32>) -> Val<f32> {
    let log2 = sum.log2() + shift(max);
    sum.eq(0.0).select(f32::NEG_INFINITY, log2 * std::f32::consts::LN_2)
}

fn to_acc<const N: usize>(state: &State) -> (Val<f32>, Val<f32>, [Val<f32>; N]) {
    (state.max, state.sum, std::array::from_fn(|i| state.output[i]))
}

fn from_acc<const N: usize>((max, sum, output): (Val<f32>, Val<f32>, [Val<f32>; N])) -> State {
    State { max, sum, output: output.to_vec() }
}

//! The monoids that this crate folds with, one concept a file.
//!
//! Of one register: [`Sum`], [`Product`], [`Extreme`] (largest and smallest; of truths, any and
//! all), [`Count`] (narrow integers summed without overflow). Of several: [`ArgExtreme`], [`TopK`],
//! [`Variance`], [`Deviations`] and [`Welford`], [`LogSumExp`] and [`OnlineSoftmax`],
//! [`ReproducibleSum`]. Made of others: [`Both`] (two at once) and [`Counted`] (with the number of
//! items). Norms, sums of squares, means and logarithms are these with a map before or after: see
//! [`reductions`](crate::reductions).

mod arg_extreme;
mod both;
mod count;
mod counted;
mod deviations;
mod extreme;
mod in_segments;
mod log_sum_exp;
mod online_softmax;
mod product;
mod reproducible;
mod side;
mod sum;
mod top_k;
mod variance;
mod welford;

pub use arg_extreme::ArgExtreme;
pub use both::Both;
pub use count::Count;
pub use counted::Counted;
pub(crate) use deviations::Deviations;
pub use extreme::Extreme;
pub(crate) use in_segments::InSegments;
pub use log_sum_exp::LogSumExp;
pub(crate) use log_sum_exp::MaxSumExp;
pub use online_softmax::OnlineSoftmax;
pub use product::Product;
pub use reproducible::{Binned, ReproducibleSum};
pub use side::{Nan, Side, Ties};
pub use sum::Sum;
pub use top_k::TopK;
pub use variance::Variance;
pub use welford::Welford;

use warpfold_lang::{Number, Scalar, Type, Val};

/// Folds one register of all lanes by `redux.sync`, which takes 32-bit integers only (PTX ISA,
/// "redux.sync").
fn redux<T: Scalar>(
    acc: Val<T>,
    signed: impl FnOnce(Val<i32>) -> Val<i32>,
    unsigned: impl FnOnce(Val<u32>) -> Val<u32>,
) -> Option<Val<T>> {
    match T::TYPE {
        Type::I32 => Some(signed(acc.cast()).cast()),
        Type::U32 => Some(unsigned(acc.cast()).cast()),
        _ => None,
    }
}

/// Folds values pairwise, so that each takes part in as few steps as can be: a shorter chain, and
/// less rounding.
fn pairwise<T: Copy>(values: &[T], combine: impl Fn(T, T) -> T + Copy) -> T {
    match values {
        [] => unreachable!("nothing has no fold without an identity"),
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(values.len() / 2);
            combine(pairwise(left, combine), pairwise(right, combine))
        }
    }
}

/// Sums of the elements at each place of lists of one length, in a balanced tree over the lists:
/// `((0+1)+(2+3))+((4+5)+(6+7))` of eight.
///
/// # Panics
/// If there are no lists.
#[must_use]
pub fn pairwise_sums<T: Number>(lists: &[Vec<Val<T>>]) -> Vec<Val<T>> {
    let of_all = |i: usize| pairwise(&lists.iter().map(|list| list[i]).collect::<Vec<_>>(), |a, b| a + b);
    (0..lists[0].len()).map(of_all).collect()
}

//! Mean and variance of a row that the blocks of a cluster share, with one exchange between blocks:
//! each thread takes two passes over its part, and parts are combined as by Chan, Golub and LeVeque
//! (Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979).

use std::marker::PhantomData;

use warpfold_lang::Val;

use super::float::RowFloat;
use crate::fold::{Both, Monoid, Position, Sum};
use crate::rowwise::OnChipRow;

/// The mean, and the mean of the squared distances from it. On an H200 (2026-11-21):
///
/// | layer norm of bf16       | one exchange | one for each |
/// |--------------------------|-------------:|-------------:|
/// | 131,072, blocks share it |   4,243 GB/s |        4,150 |
/// | 4,096, one block has it  |        3,740 |        4,199 |
pub(super) fn mean_and_variance<F: RowFloat>(row: &OnChipRow<Val<F>>) -> (Val<F>, Val<F>) {
    let (num, sum) = row.fold_thread(Both(Num(PhantomData), Sum::<F>::new()));
    let mean = sum / num.max(1).cast::<F>();
    let squares = row.map(move |x| (x - mean) * (x - mean)).fold_thread(Sum::<F>::new());
    row.combine_threads(Parts(PhantomData), (num.cast(), mean, squares))
}

/// The number of items.
#[derive(Debug, Clone, Copy)]
struct Num<F>(PhantomData<F>);

impl<F: RowFloat> Monoid for Num<F> {
    type Item = Val<F>;
    type Acc = Val<u32>;
    type Output = Val<u32>;
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Val<u32> {
        Val::constant(0)
    }

    fn combine(self, left: Val<u32>, right: Val<u32>) -> Val<u32> {
        left + right
    }

    fn lift(self, _: Val<F>, _: Position) -> Val<u32> {
        Val::constant(1)
    }

    fn push_all(self, acc: Val<u32>, items: &[Val<F>], _: Position) -> Val<u32> {
        acc + items.len() as u32
    }

    fn finish(self, acc: Val<u32>, _: Val<u64>) -> Val<u32> {
        acc
    }
}

/// How many items there are, their mean, and the sum of squared distances from it.
#[derive(Debug, Clone, Copy)]
struct Parts<F>(PhantomData<F>);

impl<F: RowFloat> Monoid for Parts<F> {
    type Item = Val<F>;
    type Acc = (Val<F>, Val<F>, Val<F>);
    type Output = (Val<F>, Val<F>);
    const COMMUTES: bool = true;
    const USES_POSITION: bool = false;

    fn identity(self) -> Self::Acc {
        [F::ZERO; 3].map(Val::constant).into()
    }

    #[track_caller]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        let count = left.0 + right.0;
        let share = count.eq(F::ZERO).select(F::ZERO, right.0 / count);
        let distance = right.1 - left.1;
        // In this order a part without items adds nothing even where the square of the distance is
        // beyond the type.
        let between = distance * (left.0 * share) * distance;
        (count, distance.mul_add(share, left.1), left.2 + right.2 + between)
    }

    fn lift(self, item: Val<F>, _: Position) -> Self::Acc {
        (Val::<u32>::constant(1).cast(), item, Val::constant(F::ZERO))
    }

    fn finish(self, (count, mean, squares): Self::Acc, _: Val<u64>) -> Self::Output {
        (mean, squares / count)
    }
}

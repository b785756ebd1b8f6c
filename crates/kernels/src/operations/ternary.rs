//! Functions of three elements of one type.

use warpfold_lang::Val;

use super::Operation;
use super::table::Function;
use crate::Dtype;
use crate::elements::Compute;

pub(super) fn of_numbers<C: Compute>(
    operation: Operation,
    dtype: Dtype,
) -> Option<Function<((Val<C>, Val<C>), Val<C>), C>> {
    Some(match operation {
        Operation::Clamp => Function::Number(|((x, low), high)| x.max_nan(low).min_nan(high)),
        Operation::Fma if dtype != Dtype::Bool => Function::Number(|((x, y), z)| x.mul_add(y, z)),
        _ => return None,
    })
}

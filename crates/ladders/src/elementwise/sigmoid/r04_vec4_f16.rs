//! Rung 4: eight halves per thread.
//! Changed: an access of 16 bytes holds eight halves, which are widened in pairs.
//! Removes: half of the loads and stores, with their addresses and bound checks.
//! Measured: see `SIGMOID` (generated).
//! Limit now: eight exponentials for each access of 16 bytes: the special function units are as busy as memory.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, range, thread_idx, when};

use super::super::Activation;
use super::sigmoid;
use crate::row::RowElement;

/// Each thread takes eight elements.
#[must_use]
pub fn vec4_f16<T: RowElement>() -> Activation<T> {
    let name = format!("sigmoid_vec4_f16_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let i = (block_idx().x * block_dim().x + thread_idx().x) * T::WIDTH;
        let is_whole = (i + T::WIDTH).le(len);
        when(is_whole, || {
            let values = T::load_wide(input.at(i), 0.0, Val::constant(true)).into_iter().map(sigmoid);
            T::store_wide(output.at(i), &values.collect::<Vec<_>>(), Val::constant(true));
        });
        when(!is_whole, || range(i, len, 1, |i| output.at(i).set(sigmoid(input.at(i).get().cast()).cast::<T>())));
    })
}

//! Rung 2: four elements per thread.
//! Changed: a thread takes four neighbours; the one at the end, whose four are not all there, takes them one by one.
//! Removes: three of four load and store instructions, with their addresses and bound checks.
//! Measured: see `RELU` (generated).
//! Limit now: memory for `f32`; four halves fill only half of an access.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, range, thread_idx, when};

use super::super::Activation;
use crate::row::RowElement;

/// Each thread takes four elements.
#[must_use]
pub fn vec4<T: RowElement>() -> Activation<T> {
    let name = format!("relu_vec4_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let i = (block_idx().x * block_dim().x + thread_idx().x) * 4;
        let is_whole = (i + 4).le(len);
        when(is_whole, || output.at(i).set_vec(input.at(i).get_vec::<4>().map(|x| x.max_nan(T::ZERO))));
        when(!is_whole, || range(i, len, 1, |i| output.at(i).set(input.at(i).get().max_nan(T::ZERO))));
    })
}

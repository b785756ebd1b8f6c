//! Rung 4: one 16-byte access a thread.
//! Changed: a thread takes four neighbours; the thread at the end, whose four are not all there, takes them one by one.
//! Removes: three of four load and store instructions, with their addresses and bound checks.
//! Measured: see `LADDER` (generated).
//! Limit now: memory.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, range, thread_idx, when};

use super::VectorAdd;
use crate::LadderElement;

/// Each thread adds four elements.
#[must_use]
pub fn grid_vec4<T: LadderElement>() -> VectorAdd<T> {
    let name = format!("vector_add_grid_vec4_{}", T::DTYPE);
    kernel(name, |a: Global<T>, b: Global<T>, sum: Global<T>, len: Val<u32>| {
        let i = (block_idx().x * block_dim().x + thread_idx().x) * 4;
        let is_whole = (i + 4).le(len);
        when(is_whole, || {
            let (a, b) = (a.at(i).get_vec::<4>(), b.at(i).get_vec::<4>());
            sum.at(i).set_vec::<4>(std::array::from_fn(|k| a[k] + b[k]));
        });
        when(!is_whole, || range(i, len, 1, |i| sum.at(i).set(a.at(i).get() + b.at(i).get())));
    })
}

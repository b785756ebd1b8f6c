//! Rung 3: eight halves per thread, as four pairs.
//! Changed: an access of 16 bytes holds four pairs, and one instruction takes the larger of both halves of a pair and 0.
//! Removes: half of the loads and stores, and half of the arithmetic.
//! Measured: see `RELU` (generated).
//! Limit now: memory.

use warpfold_lang::{Bf16x2, F16x2, Global, Number, Val, block_dim, block_idx, kernel, range, thread_idx, when};

use super::super::Activation;
use crate::row::RowElement;

/// Halves that travel in pairs.
pub trait PackedRelu: RowElement {
    /// Two of them in a register.
    type Pair: Number;
}

impl PackedRelu for half::f16 {
    type Pair = F16x2;
}

impl PackedRelu for half::bf16 {
    type Pair = Bf16x2;
}

/// Each thread takes eight elements.
#[must_use]
pub fn vec4_f16<T: PackedRelu>() -> Activation<T> {
    let name = format!("relu_vec4_f16_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let i = (block_idx().x * block_dim().x + thread_idx().x) * 8;
        let is_whole = (i + 8).le(len);
        when(is_whole, || {
            let pairs = input.at(i).reinterpret::<T::Pair>().get_vec::<4>();
            let zero = Val::constant(T::Pair::ZERO);
            output.at(i).reinterpret::<T::Pair>().set_vec(pairs.map(|pair| pair.max_nan(zero)));
        });
        when(!is_whole, || range(i, len, 1, |i| output.at(i).set(input.at(i).get().max_nan(T::ZERO))));
    })
}

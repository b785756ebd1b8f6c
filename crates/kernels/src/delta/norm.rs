//! The norm of a head, its scale and its gate: a warp for each head of each row.

use warpfold_lang::{Global, Val, block_idx, kernel, lane_id, params, range, shfl_xor, var, warp_id, when};

use super::BLOCK;
use crate::elements::{load, store};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Configuration of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GateConfig {
    pub(super) dtype: Dtype,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct GateArgs {
        raw: Global<u8>, x: Global<u8>, scale: Global<f32>, results: Global<u8>,
        /// Heads of all rows, heads of a row.
        heads: u32, values: u32, value_dim: u32, row_len: u32,
        /// Elements of a row before its gates.
        gates: u32, eps: f32,
    }
}

pub(super) fn kernel_of(config: &GateConfig) -> AnyKernel {
    let GateConfig { dtype } = *config;
    let bytes = dtype.bytes();
    let body = move |args: GateArgs| {
        let GateArgs { raw, x, scale, results, heads, values, value_dim, row_len, gates, eps } = args;
        overlap_launches();
        // Contract: a grid of a warp for each head of each row.
        let number = block_idx().x * (BLOCK / 32) + warp_id();
        when(number.lt(heads), || {
            let (row, head) = (number / values, number % values);
            let one = |from: Global<u8>| load::<f32, _>(dtype, from, 1, false)[0];
            let at =
                |memory: Global<u8>, i: Val<u32>| memory.at((number.mul_wide(value_dim) + i.cast::<u64>()) * bytes);
            let squares = var(Val::constant(0.0_f32));
            range(lane_id(), value_dim, 32, |i| {
                let value = one(at(raw, i));
                squares.set(value.mul_add(value, squares.get()));
            });
            let sum = [16, 8, 4, 2, 1].into_iter().fold(squares.get(), |sum, bits: u32| sum + shfl_xor(sum, bits));
            let inverse = (sum / value_dim.cast::<f32>() + eps).sqrt().recip();
            let gate = row.mul_wide(row_len) + (gates + head * value_dim).cast::<u64>();
            range(lane_id(), value_dim, 32, |i| {
                let z = one(x.at((gate + i.cast::<u64>()) * bytes));
                let result = one(at(raw, i)) * inverse * scale.at(i).get() * (z * z.sigmoid());
                store(dtype, at(results, i), &[result], false);
            });
        });
    };
    kernel(format!("delta_gate_{dtype}"), body).required_block(BLOCK).into()
}

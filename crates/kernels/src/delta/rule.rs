//! The delta rule: the matrix of a head in registers, its columns spread over lanes.

use warpfold_lang::{Global, Val, Var, block_idx, kernel, params, range, shfl_xor, thread_idx, var, when};

use super::BLOCK;
use super::conv::rows_of;
use crate::elements::{load, store};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Elements of a column that a lane has at most.
const OWN: u32 = 32;

/// Configuration of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RuleConfig {
    pub(super) dtype: Dtype,
    pub(super) key_dim: u32,
    pub(super) is_single: bool,
}

impl RuleConfig {
    /// Elements of a column that a lane has.
    fn own(self) -> u32 {
        self.key_dim.min(OWN)
    }

    /// Lanes that share a column.
    fn lanes(self) -> u32 {
        self.key_dim / self.own()
    }

    /// Columns of a block.
    pub(super) fn columns(self) -> u32 {
        BLOCK / self.lanes()
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct RuleArgs {
        mixed: Global<u8>, x: Global<u8>, decays: Global<f32>, offsets: Global<f32>, positions: Global<u32>,
        slots: Global<u32>, starts: Option<Global<u32>>, results: Global<u8>, matrices: Global<f32>,
        /// Heads of keys and of values.
        keys: u32, values: u32, value_dim: u32, places: u32,
    }
}

/// The sum of products in a fixed order.
fn dot(left: &[Val<f32>], right: &[Val<f32>]) -> Val<f32> {
    let mut sums = [Val::constant(0.0_f32); 4];
    for (i, (x, y)) in left.iter().zip(right).enumerate() {
        sums[i % 4] = x.mul_add(*y, sums[i % 4]);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// The sum over lanes that share a column, the same in each of them.
fn over_lanes(mut sum: Val<f32>, lanes: u32) -> Val<f32> {
    for bits in (0..lanes.ilog2()).map(|i| 1 << i) {
        sum += shfl_xor(sum, bits);
    }
    sum
}

/// `ln(1 + exp(x))`.
fn softplus(x: Val<f32>) -> Val<f32> {
    x.gt(20.0).select(x, x.min(20.0).exp().log1p())
}

pub(super) fn kernel_of(config: &RuleConfig) -> AnyKernel {
    let config = *config;
    let RuleConfig { dtype, key_dim, is_single } = config;
    let (own, lanes, bytes) = (config.own(), config.lanes(), dtype.bytes());
    let body = move |args: RuleArgs| {
        let RuleArgs { mixed, x, decays, offsets, positions, slots, starts, results, matrices, .. } = args;
        let RuleArgs { keys, values, value_dim, places, .. } = args;
        overlap_launches();
        // Contract: a grid of as many blocks as hold the columns of a matrix, for each head of
        // values of each sequence.
        let blocks = (value_dim + (config.columns() - 1)) / config.columns();
        let (matrix, part) = (block_idx().x / blocks, block_idx().x % blocks);
        let (sequence, head) = (matrix / values, matrix % values);
        let [first, end] = rows_of(is_single, starts, sequence);
        let slot = slots.at(sequence).get();
        let (lane, column) = (thread_idx().x & (lanes - 1), thread_idx().x >> lanes.ilog2());
        let column = part * config.columns() + column;
        let exists = column.lt(value_dim);
        // Lanes fold together, so that those without a column take the last one, and keep it.
        let column = column.min(value_dim - 1);
        let answer = |row: Val<u32>, value: Val<f32>| {
            when(exists & lane.eq(0), || {
                let at = row.mul_wide(values * value_dim) + (head * value_dim + column).cast::<u64>();
                store(dtype, results.at(at * bytes), &[value], false);
            });
        };
        when(slot.ge(places), || range(first, end, 1, |row| answer(row, Val::constant(0.0))));
        when(slot.lt(places) & first.lt(end), || {
            let all = keys * key_dim;
            let channels = all * 2 + values * value_dim;
            let row_len = channels + values * value_dim + values * 2;
            let key = (head / (values / keys)) * key_dim + lane * own;
            let place = |i: u32| {
                let line = (slot * values + head).mul_wide(key_dim) + (lane * own + i).cast::<u64>();
                matrices.at(line * value_dim.cast::<u64>() + column.cast::<u64>())
            };
            let is_new = positions.at(first).get().eq(0);
            let kept: Vec<Val<f32>> = (0..own).map(|i| place(i).get_or(0.0_f32, !is_new)).collect();
            let kept: Vec<Var<f32>> = kept.into_iter().map(var).collect();
            let rate = -decays.at(head).get().exp();
            let offset = offsets.at(head).get();
            range(first, end, 1, |row| {
                let of = |memory: Global<u8>, len: Val<u32>, at: Val<u32>| {
                    memory.at((row.mul_wide(len) + at.cast::<u64>()) * bytes)
                };
                let one = |from: Global<u8>| load::<f32, _>(dtype, from, 1, false)[0];
                let q = load::<f32, _>(dtype, of(mixed, channels, key), own, true);
                let k = load::<f32, _>(dtype, of(mixed, channels, all + key), own, true);
                let v = one(of(mixed, channels, all * 2 + head * value_dim + column));
                let scalars = channels + values * value_dim + head;
                let [b, a] = [scalars, scalars + values].map(|at| one(of(x, row_len, at)));
                let (beta, decay) = (b.sigmoid(), (rate * softplus(a + offset)).exp());
                let inverse = |x: &[Val<f32>]| (over_lanes(dot(x, x), lanes) + 1e-6).sqrt().recip();
                let (of_k, of_q) = (inverse(&k), inverse(&q));
                let decayed: Vec<Val<f32>> = kept.iter().map(|kept| kept.get() * decay).collect();
                let known = over_lanes(dot(&decayed, &k), lanes) * of_k;
                let change = (v - known) * beta * of_k;
                let new: Vec<Val<f32>> = decayed.iter().zip(&k).map(|(s, k)| k.mul_add(change, *s)).collect();
                let seen = over_lanes(dot(&new, &q), lanes) * of_q * (1.0 / (key_dim as f32).sqrt());
                kept.iter().zip(&new).for_each(|(kept, new)| kept.set(*new));
                answer(row, seen);
            });
            (0..own).zip(&kept).for_each(|(i, kept)| place(i).set_if(kept.get(), exists));
        });
    };
    let name = if is_single { "delta_rule_single" } else { "delta_rule" };
    kernel(format!("{name}_{dtype}_{key_dim}"), body).required_block(BLOCK).into()
}

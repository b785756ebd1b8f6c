//! The causal convolution along a sequence, and SiLU: a thread for each channel of each sequence.

use warpfold_lang::{Global, Val, Var, block_idx, kernel, params, range, thread_idx, var, when};

use super::{BLOCK, TAPS};
use crate::elements::{load, store};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Rows that a thread reads before it uses the first.
const UNROLL: u32 = 4;

/// Resident blocks of a multiprocessor that registers are shared out for: left to itself, ptxas
/// takes fewer and spills.
const BLOCKS: u32 = 8;

/// Configuration of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MixConfig {
    pub(super) dtype: Dtype,
    pub(super) is_single: bool,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct MixArgs {
        x: Global<u8>, taps: Global<f32>, positions: Global<u32>, slots: Global<u32>, starts: Option<Global<u32>>,
        mixed: Global<u8>, tails: Global<u8>, channels: u32, row_len: u32, places: u32,
    }
}

/// The first row of a sequence, and the end of its rows.
pub(super) fn rows_of(is_single: bool, starts: Global<u32>, sequence: Val<u32>) -> [Val<u32>; 2] {
    if is_single { [sequence, sequence + 1] } else { [starts.at(sequence).get(), starts.at(sequence + 1).get()] }
}

pub(super) fn kernel_of(config: &MixConfig) -> AnyKernel {
    let MixConfig { dtype, is_single } = *config;
    let bytes = dtype.bytes();
    let body = move |args: MixArgs| {
        let MixArgs { x, taps, positions, slots, starts, mixed, tails, channels, row_len, places } = args;
        overlap_launches();
        // Contract: a grid of as many blocks as hold a thread for each channel, for each sequence.
        let blocks = (channels + (BLOCK - 1)) / BLOCK;
        let sequence = block_idx().x / blocks;
        let channel = (block_idx().x - sequence * blocks) * BLOCK + thread_idx().x;
        let [first, end] = rows_of(is_single, starts, sequence);
        let slot = slots.at(sequence).get();
        when(channel.lt(channels) & slot.lt(places) & first.lt(end), || {
            let element = |memory: Global<u8>, row: Val<u32>, len: Val<u32>| {
                memory.at((row.mul_wide(len) + channel.cast::<u64>()) * bytes)
            };
            let one = |from: Global<u8>| load::<f32, _>(dtype, from, 1, false)[0];
            let taps = taps.at(channel * TAPS as u32).get_vec::<4>();
            let tail = |tap: u32| {
                element(tails.at(slot.mul_wide(channels) * (bytes * (TAPS - 1))), Val::constant(tap), channels)
            };
            let is_new = positions.at(first).get().eq(0);
            let last: Vec<Var<f32>> = (0..3).map(|tap| var(is_new.select(0.0_f32, one(tail(tap))))).collect();
            let step = |row: Val<u32>, new: Val<f32>| {
                let [x0, x1, x2] = [0, 1, 2].map(|tap: usize| last[tap].get());
                let sum = new.mul_add(taps[3], x2.mul_add(taps[2], x1.mul_add(taps[1], x0 * taps[0])));
                store(dtype, element(mixed, row, channels), &[sum * sum.sigmoid()], false);
                [x1, x2, new].into_iter().zip(&last).for_each(|(x, last)| last.set(x));
            };
            let whole = end - (end - first) % UNROLL;
            if !is_single {
                range(first, whole, UNROLL, |row| {
                    let new: Vec<_> = (0..UNROLL).map(|i| one(element(x, row + i, row_len))).collect();
                    (0..UNROLL).zip(new).for_each(|(i, new)| step(row + i, new));
                });
            }
            range(if is_single { first } else { whole }, end, 1, |row| step(row, one(element(x, row, row_len))));
            (0..3).zip(&last).for_each(|(tap, last)| store(dtype, tail(tap), &[last.get()], false));
        });
    };
    let name = if is_single { "delta_mix_single" } else { "delta_mix" };
    kernel(format!("{name}_{dtype}"), body).required_block(BLOCK).min_blocks(BLOCKS).into()
}

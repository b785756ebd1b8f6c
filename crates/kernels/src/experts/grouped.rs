//! Products of rows with the weights of their experts on tensor cores: rows that chose an expert
//! lie side by side, and a block multiplies some of them by 64 lines of its weights.

use half::{bf16, f16};
use warpfold_lang::{
    Global, HalfOfPair, Kernel as Traced, Multiplicand, TensorMap, Val, WarpgroupSums, block_idx, kernel, lane_id,
    params, range, thread_idx, warp_id, warpgroup_idx, when, when_else,
};

use super::dots::{Dots, find, gated};
use super::{BLOCK, Gating, Problem};
use crate::elements::{load, store};
use crate::kernel_name::KernelName;
use crate::matmul::quantized::{BLOCK_ROWS, Begin, Pieces, Stages, Stream, THREADS};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

// THRESHOLD: experts with more rows have several tiles; tested by
// crates/warpfold/tests/all/language.rs::packed_experts_have_the_bits_of_a_row_alone_in_every_tile
/// Rows of a tile at most.
const MAX_ROWS: u32 = 128;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct GroupedConfig {
    pub(super) dtype: Dtype,
    pub(super) dots: Dots,
    pub(super) gating: Gating,
    pub(super) stages: Stages,
    /// Whether all slots are of one row, the only one of `x`.
    pub(super) one_row: bool,
}

params! {
    /// Parameters of a product.
    pub(super) struct GroupedArgs {
        weights: Global<u8>,
        /// Rows in the order of slots.
        x: TensorMap<u8>,
        bias: Option<Global<u8>>, results: Global<u8>,
        /// As [`RouteArgs`](super::route::RouteArgs) has them.
        order: Global<u32>, starts: Global<u32>, experts: u32, slots: u32,
        /// Of the results; blocks of 64 packed lines and pieces along K of an expert.
        columns: u32, blocks: u32, pieces: u32,
    }
}

params! {
    /// Parameters of the copy of rows to the order of slots.
    pub(super) struct RowsArgs {
        x: Global<u8>, to: Global<u8>, order: Global<u32>, starts: Global<u32>,
        /// Experts, experts of a row, and units of 16 bytes of a row.
        experts: u32, chosen: u32, units: u32,
    }
}

impl GroupedConfig {
    /// Rows of a tile: those of an expert in the mean, and a quarter more.
    pub(super) fn rows(problem: &Problem) -> u32 {
        let mean = (problem.rows * problem.chosen).div_ceil(problem.experts.max(1));
        (mean + mean / 4).next_power_of_two().clamp(8, MAX_ROWS.into()) as u32
    }

    fn name(&self) -> String {
        let Self { dtype, dots, gating, stages: Stages { pieces, rows, num, .. }, one_row } = self;
        KernelName::new("experts_grouped")
            .part(if *dots == Dots::Gated { "gated" } else { "down" })
            .part_if(*gating == Gating::Clamped, "clamped")
            .part_if(*pieces != Pieces::Numbers, "mxfp4")
            .part(dtype)
            .part(format_args!("{rows}x{num}"))
            .part_if(*one_row, "row")
            .into()
    }
}

/// The kernel, by the type of its rows.
pub(super) fn make(config: &GroupedConfig) -> AnyKernel {
    match config.dtype {
        Dtype::F16 => grouped::<f16>(*config).into(),
        Dtype::Bf16 => grouped::<bf16>(*config).into(),
        dtype => unreachable!("tensor cores do not multiply {dtype} by packed weights"),
    }
}

fn grouped<T: Multiplicand<Sum = f32> + HalfOfPair>(config: GroupedConfig) -> Traced<GroupedArgs> {
    let GroupedConfig { stages, one_row, .. } = config;
    let body = move |args: GroupedArgs| {
        overlap_launches();
        // Contract: a grid of tiles of rows, at least as many as there are, each by all blocks of
        // lines. Those of an expert stand side by side, so that L2 keeps its weights.
        let (tile, block) = (block_idx().x / args.blocks, block_idx().x % args.blocks);
        let slots = find(args.starts, args.experts, tile, stages.rows);
        when(slots.found.get().ne(0), || {
            let (expert, first, end) = (slots.expert.get(), slots.first.get(), slots.end.get());
            let piece_bytes = u64::from(stages.pieces.bytes());
            let half_bytes = args.pieces.cast::<u64>() * piece_bytes;
            let first_half = (expert.mul_wide(args.blocks) + block.cast::<u64>()) * 2_u64;
            let pieces = (0..2_u64).map(|half| args.weights.at((first_half + half) * half_bytes)).collect();
            let row = if one_row { Val::constant(0) } else { first };
            let begin = Begin { pieces, row, stage: None, num: args.pieces };
            let stream = Stream::<T>::new(stages, args.x, begin);
            stream.init();
            // Roles
            when_else(
                warpgroup_idx().eq(1),
                || when(stream.copies(), || stream.copy(false)),
                || store_sums(&config, &args, &stream.multiply(), Place { expert, first, end, block }),
            );
        });
    };
    kernel(config.name(), body).required_block(THREADS).min_blocks(1)
}

/// Which sums a block has.
struct Place {
    expert: Val<u32>,
    /// Its first slot in order, and the end of the expert's.
    first: Val<u32>,
    end: Val<u32>,
    block: Val<u32>,
}

/// Epilogue: a row of the sums is a packed line, a pair of them two slots.
fn store_sums<T: Multiplicand<Sum = f32> + HalfOfPair>(
    config: &GroupedConfig,
    args: &GroupedArgs,
    sums: &WarpgroupSums<T>,
    place: Place,
) {
    let GroupedConfig { dtype, dots, gating, .. } = *config;
    let (bytes, columns) = (dtype.bytes(), args.columns);
    let has_bias = gating == Gating::Clamped;
    let lines = if dots == Dots::Gated { columns * 2 } else { columns };
    let bias = |line: Val<u32>| {
        let line = place.expert.mul_wide(lines) + line.min(lines - 1).cast::<u64>();
        load::<f32, _>(dtype, args.bias.at(line * bytes), 1, false)[0]
    };
    let (warp, group) = (warp_id(), lane_id() >> 2);
    // Both of a thread: a gate and what it is multiplied with, or two outputs.
    let outputs = match dots {
        Dots::Gated => [place.block * (BLOCK_ROWS / 2) + warp * 8 + group; 2],
        Dots::Down => [0, 8].map(|on| place.block * BLOCK_ROWS + warp * 16 + group + on),
    };
    let biases = has_bias.then(|| match dots {
        Dots::Gated => [0, 1].map(|i| bias(outputs[0] * 2 + i)),
        Dots::Down => outputs.map(bias),
    });
    // Behind the last slot, where the next product's tile may read, are zeros.
    let is_behind = place.end.eq(args.starts.at(args.experts).get());
    let pairs: Vec<_> = sums.pairs().collect();
    for both in pairs.chunks_exact(2) {
        let [(_, right, upper), (_, _, lower)] = [both[0], both[1]];
        for i in 0..2 {
            let slot = place.first + right + i;
            let mut sums = [upper[i as usize], lower[i as usize]];
            if let Some(biases) = biases {
                sums = [0, 1].map(|i| sums[i] + biases[i]);
            }
            let is_there = slot.lt(place.end);
            match dots {
                Dots::Gated => when((is_there | is_behind & slot.lt(args.slots)) & outputs[0].lt(columns), || {
                    let at = slot.mul_wide(columns) + outputs[0].cast::<u64>();
                    let number = is_there.select(gated(gating, sums[0], sums[1]), Val::constant(0.0));
                    store(dtype, args.results.at(at * bytes), &[number], false);
                }),
                Dots::Down => when(is_there, || {
                    let row = args.order.at(slot).get();
                    for (output, sum) in outputs.into_iter().zip(sums) {
                        let at = row.mul_wide(columns) + output.cast::<u64>();
                        when(output.lt(columns), || args.results.at(at * 4_u64).reinterpret::<f32>().set(sum));
                    }
                }),
            }
        }
    }
}

/// A block copies the row of a slot. Behind the last one, where a tile may read, are zeros.
pub(super) fn rows() -> AnyKernel {
    let body = move |args: RowsArgs| {
        let RowsArgs { x, to, order, starts, experts, chosen, units } = args;
        overlap_launches();
        let (slot, end) = (block_idx().x, starts.at(experts).get());
        when(slot.lt(end + MAX_ROWS), || {
            let row = order.at(slot).get_or(0, slot.lt(end)) / chosen;
            let unit = |base: Global<u8>, row: Val<u32>, i: Val<u32>| {
                base.at((row.mul_wide(units) + i.cast::<u64>()) * 16_u64).reinterpret::<u32>()
            };
            range(thread_idx().x, units, BLOCK, |i| {
                unit(to, slot, i).set_vec(unit(x, row, i).get_vec_or::<4>(0, slot.lt(end)));
            });
        });
    };
    kernel("experts_rows", body).required_block(BLOCK).into()
}

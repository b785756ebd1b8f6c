//! The kernels that multiply rows with the weights of their experts, and add what experts give.

use warpfold_lang::{
    Global, Lanes, Val, Var, ballot, block_idx, kernel, lane_id, params, range, shfl, thread_idx, var, warp_id, when,
};

use super::mxfp4::Line;
use super::{BLOCK, ExpertFormat, Gating, Mxfp4Numbers};
use crate::elements::{load, store};
use crate::fold::{Sum, fold_warp};
use crate::overlap::overlap_launches;
use crate::{AnyKernel, Dtype};

/// Warps of a block.
pub(super) const WARPS: u32 = 8;
/// Rows of one expert that share the weights that a warp loads.
pub(super) const TILE: u32 = 8;
/// Rows of weights that share the elements that a warp loads.
const LINES: u32 = 4;

/// Which products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dots {
    /// `silu(gate x) · up x` of the rows of the slots.
    Gated,
    /// `down` of what the slots have, in `f32`.
    Down,
}

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DotsConfig {
    pub(super) dtype: Dtype,
    pub(super) dots: Dots,
    pub(super) gating: Gating,
    pub(super) format: ExpertFormat,
    /// Neighbours that a lane loads at once.
    pub(super) width: u32,
}

impl DotsConfig {
    /// Columns of results of a warp.
    const fn of_warp(self) -> u32 {
        match self.dots {
            Dots::Gated => LINES / 2,
            Dots::Down => LINES,
        }
    }

    /// Columns of results of a block.
    pub(super) const fn columns(self) -> u32 {
        WARPS * self.of_warp()
    }
}

/// Slots of one expert: a tile of them.
pub(super) struct Slots {
    pub(super) found: Var<u32>,
    pub(super) expert: Var<u32>,
    pub(super) first: Var<u32>,
    pub(super) end: Var<u32>,
}

/// The `tile`-th tile of all, of so many rows: every warp counts the tiles of 32 experts at a time.
pub(super) fn find(starts: Global<u32>, num_experts: Val<u32>, tile: Val<u32>, rows: u32) -> Slots {
    let slots = Slots { found: var(0_u32), expert: var(0_u32), first: var(0_u32), end: var(0_u32) };
    let before = var(0_u32);
    range(0_u32, num_experts, 32_u32, |first| {
        let expert = first + lane_id();
        let is_there = expert.lt(num_experts);
        let begin = starts.at(expert).get_or(0, is_there);
        let end = starts.at(expert + 1).get_or(0, is_there);
        let tiles = (end - begin).div_ceil(rows);
        let sum = var(tiles);
        for delta in [1_u32, 2, 4, 8, 16] {
            let other = Lanes::all_lanes().shfl_up(sum.get(), delta);
            sum.set(lane_id().ge(delta).select(sum.get() + other, sum.get()));
        }
        let last = before.get() + sum.get();
        let lanes = ballot(tile.ge(last - tiles) & tile.lt(last));
        let lane = lanes.ctz().min(31);
        let (of_tile, of_expert) = (shfl(begin + (tile - (last - tiles)) * rows, lane), shfl(end, lane));
        when(lanes.ne(0), || {
            slots.found.set(1_u32);
            slots.expert.set(first + lane);
            slots.first.set(of_tile);
            slots.end.set(of_expert);
        });
        before.set(before.get() + shfl(sum.get(), 31_u32));
    });
    slots
}

params! {
    /// Parameters of a product.
    pub(super) struct DotsArgs {
        /// Rows, or what slots have of the product before.
        x: Global<u8>,
        weights: Global<u8>, scales: Option<Global<u8>>, bias: Option<Global<u8>>, results: Global<u8>,
        /// As [`RouteArgs`](super::route::RouteArgs) has them.
        order: Global<u32>, starts: Global<u32>, experts: u32, chosen: u32,
        /// Of the results, and elements of a dot product.
        columns: u32, len: u32,
    }
}

params! {
    /// Parameters of the sum over slots.
    pub(super) struct CombineArgs {
        slots: Global<f32>, shares: Global<f32>, residual: Global<u8>, results: Global<u8>,
        elements: u64, hidden: u32, chosen: u32,
    }
}

/// A warp the products of some columns with the rows of a tile: its lanes share the elements of a
/// dot product, neighbours in turn.
pub(super) fn dots(config: &DotsConfig) -> AnyKernel {
    let config = *config;
    let DotsConfig { dtype, dots, gating, format, width } = config;
    let bytes = dtype.bytes();
    let body = move |args: DotsArgs| {
        let DotsArgs { x, weights, scales, bias, results, order, starts, chosen, columns, len, .. } = args;
        let num_experts = args.experts;
        overlap_launches();
        // Contract: a grid of tiles in x, at least as many as there are, and of columns in y.
        let slots = find(starts, num_experts, block_idx().x, TILE);
        let first_column = block_idx().y * config.columns() + warp_id() * config.of_warp();
        when(slots.found.get().ne(0) & first_column.lt(columns), || {
            let (first, end) = (slots.first.get(), slots.end.get());
            // Slots beyond the last one, and columns, compute that one again.
            let slot: Vec<Val<u32>> = (0..TILE).map(|i| order.at((first + i).min(end - 1)).get()).collect();
            let rows: Vec<Global<u8>> = slot
                .iter()
                .map(|slot| if dots == Dots::Gated { *slot / chosen } else { *slot })
                .map(|row| x.at(row.mul_wide(len) * bytes))
                .collect();
            let column = |i: u32| (first_column + i).min(columns - 1);
            let num_lines = if dots == Dots::Gated { columns * 2 } else { columns };
            let line_numbers: Vec<Val<u64>> = (0..LINES)
                .map(|i| match (dots, gating) {
                    (Dots::Down, _) => column(i),
                    (Dots::Gated, Gating::Clamped) => column(i % config.of_warp()) * 2 + i / config.of_warp(),
                    (Dots::Gated, Gating::Silu) if i < config.of_warp() => column(i),
                    (Dots::Gated, Gating::Silu) => columns + column(i - config.of_warp()),
                })
                .map(|line| slots.expert.get().mul_wide(num_lines) + line.cast::<u64>())
                .collect();
            let line_of = |line: &Val<u64>| {
                let first = *line * len.cast::<u64>();
                match format {
                    ExpertFormat::Plain => Line::Plain(weights.at(first * bytes)),
                    ExpertFormat::Mxfp4 => {
                        Line::Mxfp4 { codes: weights.at(first / 2), scales: scales.at(first / Mxfp4Numbers::GROUP) }
                    }
                }
            };
            let lines: Vec<Line> = line_numbers.iter().map(line_of).collect();
            let sums: Vec<Vec<Var<f32>>> = (0..TILE).map(|_| (0..LINES).map(|_| var(0.0_f32)).collect()).collect();
            range(lane_id() * width, len, 32 * width, |i| {
                let lines: Vec<Vec<Val<f32>>> = lines.iter().map(|line| line.load(dtype, i, width)).collect();
                for (row, sums) in rows.iter().zip(&sums) {
                    let elements = Line::Plain(*row).load(dtype, i, width);
                    for (line, sum) in lines.iter().zip(sums) {
                        let products = line.iter().zip(&elements);
                        sum.set(products.fold(sum.get(), |sum, (weight, x)| weight.mul_add(*x, sum)));
                    }
                }
            });
            let biases: Option<Vec<Val<f32>>> = (gating == Gating::Clamped)
                .then(|| line_numbers.iter().map(|line| load(dtype, bias.at(*line * bytes), 1, false)[0]).collect());
            for (i, (slot, sums)) in (0..TILE).zip(slot.iter().zip(&sums)) {
                let mut sums: Vec<Val<f32>> = sums.iter().map(|sum| fold_warp(Sum::new(), sum.get(), 32)).collect();
                for (sum, bias) in sums.iter_mut().zip(biases.iter().flatten()) {
                    *sum += *bias;
                }
                for c in 0..config.of_warp() {
                    let place = slot.mul_wide(columns) + (first_column + c).cast::<u64>();
                    when(lane_id().eq(0) & (first + i).lt(end) & (first_column + c).lt(columns), || match dots {
                        Dots::Down => results.at(place * 4).reinterpret::<f32>().set(sums[c as usize]),
                        Dots::Gated => {
                            let [gate, up] = [c, c + config.of_warp()].map(|i| sums[i as usize]);
                            store(dtype, results.at(place * bytes), &[gated(gating, gate, up)], false);
                        }
                    });
                }
            }
        });
    };
    let of = if dots == Dots::Gated { "gated" } else { "down" };
    let clamped = if gating == Gating::Clamped { "_clamped" } else { "" };
    let stored = if format == ExpertFormat::Mxfp4 { "_mxfp4" } else { "" };
    kernel(format!("experts_{of}{clamped}{stored}_{dtype}_{width}"), body).required_block(BLOCK).into()
}

/// The function between the products.
pub(super) fn gated(gating: Gating, gate: Val<f32>, up: Val<f32>) -> Val<f32> {
    match gating {
        Gating::Silu => gate * gate.sigmoid() * up,
        Gating::Clamped => {
            let (gate, up) = (gate.min(7.0), up.max(-7.0).min(7.0));
            gate * (gate * 1.702).sigmoid() * (up + 1.0)
        }
    }
}

/// A thread per element: the residual and what the slots give, from the first to the last.
pub(super) fn combine(dtype: Dtype) -> AnyKernel {
    let body = move |args: CombineArgs| {
        let CombineArgs { slots, shares, residual, results, elements, hidden, chosen } = args;
        overlap_launches();
        let i = block_idx().x.mul_wide(BLOCK) + thread_idx().x.cast::<u64>();
        when(i.lt(elements), || {
            let [hidden, chosen] = [hidden, chosen].map(|size| size.cast::<u64>());
            let (row, column) = (i / hidden, i % hidden);
            let sum = var(0.0_f32);
            range(row * chosen, (row + 1) * chosen, 1_u64, |slot| {
                let result = slots.at(slot * hidden + column).get();
                sum.set(result.mul_add(shares.at(slot).get(), sum.get()));
            });
            let residual = load::<f32, _>(dtype, residual.at(i * dtype.bytes()), 1, false)[0];
            store(dtype, results.at(i * dtype.bytes()), &[residual + sum.get()], false);
        });
    };
    kernel(format!("experts_combine_{dtype}"), body).required_block(BLOCK).into()
}

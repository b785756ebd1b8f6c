//! The kernels that choose the experts of each row, and list the rows of each expert.

use warpfold_lang::{
    Global, Val, Var, ballot, block_idx, kernel, lane_id, lanes_before, params, range, shfl, shfl_xor, var, warp_id,
    when,
};

use super::dots::WARPS;
use super::{BLOCK, Weights};
use crate::AnyKernel;
use crate::fold::{Sum, fold_warp};
use crate::overlap::overlap_launches;

/// A number that is larger for a logit that comes before: its order above that of the id turned
/// round. NaN comes last.
fn rank(logit: Val<f32>, id: Val<u32>) -> Val<u64> {
    const SIGN: u32 = 1 << 31;
    // The sum with +0 is +0 for both zeros.
    let bits = (logit + 0.0).bitcast::<u32>();
    let ordered = (bits & SIGN).eq(0).select(bits | SIGN, !bits);
    let ordered = logit.is_nan().select(0_u32, ordered);
    (ordered.cast::<u64>() << 32) | (!id).cast::<u64>()
}

/// The largest of the lanes' numbers, in each of them.
fn largest(number: Var<u64>) {
    for lanes in [16_u32, 8, 4, 2, 1] {
        number.set(number.get().max(shfl_xor(number.get(), lanes)));
    }
}

params! {
    /// Parameters of the kernels that choose and that list.
    pub(super) struct RouteArgs {
        logits: Global<f32>,
        /// The experts of each row, counted from the first one of the device, and their weights.
        ids: Global<u32>, shares: Global<f32>,
        /// The slots of each expert, side by side, and where they begin.
        order: Global<u32>, starts: Global<u32>,
        /// Rows, experts, experts of a row, and the first expert of the device.
        rows: u32, experts: u32, chosen: u32, first: u32,
    }
}

/// A warp a row: takes the next expert in order until there are as many as wanted.
pub(super) fn route(weights: Weights) -> AnyKernel {
    let body = move |args: RouteArgs| {
        let RouteArgs { logits, ids, shares, rows, experts: num_experts, chosen, first: own, .. } = args;
        overlap_launches();
        let row = block_idx().x * WARPS + warp_id();
        when(row.lt(rows), || {
            let logit = |expert: Val<u32>| logits.at(row.mul_wide(num_experts) + expert.cast::<u64>()).get();
            let slots = row.mul_wide(chosen);
            // The next one after a rank.
            let next = |after: Val<u64>| {
                let best = var(0_u64);
                range(lane_id(), num_experts, 32_u32, |expert| {
                    let rank = rank(logit(expert), expert);
                    best.set((rank.lt(after) & rank.gt(best.get())).select(rank, best.get()));
                });
                largest(best);
                best.get()
            };
            let id_of = |rank: Val<u64>| (!rank.cast::<u32>()).min(num_experts - 1);
            let first = next(Val::constant(u64::MAX));
            let shift = logit(id_of(first));
            let exponential = |expert: Val<u32>| (logit(expert) - shift).exp();
            let sum = var(0.0_f32);
            range(lane_id(), num_experts, 32_u32, |expert| sum.add_assign(exponential(expert)));
            let sum = shfl(fold_warp(Sum::new(), sum.get(), 32), 0_u32);
            let (after, total) = (var(u64::MAX), var(0.0_f32));
            range(0_u32, chosen, 1_u32, |slot| {
                let rank = next(after.get());
                let id = id_of(rank);
                let share = exponential(id) / sum;
                when(lane_id().eq(0), || {
                    ids.at(slots + slot.cast::<u64>()).set(id - own);
                    shares.at(slots + slot.cast::<u64>()).set(share);
                });
                total.add_assign(share);
                after.set(rank);
            });
            if weights == Weights::Normalized {
                when(lane_id().eq(0), || {
                    range(0_u32, chosen, 1_u32, |slot| {
                        let share = shares.at(slots + slot.cast::<u64>());
                        share.set(share.get() / total.get());
                    });
                });
            }
        });
    };
    let name = if weights == Weights::Normalized { "experts_route_normalized" } else { "experts_route" };
    kernel(name, body).required_block(BLOCK).into()
}

/// A warp an expert: where its slots begin among those of all, and which they are, in order.
pub(super) fn group() -> AnyKernel {
    let body = move |args: RouteArgs| {
        let RouteArgs { ids, order, starts, rows, experts: num_experts, chosen, .. } = args;
        overlap_launches();
        let (expert, slots) = (block_idx().x, rows * chosen);
        let id = |first: Val<u32>| {
            let slot = first + lane_id();
            ids.at(slot).get_or(u32::MAX, slot.lt(slots))
        };
        let next = var(0_u32);
        range(0_u32, slots, 32_u32, |first| next.add_assign(ballot(id(first).lt(expert)).popc()));
        when(lane_id().eq(0), || {
            starts.at(expert).set(next);
            when(expert.eq(0), || starts.at(num_experts).set(slots));
        });
        range(0_u32, slots, 32_u32, |first| {
            let is_mine = id(first).eq(expert);
            let lanes = ballot(is_mine);
            let place = next.get() + (lanes & lanes_before()).popc();
            when(is_mine, || order.at(place).set(first + lane_id()));
            next.add_assign(lanes.popc());
        });
    };
    kernel("experts_group", body).required_block(32).into()
}

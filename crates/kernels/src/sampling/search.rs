//! Thresholds by their digits: the fewest tokens, from the most likely on, that weigh enough.
//!
//! A token's *rank* is its logit's order, then its id turned round: no two tokens have the same.
//! The threshold is found from its highest digit to its lowest, 16 values at a time: what tokens
//! above each of them weigh is summed as whole numbers over the block, so the order does not
//! matter.

use warpfold_lang::{
    Lanes, Shared, Val, Var, ballot, lane_id, range, shared_named, shfl, sync_threads, var, warp_id, when, while_loop,
};

use super::row::Turn;

const DIGIT: u32 = 4;
const VALUES: u32 = 1 << DIGIT;

/// Bits that ids have in a rank: whole digits.
pub(super) fn id_bits(vocab: u64) -> u32 {
    (64 - (vocab - 1).leading_zeros()).next_multiple_of(DIGIT)
}

/// The rank of a token: larger for one that comes before.
pub(super) fn rank(logit: Val<f32>, id: Val<u32>, id_bits: u32) -> Val<u64> {
    const SIGN: u32 = 1 << 31;
    let bits = logit.bitcast::<u32>();
    let ordered = (bits & SIGN).eq(0).select(bits | SIGN, !bits);
    let turned = Val::constant((1_u32 << id_bits) - 1) - id;
    (ordered.cast::<u64>() << id_bits) | turned.cast::<u64>()
}

/// The token of a rank.
pub(super) fn id_of(rank: Val<u64>, id_bits: u32) -> Val<u32> {
    let mask = (1_u32 << id_bits) - 1;
    Val::constant(mask) - (rank.cast::<u32>() & mask)
}

/// Shared memory of the search: a word for each value of a digit and each warp.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    weights: Shared<u64>,
    counts: Shared<u32>,
    warps: u32,
}

impl Sums {
    pub(super) fn new(warps: u32) -> Self {
        let of = warps * VALUES;
        Self { weights: shared_named("weights", of), counts: shared_named("counts", of), warps }
    }
}

/// The largest threshold such that the tokens at and above it weigh `target`. `walk` walks over the
/// row; `weight` is asked for tokens whose rank may be at the threshold, and may be anything above.
pub(super) fn search(
    sums: Sums,
    id_bits: u32,
    target: Val<u64>,
    walk: impl FnOnce(&dyn Fn(Turn)),
    weight: impl Fn(Val<f32>, Val<u64>) -> Val<u64>,
) -> Val<u64> {
    let (threshold, above) = (var(0_u64), var(0_u64));
    let (shift, is_found) = (var(32 + id_bits), var(0_u32));
    while_loop(
        || shift.get().gt(0) & is_found.get().eq(0),
        || {
            shift.set(shift.get() - DIGIT);
            let at = shift.get();
            let prefix = threshold.get() >> (at + DIGIT);
            let zeros = || (0..VALUES).map(|_| var(0_u64)).collect::<Vec<Var<u64>>>();
            let (weights, counts) = (zeros(), (0..VALUES).map(|_| var(0_u32)).collect::<Vec<Var<u32>>>());
            walk(&|turn: Turn| {
                for (logit, id, has) in turn {
                    let rank = rank(logit, id, id_bits);
                    when(has & (rank >> (at + DIGIT)).eq(prefix), || {
                        let digit = (rank >> at).cast::<u32>() & (VALUES - 1);
                        let weight = weight(logit, rank);
                        for (value, (sum, count)) in (0..VALUES).zip(weights.iter().zip(&counts)) {
                            let is_above = digit.ge(value);
                            sum.add_assign(is_above.select(weight, 0_u64));
                            count.add_assign(is_above.cast::<u32>());
                        }
                    });
                }
            });
            let (weight, count) = total(sums, &weights, &counts);
            let is_enough = lane_id().lt(VALUES) & (above.get() + weight).ge(target);
            let digit = ballot(is_enough).popc().max(1) - 1;
            let next = (digit + 1).min(VALUES - 1);
            let is_last = digit.eq(VALUES - 1);
            let rest = (shfl(weight, next), shfl(count, next));
            above.set(above.get() + is_last.select(0_u64, rest.0));
            let left = shfl(count, digit) - is_last.select(0_u32, rest.1);
            // Of a single token that is left the other digits say nothing more.
            is_found.set(left.le(1).cast::<u32>());
            threshold.set(threshold.get() | (digit.cast::<u64>() << at));
        },
    );
    threshold.get()
}

/// The sums over the block, those of a value in the lane of its number.
fn total(sums: Sums, weights: &[Var<u64>], counts: &[Var<u32>]) -> (Val<u64>, Val<u32>) {
    let Sums { weights: of_weights, counts: of_counts, warps } = sums;
    for (value, (weight, count)) in (0..VALUES).zip(weights.iter().zip(counts)) {
        for lanes in [16_u32, 8, 4, 2, 1] {
            weight.set(weight.get() + warpfold_lang::shfl_xor(weight.get(), lanes));
        }
        let count = Lanes::all_lanes().redux_add(count.get());
        when(lane_id().eq(0), || {
            of_weights.at(warp_id() * VALUES + value).set(weight.get());
            of_counts.at(warp_id() * VALUES + value).set(count);
        });
    }
    sync_threads();
    let (weight, count) = (var(0_u64), var(0_u32));
    let value = lane_id() & (VALUES - 1);
    range(0_u32, warps, 1_u32, |warp| {
        weight.add_assign(of_weights.at(warp * VALUES + value).get());
        count.add_assign(of_counts.at(warp * VALUES + value).get());
    });
    sync_threads();
    (weight.get(), count.get())
}

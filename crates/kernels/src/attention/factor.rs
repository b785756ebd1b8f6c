//! The elements that tensor cores multiply: what becomes of weights, and how values lie.

use half::{bf16, f16};
use warpfold_lang::{F8E4M3, HalfOfPair, Major, Multiplicand, Val, WarpgroupFragment, WarpgroupSums};

/// An element type of queries, keys, values and weights in a kernel.
pub(super) trait Factor: Multiplicand<Sum = f32> {
    /// How tiles of values lie: 8-bit elements along the keys, as WGMMA takes them no other way.
    const VALUES: Major;
    /// Weights are powers of two of at most this: what the type has beyond 1 keeps small ones from
    /// vanishing.
    const LOG2_LARGEST_WEIGHT: f32;

    /// Rounds scores to weights.
    fn set_weights(weights: &WarpgroupFragment<Self>, scores: &WarpgroupSums<Self>);

    /// Elements side by side in words.
    fn words(values: &[Val<f32>]) -> Vec<Val<u32>>;
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Factor for $half {
            const VALUES: Major = Major::Mn;
            const LOG2_LARGEST_WEIGHT: f32 = 0.0;

            fn set_weights(weights: &WarpgroupFragment<Self>, scores: &WarpgroupSums<Self>) {
                weights.set_sums(scores);
            }

            fn words(values: &[Val<f32>]) -> Vec<Val<u32>> {
                let pair = |two: &[Val<f32>]| Val::<<Self as HalfOfPair>::Pair>::from_f32(two[0], two[1]);
                values.chunks_exact(2).map(|two| pair(two).bitcast::<u32>()).collect()
            }
        }
    )*};
}

halves!(f16 bf16);

/// The largest weight of 8-bit elements, as a power of two. (The type goes up to 448.)
pub(super) const LOG2_LARGEST_E4M3_WEIGHT: i32 = 8;

impl Factor for F8E4M3 {
    const VALUES: Major = Major::K;
    const LOG2_LARGEST_WEIGHT: f32 = LOG2_LARGEST_E4M3_WEIGHT as f32;

    fn set_weights(weights: &WarpgroupFragment<Self>, scores: &WarpgroupSums<Self>) {
        weights.set_sums_by_fours(scores);
    }

    fn words(values: &[Val<f32>]) -> Vec<Val<u32>> {
        values.chunks_exact(4).map(|four| Val::pack_eight_bits::<Self>([four[0], four[1], four[2], four[3]])).collect()
    }
}

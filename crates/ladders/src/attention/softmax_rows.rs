//! The softmax of stored scores, in place: a warp a row.

use warpfold_kernels::fold::{Extreme, Sum, Team};
use warpfold_lang::{Array, Global, Kernel, Val, block_idx, kernel, var, warp_id, when};

use super::element::AttentionElement;
use super::work::{WORDS, Work};

/// Rows of a block.
pub(super) const WARPS: u32 = 8;

/// Parameters of the kernel: scores, times log2(e), which become weights; sizes.
pub type SoftmaxRows = Kernel<(Global<f32>, [u32; WORDS])>;

/// The kernel, which is the same for every element type but in its name.
#[must_use]
pub fn softmax_rows<T: AttentionElement>() -> SoftmaxRows {
    let body = |scores: Global<f32>, sizes: Array<u32, WORDS>| {
        let work = Work::of(sizes, 1);
        let row = block_idx().x * WARPS + warp_id();
        when(row.lt(work.tokens()), || {
            let scores = work.scores(scores, block_idx().y, row);
            let each = |body: &dyn Fn(Val<u32>)| Team::Warp.each(work.tokens(), body);
            let (largest, sum) = (var(f32::NEG_INFINITY), var(0.0_f32));
            each(&|key| largest.set(largest.get().max(scores.at(key).get())));
            let largest = Team::Warp.fold(Extreme::max().ignoring_nan(), largest.get());
            each(&|key| {
                let weight = (scores.at(key).get() - largest).exp2();
                sum.add_assign(weight);
                scores.at(key).set(weight);
            });
            let factor = Team::Warp.fold(Sum::new(), sum.get()).recip();
            each(&|key| scores.at(key).update(|weight| weight * factor));
        });
    };
    kernel(format!("attention_softmax_{}", T::NAME), body).required_block(32 * WARPS)
}

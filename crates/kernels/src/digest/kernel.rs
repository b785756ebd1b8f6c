//! The kernel that digests elements: a thread takes groups of eight where they lie side by side,
//! else elements.

use warpfold_lang::{Global, Val, block_idx, grid_dim, kernel, params, range, thread_idx, var, when};

use super::host::{FACTORS, GAMMA, GROUP, LAST_SHIFT, MIX};
use crate::elements::load;
use crate::fold::{Sum, fold_block};
use crate::overlap::overlap_launches;
use crate::walk::{Walk, walk_words};
use crate::{AnyKernel, Dtype};

/// Threads per block.
pub(super) const BLOCK: u32 = 256;

/// Words of the dimensions, whose strides are those in memory and those of places.
pub(super) const WORDS: usize = walk_words(2);

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DigestConfig {
    /// The unsigned type of the elements' size.
    pub(super) bits: Dtype,
    /// Whether the innermost dimension is one of groups.
    pub(super) is_grouped: bool,
    /// Dimensions, at least one.
    pub(super) rank: usize,
}

params! {
    /// Parameters of the kernel.
    pub(super) struct DigestArgs {
        from: Global<u8>, sum: Global<u64>,
        /// Groups, or elements.
        count: u64,
        /// The place of the first.
        first: u64,
        dims: [u64; WORDS],
    }
}

pub(super) fn kernel_of(config: &DigestConfig) -> AnyKernel {
    let DigestConfig { bits, is_grouped, rank } = *config;
    let body = move |args: DigestArgs| {
        let DigestArgs { from, sum, count, first, dims } = args;
        overlap_launches();
        // Contract: any grid of blocks of `BLOCK` threads; `sum` holds a number to add to.
        let dims = Walk::new(dims, rank);
        let acc = var::<u64>(0);
        let thread = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        range(thread, count, grid_dim().x.cast::<u64>() * u64::from(BLOCK), |i| {
            let offsets = dims.offsets(i, 2, false);
            let (at, place) = (offsets[0], first + offsets[1]);
            let elements = load::<u64, _>(bits, from.at(at * bits.bytes()), if is_grouped { 8 } else { 1 }, is_grouped);
            let product = if is_grouped {
                let products = elements.iter().zip(FACTORS).map(|(bits, factor)| *bits * factor);
                products.reduce(|a, b| a + b).expect("a group has elements") * mixed(place >> GROUP.ilog2())
            } else {
                // The factor of its place among eight, from the first half of them or the second.
                let number = place & (GROUP - 1);
                let factor = (1..GROUP).fold(Val::constant(FACTORS[0]), |factor, i| {
                    number.eq(i).select(Val::constant(FACTORS[i as usize]), factor)
                });
                elements[0] * factor * mixed(place >> GROUP.ilog2())
            };
            acc.set(acc.get() + product);
        });
        let of_block = fold_block(Sum::new(), acc.get(), BLOCK);
        when(thread_idx().x.eq(0), || sum.at(0).reduction().add(of_block));
    };
    let kind = if is_grouped { "groups" } else { "elements" };
    kernel(format!("digest_{bits}_{kind}_{rank}"), body).required_block(BLOCK).into()
}

/// The same as on the host.
fn mixed(counter: Val<u64>) -> Val<u64> {
    let z = MIX.iter().fold(counter * GAMMA, |z, (shift, factor)| (z ^ (z >> *shift)) * *factor);
    (z ^ (z >> LAST_SHIFT)) | 1
}

//! The second launch of split-K: adds the sums of all parts, in their order, and applies the
//! epilogue.

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, params, range, thread_idx, var, when};

use super::accumulator::Accumulator;
use super::args::{EpilogueArgs, ProductSizes};
use super::epilogue_writer::{BatchCoord, EpilogueKey, EpilogueWriter, GROUP};
use crate::fold::pairwise_sums;
use crate::overlap::overlap_launches;
use crate::{Dtype, elements};

/// Threads of a block.
pub(super) const BLOCK: u32 = 256;

params! {
    /// Parameters of the kernel.
    pub(crate) struct SplitKReduceArgs {
        /// The sums of all parts, and elements of one.
        sums: Global<u8>,
        part_stride: i64,
        sizes: ProductSizes,
        end: EpilogueArgs,
    }
}

/// Neighbours of a row that a thread takes: a group where rows are whole groups.
const fn width(columns: u64) -> u32 {
    if columns.is_multiple_of(GROUP as u64) { GROUP } else { 1 }
}

/// The launch for so many results, in rows of `columns`, if there are some.
pub(super) fn launch(results: u64, columns: u64) -> Option<LaunchConfig> {
    let blocks = results.div_ceil((BLOCK * width(columns)).into());
    (blocks > 0).then(|| LaunchConfig::new(blocks as u32, BLOCK))
}

/// What decides on the code of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SplitKConfig {
    /// The type of the sums.
    pub accumulator: Dtype,
    /// The number of parts that are added in a balanced tree; else they are added in their order.
    pub tree: Option<u32>,
    /// What is done to the sums.
    pub epilogue: EpilogueKey,
}

/// A thread takes an element of the result, or a group of neighbours.
#[must_use]
pub(crate) fn split_k_reduce<A: Accumulator>(config: &SplitKConfig) -> Kernel<SplitKReduceArgs> {
    let SplitKConfig { tree, epilogue, .. } = config.clone();
    let width = if epilogue.is_whole() { GROUP } else { 1 };
    let order = tree.map_or_else(String::new, |parts| format!("tree{parts}_"));
    let name = format!("matmul_split_k_reduce_{order}{}_{}", A::DTYPE, epilogue.key());
    let body = move |SplitKReduceArgs { sums: parts, part_stride, sizes, end: outputs }: SplitKReduceArgs| {
        overlap_launches();
        // Roles
        let (m, n, parts) = (sizes.m.get(), sizes.n.get(), parts.reinterpret::<A>());
        let thread = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        let element = thread * u64::from(width);
        when(element.lt(part_stride.cast::<u64>()), || {
            // Fold
            let load = |part: Val<i64>| -> Vec<Val<A>> {
                let place = parts.at(element).at(part * part_stride);
                elements::load(A::DTYPE, place.reinterpret(), width, true)
            };
            let sums = match tree {
                Some(parts) => {
                    pairwise_sums(&(0..i64::from(parts)).map(|part| load(Val::constant(part))).collect::<Vec<_>>())
                }
                None => {
                    let sums: Vec<_> = load(Val::constant(0)).into_iter().map(|first| var::<A>(first)).collect();
                    range(1_u32, sizes.parts.get(), 1_u32, |part| {
                        let next = load(part.cast());
                        sums.iter().zip(next).for_each(|(sum, next)| sum.update(|sum| sum + next));
                    });
                    sums.iter().map(|sum| sum.get()).collect()
                }
            };
            // Epilogue
            let row_of_all = element / n.cast::<u64>();
            let column = (element - row_of_all * n.cast::<u64>()).cast::<u32>();
            let flat = (row_of_all / m.cast::<u64>()).cast::<u32>();
            let row = (row_of_all - flat.cast::<u64>() * m.cast::<u64>()).cast::<u32>();
            let rest = flat / sizes.batch.at(2);
            let each = [rest / sizes.batch.at(1), rest % sizes.batch.at(1), flat % sizes.batch.at(2)];
            let writer = EpilogueWriter::<A>::new(&epilogue, outputs, [m, n], BatchCoord { flat, each });
            writer.store_inside(&sums, row, column);
        });
    };
    kernel(name, body).required_block(BLOCK)
}

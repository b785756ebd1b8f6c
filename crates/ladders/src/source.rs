//! The Rust source of each rung, for those who read along.

use crate::ladder::{Ladder, Rung};

/// Each ladder's rungs, in their order.
const SOURCES: &[(&str, &[&str])] = &[
    (
        "vector-add",
        &[
            include_str!("vector_add/ladder/r01_one_thread.rs"),
            include_str!("vector_add/ladder/r02_one_block.rs"),
            include_str!("vector_add/ladder/r03_grid.rs"),
            include_str!("vector_add/ladder/r04_grid_vec4.rs"),
        ],
    ),
    (
        "relu",
        &[
            include_str!("elementwise/relu/r01_plain.rs"),
            include_str!("elementwise/relu/r02_vec4.rs"),
            include_str!("elementwise/relu/r03_vec4_f16.rs"),
        ],
    ),
    (
        "sigmoid",
        &[
            include_str!("elementwise/sigmoid/r01_plain.rs"),
            include_str!("elementwise/sigmoid/r02_safe.rs"),
            include_str!("elementwise/sigmoid/r03_vec4.rs"),
            include_str!("elementwise/sigmoid/r04_vec4_f16.rs"),
        ],
    ),
    (
        "dot",
        &[
            include_str!("dot/ladder/r01_plain.rs"),
            include_str!("dot/ladder/r02_vec4.rs"),
            include_str!("dot/ladder/r03_single_pass.rs"),
        ],
    ),
    (
        "reduce",
        &[
            include_str!("reduce/ladder/r01_naive.rs"),
            include_str!("reduce/ladder/r02_interleaved.rs"),
            include_str!("reduce/ladder/r03_sequential.rs"),
            include_str!("reduce/ladder/r04_first_add.rs"),
            include_str!("reduce/ladder/r05_unroll_last_warp.rs"),
            include_str!("reduce/ladder/r06_unroll_all.rs"),
            include_str!("reduce/ladder/r07_shuffle.rs"),
            include_str!("reduce/ladder/r08_vec4.rs"),
            include_str!("reduce/ladder/r09_grid_stride.rs"),
            include_str!("reduce/ladder/r10_single_pass.rs"),
        ],
    ),
    (
        "reduce-lessons",
        &[
            include_str!("reduce/lessons/r01_simple.rs"),
            include_str!("reduce/lessons/r02_no_divergence.rs"),
            include_str!("reduce/lessons/r03_shared.rs"),
            include_str!("reduce/lessons/r04_segmented.rs"),
            include_str!("reduce/lessons/r05_coarsened.rs"),
        ],
    ),
    (
        "group-reduce",
        &[
            include_str!("groups/ladder/r01_warp_reduce.rs"),
            include_str!("groups/ladder/r02_sub_warp_16.rs"),
            include_str!("groups/ladder/r03_sub_warp_4.rs"),
            include_str!("groups/ladder/r04_block_reduce.rs"),
        ],
    ),
    (
        "scan",
        &[
            include_str!("scan/ladder/r01_hillis_steele.rs"),
            include_str!("scan/ladder/r02_blelloch.rs"),
            include_str!("scan/ladder/r03_shuffle.rs"),
            include_str!("scan/ladder/r04_chained.rs"),
            include_str!("scan/ladder/r05_look_back.rs"),
        ],
    ),
    (
        "softmax",
        &[
            include_str!("softmax/ladder/r01_three_pass.rs"),
            include_str!("softmax/ladder/r02_safe.rs"),
            include_str!("softmax/ladder/r03_online.rs"),
            include_str!("softmax/ladder/r04_warp.rs"),
            include_str!("softmax/ladder/r05_block.rs"),
            include_str!("softmax/ladder/r06_cluster.rs"),
        ],
    ),
    (
        "softmax-vector",
        &[
            include_str!("softmax/vector/r01_threadfence.rs"),
            include_str!("softmax/vector/r02_grid.rs"),
            include_str!("softmax/vector/r03_grid_vec4.rs"),
            include_str!("softmax/vector/r04_grid_sync.rs"),
        ],
    ),
    (
        "norm",
        &[
            include_str!("norm/ladder/r01_two_pass.rs"),
            include_str!("norm/ladder/r02_welford.rs"),
            include_str!("norm/ladder/r03_vec4.rs"),
        ],
    ),
    ("rms-norm", &[include_str!("norm/rms/r01_rms.rs"), include_str!("norm/rms/r02_rms_vec4.rs")]),
    ("scale", &[include_str!("scale/ladder/r01_block.rs"), include_str!("scale/ladder/r02_warp.rs")]),
    (
        "gemv",
        &[
            include_str!("gemv/ladder/r01_one_thread_a_row.rs"),
            include_str!("gemv/ladder/r02_sgemv_k32.rs"),
            include_str!("gemv/ladder/r03_sgemv_k128.rs"),
            include_str!("gemv/ladder/r04_sgemv_k16.rs"),
            include_str!("gemv/ladder/r05_planned.rs"),
        ],
    ),
    (
        "histogram",
        &[
            include_str!("histogram/ladder/r01_plain.rs"),
            include_str!("histogram/ladder/r02_vec4.rs"),
            include_str!("histogram/ladder/r03_shared.rs"),
            include_str!("histogram/ladder/r04_copies.rs"),
        ],
    ),
    (
        "sgemm",
        &[
            include_str!("gemm/ladder/r01_naive.rs"),
            include_str!("gemm/ladder/r02_coalesced.rs"),
            include_str!("gemm/ladder/r03_shared.rs"),
            include_str!("gemm/ladder/r04_tile_1d.rs"),
            include_str!("gemm/ladder/r05_tile_2d.rs"),
            include_str!("gemm/ladder/r06_vec4.rs"),
            include_str!("gemm/ladder/r07_warp_tile.rs"),
            include_str!("gemm/ladder/r08_double_buffer.rs"),
            include_str!("gemm/ladder/r09_cp_async.rs"),
            include_str!("gemm/ladder/r10_no_conflicts.rs"),
        ],
    ),
    (
        "hgemm",
        &[
            include_str!("hgemm/ladder/r01_mma_sync.rs"),
            include_str!("hgemm/ladder/r02_wgmma_tma.rs"),
            include_str!("hgemm/ladder/r03_large_tile.rs"),
            include_str!("hgemm/ladder/r04_producer_consumer.rs"),
            include_str!("hgemm/ladder/r05_two_consumers.rs"),
            include_str!("hgemm/ladder/r06_persistent.rs"),
            include_str!("hgemm/ladder/r07_multicast.rs"),
            include_str!("hgemm/ladder/r08_tma_store.rs"),
            include_str!("hgemm/ladder/r09_tile_order.rs"),
        ],
    ),
    (
        "conv",
        &[
            include_str!("conv/ladder/r01_naive.rs"),
            include_str!("conv/ladder/r02_im2col.rs"),
            include_str!("conv/ladder/r03_implicit_gemm.rs"),
            include_str!("conv/ladder/r04_cp_async.rs"),
            include_str!("conv/ladder/r05_wgmma_im2col.rs"),
        ],
    ),
    (
        "attention",
        &[
            include_str!("attention/ladder/r01_three_kernels.rs"),
            include_str!("attention/ladder/r02_flash1.rs"),
            include_str!("attention/ladder/r03_flash2.rs"),
            include_str!("attention/ladder/r04_mma_sync.rs"),
            include_str!("attention/ladder/r05_wgmma.rs"),
            include_str!("attention/ladder/r06_warp_specialized.rs"),
            include_str!("attention/ladder/r07_overlap.rs"),
            include_str!("attention/ladder/r08_ping_pong.rs"),
            include_str!("attention/ladder/r09_persistent.rs"),
        ],
    ),
    (
        "decode",
        &[
            include_str!("attention/decode/r01_one_block.rs"),
            include_str!("attention/decode/r02_split_kv.rs"),
            include_str!("attention/decode/r03_paged.rs"),
            include_str!("attention/decode/r04_single_launch.rs"),
        ],
    ),
];

/// The file of a rung: its header, and the kernel or kernels.
///
/// ```
/// use warpfold_ladders::{ladder::ladder, source_of};
/// let reduce = ladder("reduce")?;
/// assert!(source_of(reduce, reduce.rung("naive")?).starts_with("//! Rung 1: a tree with its strides doubling."));
/// # Ok::<(), warpfold_ladders::Error>(())
/// ```
#[must_use]
pub fn source_of(ladder: &Ladder, rung: &Rung) -> &'static str {
    let position = ladder.rungs.iter().position(|other| other.name == rung.name);
    let sources = SOURCES.iter().find(|(name, _)| *name == ladder.name).map(|(_, sources)| *sources);
    sources.zip(position).map_or("", |(sources, position)| sources.get(position).copied().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::LADDERS;

    #[test]
    fn every_rung_has_its_own_source() {
        for ladder in LADDERS {
            for (n, rung) in (1..).zip(ladder.rungs) {
                let source = source_of(ladder, rung);
                assert!(source.starts_with(&format!("//! Rung {n}: ")), "{}/{}", ladder.name, rung.name);
                let is_its_own = source.contains(&format!("fn {}", rung.name)) || source.contains(rung.name);
                assert!(is_its_own, "{}/{}", ladder.name, rung.name);
            }
        }
    }
}

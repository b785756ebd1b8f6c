//! The Rust sources of rungs, which reports show: a lesson is a difference of two of them.

use crate::helpers::helpers;

/// Ladders, each in its folder, with the files of its rungs in order. A file is named after its
/// rung; a test finds the rungs that are not here.
macro_rules! sources {
    ($($ladder:literal in $folder:literal: $($file:literal)+;)+) => {
        const SOURCES: &[(&str, &str, &str)] =
            &[$($(($ladder, $file, include_str!(concat!($folder, "/", $file, ".rs")))),+),+];

        /// The folder of each ladder's rungs.
        const FOLDERS: &[(&str, &str)] = &[$(($ladder, $folder)),+];
    };
}

sources! {
    "vector-add" in "vector_add/ladder":
        "r01_one_thread" "r02_one_block" "r03_grid" "r04_grid_vec4";
    "relu" in "elementwise/relu":
        "r01_plain" "r02_vec4" "r03_vec4_f16";
    "sigmoid" in "elementwise/sigmoid":
        "r01_plain" "r02_safe" "r03_vec4" "r04_vec4_f16";
    "dot" in "dot/ladder":
        "r01_plain" "r02_vec4" "r03_single_pass";
    "reduce" in "reduce/ladder":
        "r01_naive" "r02_interleaved" "r03_sequential" "r04_first_add" "r05_unroll_last_warp" "r06_unroll_all"
        "r07_shuffle" "r08_vec4" "r09_grid_stride" "r10_single_pass";
    "reduce-lessons" in "reduce/lessons":
        "r01_simple" "r02_no_divergence" "r03_shared" "r04_segmented" "r05_coarsened";
    "group-reduce" in "groups/ladder":
        "r01_warp_reduce" "r02_sub_warp_16" "r03_sub_warp_4" "r04_block_reduce";
    "scan" in "scan/ladder":
        "r01_hillis_steele" "r02_blelloch" "r03_shuffle" "r04_chained" "r05_look_back";
    "softmax" in "softmax/ladder":
        "r01_three_pass" "r02_safe" "r03_online" "r04_warp" "r05_block" "r06_cluster";
    "softmax-vector" in "softmax/vector":
        "r01_threadfence" "r02_grid" "r03_grid_vec4" "r04_grid_sync";
    "norm" in "norm/ladder":
        "r01_two_pass" "r02_welford" "r03_vec4";
    "rms-norm" in "norm/rms":
        "r01_rms" "r02_rms_vec4";
    "scale" in "scale/ladder":
        "r01_block" "r02_warp";
    "gemv" in "gemv/ladder":
        "r01_one_thread_a_row" "r02_sgemv_k32" "r03_sgemv_k128" "r04_sgemv_k16" "r05_planned";
    "histogram" in "histogram/ladder":
        "r01_plain" "r02_vec4" "r03_shared" "r04_copies";
    "sgemm" in "gemm/ladder":
        "r01_naive" "r02_coalesced" "r03_shared" "r04_tile_1d" "r05_tile_2d" "r06_vec4" "r07_warp_tile"
        "r08_double_buffer" "r09_cp_async" "r10_no_conflicts";
    "hgemm" in "hgemm/ladder":
        "r01_mma_sync" "r02_wgmma_tma" "r03_large_tile" "r04_producer_consumer" "r05_two_consumers" "r06_persistent"
        "r07_multicast" "r08_tma_store" "r09_tile_order";
    "conv" in "conv/ladder":
        "r01_naive" "r02_im2col" "r03_implicit_gemm" "r04_cp_async" "r05_wgmma_im2col";
    "attention" in "attention/ladder":
        "r01_three_kernels" "r02_flash1" "r03_flash2" "r04_mma_sync" "r05_wgmma" "r06_warp_specialized"
        "r07_overlap" "r08_ping_pong" "r09_persistent" "r10_shipped";
    "decode" in "attention/decode":
        "r01_one_block" "r02_split_kv" "r03_paged" "r04_single_launch" "r05_shipped";
}

/// The Rust source of a rung; nothing for a ladder that is not one of
/// [`LADDERS`](crate::ladder::LADDERS).
///
/// ```
/// let source = warpfold_ladders::rung_source("reduce", "interleaved").expect("it is a rung");
/// assert!(source.contains("sync_threads"));
/// ```
#[must_use]
pub fn rung_source(ladder: &str, rung: &str) -> Option<&'static str> {
    let is_meant = |file: &str| file.split_once('_').is_some_and(|(_, name)| name == rung);
    SOURCES.iter().find(|(of, file, _)| *of == ladder && is_meant(file)).map(|(_, _, text)| *text)
}

/// The text of what a rung's kernel calls and its file does not have: functions and types of files
/// that rungs share, and of the library's folds. Empty where it calls nothing of the kind.
///
/// ```
/// let helpers = warpfold_ladders::rung_helpers("softmax", "online").expect("it is a rung");
/// assert!(helpers.contains("pub fn push_all("));
/// ```
#[must_use]
pub fn rung_helpers(ladder: &str, rung: &str) -> Option<String> {
    let folder = FOLDERS.iter().find(|(name, _)| *name == ladder)?.1;
    Some(helpers(folder, rung_source(ladder, rung)?))
}

/// The Rust source of a ladder's rung by the path that PTX names: what a rung calls of another one
/// is found, too.
#[must_use]
pub fn source_of_path(ladder: &str, path: &str) -> Option<&'static str> {
    let file = path.rsplit(['/', '\\']).next()?.strip_suffix(".rs")?;
    SOURCES.iter().find(|(of, name, _)| *of == ladder && *name == file).map(|(_, _, text)| *text)
}

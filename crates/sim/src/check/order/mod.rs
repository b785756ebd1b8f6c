//! Happens-before: which accesses the PTX memory model orders before the present one.
//!
//! - [`block`]: order inside a block, by warp syncs, fences, releases and acquires; [`barriers`]:
//!   what barriers of the block and of its cluster pass on; [`phases`]: mbarriers, bulk copies,
//!   proxy fences. The clocks are those of [`clock`]; [`flags`] says what locations carry from a
//!   release to an acquire, [`observed`] which writes a strong read has seen, [`pending`] what
//!   reads wait for a fence to acquire, and [`unshared`] what single lanes of a warp have acquired.
//! - [`grid`]: the same between blocks. [`reach`] is a sparse vector clock over blocks,
//!   [`locations`] what locations of global memory carry, [`fence_sc`] the order of fences,
//!   [`fenced`] what they give to release, [`cluster`] the barrier and the scope of clusters,
//!   [`held`] what all lanes of a warp know and what only some of them.
//!
//! The axioms of the PTX ISA, "Memory Consistency Model", where each is, and
//! its pairs of kernels in `conformance/corpus`:
//!
//! - program order: [`block`]: a thread's own records; `counter_reset_by_the_last_block`.
//! - `bar` synchronises: [`barriers`]; `missing_barrier_after_store`, `arrive_does_not_wait`.
//! - `barrier.cluster` synchronises: [`barriers`], [`grid`]; `cluster_without_first_barrier`.
//! - release patterns 1 to 3: [`flags`], [`grid`]; `relaxed_store_to_another_flag`,
//!   `release_fence_after_the_flag`.
//! - acquire patterns 1 to 3: [`flags`], [`grid`]; `acquire_at_another_flag`,
//!   `acquire_fence_before_the_flag`.
//! - `red` is no acquire: [`grid`]; `reduction_is_no_acquire`.
//! - observation through atomics: [`flags`], [`locations`]; `release_through_a_chain_of_atomics`,
//!   `store_breaks_the_chain`.
//! - moral strength: scopes: [`reach`] grades; `fence_of_block_scope_between_blocks`.
//! - base causality is transitive: [`grid`]; `order_through_a_third_block`,
//!   `third_block_told_without_acquire`.
//! - observation, then base causality: [`observed`]; `counter_reset_by_the_first_block`,
//!   `observation_through_a_store`.
//! - proxies: [`async_proxy`](super::async_proxy); `bulk_store_without_proxy_fence`.
//!
//! - Fence-SC order: [`sequential`], [`fence_sc`]; `stores_told_apart_by_fence_sc`,
//!   `stores_not_told_apart_by_fences`, the same between blocks, and through a third one;
//!   `fences_ordered_by_accesses_of_other_blocks`.
//! - scopes that end at a cluster: [`cluster`]; `flag_of_cluster_scope_between_clusters`.

pub(super) mod barriers;
pub(super) mod block;
pub(super) mod clock;
pub(super) mod cluster;
pub(super) mod fence_sc;
pub(super) mod fenced;
pub(super) mod flags;
pub(super) mod grid;
pub(super) mod held;
pub(super) mod locations;
pub(super) mod observed;
pub(super) mod pending;
pub(super) mod phases;
pub(super) mod reach;
pub(super) mod sequential;
mod strong;
pub(super) mod unshared;

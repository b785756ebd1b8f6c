//! Theoretical occupancy: the number of blocks per multiprocessor, and its limiters.
//!
//! The rules are those of the vendor's occupancy calculator: registers are given out to warps in
//! units and per sub-partition, shared memory in units and with a reserve for each block.

use crate::Arch;

/// Limits of an architecture, and of the device that represents it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum resident threads per multiprocessor.
    pub threads_per_sm: u32,
    /// Maximum resident blocks per multiprocessor.
    pub blocks_per_sm: u32,
    /// 32-bit registers per multiprocessor.
    pub registers_per_sm: u32,
    /// Maximum 32-bit registers per thread.
    pub registers_per_thread: u32,
    /// Bytes of the data cache of a multiprocessor, which includes shared memory.
    pub data_cache_per_sm: u32,
    /// Bytes of shared memory per multiprocessor.
    pub shared_per_sm: u32,
    /// Maximum bytes of shared memory per block.
    pub shared_per_block: u32,
    /// Bytes of shared memory that the system reserves in each block.
    pub shared_reserved: u32,
    /// Multiprocessors of the largest device: A100 for sm_80, H100 and H200 for sm_90.
    pub multiprocessors: u32,
}

/// The limits of an architecture.
#[must_use]
pub fn limits(arch: Arch) -> Limits {
    let base = Limits {
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        registers_per_sm: 65536,
        registers_per_thread: 255,
        data_cache_per_sm: 192 * 1024,
        shared_per_sm: 164 * 1024,
        shared_per_block: 163 * 1024,
        shared_reserved: 1024,
        multiprocessors: 108,
    };
    match arch.number {
        86 => Limits {
            threads_per_sm: 1536,
            blocks_per_sm: 16,
            data_cache_per_sm: 128 * 1024,
            shared_per_sm: 100 * 1024,
            shared_per_block: 99 * 1024,
            multiprocessors: 84,
            ..base
        },
        87 => Limits { threads_per_sm: 1536, blocks_per_sm: 16, multiprocessors: 16, ..base },
        89 => Limits {
            threads_per_sm: 1536,
            blocks_per_sm: 24,
            data_cache_per_sm: 128 * 1024,
            shared_per_sm: 100 * 1024,
            shared_per_block: 99 * 1024,
            multiprocessors: 142,
            ..base
        },
        90 => Limits {
            data_cache_per_sm: 256 * 1024,
            shared_per_sm: 228 * 1024,
            shared_per_block: 227 * 1024,
            multiprocessors: 132,
            ..base
        },
        _ => base,
    }
}

/// Resources of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Threads per block.
    pub threads: u32,
    /// 32-bit registers per thread.
    pub registers_per_thread: u32,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
}

/// Resource that limits the number of resident blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limiter {
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
    /// Warps.
    Warps,
    /// Blocks.
    Blocks,
}

/// Occupancy of a multiprocessor.
#[derive(Debug, Clone, PartialEq)]
pub struct Occupancy {
    /// Resident blocks per multiprocessor; 0 if the launch fails.
    pub blocks_per_sm: u32,
    /// Resident warps as a fraction of the maximum.
    pub occupancy: f64,
    /// Every resource that limits the number of blocks.
    pub limiters: Vec<Limiter>,
}

/// Allocation unit of registers, per warp.
const REGISTER_UNIT: u32 = 256;
/// Allocation unit of shared memory, per block.
const SHARED_UNIT: u32 = 128;
/// Sub-partitions of a multiprocessor; a warp's registers are in one.
const SUB_PARTITIONS: u32 = 4;

/// Computes the occupancy of a kernel on an architecture.
///
/// ```
/// use warpfold_sim::{Arch, occupancy::{Usage, occupancy}};
/// let usage = Usage { threads: 256, registers_per_thread: 128, static_shared: 0, dynamic_shared: 100 * 1024 };
/// assert_eq!(occupancy(Arch::SM_90A, &usage).blocks_per_sm, 2);
/// ```
#[must_use]
pub fn occupancy(arch: Arch, usage: &Usage) -> Occupancy {
    let limits = limits(arch);
    let warps = usage.threads.div_ceil(32).max(1);
    let max_warps = limits.threads_per_sm / 32;
    let per_warp = (usage.registers_per_thread.max(1) * 32).next_multiple_of(REGISTER_UNIT);
    let too_many = per_warp * warps.next_multiple_of(SUB_PARTITIONS) > limits.registers_per_sm
        || usage.registers_per_thread > limits.registers_per_thread;
    let by_registers =
        if too_many { 0 } else { limits.registers_per_sm / SUB_PARTITIONS / per_warp * SUB_PARTITIONS / warps };
    let shared = usage.static_shared + usage.dynamic_shared;
    let by_shared = if shared > limits.shared_per_block {
        0
    } else {
        limits.shared_per_sm / (shared + limits.shared_reserved).next_multiple_of(SHARED_UNIT)
    };
    let by_warps = if usage.threads > 1024 { 0 } else { max_warps / warps };
    let all = [
        (by_registers, Limiter::Registers),
        (by_shared, Limiter::SharedMemory),
        (by_warps, Limiter::Warps),
        (limits.blocks_per_sm, Limiter::Blocks),
    ];
    let blocks = all.iter().map(|(n, _)| *n).min().unwrap_or(0);
    Occupancy {
        blocks_per_sm: blocks,
        occupancy: f64::from(blocks * warps) / f64::from(max_warps),
        limiters: all.iter().filter(|(n, _)| *n == blocks).map(|(_, l)| *l).collect(),
    }
}

/// Multiprocessors of each GPC of an H100 or H200, which a cluster of blocks must fit into: 132 of
/// them, spread as evenly as groups of two allow. Devices differ in which ones are disabled; a
/// driver knows its own device.
const SM_90_GROUPS: [u32; 8] = [18, 18, 16, 16, 16, 16, 16, 16];

/// Returns the number of clusters of `blocks` blocks resident at once on the largest device of an
/// architecture; 0 if none fits, or there are no clusters.
///
/// ```
/// use warpfold_sim::{Arch, occupancy::{Usage, active_clusters}};
/// let usage = Usage { threads: 1024, registers_per_thread: 64, static_shared: 0, dynamic_shared: 0 };
/// assert_eq!(active_clusters(Arch::SM_90A, &usage, 2), 66);
/// assert_eq!(active_clusters(Arch::SM_90A, &usage, 16), 8);
/// ```
#[must_use]
pub fn active_clusters(arch: Arch, usage: &Usage, blocks: u32) -> u32 {
    if arch.number != 90 || blocks == 0 {
        return 0;
    }
    let per_sm = occupancy(arch, usage).blocks_per_sm;
    SM_90_GROUPS.iter().map(|multiprocessors| multiprocessors * per_sm / blocks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(threads: u32, registers_per_thread: u32, kib: u32, expected: u32, limiter: Limiter) {
        let usage = Usage { threads, registers_per_thread, static_shared: kib * 1024, dynamic_shared: 0 };
        let o = occupancy(Arch::SM_90A, &usage);
        assert_eq!(o.blocks_per_sm, expected);
        assert!(o.limiters.contains(&limiter), "{:?}", o.limiters);
    }

    #[test]
    fn the_reserve_of_each_block_counts() {
        check(32, 8, 12, 17, Limiter::SharedMemory);
    }

    #[test]
    fn registers_are_given_out_by_sub_partition() {
        check(32, 88, 0, 20, Limiter::Registers);
        check(384, 168, 0, 1, Limiter::Registers);
        check(256, 128, 100, 2, Limiter::Registers);
    }

    #[test]
    fn a_block_that_cannot_start_has_no_occupancy() {
        check(1024, 65, 0, 0, Limiter::Registers);
    }
}

//! GPUs whose time is predicted: clocks, rates and latencies.
//!
//! Rates of arithmetic: CUDA C++ Programming Guide, "Arithmetic Instructions", compute capability
//! 9.0. The rest is what an H100 did with the microbenchmarks of fixtures/timing (SXM5, driver
//! 580.159.04, 2026-11-27, 1,980 MHz); `fitted.rs` has what a script fits, never to
//! the kernels that errors are told of. An H200 is an H100 with its own memory: its DRAM's constant
//! grows as the bandwidths of the data sheets do, its clocks are the same. No H200 was timed.

use std::fmt;
use std::str::FromStr;

use super::fitted;

/// A GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Gpu {
    /// The name that options take.
    pub name: &'static str,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Clock of the multiprocessors under load, in Hz.
    pub clock: f64,
    /// Bytes of the L2.
    pub l2_bytes: u64,
    /// Bytes a second that reads reach from DRAM.
    pub dram: f64,
    /// Bytes a second that the L2 gives to all multiprocessors.
    pub l2: f64,
    /// Bytes a second that it takes from them.
    pub l2_written: f64,
    /// Bytes a cycle that the L2 gives to one multiprocessor.
    pub l2_per_sm: f64,
    /// Sectors a cycle that the L1 gives.
    pub l1_sectors: f64,
    /// Floating-point operations a cycle and multiprocessor of tensor cores on f16.
    pub tensor: f64,
    /// Warp requests of atomics a second, by sectors: on distinct ones.
    pub atomics: f64,
    /// Turns a second of atomics that follow one another.
    pub atomic_turns: f64,
    /// Cycles from a load to its use: shared memory, L1, L2, DRAM.
    pub latencies: Latencies,
    /// Seconds from a launch to the end of an empty kernel, in a stream of launches.
    pub launch: f64,
    /// Seconds that a block needs beside its instructions.
    pub block_start: f64,
    /// Blocks that the GPU starts a second.
    pub block_starts: f64,
}

/// Cycles from an instruction to the use of its result.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Latencies {
    /// Arithmetic.
    pub arithmetic: f64,
    /// The multifunction unit.
    pub special: f64,
    /// f64.
    pub double: f64,
    /// Shared memory, shuffles.
    pub shared: f64,
    /// The L1.
    pub l1: f64,
    /// The L2.
    pub l2: f64,
    /// DRAM.
    pub dram: f64,
    /// `mma.sync`.
    pub tensor: f64,
    /// A barrier of a block whose warps have all arrived.
    pub barrier: f64,
    /// What each warp of the block adds to it, and to the multiprocessor's unit.
    pub barrier_warp: f64,
    /// An atomic on global memory whose result is used.
    pub atomic: f64,
}

const HOPPER: Gpu = Gpu {
    name: "h100",
    multiprocessors: 132,
    clock: 1.98e9,
    l2_bytes: 50 << 20,
    dram: fitted::DRAM,
    l2: fitted::L2_READ,
    l2_written: fitted::L2_WRITTEN,
    l2_per_sm: 64.0,
    l1_sectors: 4.0,
    tensor: 4096.0,
    atomics: 9.0e10,
    atomic_turns: 1.45e9,
    latencies: Latencies {
        arithmetic: 4.5,
        special: 23.0,
        double: 8.5,
        shared: 29.0,
        l1: 38.0,
        l2: 285.0,
        dram: 650.0,
        tensor: 33.0,
        barrier: 8.0,
        barrier_warp: 2.05,
        atomic: 350.0,
    },
    launch: fitted::LAUNCH,
    block_start: fitted::BLOCK_START,
    block_starts: fitted::BLOCK_STARTS,
};

/// The GPUs that there are tables of.
pub const GPUS: &[Gpu] = &[HOPPER, Gpu { name: "h200", l2_bytes: 60 << 20, dram: fitted::DRAM * 4.8 / 3.35, ..HOPPER }];

/// No GPU of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no table of times of a GPU '{name}': {}", GPUS.iter().map(|gpu| gpu.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownGpu {
    name: String,
}

impl FromStr for Gpu {
    type Err = UnknownGpu;

    fn from_str(name: &str) -> Result<Self, UnknownGpu> {
        let known = GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name));
        known.copied().ok_or_else(|| UnknownGpu { name: name.to_owned() })
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

//! GPUs whose time is predicted: clocks, rates and latencies.
//!
//! Rates of arithmetic: CUDA C++ Programming Guide, "Arithmetic Instructions", compute capability
//! 9.0. Bandwidths of the data sheets are what the memory's pins do; those here are what kernels
//! reach. Latencies: microbenchmarks of Hopper (Luo et al., arXiv 2402.13499). What a run of our
//! own microbenchmarks refines is fitted to them, never to the kernels that errors are told of.

use std::fmt;
use std::str::FromStr;

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
    /// Bytes a cycle that the L2 gives to one multiprocessor.
    pub l2_per_sm: f64,
    /// Sectors a cycle that the L1 gives.
    pub l1_sectors: f64,
    /// Floating-point operations a cycle and multiprocessor of tensor cores on f16.
    pub tensor: f64,
    /// Warp requests of atomics a second, by sectors: on distinct ones.
    pub atomics: f64,
    /// The same of one sector.
    pub atomics_of_one_sector: f64,
    /// Cycles from a load to its use: shared memory, L1, L2, DRAM.
    pub latencies: Latencies,
    /// Seconds from a launch to the end of an empty kernel, in a stream of launches.
    pub launch: f64,
    /// Seconds that a block needs to start on a multiprocessor.
    pub block_start: f64,
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
    /// An atomic on global memory whose result is used.
    pub atomic: f64,
}

const HOPPER: Gpu = Gpu {
    name: "h100",
    multiprocessors: 132,
    clock: 1.755e9,
    l2_bytes: 50 << 20,
    dram: 3.0e12,
    l2: 5.6e12,
    l2_per_sm: 64.0,
    l1_sectors: 4.0,
    tensor: 4096.0,
    atomics: 8.0e10,
    atomics_of_one_sector: 0.9e9,
    latencies: Latencies {
        arithmetic: 4.5,
        special: 23.0,
        double: 16.0,
        shared: 29.0,
        l1: 38.0,
        l2: 270.0,
        dram: 650.0,
        tensor: 33.0,
        barrier: 30.0,
        atomic: 350.0,
    },
    launch: 1.6e-6,
    block_start: 0.5e-6,
};

/// The GPUs that there are tables of.
pub const GPUS: &[Gpu] = &[HOPPER, Gpu { name: "h200", l2_bytes: 60 << 20, dram: 4.25e12, ..HOPPER }];

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

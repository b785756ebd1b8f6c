//! What a prediction of time needs to know of a launch beyond its counters.

use crate::exec::geometry::Geometry;
use crate::exec::touched::Sectors;
use crate::occupancy::{Usage, limits, occupancy};
use crate::{Arch, KernelInfo};

/// Facts of a launch that its time follows from, beside what its instructions counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimingFacts {
    /// What the launch was simulated as.
    pub arch: Arch,
    /// 32-bit registers per thread: what a directive says, or an estimate of what ptxas needs.
    pub registers: u32,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
    /// Blocks of a cluster.
    pub cluster_blocks: u32,
    /// Distinct 32-byte sectors of global memory that are read.
    pub sectors_read: u64,
    /// Distinct sectors that are written.
    pub sectors_written: u64,
    /// Distinct sectors of both together.
    pub sectors: u64,
    /// Sectors that are read, each counted once in every wave of resident blocks.
    pub sectors_read_by_waves: u64,
    /// Sectors that atomics on global memory ask for, in all their warp requests.
    pub atomic_sectors: u64,
    /// Turns that atomics take where they take most: lanes of one address follow one another, and
    /// so do sectors that lie within 512 bytes.
    pub atomic_turns: u64,
}

/// What a device keeps resident of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Residency {
    facts: TimingFacts,
    wave_blocks: u64,
}

impl Residency {
    pub(crate) fn new(arch: Arch, kernel: &KernelInfo, geometry: &Geometry) -> Self {
        let registers = kernel.entry_registers.unwrap_or(kernel.registers.max(16)).min(255);
        let usage = Usage {
            threads: geometry.threads,
            registers_per_thread: registers,
            static_shared: geometry.user_shared,
            dynamic_shared: 0,
        };
        let per_sm = occupancy(arch, &usage).blocks_per_sm.max(1);
        let facts = TimingFacts {
            arch,
            registers,
            shared_bytes: geometry.user_shared,
            cluster_blocks: u32::try_from(geometry.cluster_blocks()).unwrap_or(u32::MAX),
            sectors_read: 0,
            sectors_written: 0,
            sectors: 0,
            sectors_read_by_waves: 0,
            atomic_sectors: 0,
            atomic_turns: 0,
        };
        Self { facts, wave_blocks: u64::from(per_sm) * u64::from(limits(arch).multiprocessors) }
    }

    /// Blocks of a wave.
    pub(crate) fn wave_blocks(self) -> u64 {
        self.wave_blocks
    }

    /// The facts, with what was touched.
    pub(crate) fn with(self, sectors: Sectors) -> TimingFacts {
        TimingFacts {
            sectors_read: sectors.read,
            sectors_written: sectors.written,
            sectors: sectors.either,
            sectors_read_by_waves: sectors.read_by_waves,
            atomic_sectors: sectors.atomics,
            atomic_turns: sectors.atomic_turns,
            ..self.facts
        }
    }
}

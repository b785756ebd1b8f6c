//! What the L1 leaves for the L2, and the L2 for DRAM.

use super::cost::Wait;
use super::{Caches, Counted, Gpu};
use crate::{Report, TimingFacts};

/// Bytes of a sector.
const SECTOR: f64 = 32.0;

/// Traffic of a launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Traffic {
    /// Bytes that the L2 gives to the multiprocessors, and takes.
    pub l2_read: f64,
    pub l2_written: f64,
    pub dram_read: f64,
    pub dram_written: f64,
    /// Seconds that the L2 needs for atomics: for all of them, or for those that take turns.
    pub atomics: f64,
    /// Cycles from a load of global memory to its use, on average.
    pub latency: f64,
}

impl Traffic {
    pub(super) fn dram_bytes(&self) -> f64 {
        self.dram_read + self.dram_written
    }
}

/// The share of what is read again that an L2 still has: all of what fits, and nothing of twice as
/// much as it holds. Between them replacement is not strict, and so the share falls evenly.
fn kept(footprint: f64, gpu: &Gpu) -> f64 {
    /// Of the L2's bytes: up to here everything stays, from there on nothing.
    const FITS: (f64, f64) = (0.7, 1.5);
    let of_l2 = footprint / gpu.l2_bytes as f64;
    ((FITS.1 - of_l2) / (FITS.1 - FITS.0)).clamp(0.0, 1.0)
}

pub(super) fn traffic(
    report: &Report,
    facts: &TimingFacts,
    gpu: &Gpu,
    caches: Caches,
    counted: &[Counted<'_>],
) -> Traffic {
    let c = &report.counters;
    let atomics = facts.atomic_sectors as f64;
    // Loads that hit; stores go on to the L2 in any case.
    let hits = c.l1_hit_sectors.min(c.global_load_sectors) as f64;
    let loads = c.global_load_sectors as f64 - hits;
    let kept = kept(facts.sectors as f64 * SECTOR, gpu);
    let (read, written) = (facts.sectors_read as f64, facts.sectors_written as f64);
    // Waves are in order: what an earlier one read may have gone.
    let again = facts.sectors_read_by_waves as f64 - read;
    let first = match caches {
        Caches::Warm => 1.0 - kept,
        Caches::Cold => 1.0,
    };
    let dram_read = read * first + again * (1.0 - kept);
    let l = &gpu.latencies;
    let by = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let (in_l1, from_dram) = (by(hits, c.global_load_sectors as f64), by(dram_read, loads + atomics));
    let loads_wait = counted.iter().any(|one| one.2.wait == Wait::Global);
    let beyond = l.l2 + (l.dram - l.l2) * from_dram;
    Traffic {
        l2_read: loads * SECTOR,
        l2_written: (c.global_store_sectors as f64 + atomics) * SECTOR,
        dram_read: dram_read * SECTOR,
        dram_written: written * first * SECTOR,
        atomics: (atomics / gpu.atomics).max(facts.atomic_turns as f64 / gpu.atomic_turns),
        latency: if loads_wait { l.l1 * in_l1 + beyond * (1.0 - in_l1) } else { 0.0 },
    }
}

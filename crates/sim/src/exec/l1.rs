//! Model of the L1 data cache, for its hit rate; only runs if a launch enables it.
//!
//! **Modelled.** Sectors that loads and stores of global memory look up, and those of them that hit
//! (`l1tex__t_sectors`, `l1tex__t_sectors_lookup_hit`): lines of 128 bytes with four sectors of 32,
//! one of which a miss fills. Four sets, as Jia et al. found on Volta (arXiv 1804.06826, table
//! 3.1), with least-recently-used replacement. Stores write through: they hit if the sector is
//! present, and allocate nothing. `.cg`, `.cv`, `.volatile` and strong loads beyond the block
//! bypass the cache, and miss; `.L1::no_allocate` keeps nothing. Atomics are performed in L2 and
//! not looked up; a fence or an acquire for the device empties the cache, as the compiler's
//! `CCTL.IVALL` does.
//!
//! **What it deviates in.** The virtual GPU has no clock, so it cannot say how the resident blocks
//! of a multiprocessor take turns. Each block has an equal share of the cache, which is cold when
//! the block begins: neighbours run on different multiprocessors, and what they share is found in
//! the L2. The hit rate is therefore the same on any number of workers. Hardware replaces lines by
//! a rule that NVIDIA does not publish, and counts local memory and textures, which are left out
//! here.

use std::collections::BTreeMap;
use std::fmt;

use warpfold_ptx::Scope;

use super::machine::Machine;
use super::recording::Recorded;
use super::row::LANES;
use crate::occupancy::limits;
use crate::{Arch, occupancy};

/// Bytes of a line.
const LINE: u64 = 128;
/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Sets of the cache.
const SETS: usize = 4;

/// Parameters of the L1 model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct L1Model {
    /// Bytes of L1 per multiprocessor, without shared memory.
    pub bytes_per_sm: u32,
    /// Blocks that share it; registers, which only ptxas knows, are not considered.
    pub blocks_per_sm: u32,
}

impl L1Model {
    /// The L1 for a launch of this many blocks of this size.
    pub(crate) fn new(arch: Arch, threads: u32, shared_bytes: u32, blocks: u64) -> Self {
        /// Possible sizes of shared memory within the data cache, in KiB (CUDA programming guide,
        /// compute capabilities 8.x and 9.0).
        const CARVE_OUTS: [u32; 10] = [0, 8, 16, 32, 64, 100, 132, 164, 196, 228];
        let limits = limits(arch);
        let usage = occupancy::Usage {
            threads,
            registers_per_thread: 1,
            static_shared: shared_bytes.min(limits.shared_per_block),
            dynamic_shared: 0,
        };
        let resident = u64::from(occupancy::occupancy(arch, &usage).blocks_per_sm.max(1));
        let resident = resident.min(blocks.div_ceil(u64::from(limits.multiprocessors))).max(1);
        let blocks_per_sm = u32::try_from(resident).expect("few blocks are resident");
        let shared = if shared_bytes == 0 { 0 } else { blocks_per_sm * (shared_bytes + limits.shared_reserved) };
        let carve_out = CARVE_OUTS.map(|kib| kib * 1024).into_iter().find(|bytes| *bytes >= shared);
        let carve_out = carve_out.unwrap_or(limits.shared_per_sm).min(limits.shared_per_sm);
        Self { bytes_per_sm: limits.data_cache_per_sm - carve_out, blocks_per_sm }
    }

    /// Lines per set in a block's share.
    fn ways(self) -> usize {
        let lines = u64::from(self.bytes_per_sm / self.blocks_per_sm) / LINE;
        (usize::try_from(lines).expect("few lines") / SETS).max(1)
    }
}

impl fmt::Display for L1Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kib, blocks) = (self.bytes_per_sm / 1024, self.blocks_per_sm);
        let share = f64::from(self.bytes_per_sm / blocks) / 1024.0;
        write!(f, "the model of the L1: {kib} KiB per SM beside shared memory, ")?;
        match blocks {
            1 => write!(f, "one resident block")?,
            _ => write!(f, "{share:.1} KiB for each of {blocks} resident blocks")?,
        }
        write!(
            f,
            ", cold when a block begins; lines of 128 bytes with sectors of 32, {SETS} sets of {} ways, \
             least recently used out first, stores write through and bring nothing in",
            self.ways()
        )
    }
}

/// Treatment of an instruction's accesses in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Hit or miss; a miss fills the sector.
    Load,
    /// Hit or miss.
    LoadOnce,
    /// Always a miss.
    PastIt,
    /// A miss that invalidates older lines.
    Acquire,
    /// Hit or miss; written through.
    Store,
    /// Bypasses L1; the L2's copy is newer afterwards.
    InL2,
    /// Does not use the cache.
    Elsewhere,
}

/// Policy of an instruction, by its text.
fn policy(text: &str) -> Policy {
    let mnemonic = text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("").trim_end_matches(';');
    let mut words = mnemonic.split('.');
    let name = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let has = |word: &str| words.contains(&word);
    let is_beyond_block = !has("cta");
    match name {
        "atom" | "red" => Policy::InL2,
        "st" => Policy::Store,
        "ld" | "ldu" if has("const") => Policy::Elsewhere,
        "ld" if has("acquire") && is_beyond_block => Policy::Acquire,
        "ld" | "ldu" | "cp" | "wmma" => {
            let is_strong = (has("relaxed") && is_beyond_block) || has("volatile") || has("mmio");
            if has("cg") || has("cv") || is_strong {
                Policy::PastIt
            } else if has("L1::no_allocate") {
                Policy::LoadOnce
            } else {
                Policy::Load
            }
        }
        _ => Policy::Elsewhere,
    }
}

/// A line: its last use, and the mask of its valid sectors.
#[derive(Debug, Clone, Copy)]
struct Line {
    used: u64,
    sectors: u8,
}

/// A set: lines by number, and by their last use.
#[derive(Debug, Default)]
struct Set {
    lines: BTreeMap<u64, Line>,
    by_use: BTreeMap<u64, u64>,
}

/// A block's share of the cache.
#[derive(Debug, Default)]
struct Cache {
    sets: [Set; SETS],
    clock: u64,
}

impl Cache {
    /// Looks up a sector; returns true for a hit.
    fn look_up(&mut self, sector: u64, policy: Policy, ways: usize) -> bool {
        self.clock += 1;
        let (number, bit) = (sector * SECTOR / LINE, 1 << (sector % (LINE / SECTOR)));
        let set = &mut self.sets[usize::try_from(number % SETS as u64).expect("a set")];
        if let Some(line) = set.lines.get_mut(&number) {
            set.by_use.remove(&line.used);
            set.by_use.insert(self.clock, number);
            line.used = self.clock;
            let is_there = line.sectors & bit != 0;
            match policy {
                Policy::Load => line.sectors |= bit,
                Policy::InL2 => line.sectors &= !bit,
                _ => {}
            }
            return is_there;
        }
        if policy == Policy::Load {
            if set.lines.len() == ways
                && let Some((_, oldest)) = set.by_use.pop_first()
            {
                set.lines.remove(&oldest);
            }
            set.lines.insert(number, Line { used: self.clock, sectors: bit });
            set.by_use.insert(self.clock, number);
        }
        false
    }
}

/// The caches of a worker's blocks.
#[derive(Debug)]
pub(crate) struct L1 {
    ways: usize,
    /// Policies by instruction.
    policies: Vec<Policy>,
    /// Caches of the blocks that have begun and not ended.
    blocks: BTreeMap<u64, Cache>,
}

impl L1 {
    /// Makes cold caches for a program of these instructions.
    pub(crate) fn new<'a>(model: L1Model, instructions: impl IntoIterator<Item = &'a str>) -> Self {
        let policies = instructions.into_iter().map(policy).collect();
        Self { ways: model.ways(), policies, blocks: BTreeMap::new() }
    }

    /// Looks up a warp's access: returns the sectors looked up, and those that hit.
    pub(crate) fn access(&mut self, instruction: u32, block: u64, access: &Recorded) -> (u64, u64) {
        let policy = self.policies[instruction as usize];
        if policy == Policy::Elsewhere {
            return (0, 0);
        }
        let active = (0..LANES).filter(|lane| access.mask >> lane & 1 != 0);
        let last = u64::from(access.bytes.max(1)) - 1;
        let mut sectors: Vec<u64> =
            active.flat_map(|lane| access.at[lane] / SECTOR..=(access.at[lane] + last) / SECTOR).collect();
        sectors.sort_unstable();
        sectors.dedup();
        let (ways, cache) = (self.ways, self.blocks.entry(block).or_default());
        let is_cached = !matches!(policy, Policy::PastIt | Policy::Acquire);
        let hits = sectors.iter().filter(|sector| is_cached && cache.look_up(**sector, policy, ways)).count();
        match policy {
            Policy::InL2 => return (0, 0),
            Policy::Acquire => self.leave(block),
            _ => {}
        }
        (sectors.len() as u64, hits as u64)
    }

    /// Drops a block's cache when it ends, or must not read stale data.
    pub(crate) fn leave(&mut self, block: u64) {
        self.blocks.remove(&block);
    }
}

impl Machine {
    /// Applies a fence of a scope by the running block.
    #[inline(always)]
    pub(crate) fn fence_l1(&mut self, scope: i64) {
        if self.recording.is_some() && scope >= Scope::Cluster as i64 {
            self.leave_l1(self.block);
        }
    }

    /// Drops a block's cache when it ends, or must not read stale data.
    #[cold]
    pub(crate) fn leave_l1(&mut self, block: u64) {
        if let Some(l1) = self.recording.as_mut().and_then(|recording| recording.l1.as_mut()) {
            l1.leave(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: L1Model = L1Model { bytes_per_sm: 2 * 4 * 128, blocks_per_sm: 1 };

    fn words_from(first: u64) -> Recorded {
        Recorded { bytes: 4, mask: u32::MAX, at: std::array::from_fn(|lane| first + 4 * lane as u64) }
    }

    /// Accesses by one block to lines of 128 bytes, each with its instruction; what all come to.
    #[track_caller]
    fn check(instructions: &[&str], accesses: &[(u32, u64)], expected: (u64, u64)) {
        let mut l1 = L1::new(SMALL, instructions.iter().copied());
        let counted = accesses.iter().fold((0, 0), |(lookups, hits), (instruction, line)| {
            let (more, found) = l1.access(*instruction, 0, &words_from(line * LINE));
            (lookups + more, hits + found)
        });
        assert_eq!(counted, expected);
    }

    #[test]
    fn a_second_load_hits_until_the_set_has_taken_in_too_many_lines() {
        let load = &["ld.global.u32 %r1, [%rd1];"];
        check(load, &[(0, 0), (0, 0)], (8, 4));
        // Two ways: lines 0, 4 and 8 are of one set.
        check(load, &[(0, 0), (0, 4), (0, 0)], (12, 4));
        check(load, &[(0, 0), (0, 4), (0, 8), (0, 0)], (16, 0));
        check(load, &[(0, 0), (0, 4), (0, 0), (0, 8), (0, 0)], (20, 8));
        check(load, &[(0, 0), (0, 1), (0, 2), (0, 3), (0, 0)], (20, 4));
    }

    #[test]
    fn a_store_hits_what_a_load_has_brought_and_brings_nothing_itself() {
        let text = &["@%p1 st.global.f32 [%rd1], %f1;", "ld.global.nc.f32 %f1, [%rd1];"];
        check(text, &[(0, 0), (1, 0), (0, 0), (1, 0)], (16, 8));
    }

    #[test]
    fn what_passes_by_the_cache_misses_and_an_atomic_makes_it_old() {
        let text = &[
            "ld.global.f32 %f1, [%rd1];",
            "ld.global.cg.f32 %f1, [%rd1];",
            "ld.relaxed.gpu.global.f32 %f1, [%rd1];",
            "ld.global.L1::no_allocate.f32 %f1, [%rd1];",
            "red.global.add.f32 [%rd1], %f1;",
            "ld.acquire.gpu.global.u32 %r1, [%rd2];",
        ];
        check(text, &[(0, 0), (1, 0), (2, 0)], (12, 0));
        check(text, &[(3, 0), (3, 0), (0, 0), (3, 0)], (16, 4));
        check(text, &[(0, 0), (4, 0), (0, 0)], (8, 0));
        check(text, &[(0, 0), (5, 9), (0, 0)], (12, 0));
    }

    #[test]
    fn a_block_finds_nothing_of_another() {
        let mut l1 = L1::new(SMALL, ["ld.global.u32 %r1, [%rd1];"]);
        let hits = [0, 1, 0, 1].map(|block| l1.access(0, block, &words_from(0)).1);
        assert_eq!(hits, [0, 0, 4, 4]);
        l1.leave(1);
        assert_eq!(l1.access(0, 1, &words_from(0)), (4, 0));
    }

    #[test]
    fn shared_memory_and_resident_blocks_leave_a_block_its_share() {
        let of = |threads, shared, blocks| L1Model::new(Arch::SM_90A, threads, shared, blocks);
        assert_eq!(of(256, 0, 1), L1Model { bytes_per_sm: 256 * 1024, blocks_per_sm: 1 });
        assert_eq!(of(256, 0, 1 << 20), L1Model { bytes_per_sm: 256 * 1024, blocks_per_sm: 8 });
        assert_eq!(of(1024, 0, 133), L1Model { bytes_per_sm: 256 * 1024, blocks_per_sm: 2 });
        // Eight blocks of 8 and 1 KiB: a carve-out of 100 KiB.
        assert_eq!(of(256, 8 * 1024, 1 << 20), L1Model { bytes_per_sm: 156 * 1024, blocks_per_sm: 8 });
        assert_eq!(of(128, 227 * 1024, 1 << 20), L1Model { bytes_per_sm: 28 * 1024, blocks_per_sm: 1 });
        let text = of(256, 0, 1 << 20).to_string();
        assert!(
            text.contains("32.0 KiB for each of 8 resident blocks") && text.contains("4 sets of 64 ways"),
            "{text}"
        );
    }
}

//! Distinct sectors of global memory that a launch touches, for predictions of time; nothing of it
//! runs unless a launch asks for it.
//!
//! Sectors are kept by *wave*: as many blocks as the device keeps resident, in the order of their
//! indices. Sectors that two blocks of a wave touch come from DRAM once, whatever the L2 holds;
//! those of two waves do so only if the L2 has kept them.

use std::collections::BTreeMap;

use super::recording::Recorded;
use super::row::LANES;

/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Bytes whose atomics the L2 does in turn: what an H100 does with 1 KiB of counters
/// (`atomics_spread` of fixtures/timing).
const IN_TURN: u64 = 512;
/// Bytes that one bitmap covers: 128 sectors.
const PAGE: u64 = 128 * SECTOR;

/// Sectors of a page that were read, and that were written.
#[derive(Debug, Clone, Copy, Default)]
struct Bits {
    read: u128,
    written: u128,
}

/// What instructions do to global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Reads,
    Writes,
    Both,
}

/// What a worker's blocks have touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Blocks of a wave.
    wave_blocks: u64,
    /// By instruction.
    ways: Vec<Way>,
    /// By wave and page.
    pages: BTreeMap<(u64, u64), Bits>,
    /// Sectors of atomics, one a warp request.
    atomics: u64,
    /// Their turns, by [`IN_TURN`] bytes.
    turns: BTreeMap<u64, u64>,
}

/// Distinct sectors of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sectors {
    pub read: u64,
    pub written: u64,
    pub either: u64,
    /// Read ones, counted once in each wave.
    pub read_by_waves: u64,
    /// Sectors of atomics, one a warp request.
    pub atomics: u64,
    /// Turns of the place that has most.
    pub atomic_turns: u64,
}

impl Touched {
    /// Nothing touched, for a program of these instructions.
    pub(crate) fn new<'a>(wave_blocks: u64, instructions: impl IntoIterator<Item = &'a str>) -> Self {
        let ways = instructions.into_iter().map(way).collect();
        Self { wave_blocks: wave_blocks.max(1), ways, ..Self::default() }
    }

    /// Adds a warp's access.
    pub(crate) fn access(&mut self, instruction: u32, block: u64, access: &Recorded) {
        let last = u64::from(access.bytes.max(1)) - 1;
        let (mut page, mut bits) = (u64::MAX, 0u128);
        for lane in (0..LANES).filter(|lane| access.mask >> lane & 1 != 0) {
            for sector in access.at[lane] / SECTOR..=(access.at[lane] + last) / SECTOR {
                if page != sector * SECTOR / PAGE {
                    self.mark(instruction, block, page, bits);
                    (page, bits) = (sector * SECTOR / PAGE, 0);
                }
                bits |= 1 << (sector % (PAGE / SECTOR));
            }
        }
        self.mark(instruction, block, page, bits);
        if self.ways[instruction as usize] == Way::Both {
            let mut at: Vec<_> = (0..LANES).filter(|lane| access.mask >> lane & 1 != 0).map(|l| access.at[l]).collect();
            at.sort_unstable();
            // Lanes of one address take turns; those of other ones in its sector go with them.
            for sector in at.chunk_by(|a, b| a / SECTOR == b / SECTOR) {
                let most = sector.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap_or(0);
                *self.turns.entry(sector[0] / IN_TURN).or_default() += most as u64;
            }
        }
    }

    /// Adds bytes that a bulk copy moves.
    pub(crate) fn range(&mut self, instruction: u32, block: u64, start: u64, bytes: u64) {
        let mut at = start;
        while at < start + bytes {
            let end = (at / PAGE * PAGE + PAGE).min(start + bytes);
            let (first, last) = (at % PAGE / SECTOR, (end - 1) % PAGE / SECTOR);
            let bits = (u128::MAX >> (127 - (last - first))) << first;
            self.mark(instruction, block, at / PAGE, bits);
            at = end;
        }
    }

    fn mark(&mut self, instruction: u32, block: u64, page: u64, bits: u128) {
        if bits == 0 {
            return;
        }
        let way = self.ways[instruction as usize];
        if way == Way::Both {
            self.atomics += u64::from(bits.count_ones());
        }
        let entry = self.pages.entry((block / self.wave_blocks, page)).or_default();
        if way != Way::Writes {
            entry.read |= bits;
        }
        if way != Way::Reads {
            entry.written |= bits;
        }
    }

    /// Adds what another worker's blocks have touched.
    pub(crate) fn merge(&mut self, other: Self) {
        for (place, bits) in other.pages {
            let mine = self.pages.entry(place).or_default();
            mine.read |= bits.read;
            mine.written |= bits.written;
        }
        self.atomics += other.atomics;
        for (place, turns) in other.turns {
            *self.turns.entry(place).or_default() += turns;
        }
    }

    /// Counts.
    pub(crate) fn sectors(&self) -> Sectors {
        let mut all = BTreeMap::<u64, Bits>::new();
        let atomic_turns = self.turns.values().copied().max().unwrap_or_default();
        let mut sectors = Sectors { atomics: self.atomics, atomic_turns, ..Sectors::default() };
        for (&(_, page), bits) in &self.pages {
            sectors.read_by_waves += u64::from(bits.read.count_ones());
            let of_all = all.entry(page).or_default();
            of_all.read |= bits.read;
            of_all.written |= bits.written;
        }
        for bits in all.values() {
            sectors.read += u64::from(bits.read.count_ones());
            sectors.written += u64::from(bits.written.count_ones());
            sectors.either += u64::from((bits.read | bits.written).count_ones());
        }
        sectors
    }
}

/// What the text of an instruction says of global memory.
fn way(text: &str) -> Way {
    let mnemonic = text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("");
    match mnemonic.split('.').next().unwrap_or("") {
        "st" | "stmatrix" => Way::Writes,
        "atom" | "red" => Way::Both,
        "cp" if mnemonic.contains(".global.shared") => {
            if mnemonic.contains("reduce") {
                Way::Both
            } else {
                Way::Writes
            }
        }
        _ => Way::Reads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_counts_once_and_once_a_wave_where_it_is_read() {
        let texts = ["@%p1 ld.global.f32 %f1, [%rd1];", "st.global.f32 [%rd1], %f1;"];
        let mut touched = Touched::new(2, texts);
        let words = |first| Recorded { bytes: 4, mask: u32::MAX, at: std::array::from_fn(|l| first + 4 * l as u64) };
        for (instruction, block, first) in [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, PAGE - 64)] {
            touched.access(instruction, block, &words(first));
        }
        let mut other = Touched::new(2, texts);
        other.range(0, 3, PAGE - 32, 64);
        touched.merge(other);
        assert_eq!(
            touched.sectors(),
            Sectors { read: 6, written: 4, either: 8, read_by_waves: 10, ..Sectors::default() }
        );
    }

    #[test]
    fn atomics_are_counted_by_sector_and_take_turns_at_an_address() {
        let mut touched = Touched::new(1, ["atom.global.add.u32 %r1, [%rd1], %r2;"]);
        for block in 0..3 {
            let at = std::array::from_fn(|l| if block == 0 { 0 } else { 4 * l as u64 });
            touched.access(0, block, &Recorded { bytes: 4, mask: u32::MAX, at });
        }
        let Sectors { atomics, atomic_turns, .. } = touched.sectors();
        assert_eq!((atomics, atomic_turns), (9, 32 + 2 * 4));
    }
}

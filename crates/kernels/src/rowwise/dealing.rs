//! How rows are dealt out in pieces, by operator and length: tables of what was measured.

use super::Cost;
use super::on_chip::{Dealing, Home, Way};
use super::threads::{Row, Threads};
use crate::Dtype;

/// What blocks have of rows.
#[derive(Debug, Clone, Copy)]
struct Choice {
    /// Up to so many groups a block.
    groups: u64,
    /// Threads a block.
    block: u32,
    /// How many such blocks are to be on a multiprocessor; of those that copy, half have to fit.
    blocks: u32,
    way: Way,
    /// Whether registers take what shared memory has no room for.
    keeps: bool,
}

/// Results leave by copies.
const fn copied(groups: u64, block: u32, blocks: u32) -> Choice {
    Choice { groups, block, blocks, way: Way::Copies, keeps: false }
}

/// Threads store results.
const fn stored(groups: u64, block: u32, blocks: u32) -> Choice {
    Choice { groups, block, blocks, way: Way::Threads, keeps: false }
}

impl Choice {
    const fn keeping(self) -> Self {
        Self { keeps: true, ..self }
    }
}

// All figures: an H200, 2026-11-21, GB/s, where copies within the device's memory reach 4,200 to 4,290; `rows` among the
// benchmarks of warpfold-conformance finds them anew.

/// Of 3,584, 7,168, 16,384, 32,768, 49,152, 65,536, 98,304 and 131,072 bf16 RMS norm 4,244, 4,247, 4,238, 4,233, 4,262, 4,233,
/// 4,203 and 4,241.
const LIGHT: &[Choice] = &[copied(7 << 10, 256, 4), stored(14 << 10, 512, 1)];
/// Two folds. Layer norm of 2,048, 3,072, 3,584, 4,096, 8,192, 16,384, 32,768, 49,152, 65,536, 98,304 and 131,072 bf16 4,221,
/// 4,174, 4,165, 4,164, 4,207, 4,222, 4,210, 4,236, 4,202, 4,185 and 4,192. Rows of fewer than [`LEAST_OF_TWO_FOLDS`] groups
/// are as fast in registers (1,536 bf16 4,116, in pieces 3,900).
const TWO_FOLDS: &[Choice] = &[copied(768, 128, 8), copied(7 << 10, 256, 4), stored(14 << 10, 512, 1)];
const LEAST_OF_TWO_FOLDS: u64 = 256;
/// Operators that compute much. Softmax of 3,072, 4,096, 8,192, 16,384, 32,768, 49,152, 65,536, 98,304, 131,072 and 196,608
/// bf16 4,216, 4,197, 4,254, 4,230, 4,202, 4,235, 4,206, 4,218, 4,217 and 4,028.
const HEAVY: &[Choice] =
    &[copied(768, 128, 8), copied(7 << 10, 256, 4), stored(8 << 10, 256, 2).keeping(), stored(14 << 10, 512, 1)];
/// With a vector along the row. RMS norm of 3,584, 8,192, 32,768, 49,152, 65,536, 98,304, 131,072 and 262,144 bf16 4,197,
/// 4,239, 4,215, 4,251, 4,202, 4,155, 4,156 and 4,075.
const WITH_COLUMN: &[Choice] =
    &[copied(1024, 256, 8), copied(7 << 10, 256, 4), copied(13 << 10, 1024, 1), stored(16 << 10, 1024, 1).keeping()];
/// With two, which take registers as well. Layer norm of 2,048, 4,096, 8,192, 16,384, 32,768, 49,152, 65,536, 98,304 and
/// 131,072 bf16 4,187, 4,166, 4,214, 4,242, 4,143, 4,162, 4,081, 3,684 and 3,993.
const WITH_COLUMNS: &[Choice] = &[
    copied(384, 128, 16),
    copied(1024, 128, 8),
    copied(2048, 256, 4),
    stored(4096, 512, 3),
    copied(6 << 10, 512, 2),
    stored(10 << 10, 512, 2).keeping(),
    stored(16 << 10, 1024, 1).keeping(),
];
/// Rows of no more groups are as fast in registers, but for two vectors along them or more than a fold (RMS norm of 3,072 bf16
/// 4,153 GB/s, with a vector 4,134, in pieces 4,161 and 4,025).
const SHORT: u64 = 384;
/// Groups that a thread may keep in registers.
const MAX_KEPT: u64 = 8;

impl Row<'_> {
    /// A row dealt out to the blocks of one of these clusters, or to one block.
    pub(super) fn in_pieces(&self, clusters: &[u32]) -> Option<Threads> {
        let choices = match self.rows.problem.columns.len() {
            0 if self.rows.cost == Cost::Heavy => HEAVY,
            0 if self.rows.cost == Cost::TwoFolds && self.groups() >= LEAST_OF_TWO_FOLDS => TWO_FOLDS,
            ..2 if self.groups() <= SHORT => &[],
            0 => LIGHT,
            1 => WITH_COLUMN,
            _ => WITH_COLUMNS,
        };
        clusters.iter().find_map(|cluster| choices.iter().find_map(|choice| self.dealt(*cluster, *choice)))
    }

    fn dealt(&self, cluster: u32, choice: Choice) -> Option<Threads> {
        let Choice { block, blocks, keeps, .. } = choice;
        let (staged, vector, lanes) = (self.staged(), u64::from(self.vector), cluster * block);
        let can_bring = !staged.is_empty() && staged.iter().all(|dtype| dtype.bytes() * vector >= 4);
        if !self.is_whole || !can_bring || self.groups() > choice.groups * u64::from(cluster) {
            return None;
        }
        let groups = self.groups().div_ceil(lanes.into());
        let group_bytes = u64::from(block) * vector * staged.iter().map(|dtype| dtype.bytes()).sum::<u64>();
        let fit = |blocks: u32| self.room(blocks, block) / group_bytes;
        let (blocks, kept) = if keeps {
            (blocks, kept(groups, fit(blocks), &staged)?)
        } else {
            ((blocks.div_ceil(2)..=blocks).rev().find(|blocks| groups <= fit(*blocks))?, 0)
        };
        let way = if self.can_copy() { choice.way } else { Way::Threads };
        let (exact, bytes) = (groups * u64::from(lanes) == self.groups(), ((groups - kept) * group_bytes) as u32);
        let (groups, kept) = (groups as u32, kept as u32);
        let home = Home::Pieces(Dealing { groups, exact, kept, blocks, bytes, way });
        Some(Threads { cluster, block, lanes, home })
    }
}

/// How many of a thread's groups are to be in registers, where so many fit in shared memory.
fn kept(groups: u64, fit: u64, staged: &[Dtype]) -> Option<u64> {
    if groups <= fit {
        return Some(0);
    }
    // One more than have to, which leaves the first-level cache some room: layer norm of 65,536 bf16 with two vectors 4,081 in
    // place of 3,829 GB/s.
    let kept = groups - fit + 1;
    let is_of_words = staged.iter().all(|dtype| dtype.bytes() <= 4 && dtype.bytes() == staged[0].bytes());
    (is_of_words && kept < groups && kept * staged.len() as u64 <= MAX_KEPT).then_some(kept)
}

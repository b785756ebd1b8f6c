//! How rows in shared memory are partitioned, by operator and length: the tables of what was
//! measured.
//!
//! All measurements: GB/s of bf16 rows on an H200 where copies within the device reach 4,200 to
//! 4,290 (2026-11-21). `cargo bench -p warpfold-bench --bench rows` times every alternative
//! again.

use super::Cost;
use super::on_chip::{RowPartition, RowStorage, StoreVia};
use super::placement::{Placement, Row};
use crate::Dtype;

/// A line of a table: how blocks hold rows of some length.
#[derive(Debug, Clone, Copy)]
struct Tuning {
    /// Groups of neighbours that a block holds at most.
    max_groups: u64,
    /// Threads per block.
    threads: u32,
    /// Resident blocks per SM that are aimed at; where results are stored by TMA, half of them have
    /// to fit.
    blocks_per_sm: u32,
    store_via: StoreVia,
    /// Whether registers hold the groups that do not fit in shared memory.
    uses_registers: bool,
}

const fn tma(max_groups: u64, threads: u32, blocks_per_sm: u32) -> Tuning {
    Tuning { max_groups, threads, blocks_per_sm, store_via: StoreVia::Tma, uses_registers: false }
}

const fn threads(max_groups: u64, threads: u32, blocks_per_sm: u32) -> Tuning {
    Tuning { max_groups, threads, blocks_per_sm, store_via: StoreVia::Threads, uses_registers: false }
}

impl Tuning {
    const fn with_registers(self) -> Self {
        Self { uses_registers: true, ..self }
    }
}

/// One fold, no vectors along the row.
///
/// | elements | RMS norm |
/// |---------:|---------:|
/// |    3,584 |    4,244 |
/// |    7,168 |    4,247 |
/// |   16,384 |    4,238 |
/// |   32,768 |    4,233 |
/// |   49,152 |    4,262 |
/// |   65,536 |    4,233 |
/// |   98,304 |    4,203 |
/// |  131,072 |    4,241 |
const LIGHT: &[Tuning] = &[tma(7 << 10, 256, 4), threads(14 << 10, 512, 1)];

/// Two folds, no vectors along the row.
///
/// | elements | layer norm |
/// |---------:|-----------:|
/// |    2,048 |      4,221 |
/// |    3,072 |      4,174 |
/// |    3,584 |      4,165 |
/// |    4,096 |      4,164 |
/// |    8,192 |      4,207 |
/// |   16,384 |      4,222 |
/// |   32,768 |      4,210 |
/// |   49,152 |      4,236 |
/// |   65,536 |      4,202 |
/// |   98,304 |      4,185 |
/// |  131,072 |      4,192 |
const TWO_FOLDS: &[Tuning] = &[tma(768, 128, 8), tma(7 << 10, 256, 4), threads(14 << 10, 512, 1)];
/// Shorter rows are as fast in registers (1,536 elements 4,116, in shared memory 3,900).
const MIN_GROUPS_OF_TWO_FOLDS: u64 = 256;

/// Exponentials, no vectors along the row.
///
/// | elements | softmax |
/// |---------:|--------:|
/// |    3,072 |   4,216 |
/// |    4,096 |   4,197 |
/// |    8,192 |   4,254 |
/// |   16,384 |   4,230 |
/// |   32,768 |   4,202 |
/// |   49,152 |   4,235 |
/// |   65,536 |   4,206 |
/// |   98,304 |   4,218 |
/// |  131,072 |   4,217 |
/// |  196,608 |   4,028 |
const HEAVY: &[Tuning] =
    &[tma(768, 128, 8), tma(7 << 10, 256, 4), threads(8 << 10, 256, 2).with_registers(), threads(14 << 10, 512, 1)];

/// One vector along the row.
///
/// | elements | RMS norm with a scale |
/// |---------:|----------------------:|
/// |    3,584 |                 4,197 |
/// |    8,192 |                 4,239 |
/// |   32,768 |                 4,215 |
/// |   49,152 |                 4,251 |
/// |   65,536 |                 4,202 |
/// |   98,304 |                 4,155 |
/// |  131,072 |                 4,156 |
/// |  262,144 |                 4,075 |
const WITH_COLUMN: &[Tuning] =
    &[tma(1024, 256, 8), tma(7 << 10, 256, 4), tma(13 << 10, 1024, 1), threads(16 << 10, 1024, 1).with_registers()];

/// Two vectors along the row, which take registers as well.
///
/// | elements | layer norm with scale and bias |
/// |---------:|-------------------------------:|
/// |    2,048 |                          4,187 |
/// |    4,096 |                          4,166 |
/// |    8,192 |                          4,214 |
/// |   16,384 |                          4,242 |
/// |   32,768 |                          4,143 |
/// |   49,152 |                          4,162 |
/// |   65,536 |                          4,081 |
/// |   98,304 |                          3,684 |
/// |  131,072 |                          3,993 |
const WITH_COLUMNS: &[Tuning] = &[
    tma(384, 128, 16),
    tma(1024, 128, 8),
    tma(2048, 256, 4),
    threads(4096, 512, 3),
    tma(6 << 10, 512, 2),
    threads(10 << 10, 512, 2).with_registers(),
    threads(16 << 10, 1024, 1).with_registers(),
];

// THRESHOLD: longer rows go to shared memory; tested by
// crates/kernels/tests/parts/choices.rs::rows_are_held_where_there_is_room_for_them and
// crates/warpfold/tests/all/rows.rs::norms_on_both_sides_of_what_registers_hold
/// Rows of no more groups are as fast in registers, but for two vectors along them or more than one
/// fold.
///
/// | 3,072 elements        | registers | shared memory |
/// |-----------------------|----------:|--------------:|
/// | RMS norm              |     4,153 |         4,161 |
/// | RMS norm with a scale |     4,134 |         4,025 |
const SHORT: u64 = 384;
// THRESHOLD: longer rows go to larger blocks, or to clusters; tested by
// crates/kernels/tests/parts/choices.rs::rows_are_held_where_there_is_room_for_them and
// crates/warpfold/tests/all/rows.rs::norms_on_both_sides_of_what_registers_hold
/// Groups that a thread may hold in registers.
const MAX_REGISTER_GROUPS: u64 = 8;

impl Row<'_> {
    /// A row partitioned over the blocks of a cluster of one of these sizes, or one block.
    pub(super) fn partitioned(&self, clusters: &[u32]) -> Option<Placement> {
        let table = match self.rows.problem.columns.len() {
            0 if self.rows.cost == Cost::Heavy => HEAVY,
            0 if self.rows.cost == Cost::TwoFolds && self.groups() >= MIN_GROUPS_OF_TWO_FOLDS => TWO_FOLDS,
            ..2 if self.groups() <= SHORT => &[],
            0 => LIGHT,
            1 => WITH_COLUMN,
            _ => WITH_COLUMNS,
        };
        clusters.iter().find_map(|cluster| table.iter().find_map(|tuning| self.partitioned_as(*cluster, *tuning)))
    }

    fn partitioned_as(&self, cluster: u32, tuning: Tuning) -> Option<Placement> {
        let Tuning { max_groups, threads, blocks_per_sm, store_via, uses_registers } = tuning;
        let (staged, vector, threads_per_row) = (self.staged(), u64::from(self.vector), cluster * threads);
        let can_copy = !staged.is_empty() && staged.iter().all(|dtype| dtype.bytes() * vector >= 4);
        if !self.is_whole || !can_copy || self.groups() > max_groups * u64::from(cluster) {
            return None;
        }
        let groups = self.groups().div_ceil(threads_per_row.into());
        let group_bytes = u64::from(threads) * vector * staged.iter().map(|dtype| dtype.bytes()).sum::<u64>();
        let fit = |blocks: u32| self.max_smem_bytes(blocks, threads) / group_bytes;
        let (blocks_per_sm, in_registers) = if uses_registers {
            (blocks_per_sm, register_groups(groups, fit(blocks_per_sm), &staged)?)
        } else {
            let mut fewer = (blocks_per_sm.div_ceil(2)..=blocks_per_sm).rev();
            (fewer.find(|blocks| groups <= fit(*blocks))?, 0)
        };
        let partition = RowPartition {
            groups: groups as u32,
            exact: groups * u64::from(threads_per_row) == self.groups(),
            register_groups: in_registers as u32,
            blocks_per_sm,
            smem_bytes: ((groups - in_registers) * group_bytes) as u32,
            store_via: if self.can_store_by_tma() { store_via } else { StoreVia::Threads },
        };
        Some(Placement { cluster, block: threads, threads_per_row, storage: RowStorage::Partitioned(partition) })
    }
}

/// How many of a thread's groups are to be in registers, where so many fit in shared memory.
fn register_groups(groups: u64, fit: u64, staged: &[Dtype]) -> Option<u64> {
    if groups <= fit {
        return Some(0);
    }
    // One more than necessary, which leaves room for L1: layer norm of 65,536 bf16 with two vectors
    // 4,081 instead of 3,829 GB/s.
    let in_registers = groups - fit + 1;
    let are_words = staged.iter().all(|dtype| dtype.bytes() <= 4 && dtype.bytes() == staged[0].bytes());
    (are_words && in_registers < groups && in_registers * staged.len() as u64 <= MAX_REGISTER_GROUPS)
        .then_some(in_registers)
}

//! Which threads share a row on chip, and whether registers or shared memory hold it.

use super::choice::Rows;
use super::on_chip::RowStorage;
use super::smem_load::COPY_BYTES;
use crate::Dtype;
use crate::elements::Run;
use crate::fold::geometry::MAX_INPUTS;

// THRESHOLD: a row of more goes to shared memory, or to a cluster; tested by
// crates/warpfold/tests/all/rows.rs::softmax_of_rows_of_every_length and
// crates/warpfold/tests/all/rows.rs::long_rows_come_out_the_same_with_and_without_clusters
/// Items that a thread holds in registers: with f32, and as many results, a block of 1,024 threads
/// still fits on a SM.
const MAX_HELD: u32 = 32;
// THRESHOLD: longer rows go to a larger cluster, or to shared memory; tested by
// crates/kernels/tests/parts/choices.rs::rows_are_held_where_there_is_room_for_them and
// crates/warpfold/tests/all/rows.rs::norms_on_both_sides_of_what_registers_hold
/// The same where vectors along the row are loaded with it.
const MAX_HELD_WITH_COLUMNS: u32 = 24;
// THRESHOLD: with more, vectors along the row are loaded after it; tested by
// crates/kernels/tests/parts/choices.rs::rows_are_held_where_there_is_room_for_them and
// crates/warpfold/tests/all/rows.rs::norms_on_both_sides_of_what_registers_hold
/// Items and elements of the vectors along the row that a thread holds together: with more, ptxas
/// spills in large blocks.
const MAX_WITH_COLUMNS: u32 = 64;

// THRESHOLD: more rows of more than LONG groups stay out of clusters; tested by
// crates/warpfold/tests/all/rows.rs::long_rows_come_out_the_same_with_and_without_clusters
/// Up to so many rows of more than [`LONG`] groups are sooner done in the registers of larger
/// clusters.
const FEW_ROWS: u64 = 16;
// THRESHOLD: few rows of more groups are shared by a cluster; tested by
// crates/warpfold/tests/all/rows.rs::long_rows_come_out_the_same_with_and_without_clusters
const LONG: u64 = 4 << 10;

/// A size of blocks that hold a row in registers.
struct InRegisters {
    threads: u64,
    /// Items that a thread may hold.
    max_items: u32,
}

/// For rows that do not begin and end at multiples of 16 bytes: the first that is enough. Longer
/// rows go to shared memory, if they fit.
const IN_REGISTERS: [InRegisters; 3] = [
    InRegisters { threads: 128, max_items: MAX_HELD },
    InRegisters { threads: 256, max_items: 24 },
    InRegisters { threads: 512, max_items: MAX_HELD },
];

/// How a block holds such a row in shared memory.
struct InSmem {
    threads: u32,
    /// Items that each thread reads before it uses the first.
    items_in_flight: u32,
    /// Resident blocks per SM that are aimed at, the first that fit: the loads of one overlap the
    /// computation of another.
    blocks_per_sm: &'static [u32],
}

/// Rows that allow vector accesses.
const IN_SMEM: InSmem = InSmem { threads: 1024, items_in_flight: 16, blocks_per_sm: &[2, 1] };
/// Rows that do not.
///
/// | threads | GB/s, 32,767 items, H200 |
/// |--------:|-------------------------:|
/// |     256 |                    3,163 |
/// |     512 |                    2,933 |
/// |   1,024 |                    2,452 |
const IN_SMEM_NARROW: InSmem = InSmem { threads: 256, items_in_flight: 16, blocks_per_sm: &[3, 2, 1] };

/// Shared memory that a block takes beside the row: for folds (four of 32 bytes per warp) and
/// mbarriers, and what the device itself reserves (CUDA programming guide, "Shared Memory" of
/// compute capability 8.x and 9.0).
const fn smem_beside_the_row(threads: u32) -> u32 {
    4 * threads + 1024
}

/// Rows that do not fit in one block are shared by a cluster, in registers. Its blocks have the
/// first of these numbers of threads that takes no more than [`MAX_CLUSTER`] blocks.
const CLUSTER_THREADS: [u64; 3] = [256, 512, 1024];
// THRESHOLD: longer rows go to shared memory, or to two launches; tested by
// crates/kernels/tests/parts/choices.rs::rows_are_held_where_there_is_room_for_them and
// crates/warpfold/tests/all/rows.rs::long_rows_come_out_the_same_with_and_without_clusters
/// Blocks that a cluster may have on every device that has clusters (CUDA programming guide,
/// "Thread Block Clusters").
const MAX_CLUSTER: u32 = 8;

/// The threads that share a row, and what holds it.
pub(super) struct Placement {
    /// Blocks a cluster.
    pub(super) cluster: u32,
    /// Threads per block.
    pub(super) block: u32,
    pub(super) threads_per_row: u32,
    pub(super) storage: RowStorage,
}

/// The rows of a problem.
pub(super) struct Row<'a> {
    pub(super) rows: &'a Rows<'a>,
    /// How many there are.
    pub(super) num_rows: u64,
    /// Items of each.
    pub(super) len: u64,
    /// Items of a group.
    pub(super) vector: u32,
    pub(super) runs: &'a [Run; MAX_INPUTS],
    /// Whether they begin and end at multiples of 16 bytes.
    pub(super) is_whole: bool,
}

impl Row<'_> {
    /// The placement of a row in registers or in shared memory; `None` where it is too long.
    pub(super) fn placement(&self) -> Option<Placement> {
        let is_few = self.num_rows <= FEW_ROWS && self.groups() > LONG;
        let few = || if is_few { self.in_registers_of_cluster() } else { None };
        // Unless results are stored by TMA, registers are faster for rows that fit.
        let in_block = || match self.can_store_by_tma() {
            true => self.partitioned(&[1]).or_else(|| self.in_registers()),
            false => self.in_registers().or_else(|| self.partitioned(&[1])),
        };
        let clusters: &[u32] = if self.rows.has_clusters { &[2, 4, MAX_CLUSTER] } else { &[] };
        let long = || self.partitioned(clusters).or_else(|| self.in_registers_of_cluster());
        self.in_warp().or_else(few).or_else(in_block).or_else(|| self.in_smem()).or_else(long)
    }

    pub(super) fn groups(&self) -> u64 {
        self.len / u64::from(self.vector)
    }

    /// Groups that a thread may hold in registers, of so many items.
    fn max_held(&self, items: u32) -> u64 {
        let most = if self.rows.problem.columns.is_empty() { MAX_HELD } else { MAX_HELD_WITH_COLUMNS };
        (most.min(items) / self.vector).into()
    }

    fn with_registers(&self, cluster: u64, block: u64, threads_per_row: u64) -> Placement {
        let num_columns = self.rows.problem.columns.len() as u32;
        let groups = self.groups().div_ceil(threads_per_row) as u32;
        let exact = self.groups() == threads_per_row * u64::from(groups);
        // With conditions 4 % less (RMS norm of 2,560 bf16 with a vector 4,036 GB/s instead of
        // 4,188).
        let is_small = (1 + num_columns) * groups * self.vector <= MAX_WITH_COLUMNS;
        let early_columns = num_columns == 0 || (exact && is_small);
        let storage = RowStorage::Registers { groups, exact, early_columns };
        Placement { cluster: cluster as u32, block: block as u32, threads_per_row: threads_per_row as u32, storage }
    }

    fn in_warp(&self) -> Option<Placement> {
        let threads_per_row = self.groups().next_power_of_two().min(32);
        (self.groups() <= 32 * u64::from(MAX_HELD / self.vector)).then(|| self.with_registers(1, 128, threads_per_row))
    }

    fn in_registers(&self) -> Option<Placement> {
        // Few groups a thread, so that the loads of several blocks overlap; but no more threads
        // than pay off.
        let enough = IN_REGISTERS.iter().find(|size| self.groups() <= size.threads * self.max_held(size.max_items));
        enough.map(|size| self.with_registers(1, size.threads, size.threads))
    }

    fn in_registers_of_cluster(&self) -> Option<Placement> {
        if !self.rows.has_clusters {
            return None;
        }
        let of_blocks = |block: u64| {
            let cluster = self.groups().div_ceil(block * self.max_held(MAX_HELD)).next_power_of_two().max(2);
            (cluster <= MAX_CLUSTER.into()).then(|| self.with_registers(cluster, block, cluster * block))
        };
        CLUSTER_THREADS.into_iter().find_map(of_blocks)
    }

    /// Whether TMA can store results: on a device that has it, and where each result fits in the
    /// shared memory of an item.
    pub(super) fn can_store_by_tma(&self) -> bool {
        let staged = self.staged();
        let replaces = |(k, out): (usize, &Dtype)| staged.get(k).is_some_and(|dtype| dtype.bytes() == out.bytes());
        self.rows.has_clusters && self.rows.results.iter().enumerate().all(replaces)
    }

    /// Rows that begin anywhere, loaded as a whole.
    fn in_smem(&self) -> Option<Placement> {
        let staged = self.staged();
        let InSmem { threads, items_in_flight, blocks_per_sm } =
            if self.vector == 1 { IN_SMEM_NARROW } else { IN_SMEM };
        // Of each input as much again as it may begin after a multiple of what copies move.
        let len = self.len.next_multiple_of(COPY_BYTES.into());
        let bytes: u64 = staged.iter().map(|dtype| len * dtype.bytes() + u64::from(COPY_BYTES)).sum();
        let blocks_per_sm = *blocks_per_sm.iter().find(|blocks| bytes <= self.max_smem_bytes(**blocks, threads))?;
        let unroll = (items_in_flight / self.vector).max(1);
        let storage = RowStorage::Smem { unroll, blocks_per_sm, smem_bytes: bytes as u32 };
        (!staged.is_empty()).then_some(Placement { cluster: 1, block: threads, threads_per_row: threads, storage })
    }

    /// The types of the inputs that have more than one element along the row.
    pub(super) fn staged(&self) -> Vec<Dtype> {
        let all = self.rows.problem.rows.iter().zip(self.runs);
        all.filter(|(_, run)| **run != Run::Same).map(|(spec, _)| spec.dtype).collect()
    }

    /// Shared memory that a row can take in one of so many resident blocks.
    pub(super) fn max_smem_bytes(&self, blocks: u32, threads: u32) -> u64 {
        // A SM has 1 KiB more than a block can have, which the first block's reserve takes.
        u64::from(((self.rows.shared_bytes + 1024) / blocks).saturating_sub(smem_beside_the_row(threads)))
    }
}

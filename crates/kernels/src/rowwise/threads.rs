//! Which threads hold a row on chip, and where.

use super::choice::Rows;
use super::on_chip::Home;
use super::stage::GRAIN;
use crate::Dtype;
use crate::elements::Run;
use crate::fold::geometry::MAX_INPUTS;

/// Items that a thread holds in registers: with f32, and as many results, a block of 1,024 threads still fits.
const MAX_HELD: u32 = 32;
/// The same where vectors along the row come with it.
const MAX_HELD_WITH_COLUMNS: u32 = 24;
/// Items and what belongs to their positions that a thread holds together: with more, ptxas spills in large blocks.
const MAX_WITH_COLUMNS: u32 = 64;

/// So few rows of more than [`LONG`] groups are done sooner in the registers of larger clusters.
const FEW_ROWS: u64 = 16;
const LONG: u64 = 4 << 10;

/// Blocks that hold a row in registers, and how many items a thread may have there, for rows that do not begin and end at
/// multiples of 16 bytes: the first that is enough. Rows that take more are held in shared memory, if it has room.
const BLOCKS: [(u64, u32); 3] = [(128, MAX_HELD), (256, 24), (512, MAX_HELD)];
/// How a block holds such a row in shared memory: threads, items that each reads before it uses the first, and how many such blocks
/// are to be on a multiprocessor, so that one loads while another computes and stores.
type Sharing = (u32, u32, &'static [u32]);
/// For rows that can be read by several elements.
const SHARING: Sharing = (1024, 16, &[2, 1]);
/// For rows of which some begin elsewhere (3,163 GB/s for 32,767 items; with 512 threads 2,933, with 1,024 2,452).
const SHARING_NARROW: Sharing = (256, 16, &[3, 2, 1]);
/// Shared memory that a block takes beside the row: for folds (four of 32 bytes a warp) and barriers; and what the device itself
/// reserves (CUDA programming guide, "Shared Memory" of compute capability 8.x and 9.0).
const fn beside(threads: u32) -> u32 {
    4 * threads + 1024
}
/// Rows for which one block has no room are shared by a cluster, in registers; its blocks have so many threads as long as that takes
/// no more than [`MAX_CLUSTER`] blocks.
const CLUSTER_THREADS: [u64; 3] = [256, 512, 1024];
/// Blocks that a cluster may have on every device that has clusters (CUDA programming guide, "Thread Block Clusters").
const MAX_CLUSTER: u32 = 8;

/// The threads that hold a row, and where.
pub(super) struct Threads {
    /// Blocks a cluster.
    pub(super) cluster: u32,
    /// Threads a block.
    pub(super) block: u32,
    /// Threads a row.
    pub(super) lanes: u32,
    pub(super) home: Home,
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
    /// Threads that hold a row in registers, or in shared memory; `None` where it is too long.
    pub(super) fn threads(&self) -> Option<Threads> {
        let is_few = self.num_rows <= FEW_ROWS && self.groups() > LONG;
        let few = || if is_few { self.in_registers_of_cluster() } else { None };
        // Without copies that take results away registers are faster, where they have room.
        let in_block = || match self.can_copy() {
            true => self.in_pieces(&[1]).or_else(|| self.in_registers()),
            false => self.in_registers().or_else(|| self.in_pieces(&[1])),
        };
        let clusters: &[u32] = if self.rows.has_clusters { &[2, 4, MAX_CLUSTER] } else { &[] };
        let long = || self.in_pieces(clusters).or_else(|| self.in_registers_of_cluster());
        self.in_warp().or_else(few).or_else(in_block).or_else(|| self.in_shared()).or_else(long)
    }

    pub(super) fn groups(&self) -> u64 {
        self.len / u64::from(self.vector)
    }

    /// Groups that a thread may have in registers, of so many items.
    fn held(&self, items: u32) -> u64 {
        let most = if self.rows.problem.columns.is_empty() { MAX_HELD } else { MAX_HELD_WITH_COLUMNS };
        (most.min(items) / self.vector).into()
    }

    fn with_registers(&self, cluster: u64, block: u64, lanes: u64) -> Threads {
        let (num_columns, groups) = (self.rows.problem.columns.len() as u32, self.groups().div_ceil(lanes) as u32);
        let exact = self.groups() == lanes * u64::from(groups);
        // With conditions 4 % less (RMS norm of 2,560 bf16 with a vector 4,036 GB/s in place of 4,188).
        let is_small = (1 + num_columns) * groups * self.vector <= MAX_WITH_COLUMNS;
        let early_columns = num_columns == 0 || (exact && is_small);
        let home = Home::Registers { groups, exact, early_columns };
        Threads { cluster: cluster as u32, block: block as u32, lanes: lanes as u32, home }
    }

    fn in_warp(&self) -> Option<Threads> {
        let lanes = self.groups().next_power_of_two().min(32);
        (self.groups() <= 32 * u64::from(MAX_HELD / self.vector)).then(|| self.with_registers(1, 128, lanes))
    }

    fn in_registers(&self) -> Option<Threads> {
        // Few groups a thread, so that the loads of several blocks overlap; but not more threads than they are worth.
        let enough = BLOCKS.into_iter().find(|(threads, items)| self.groups() <= threads * self.held(*items));
        enough.map(|(threads, _)| self.with_registers(1, threads, threads))
    }

    fn in_registers_of_cluster(&self) -> Option<Threads> {
        if !self.rows.has_clusters {
            return None;
        }
        let of_blocks = |block: u64| {
            let cluster = self.groups().div_ceil(block * self.held(MAX_HELD)).next_power_of_two().max(2);
            (cluster <= MAX_CLUSTER.into()).then(|| self.with_registers(cluster, block, cluster * block))
        };
        CLUSTER_THREADS.into_iter().find_map(of_blocks)
    }

    /// Whether each result has room in the place of an item.
    pub(super) fn can_copy(&self) -> bool {
        let staged = self.staged();
        let replaces = |(k, out): (usize, &Dtype)| staged.get(k).is_some_and(|dtype| dtype.bytes() == out.bytes());
        self.rows.has_clusters && self.rows.results.iter().enumerate().all(replaces)
    }

    /// Rows that begin anywhere, brought at once.
    fn in_shared(&self) -> Option<Threads> {
        let staged = self.staged();
        let (block, items, counts) = if self.vector == 1 { SHARING_NARROW } else { SHARING };
        // Of each input as much again as it may lie beside a multiple of what copies move.
        let len = self.len.next_multiple_of(GRAIN.into());
        let bytes: u64 = staged.iter().map(|dtype| len * dtype.bytes() + u64::from(GRAIN)).sum();
        let blocks = *counts.iter().find(|blocks| bytes <= self.room(**blocks, block))?;
        let home = Home::Shared { unroll: (items / self.vector).max(1), blocks, bytes: bytes as u32 };
        (!staged.is_empty()).then_some(Threads { cluster: 1, block, lanes: block, home })
    }

    /// The types of the inputs that have more than one element along the row.
    pub(super) fn staged(&self) -> Vec<Dtype> {
        let all = self.rows.problem.rows.iter().zip(self.runs);
        all.filter(|(_, run)| **run != Run::Same).map(|(spec, _)| spec.dtype).collect()
    }

    /// Shared memory that a row can have in one of so many blocks.
    pub(super) fn room(&self, blocks: u32, threads: u32) -> u64 {
        // A multiprocessor has 1 KiB more than a block can have, which the first block's reserve takes.
        u64::from(((self.rows.shared_bytes + 1024) / blocks).saturating_sub(beside(threads)))
    }
}

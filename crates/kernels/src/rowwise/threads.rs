//! Which threads hold a row on chip, and where.

use super::on_chip::{Home, Way};
use super::plan::Problem;
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

/// What a block has of a row in pieces: up to so many groups, its threads, how many such blocks are to be on a multiprocessor, and
/// how results leave it.
type Dealt = (u64, u32, u32, Way);
/// How blocks hold rows in pieces. (Of 4,096, 8,192, 16,384, 32,768 and 65,536 bf16 RMS norm 4,162, 4,225, 4,239, 4,233 and 4,211 GB/s,
/// layer norm 4,154, 4,209, 4,218, 4,207 and 4,207; registers of up to 512 threads, which rows that begin elsewhere still have, 4,067 to
/// 4,220. H200, 2026-11-21, as all figures here.)
const PIECES: &[Dealt] =
    &[(4096, 256, 4, Way::Copies), (8192, 512, 1, Way::Threads), (14 << 10, 1024, 1, Way::Threads)];
/// The same for operators that compute much. (Softmax 4,192, 4,237, 4,233, 4,206 and 4,200 GB/s; of 65,536 by 512 threads 4,140.)
const HEAVY_PIECES: &[Dealt] = &[(4096, 256, 4, Way::Copies), (14 << 10, 1024, 1, Way::Threads)];
/// The same with a vector along the row. (RMS norm 4,150, 4,231, 4,239, 4,195 and 4,183 GB/s; registers 3,973 and 3,404 for the first
/// two. With other numbers of threads up to 10 % less.)
const PIECES_WITH_COLUMN: &[Dealt] =
    &[(1024, 256, 8, Way::Copies), (4096, 256, 4, Way::Copies), (14 << 10, 1024, 1, Way::Copies)];
/// The same with two, which take registers as well. (Layer norm of 2,048 to 65,536 bf16 4,040, 4,134, 4,195, 4,221, 4,119 and 3,700
/// GB/s; registers 3,668, 3,489 and 3,061 for the first three.)
const PIECES_WITH_COLUMNS: &[Dealt] = &[
    (1024, 128, 8, Way::Copies),
    (2048, 256, 4, Way::Copies),
    (4096, 512, 3, Way::Threads),
    (14 << 10, 1024, 1, Way::Threads),
];
/// Rows of no more groups are as fast in registers, but for two vectors along them (RMS norm of 2,048 bf16 4,144 GB/s, in pieces 3,761).
const SHORT: u64 = 256;
/// What the blocks of a cluster have of rows for which one has no room. (Of 131,072 bf16 RMS norm 4,201 GB/s, layer norm 4,101; in
/// registers 3,345 and 2,817.)
const OF_CLUSTER: &[Dealt] = &[(8192, 512, 1, Way::Threads), (14 << 10, 1024, 1, Way::Threads)];
/// The same with vectors along the row, or operators that compute much. (Softmax 4,080 GB/s, RMS norm with one vector 4,124, layer norm
/// with two 3,719; in registers 3,200, 2,174 and 1,561.)
const HEAVY_OF_CLUSTER: &[Dealt] = &[(4096, 512, 3, Way::Threads), (14 << 10, 1024, 1, Way::Threads)];
/// So few long rows, or fewer, are done sooner in the registers of larger clusters.
const FEW_ROWS: u64 = 16;

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
const MAX_CLUSTER: u64 = 8;

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
    pub(super) problem: &'a Problem<'a>,
    /// How many there are.
    pub(super) rows: u64,
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
        // Without copies that take results away registers are faster, where they have room.
        let in_block = || match self.can_copy() {
            true => self.in_pieces().or_else(|| self.in_registers()),
            false => self.in_registers().or_else(|| self.in_pieces()),
        };
        let of_cluster = || match self.rows {
            ..=FEW_ROWS => self.in_registers_of_cluster().or_else(|| self.in_pieces_of_cluster()),
            _ => self.in_pieces_of_cluster().or_else(|| self.in_registers_of_cluster()),
        };
        let long = || if self.problem.has_clusters { of_cluster() } else { None };
        self.in_warp().or_else(in_block).or_else(|| self.in_shared()).or_else(long)
    }

    fn groups(&self) -> u64 {
        self.len / u64::from(self.vector)
    }

    /// Groups that a thread may have in registers, of so many items.
    fn held(&self, items: u32) -> u64 {
        let most = if self.problem.column_dtypes.is_empty() { MAX_HELD } else { MAX_HELD_WITH_COLUMNS };
        (most.min(items) / self.vector).into()
    }

    fn with_registers(&self, cluster: u64, block: u64, lanes: u64) -> Threads {
        let (num_columns, groups) = (self.problem.column_dtypes.len() as u32, self.groups().div_ceil(lanes) as u32);
        let early_columns = (1 + num_columns) * groups * self.vector <= MAX_WITH_COLUMNS;
        let exact = self.groups() == lanes * u64::from(groups);
        let home = Home::Registers { groups, exact, early_columns };
        Threads { cluster: cluster as u32, block: block as u32, lanes: lanes as u32, home }
    }

    fn in_warp(&self) -> Option<Threads> {
        let lanes = self.groups().next_power_of_two().min(32);
        (self.groups() <= 32 * self.held(MAX_HELD)).then(|| self.with_registers(1, 128, lanes))
    }

    fn in_registers(&self) -> Option<Threads> {
        // Few groups a thread, so that the loads of several blocks overlap; but not more threads than they are worth.
        let enough = BLOCKS.into_iter().find(|(threads, items)| self.groups() <= threads * self.held(*items));
        enough.map(|(threads, _)| self.with_registers(1, threads, threads))
    }

    fn in_registers_of_cluster(&self) -> Option<Threads> {
        let of_blocks = |block: u64| {
            let cluster = self.groups().div_ceil(block * self.held(MAX_HELD)).next_power_of_two().max(2);
            (cluster <= MAX_CLUSTER).then(|| self.with_registers(cluster, block, cluster * block))
        };
        CLUSTER_THREADS.into_iter().find_map(of_blocks)
    }

    fn in_pieces(&self) -> Option<Threads> {
        let table = match self.problem.column_dtypes.len() {
            ..2 if self.groups() <= SHORT => &[],
            0 if self.problem.is_heavy => HEAVY_PIECES,
            0 => PIECES,
            1 => PIECES_WITH_COLUMN,
            _ => PIECES_WITH_COLUMNS,
        };
        table.iter().find_map(|dealt| self.with_pieces(1, *dealt))
    }

    fn in_pieces_of_cluster(&self) -> Option<Threads> {
        let is_heavy = self.problem.is_heavy || !self.problem.column_dtypes.is_empty();
        let table = if is_heavy { HEAVY_OF_CLUSTER } else { OF_CLUSTER };
        let of_blocks = |dealt: &Dealt| [2, 4, 8].into_iter().find_map(|cluster| self.with_pieces(cluster, *dealt));
        table.iter().find_map(of_blocks)
    }

    /// A row dealt out to so many blocks of a cluster. Of those that are to be on a multiprocessor, half have to fit.
    fn with_pieces(&self, cluster: u32, (most, block, blocks, way): Dealt) -> Option<Threads> {
        let (staged, vector) = (self.staged(), u64::from(self.vector));
        let can_bring = !staged.is_empty() && staged.iter().all(|dtype| dtype.bytes() * vector >= 4);
        if !self.is_whole || !can_bring || self.groups() > most * u64::from(cluster) {
            return None;
        }
        let lanes = cluster * block;
        let groups = self.groups().div_ceil(lanes.into());
        let item_bytes: u64 = staged.iter().map(|dtype| dtype.bytes()).sum();
        let bytes = groups * u64::from(block) * vector * item_bytes;
        let blocks = (blocks.div_ceil(2)..=blocks).rev().find(|blocks| bytes <= self.room(*blocks, block))?;
        let way = if self.can_copy() { way } else { Way::Threads };
        let exact = groups * u64::from(lanes) == self.groups();
        let home = Home::Pieces { groups: groups as u32, exact, blocks, bytes: bytes as u32, way };
        Some(Threads { cluster, block, lanes, home })
    }

    /// Whether each result has room in the place of an item.
    fn can_copy(&self) -> bool {
        let staged = self.staged();
        let replaces = |(k, out): (usize, &Dtype)| staged.get(k).is_some_and(|dtype| dtype.bytes() == out.bytes());
        self.problem.has_clusters && self.problem.out_dtypes.iter().enumerate().all(replaces)
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
    fn staged(&self) -> Vec<Dtype> {
        let all = self.problem.dtypes.iter().zip(self.runs);
        all.filter(|(_, run)| **run != Run::Same).map(|(dtype, _)| *dtype).collect()
    }

    /// Shared memory that a row can have in one of so many blocks.
    fn room(&self, blocks: u32, threads: u32) -> u64 {
        // A multiprocessor has 1 KiB more than a block can have, which the first block's reserve takes.
        u64::from(((self.problem.shared_bytes + 1024) / blocks).saturating_sub(beside(threads)))
    }
}

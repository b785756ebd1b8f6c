//! The kernel that holds rows on chip, in registers or in shared memory: each element is read once,
//! and each result written once.

use warpfold_lang::kernel;

use super::body::{Body, Memory, RowArgs};
use super::family::Code;
use crate::AnyKernel;
use crate::elements::Run;
use crate::fold::Team;
use crate::fold::geometry::MAX_INPUTS;
use crate::overlap::overlap_launches;
use crate::walk::Walk;

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnChip {
    /// Threads per block.
    pub block: u32,
    /// Blocks a cluster, which share a row; 1 without clusters.
    pub cluster: u32,
    /// Threads that share a row, a power of two: up to 32, the block, or the cluster.
    pub threads_per_row: u32,
    /// Items a group; it divides the row's length.
    pub vector: u32,
    /// What holds rows.
    pub storage: RowStorage,
    /// How neighbours of the row inputs are loaded.
    pub runs: [Run; MAX_INPUTS],
    /// How neighbours of the vectors along the row are loaded.
    pub column_runs: [Run; MAX_INPUTS],
    /// Whether results can be stored by vector accesses.
    pub wide_out: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
    /// Whether results overwrite their items in global memory.
    pub in_place: bool,
}

/// What holds a row on chip.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RowStorage {
    /// The registers of up to a cluster, converted to the type that is computed in.
    Registers {
        /// Groups of neighbours that a thread holds.
        groups: u32,
        /// Whether the row has every group of every thread.
        exact: bool,
        /// Whether the vectors along the row are loaded together with it.
        early_columns: bool,
    },
    /// Shared memory, as it is in global memory, partitioned so that each warp has a part to
    /// itself.
    Partitioned(RowPartition),
    /// The shared memory of a block, as it is in global memory, for rows that begin at any address.
    Smem {
        /// Groups that a thread reads before it uses the first.
        unroll: u32,
        /// Resident blocks per SM that are aimed at.
        blocks_per_sm: u32,
        /// Bytes of shared memory.
        smem_bytes: u32,
    },
}

/// How a row in shared memory is partitioned over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowPartition {
    /// Groups of neighbours that a thread holds.
    pub groups: u32,
    /// Whether the row has every group of every thread.
    pub exact: bool,
    /// How many of a thread's groups, the last ones, are in its registers, as they are in global
    /// memory: those that do not fit in shared memory.
    pub register_groups: u32,
    /// Resident blocks per SM that are aimed at.
    pub blocks_per_sm: u32,
    /// Bytes of shared memory.
    pub smem_bytes: u32,
    /// How results are stored.
    pub store_via: StoreVia,
}

/// How the results of a partitioned row are stored to global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreVia {
    /// They overwrite items in shared memory, and one TMA copy a warp stores them (sm_90).
    Tma,
    /// Threads store them.
    Threads,
}

impl OnChip {
    /// The kernel for results that overwrite their items in global memory; it computes the same
    /// bits. A TMA store would have to wait there for the threads' loads of global memory, by a
    /// fence that takes more time than the store saves (4,096 bf16 3,669 instead of 4,190 GB/s,
    /// H200, 2026-11-21).
    pub(super) fn in_place(mut self) -> Self {
        if let RowStorage::Partitioned(partition) = &mut self.storage {
            partition.store_via = StoreVia::Threads;
        }
        self.in_place = true;
        self
    }

    pub(super) const fn team(&self) -> Team {
        if self.cluster > 1 {
            return Team::Cluster { blocks: self.cluster, threads: self.block };
        }
        match self.threads_per_row {
            32 => Team::Warp,
            threads if threads < 32 => Team::Lanes(threads),
            threads => Team::Block(threads),
        }
    }

    /// Whether loads of one thread and stores of another in the same bytes need a barrier: threads
    /// without items of their own load others', and only rows that a whole block or cluster shares
    /// have a barrier in their fold.
    pub(super) const fn needs_barrier(&self) -> bool {
        self.in_place && self.cluster == 1 && (self.threads_per_row <= 32 || self.rows_per_block() > 1)
    }

    /// Dynamic shared memory a block.
    pub(super) const fn smem_bytes(&self) -> u32 {
        match self.storage {
            RowStorage::Registers { .. } => 0,
            RowStorage::Partitioned(RowPartition { smem_bytes, .. }) | RowStorage::Smem { smem_bytes, .. } => {
                smem_bytes
            }
        }
    }

    /// As part of a kernel's name.
    fn key(&self) -> String {
        let Self { block, cluster, threads_per_row, vector, .. } = *self;
        let by = if cluster > 1 { format!("{cluster}x{block}") } else { threads_per_row.to_string() };
        match self.storage {
            RowStorage::Registers { groups, exact, .. } => {
                let exact = if exact { "" } else { "_part" };
                let in_place = if self.needs_barrier() { "_in_place" } else { "" };
                format!("on_chip_{by}x{groups}x{vector}{exact}{in_place}")
            }
            RowStorage::Partitioned(partition) => {
                let RowPartition { groups, exact, register_groups, blocks_per_sm, store_via, .. } = partition;
                let kept = if register_groups == 0 { String::new() } else { format!("_{register_groups}kept") };
                let exact = if exact { "" } else { "_part" };
                let stored = match store_via {
                    StoreVia::Tma => "",
                    StoreVia::Threads => "_stored",
                };
                format!("pieces_{by}x{groups}x{vector}_{blocks_per_sm}{kept}{exact}{stored}")
            }
            RowStorage::Smem { unroll, blocks_per_sm, .. } => {
                format!("in_shared_{by}x{unroll}x{vector}_{blocks_per_sm}")
            }
        }
    }

    /// Rows a block, where it has whole ones.
    pub(super) const fn rows_per_block(&self) -> u32 {
        if self.cluster > 1 { 1 } else { self.block / self.threads_per_row }
    }
}

/// The kernel.
pub(super) fn kernel_of(code: Code, shape: OnChip) -> AnyKernel {
    let (name, on_chip) = (format!("{}_{}", code.name, shape.key()), shape.clone());
    let body = move |args: RowArgs| {
        // Contract: the grid has a block for `block / threads_per_row` rows, or a cluster for each
        // row.
        let memory = Memory {
            inputs: args.inputs[..code.source.dtypes().len()].to_vec(),
            columns: args.columns[..code.columns.dtypes().len()].to_vec(),
            outputs: args.outputs[..code.sink.dtypes().len()].to_vec(),
            stats: args.stats[..code.stats.dtypes().len()].to_vec(),
            rows: args.rows,
            len: args.len,
            kept: Walk::new(args.kept, on_chip.kept),
        };
        on_chip.team().begin();
        overlap_launches();
        Body { code: &code, shape: &on_chip, memory }.record();
    };
    let kernel = kernel(name, body).required_block(shape.block);
    let kernel = match shape.storage {
        RowStorage::Partitioned(RowPartition { blocks_per_sm, .. }) | RowStorage::Smem { blocks_per_sm, .. } => {
            kernel.min_blocks(blocks_per_sm)
        }
        RowStorage::Registers { .. } => kernel,
    };
    if shape.cluster > 1 { kernel.cluster(shape.cluster).into() } else { kernel.into() }
}

//! The kernel that holds rows on chip, in registers or in shared memory: each element is read once, and each result written
//! once.

use warpfold_lang::{Array, Global, kernel, wait_for_dependencies};

use super::body::{Body, Memory};
use super::family::Code;
use crate::AnyKernel;
use crate::elements::Run;
use crate::fold::Team;
use crate::fold::geometry::{MAX_INPUTS, WORDS, Words};

/// What the kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnChip {
    /// Threads a block.
    pub block: u32,
    /// Blocks a cluster, which share a row; 1 without clusters.
    pub cluster: u32,
    /// Threads a row, a power of two: up to 32, the block, or the cluster.
    pub lanes: u32,
    /// Items a group; it divides the row's length.
    pub vector: u32,
    /// Where rows are.
    pub home: Home,
    /// How neighbours of the row inputs lie.
    pub runs: [Run; MAX_INPUTS],
    /// How neighbours of the vectors along the row lie.
    pub column_runs: [Run; MAX_INPUTS],
    /// Whether results can be stored as wide as can be.
    pub wide_out: bool,
    /// Kept dimensions.
    pub kept: usize,
    /// Whether positions have 32 bits.
    pub small: bool,
}

/// Where a row is on chip.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Home {
    /// In the registers of up to a cluster, converted to what is computed in.
    Registers {
        /// Groups of neighbours that a thread holds.
        groups: u32,
        /// Whether the row has every group of every thread.
        exact: bool,
        /// Whether the vectors along the row are loaded together with it.
        early_columns: bool,
    },
    /// In shared memory, as it is in the memory of the device: a piece for each warp.
    Pieces(Dealing),
    /// In the shared memory of a block, as it is in the memory of the device, wherever it begins there.
    Shared {
        /// Groups that a thread reads before it uses the first.
        unroll: u32,
        /// Blocks that are to be on a multiprocessor together.
        blocks: u32,
        /// Bytes of shared memory.
        bytes: u32,
    },
}

/// How a row is dealt out in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dealing {
    /// Groups of neighbours that a thread has.
    pub groups: u32,
    /// Whether the row has every group of every thread.
    pub exact: bool,
    /// How many of a thread's groups, the last, are in its registers, as they are in the memory of the device: those for which
    /// shared memory has no room.
    pub kept: u32,
    /// Blocks that are to be on a multiprocessor together.
    pub blocks: u32,
    /// Bytes of shared memory.
    pub bytes: u32,
    /// How results leave them.
    pub way: Way,
}

/// How results get from the pieces of a row to the memory of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// They take the places of items, and one copy a warp takes them away (sm_90).
    Copies,
    /// Threads store them.
    Threads,
}

impl OnChip {
    /// The kernel for results that overwrite their items, which computes the same bits. Copies would have to wait there for
    /// what threads have read of the memory of the device, by a fence that takes more time than copies save (4,096 bf16 3,669
    /// in place of 4,190 GB/s, H200, 2026-11-21).
    pub(super) fn in_place(&self) -> Self {
        let mut shape = self.clone();
        if let Home::Pieces(dealing) = &mut shape.home {
            dealing.way = Way::Threads;
        }
        shape
    }

    pub(super) const fn team(&self) -> Team {
        if self.cluster > 1 {
            return Team::Cluster { blocks: self.cluster, threads: self.block };
        }
        match self.lanes {
            32 => Team::Warp,
            lanes if lanes < 32 => Team::Lanes(lanes),
            threads => Team::Block(threads),
        }
    }

    /// Shared memory a block, beside what the kernel declares.
    pub(super) const fn shared_bytes(&self) -> u32 {
        match self.home {
            Home::Registers { .. } => 0,
            Home::Pieces(Dealing { bytes, .. }) | Home::Shared { bytes, .. } => bytes,
        }
    }

    /// As part of a kernel's name.
    fn key(&self) -> String {
        let Self { block, cluster, lanes, vector, .. } = *self;
        let by = if cluster > 1 { format!("{cluster}x{block}") } else { lanes.to_string() };
        match self.home {
            Home::Registers { groups, exact: true, .. } => format!("on_chip_{by}x{groups}x{vector}"),
            Home::Registers { groups, exact: false, .. } => format!("on_chip_{by}x{groups}x{vector}_part"),
            Home::Pieces(Dealing { groups, exact, kept, blocks, way, .. }) => {
                let kept = if kept == 0 { String::new() } else { format!("_{kept}kept") };
                let exact = if exact { "" } else { "_part" };
                let way = match way {
                    Way::Copies => "",
                    Way::Threads => "_stored",
                };
                format!("pieces_{by}x{groups}x{vector}_{blocks}{kept}{exact}{way}")
            }
            Home::Shared { unroll, blocks, .. } => format!("in_shared_{by}x{unroll}x{vector}_{blocks}"),
        }
    }

    /// Rows a block, where it has whole ones.
    pub(super) const fn rows(&self) -> u32 {
        if self.cluster > 1 { 1 } else { self.block / self.lanes }
    }
}

/// The kernel.
pub(super) fn kernel_of(code: Code, shape: OnChip) -> AnyKernel {
    let name = format!("{}_{}", code.name, shape.key());
    let on_chip = shape.clone();
    let body = move |in0: Global<u8>,
                     in1: Global<u8>,
                     col0: Global<u8>,
                     col1: Global<u8>,
                     out0: Global<u8>,
                     out1: Global<u8>,
                     stat0: Global<u8>,
                     stat1: Global<u8>,
                     words: Array<u64, WORDS>| {
        // Contract: the grid has a block for `block / lanes` rows, or a cluster for each row.
        let memory = Memory {
            inputs: [in0, in1][..code.source.dtypes().len()].to_vec(),
            columns: [col0, col1][..code.columns.dtypes().len()].to_vec(),
            outputs: [out0, out1][..code.sink.dtypes().len()].to_vec(),
            stats: [stat0, stat1][..code.stats.dtypes().len()].to_vec(),
            words: Words(words),
        };
        on_chip.team().begin();
        wait_for_dependencies();
        Body { code: &code, shape: &on_chip, memory }.record();
    };
    let kernel = kernel(name, body).required_block(shape.block);
    let kernel = match shape.home {
        Home::Pieces(Dealing { blocks, .. }) | Home::Shared { blocks, .. } => kernel.min_blocks(blocks),
        Home::Registers { .. } => kernel,
    };
    if shape.cluster > 1 { kernel.cluster(shape.cluster).into() } else { kernel.into() }
}

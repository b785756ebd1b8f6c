//! The ladder `hgemm`: from a warp's fragments to the speed of the vendor's library (the steps of
//! "fast.cu", github.com/pranjalssh/fast.cu, and their order, are what it learns from).

mod r01_mma_sync;
mod r02_wgmma_tma;
mod r03_large_tile;
mod r04_producer_consumer;
mod r05_two_consumers;
mod r06_persistent;
mod r07_multicast;
mod r08_tma_store;
mod r09_tile_order;

pub use r01_mma_sync::{MmaSync, mma_sync};
pub use r02_wgmma_tma::{WgmmaTma, wgmma_tma};
pub use r03_large_tile::large_tile;
pub use r04_producer_consumer::producer_consumer;
pub use r05_two_consumers::two_consumers;
pub use r06_persistent::persistent;
pub use r07_multicast::multicast;
pub use r08_tma_store::{TmaStore, tma_store};
pub use r09_tile_order::tile_order;

use half::{bf16, f16};
use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};

use super::instance::open;
use crate::gemm::ladder::SIZES;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, Metric, Rung, Sizes, pack, unpack};

/// Rows of the boxes that the maps of a rung have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boxes {
    pub(super) a: u32,
    pub(super) b: u32,
    /// Nothing where the kernel stores `c` itself.
    pub(super) c: Option<u32>,
}

/// The boxes of a rung; nothing for one that takes no maps.
pub(super) fn boxes(rung: &str) -> Option<Boxes> {
    use {r02_wgmma_tma as small, r05_two_consumers as large, r07_multicast as shared};
    let half_b = large::BLOCK_N / shared::CLUSTER;
    Some(match rung {
        "mma_sync" => return None,
        "wgmma_tma" => Boxes { a: small::BLOCK_M, b: small::BLOCK_N, c: None },
        "large_tile" => Boxes { a: r03_large_tile::BLOCK_M, b: r03_large_tile::BLOCK_N, c: None },
        "producer_consumer" => Boxes { a: r04_producer_consumer::BLOCK_M, b: r04_producer_consumer::BLOCK_N, c: None },
        "two_consumers" | "persistent" => Boxes { a: large::BLOCK_M, b: large::BLOCK_N, c: None },
        "multicast" => Boxes { a: large::BLOCK_M, b: half_b, c: None },
        "tma_store" | "tile_order" => Boxes { a: large::BLOCK_M, b: half_b, c: Some(64) },
        _ => unreachable!("{rung} is no rung of the ladder"),
    })
}

/// Multiprocessors of an H200: as many blocks as run at once. Fewer run one behind the other.
const NUM_SMS: u32 = 132;

/// A block for each tile of `c`.
fn block_of_tile(size: u64, block_m: u32, block_n: u32, threads: u32) -> LaunchConfig {
    let [m, n, _] = unpack(size).map(|size| size as u32);
    LaunchConfig::new((n.div_ceil(block_n), m.div_ceil(block_m)), threads)
}

/// Clusters of so many blocks as run at once, or fewer if there are fewer tiles.
fn resident(size: u64, cluster: u32) -> LaunchConfig {
    use r05_two_consumers::{BLOCK_M, BLOCK_N, THREADS};
    let [m, n, _] = unpack(size).map(|size| size as u32);
    let num = m.div_ceil(cluster * BLOCK_M) * n.div_ceil(BLOCK_N);
    LaunchConfig::new(num.min(NUM_SMS / cluster) * cluster, THREADS)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "hgemm",
    problem: "the product of two matrices of halves on tensor cores",
    sizes: Sizes::Numbers(SIZES),
    // More tiles than multiprocessors, so that persistent blocks have several, and few steps for
    // each.
    default_size: pack([1536, 3072, 128]),
    max_size: u64::MAX,
    dtypes: &[Dtype::Bf16, Dtype::F16],
    rungs: RUNGS,
    open,
};

/// A kernel for an element type.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype| match dtype {
            Dtype::Bf16 => AnyKernel::from($kernel::<bf16>()),
            Dtype::F16 => AnyKernel::from($kernel::<f16>()),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

const RUNGS: &[Rung] = &[
    Rung {
        name: "mma_sync",
        changed: "A warp multiplies fragments of 16 x 8 x 16 in its registers",
        claims: &[],
        launches: &[Launch::new(typed!(mma_sync), |size| {
            block_of_tile(size, r01_mma_sync::BLOCK_M, r01_mma_sync::BLOCK_N, r01_mma_sync::THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "wgmma_tma",
        changed: "Four warps multiply tiles straight from shared memory, and one thread issues the copies",
        claims: &[Claim::new(Metric::Instructions, Change::Falls), Claim::new(Metric::SharedAccesses, Change::Falls)],
        launches: &[Launch::new(typed!(wgmma_tma), |size| {
            block_of_tile(size, r02_wgmma_tma::BLOCK_M, r02_wgmma_tma::BLOCK_N, r02_wgmma_tma::THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "large_tile",
        changed: "A tile of four times the area has twice the edges, and each of its bytes serves twice as long",
        claims: &[Claim::new(Metric::Blocks, Change::DividedBy(4)), Claim::new(Metric::Barriers, Change::Falls)],
        launches: &[Launch::new(typed!(large_tile), |size| {
            block_of_tile(size, r03_large_tile::BLOCK_M, r03_large_tile::BLOCK_N, r03_large_tile::THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "producer_consumer",
        changed: "One thread copies ahead into a ring of stages, a warpgroup multiplies what is there",
        claims: &[Claim::new(Metric::Barriers, Change::Falls)],
        launches: &[Launch::new(typed!(producer_consumer), |size| {
            use r04_producer_consumer::{BLOCK_M, BLOCK_N, THREADS};
            block_of_tile(size, BLOCK_M, BLOCK_N, THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "two_consumers",
        changed: "A second warpgroup multiplies, with registers that the producer gave back, and the tile is twice as wide",
        claims: &[Claim::new(Metric::Blocks, Change::DividedBy(2))],
        launches: &[Launch::new(typed!(two_consumers), |size| {
            use r05_two_consumers::{BLOCK_M, BLOCK_N, THREADS};
            block_of_tile(size, BLOCK_M, BLOCK_N, THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "persistent",
        changed: "A block takes tile after tile, and copies the next one while it stores the last",
        claims: &[Claim::new(Metric::Blocks, Change::Falls)],
        launches: &[Launch::new(typed!(persistent), |size| resident(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "multicast",
        changed: "Two blocks share their tile of b, each copying half of it into both",
        claims: &[Claim::new(Metric::LoadSectors, Change::Falls), Claim::new(Metric::LoadBytes, Change::Falls)],
        launches: &[Launch::new(typed!(multicast), |size| resident(size, r07_multicast::CLUSTER))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "tma_store",
        changed: "Sums go through shared memory, and a copy stores them beside the next products",
        claims: &[Claim::new(Metric::GlobalStores, Change::Falls), Claim::new(Metric::Instructions, Change::Falls)],
        launches: &[Launch::new(typed!(tma_store), |size| resident(size, r07_multicast::CLUSTER))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "tile_order",
        changed: "Tiles are taken in bands of a few rows, so that what runs at once shares rows and columns",
        claims: &[],
        launches: &[Launch::new(typed!(tile_order), |size| resident(size, r07_multicast::CLUSTER))],
        finish: Finish::Nothing,
    },
];

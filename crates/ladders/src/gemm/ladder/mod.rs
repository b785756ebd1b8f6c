//! The ladder `sgemm`: from one output a thread to tiles within tiles whose copies run beside the
//! arithmetic.
//!
//! Every rung takes any `m`, `n`, `k` from 1 on: what lies beyond a matrix is zero in the tiles,
//! and is not stored.

mod r01_naive;
mod r02_coalesced;
mod r03_shared;
mod r04_tile_1d;
mod r05_tile_2d;
mod r06_vec4;
mod r07_warp_tile;
mod r08_double_buffer;
mod r09_cp_async;
mod r10_no_conflicts;

pub use r01_naive::naive;
pub use r02_coalesced::coalesced;
pub use r03_shared::shared;
pub use r04_tile_1d::tile_1d;
pub use r05_tile_2d::tile_2d;
pub use r06_vec4::vec4;
pub use r07_warp_tile::warp_tile;
pub use r08_double_buffer::double_buffer;
pub use r09_cp_async::cp_async;
pub use r10_no_conflicts::no_conflicts;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel, Val};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, Metric, Numbers, Rung, Sizes, pack, unpack};

/// Parameters of every rung: `a`, `b`, `c`, `m`, `n`, `k`.
pub type Sgemm = Kernel<(Global<f32>, Global<f32>, Global<f32>, u32, u32, u32)>;

/// Rows and columns of the first rungs' tiles; a block has as many threads as a tile has elements.
const TILE: u32 = 32;

/// A block's tile of `c`, and how it is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    /// Rows and columns of `c`.
    block: u32,
    /// Columns of `a` and rows of `b` in a step.
    depth: u32,
    /// Threads per block.
    threads: u32,
}

const TILE_1D: Tile = Tile { block: 64, depth: 8, threads: 512 };
const TILE_2D: Tile = Tile { block: 128, depth: 8, threads: 256 };

/// Tiles of each matrix in shared memory: one that is used, one that is filled.
const STAGES: u32 = 2;

/// A thread's outputs before anything was added.
fn zeros() -> [[Val<f32>; 8]; 8] {
    [[Val::constant(0.0); 8]; 8]
}

/// Elements from one row to the next: what [`row_len`](super::row_len) is to the host.
fn padded(columns: Val<u32>) -> Val<u32> {
    (columns + 3) & !3
}

/// Adds the products of all elements of `a` with all of `b`.
fn multiply<const M: usize, const N: usize>(a: [Val<f32>; M], b: [Val<f32>; N], sums: &mut [[Val<f32>; N]; M]) {
    for (a, sums) in a.into_iter().zip(sums) {
        for (b, sum) in b.into_iter().zip(sums) {
            *sum = a.mul_add(b, *sum);
        }
    }
}

/// Two groups of four as one of eight.
fn eight([low, high]: [[Val<f32>; 4]; 2]) -> [Val<f32>; 8] {
    std::array::from_fn(|i| if i < 4 { low[i] } else { high[i - 4] })
}

/// A launch with a block for each tile of `c`.
fn tiles_of(size: u64, tile: u32, block: [u32; 3]) -> LaunchConfig {
    let [m, n, _] = unpack(size).map(|size| size as u32);
    LaunchConfig { block, ..LaunchConfig::new((n.div_ceil(tile), m.div_ceil(tile)), 1) }
}

fn launch_of(tile: Tile) -> impl Fn(u64) -> LaunchConfig {
    move |size| tiles_of(size, tile.block, [tile.threads, 1, 1])
}

/// The sizes of the ladder.
pub const SIZES: Numbers = Numbers {
    form: "N or MxNxK with numbers from 1 to 1048575, and 2^30 elements a matrix at most",
    complete: |numbers| {
        let [m, n, k] = match *numbers {
            [n] => [n; 3],
            [m, n, k] => [m, n, k],
            _ => return None,
        };
        let fits = [(m, n), (m, k), (n, k)].into_iter().all(|(a, b)| a.saturating_mul(b) <= 1 << 30);
        fits.then_some([m, n, k])
    },
    most: [(1 << 20) - 1; 3],
    shown: 3,
    told: |_| None,
};

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "sgemm",
    problem: "the product of two matrices",
    sizes: Sizes::Numbers(SIZES),
    default_size: pack([512; 3]),
    max_size: u64::MAX,
    dtypes: &[Dtype::F32],
    rungs: RUNGS,
    open,
};

/// A kernel for the element type.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype| match dtype {
            Dtype::F32 => AnyKernel::from($kernel()),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

const RUNGS: &[Rung] = &[
    Rung {
        name: "naive",
        changed: "A thread walks along a row and down a column, and threadIdx.x is the row",
        claims: &[],
        launches: &[Launch::new(typed!(naive), |size| tiles_of(size, TILE, [TILE, TILE, 1]))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "coalesced",
        changed: "threadIdx.x is the column, so that a warp reads and stores neighbours",
        claims: &[Claim::new(Metric::LoadSectors, Change::Falls), Claim::new(Metric::StoreSectors, Change::Falls)],
        launches: &[Launch::new(typed!(coalesced), |size| tiles_of(size, TILE, [TILE, TILE, 1]))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "shared",
        changed: "A block brings tiles of 32 x 32 to shared memory, and every thread uses a row and a column of them",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::DividedBy(32)),
            Claim::new(Metric::GlobalLoads, Change::DividedBy(32)),
            Claim::new(Metric::SharedAccesses, Change::FromZero),
        ],
        launches: &[Launch::new(typed!(shared), |size| tiles_of(size, TILE, [TILE, TILE, 1]))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "tile_1d",
        changed: "A thread takes eight rows of one column, and an element of b serves all eight",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::DividedBy(2)),
            // One of b serves eight of a: nine for eight products, instead of sixteen.
            Claim::new(Metric::SharedLoadsPerOutput, Change::ToParts(9, 16)),
            Claim::new(Metric::SharedWavefronts, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(tile_1d), |size| launch_of(TILE_1D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "tile_2d",
        changed: "A thread multiplies eight elements of a with eight of b, all with all",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::DividedBy(2)),
            // Sixteen for sixty-four products, instead of nine for eight.
            Claim::new(Metric::SharedLoadsPerOutput, Change::ToParts(2, 9)),
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(tile_2d), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "vec4",
        changed: "Loads and stores take 16 bytes at once, and the tile of a lies transposed",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::GlobalStores, Change::DividedBy(4)),
            Claim::new(Metric::SharedLoadsPerOutput, Change::DividedBy(4)),
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(vec4), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "warp_tile",
        changed: "A warp takes 32 x 64 outputs, and the fragments of its threads lie side by side",
        claims: &[
            Claim::new(Metric::LoadConflicts, Change::ToZero),
            Claim::new(Metric::SharedWavefronts, Change::Falls),
        ],
        launches: &[Launch::new(typed!(warp_tile), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "double_buffer",
        changed: "The next tile and the next fragments come while these are multiplied",
        claims: &[Claim::new(Metric::Barriers, Change::Falls)],
        launches: &[Launch::new(typed!(double_buffer), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "cp_async",
        changed: "Asynchronous copies bring the next tile past the registers, at the price of copies of 4 bytes that turn it round",
        claims: &[Claim::new(Metric::GlobalLoads, Change::Rises), Claim::new(Metric::StoreConflicts, Change::Rises)],
        launches: &[Launch::new(typed!(cp_async), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "no_conflicts",
        changed: "Rows of the transposed tile are four words further apart",
        claims: &[
            Claim::new(Metric::StoreConflicts, Change::ToZero),
            Claim::new(Metric::SharedWavefronts, Change::Falls),
        ],
        launches: &[Launch::new(typed!(no_conflicts), |size| launch_of(TILE_2D)(size))],
        finish: Finish::Nothing,
    },
];

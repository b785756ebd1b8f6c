//! The ladder `attention`: from scores in memory to products, copies and exponentials side by side.
//!
//! Its sizes are tokens and heads ([`Heads`]). Rungs before `mma_sync` compute on CUDA cores, in
//! `f32`, from any type; the others multiply `f16` or `bf16` on tensor cores. `flash1` leaves its
//! results in `f32` whatever the inputs are: it rescales them in memory, and each time would round.

mod r01_three_kernels;
mod r02_flash1;
mod r03_flash2;
mod r04_mma_sync;
mod r05_wgmma;
mod r06_warp_specialized;
mod r07_overlap;
mod r08_ping_pong;
mod r09_persistent;
mod r10_shipped;

pub use r01_three_kernels::{scores, values};
pub use r02_flash1::{Flash1, flash1};
pub use r03_flash2::{Flash2, flash2};
pub use r04_mma_sync::mma_sync;
pub use r05_wgmma::wgmma;
pub use r06_warp_specialized::warp_specialized;
pub use r07_overlap::overlap;
pub use r08_ping_pong::ping_pong;
pub use r09_persistent::{Drawn, persistent};
pub use r10_shipped::{shipped, shipped_launch};

use half::{bf16, f16};
use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{F8E4M3, Global, Kernel, TensorMap};

use super::instance::open;
use super::rows::KEYS;
use super::softmax_rows::{self, softmax_rows};
use super::work::WORDS;
use crate::ladder::{Change, Claim, Finish, HeadSizes, Heads, Ladder, Launch, Metric, Rung, Sizes};

/// Parameters of a kernel with TMA loads: queries, keys and values with boxes of 64 columns,
/// results, sizes.
pub type OfMaps<T> = Kernel<(TensorMap<T>, TensorMap<T>, TensorMap<T>, Global<T>, [u32; WORDS])>;

/// Parameters of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// Tensors, and room for scores.
    Scores,
    /// Tensors, results in `f32` and statistics.
    Running,
    /// Tensors.
    Tensors,
    /// Maps with boxes of so many rows of queries, and of keys and values.
    Maps([u32; 2]),
    /// And a counter.
    Drawn([u32; 2]),
    /// Parameters of the library's plan.
    Shipped,
}

/// Returns the parameters of a rung by its name.
pub(super) fn data_of(rung: &str) -> Data {
    match rung {
        "three_kernels" => Data::Scores,
        "flash1" => Data::Running,
        "flash2" | "mma_sync" => Data::Tensors,
        "wgmma" => Data::Maps([r05_wgmma::BLOCK_M, r05_wgmma::BLOCK_N]),
        "warp_specialized" | "overlap" | "ping_pong" => Data::Maps([64, r06_warp_specialized::BLOCK_N]),
        "shipped" => Data::Shipped,
        "persistent" => Data::Drawn([64, r06_warp_specialized::BLOCK_N]),
        _ => unreachable!("{rung} is no rung of the ladder"),
    }
}

/// The default: more tiles of rows than multiprocessors, so that persistent blocks have several.
const DEFAULT: Heads = Heads { length: 192, heads: 36, kv_heads: 9, head_dim: 64, sequences: 2, causal: false };

/// The size that papers time.
const ON_GPU: Heads = Heads { length: 4096, heads: 32, kv_heads: 8, head_dim: 128, sequences: 1, causal: false };

/// A size for each of the sizes of a head.
const HEAD_DIMS: &[u64] = &[DEFAULT.pack(), Heads { head_dim: 128, ..DEFAULT }.pack()];

/// A block for so many rows of each head.
fn blocks_of_rows(size: u64, rows: u32, threads: u32) -> LaunchConfig {
    let heads = Heads::unpack(size);
    LaunchConfig::new(((heads.length as u32).div_ceil(rows), heads.all_heads() as u32), threads)
}

/// Multiprocessors of an H200: as many blocks as run at once. Fewer run one behind the other.
const NUM_SMS: u32 = 132;

/// Launches as many blocks as can be resident, or fewer if there are fewer tiles.
fn resident(size: u64) -> LaunchConfig {
    use r06_warp_specialized::{BLOCK_M, THREADS};
    let heads = Heads::unpack(size);
    let tiles = (heads.length as u32).div_ceil(BLOCK_M) * heads.all_heads() as u32;
    LaunchConfig::new(tiles.min(NUM_SMS), THREADS)
}

/// The element types that tensor cores multiply here.
const HALVES: &[Dtype] = &[Dtype::Bf16, Dtype::F16];

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "attention",
    problem: "the attention of sequences to themselves",
    sizes: Sizes::Heads(HeadSizes { default: DEFAULT, on_gpu: ON_GPU, has_causal: true }),
    default_size: DEFAULT.pack(),
    max_size: u64::MAX,
    dtypes: &[Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F8E4M3],
    rungs: RUNGS,
    open,
};

/// A kernel for an element type and a size of heads.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype, size| {
            let dim = Heads::unpack(size).head_dim as u32;
            match dtype {
                Dtype::F32 => AnyKernel::from($kernel::<f32>(dim)),
                Dtype::F16 => AnyKernel::from($kernel::<f16>(dim)),
                Dtype::Bf16 => AnyKernel::from($kernel::<bf16>(dim)),
                Dtype::F8E4M3 => AnyKernel::from($kernel::<F8E4M3>(dim)),
                _ => unreachable!("the ladder has no kernel for {dtype}"),
            }
        }
    };
}

/// A launch of a kernel on tensor cores.
macro_rules! on_tensor_cores {
    ($kernel:ident, $config:expr) => {
        Launch::sized(
            |dtype, size| {
                let dim = Heads::unpack(size).head_dim as u32;
                match dtype {
                    Dtype::F16 => AnyKernel::from($kernel::<f16>(dim)),
                    Dtype::Bf16 => AnyKernel::from($kernel::<bf16>(dim)),
                    _ => unreachable!("the rung has no kernel for {dtype}"),
                }
            },
            HEAD_DIMS,
            $config,
        )
        .only(HALVES)
    };
}

/// The softmax of the first rung.
fn softmax(dtype: Dtype) -> AnyKernel {
    match dtype {
        Dtype::F32 => softmax_rows::<f32>().into(),
        Dtype::F16 => softmax_rows::<f16>().into(),
        Dtype::Bf16 => softmax_rows::<bf16>().into(),
        Dtype::F8E4M3 => softmax_rows::<F8E4M3>().into(),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    }
}

const RUNGS: &[Rung] = &[
    Rung {
        name: "three_kernels",
        changed: "Scores, their softmax and the weighted values are a launch each",
        claims: &[],
        launches: &[
            Launch::sized(typed!(scores), HEAD_DIMS, |size| {
                use r01_three_kernels::{ROWS, WARPS};
                let heads = Heads::unpack(size);
                let [keys, rows] = [KEYS, ROWS].map(|tile| (heads.length as u32).div_ceil(tile));
                LaunchConfig::new((keys, rows, heads.all_heads() as u32), 32 * WARPS)
            }),
            Launch::new(softmax, |size| blocks_of_rows(size, softmax_rows::WARPS, 32 * softmax_rows::WARPS)),
            Launch::sized(typed!(values), HEAD_DIMS, |size| {
                use r01_three_kernels::WARPS;
                blocks_of_rows(size, WARPS, 32 * WARPS)
            }),
        ],
        finish: Finish::Nothing,
    },
    Rung {
        name: "flash1",
        changed: "Rows push tile after tile of keys, and rescale what they have so far in memory",
        claims: &[
            Claim::new(Metric::ScoreBytes, Change::ToZero),
            Claim::new(Metric::Steps, Change::DividedBy(3)),
            Claim::new(Metric::Blocks, Change::Falls),
        ],
        launches: &[Launch::sized(typed!(flash1), HEAD_DIMS, |size| {
            LaunchConfig::new(Heads::unpack(size).all_heads() as u32, 32 * r02_flash1::WARPS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "flash2",
        changed: "A row stays in registers until it has seen all of its keys, and is divided once",
        claims: &[
            Claim::new(Metric::ScoreBytes, Change::ToZero).against("three_kernels"),
            Claim::new(Metric::StoreBytes, Change::Falls),
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::Blocks, Change::Rises),
        ],
        launches: &[Launch::sized(typed!(flash2), HEAD_DIMS, |size| blocks_of_rows(size, r03_flash2::ROWS, 128))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "mma_sync",
        changed: "Warps multiply on tensor cores, and weights stay in the registers where scores came to be",
        claims: &[
            Claim::new(Metric::Instructions, Change::Falls),
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::StoreConflicts, Change::ToZero),
        ],
        launches: &[on_tensor_cores!(mma_sync, |size| blocks_of_rows(
            size,
            r04_mma_sync::BLOCK_M,
            r04_mma_sync::THREADS
        ))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "wgmma",
        changed: "Four warps multiply keys and values straight from shared memory, and one thread issues the copies",
        claims: &[Claim::new(Metric::Instructions, Change::Falls), Claim::new(Metric::SharedAccesses, Change::ToZero)],
        launches: &[on_tensor_cores!(wgmma, |size| blocks_of_rows(size, r05_wgmma::BLOCK_M, r05_wgmma::THREADS))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "warp_specialized",
        changed: "One thread copies ahead, and two warpgroups multiply, which share keys and values",
        claims: &[Claim::new(Metric::Blocks, Change::Falls), Claim::new(Metric::LoadBytes, Change::Falls)],
        launches: &[on_tensor_cores!(warp_specialized, |size| {
            use r06_warp_specialized::{BLOCK_M, THREADS};
            blocks_of_rows(size, BLOCK_M, THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "overlap",
        changed: "The next scores are multiplied while a warpgroup takes exponentials",
        claims: &[],
        launches: &[on_tensor_cores!(overlap, |size| {
            use r06_warp_specialized::{BLOCK_M, THREADS};
            blocks_of_rows(size, BLOCK_M, THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "ping_pong",
        changed: "Two warpgroups take turns at the tensor cores",
        claims: &[Claim::new(Metric::Barriers, Change::Rises)],
        launches: &[on_tensor_cores!(ping_pong, |size| {
            use r06_warp_specialized::{BLOCK_M, THREADS};
            blocks_of_rows(size, BLOCK_M, THREADS)
        })],
        finish: Finish::Nothing,
    },
    Rung {
        name: "persistent",
        changed: "A block draws tile after tile of rows, the longest first, and copies the next one beside the last",
        claims: &[Claim::new(Metric::Blocks, Change::Falls)],
        launches: &[on_tensor_cores!(persistent, resident)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "shipped",
        changed: "The library's kernel: an order of keys that no split changes, and every shape and option",
        claims: &[],
        launches: &[Launch::sized(shipped, HEAD_DIMS, shipped_launch).only(HALVES)],
        finish: Finish::Nothing,
    },
];

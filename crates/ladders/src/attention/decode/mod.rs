//! The ladder `decode`: one query of each sequence against a cache, from a block per sequence to
//! one launch of blocks that share it, and to the library's kernel.
//!
//! Its sizes are tokens and heads ([`Heads`]), without a causal form: a query sees all of its
//! sequence's keys, whose number differs from sequence to sequence. What the cache holds beyond is
//! NaN.

mod r01_one_block;
mod r02_split_kv;
mod r03_paged;
mod r04_single_launch;
mod r05_shipped;

pub use r01_one_block::{OneBlock, one_block};
pub use r02_split_kv::{Combine, SplitKv, combine, split_kv};
pub use r03_paged::{Paged, paged};
pub use r04_single_launch::{SingleLaunch, single_launch};
pub use r05_shipped::{shipped, shipped_launch};

use half::{bf16, f16};
use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::F8E4M3;

use super::cache::{THREADS, blocks_of_heads};
use super::decode_instance::open;
use crate::ladder::{Change, Claim, Finish, HeadSizes, Heads, Ladder, Launch, Metric, Rung, Sizes};

/// The default: several parts of each sequence.
const DEFAULT: Heads = Heads { length: 4000, heads: 16, kv_heads: 4, head_dim: 128, sequences: 3, causal: false };

/// A cache of 256 MiB of halves.
const ON_GPU: Heads = Heads { length: 4096, heads: 32, kv_heads: 8, head_dim: 128, sequences: 16, causal: false };

/// A size for each of the sizes of a head.
const HEAD_DIMS: &[u64] = &[Heads { head_dim: 64, ..DEFAULT }.pack(), DEFAULT.pack()];

/// Parts that there is room for.
pub(super) fn num_parts(heads: Heads) -> usize {
    heads.length.div_ceil(r02_split_kv::PART as usize)
}

/// A block for each part of some heads of a sequence.
fn blocks_of_parts(size: u64, parts: fn(Heads) -> usize) -> LaunchConfig {
    let heads = Heads::unpack(size);
    LaunchConfig::new((blocks_of_heads(heads), heads.sequences as u32, parts(heads) as u32), THREADS)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "decode",
    problem: "the attention of one query of each sequence to a cache",
    sizes: Sizes::Heads(HeadSizes { default: DEFAULT, on_gpu: ON_GPU, has_causal: false }),
    default_size: DEFAULT.pack(),
    max_size: u64::MAX,
    dtypes: &[Dtype::Bf16, Dtype::F16, Dtype::F8E4M3],
    rungs: RUNGS,
    open,
};

/// A launch of a kernel for an element type and a size of heads.
macro_rules! launch {
    ($kernel:ident($($argument:expr)?), $parts:expr) => {
        Launch::sized(
            |dtype, size| {
                let dim = Heads::unpack(size).head_dim as u32;
                match dtype {
                    Dtype::F16 => AnyKernel::from($kernel::<f16>($($argument,)? dim)),
                    Dtype::Bf16 => AnyKernel::from($kernel::<bf16>($($argument,)? dim)),
                    Dtype::F8E4M3 => AnyKernel::from($kernel::<F8E4M3>($($argument,)? dim)),
                    _ => unreachable!("the ladder has no kernel for {dtype}"),
                }
            },
            HEAD_DIMS,
            |size| blocks_of_parts(size, $parts),
        )
    };
}

const RUNGS: &[Rung] = &[
    Rung {
        name: "one_block",
        changed: "A block takes the query heads of a sequence that share their keys",
        claims: &[],
        launches: &[launch!(one_block(), |_| 1)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "split_kv",
        changed: "Blocks share the keys of a sequence, and a second launch combines what they have seen",
        claims: &[Claim::new(Metric::Blocks, Change::Rises), Claim::new(Metric::Steps, Change::Rises)],
        launches: &[launch!(split_kv(), num_parts), launch!(combine("split_kv"), |_| 1)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "paged",
        changed: "Keys and values are in pages that a table names, and no room waits for tokens that do not come",
        claims: &[Claim::new(Metric::CacheBytes, Change::Falls), Claim::new(Metric::LoadBytes, Change::Rises)],
        launches: &[launch!(paged(), num_parts), launch!(combine("paged"), |_| 1)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "single_launch",
        changed: "The last block of a head combines its parts",
        claims: &[
            Claim::new(Metric::Steps, Change::DividedBy(2)),
            Claim::new(Metric::Blocks, Change::Falls),
            Claim::new(Metric::Atomics, Change::FromZero),
        ],
        launches: &[launch!(single_launch(), num_parts)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "shipped",
        changed: "The library's kernel: heads of a group are rows for tensor cores, and TMA reads the pages",
        claims: &[],
        launches: &[Launch::sized(shipped, HEAD_DIMS, shipped_launch).only(&[Dtype::Bf16, Dtype::F16])],
        finish: Finish::Nothing,
    },
];

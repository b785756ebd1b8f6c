//! The ladder `dot`: from a product per thread to one launch that reads memory at its full speed.

mod r01_plain;
mod r02_vec4;
mod r03_single_pass;

pub use r01_plain::plain;
pub use r02_vec4::vec4;
pub use r03_single_pass::{SinglePass, single_pass};

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel, Val};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};

/// Parameters of the first rungs: two vectors, the result, the length.
pub type Dot = Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Blocks at most of the last rung, as `reduce` has it.
pub const MAX_BLOCKS: u32 = 1024;

/// The product of one element of each vector; zero beyond the end.
fn product(a: Global<f32>, b: Global<f32>, i: Val<u32>, len: Val<u32>) -> Val<f32> {
    a.at(i).get_or(0.0, i.lt(len)) * b.at(i).get_or(0.0, i.lt(len))
}

/// The sum of the products of four neighbours.
fn products(a: [Val<f32>; 4], b: [Val<f32>; 4], sum: Val<f32>) -> Val<f32> {
    a.into_iter().zip(b).fold(sum, |sum, (a, b)| a.mul_add(b, sum))
}

/// A launch whose blocks take so many elements each.
fn blocks_of(size: u64, elements: u32) -> LaunchConfig {
    LaunchConfig { block: [BLOCK, 1, 1], ..LaunchConfig::for_elements(elements_of(size).max(1), elements) }
}

/// A launch of at most [`MAX_BLOCKS`] blocks.
fn fixed_blocks(size: u64) -> LaunchConfig {
    let config = blocks_of(size, 4 * BLOCK);
    LaunchConfig { grid: [config.grid[0].min(MAX_BLOCKS), 1, 1], ..config }
}

/// A kernel for the element type.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype| match dtype {
            Dtype::F32 => AnyKernel::from($kernel()),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "dot",
    problem: "the dot product of two vectors",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "plain",
        changed: "A thread multiplies one pair, a block folds by shuffles and adds by one atomic",
        claims: &[],
        launches: &[Launch::new(typed!(plain), |size| blocks_of(size, BLOCK))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "vec4",
        changed: "Each thread loads 16 bytes of both vectors at once",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::Blocks, Change::DividedBy(4)),
            Claim::new(Metric::Atomics, Change::DividedBy(4)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(vec4), |size| blocks_of(size, 4 * BLOCK))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "single_pass",
        changed: "At most 1,024 blocks walk over the vectors; the last one adds the sums of all in a fixed order",
        claims: &[
            Claim::new(Metric::Steps, Change::DividedBy(2)),
            Claim::new(Metric::Blocks, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(single_pass), fixed_blocks)],
        finish: Finish::LastBlock,
    },
];

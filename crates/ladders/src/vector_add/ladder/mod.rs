//! The ladder `vector-add`: from a loop on one thread to one 16-byte access a thread.

mod r01_one_thread;
mod r02_one_block;
mod r03_grid;
mod r04_grid_vec4;

pub use r01_one_thread::one_thread;
pub use r02_one_block::one_block;
pub use r03_grid::grid;
pub use r04_grid_vec4::grid_vec4;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};

/// Parameters of every rung: `a`, `b`, `sum`, `len`.
pub type VectorAdd<T> = Kernel<(Global<T>, Global<T>, Global<T>, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// The rungs for an element type.
macro_rules! typed {
    ($kernel:ident) => {
        |dtype| match dtype {
            Dtype::I32 => AnyKernel::from($kernel::<i32>()),
            Dtype::F32 => AnyKernel::from($kernel::<f32>()),
            Dtype::F16 => AnyKernel::from($kernel::<half::f16>()),
            Dtype::Bf16 => AnyKernel::from($kernel::<half::bf16>()),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "vector-add",
    problem: "the sum of two vectors, element by element",
    sizes: Sizes::Elements,
    default_size: 10_000_000,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::I32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "one_thread",
        changed: "A loop over all elements, on one thread",
        claims: &[],
        launches: &[Launch::new(typed!(one_thread), |_| LaunchConfig::new(1, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "one_block",
        changed: "256 threads share the loop, so that a warp does 32 elements in one instruction",
        claims: &[
            Claim::new(Metric::WarpEfficiency, Change::Rises),
            Claim::new(Metric::GlobalLoads, Change::DividedBy(32)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(one_block), |_| LaunchConfig::new(1, BLOCK))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "grid",
        changed: "One thread per element, so that the blocks fill every multiprocessor",
        claims: &[Claim::new(Metric::Blocks, Change::Rises)],
        launches: &[Launch::new(typed!(grid), |size| LaunchConfig::for_elements(elements_of(size).max(1), BLOCK))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "grid_vec4",
        changed: "Each thread moves four elements in one access: 16 bytes of f32, 8 of a half",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::GlobalStores, Change::DividedBy(4)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(grid_vec4), |size| {
            LaunchConfig::for_elements(elements_of(size).div_ceil(4).max(1), BLOCK)
        })],
        finish: Finish::Nothing,
    },
];

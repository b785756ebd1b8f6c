//! The ladder `group-reduce`: sums and maxima by a warp, by parts of one, and by a block.
//!
//! Each rung is two launches: the one leaves the sums of its groups, the other the maxima.

mod r01_warp_reduce;
mod r02_sub_warp_16;
mod r03_sub_warp_4;
mod r04_block_reduce;

pub use r01_warp_reduce::warp_reduce;
pub use r02_sub_warp_16::sub_warp_16;
pub use r03_sub_warp_4::sub_warp_4;
pub use r04_block_reduce::block_reduce;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel, Val};

use super::instance::open;
use crate::LadderElement;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};

/// Parameters of every kernel: the input, one result per group, the length.
pub type Groups<T> = Kernel<(Global<T>, Global<T>, u32)>;

/// Threads per block, and elements of the widest group.
pub const BLOCK: u32 = 256;

/// Reduction of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Its sum.
    Sum,
    /// Its largest element.
    Max,
}

impl Fold {
    /// Returns the name in kernels' names.
    const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
        }
    }

    /// Returns the identity of the reduction.
    fn identity<T: LadderElement>(self) -> T {
        match self {
            Self::Sum => T::ZERO,
            Self::Max => T::LOWEST,
        }
    }

    fn combine<T: LadderElement>(self, a: Val<T>, b: Val<T>) -> Val<T> {
        match self {
            Self::Sum => a + b,
            Self::Max => a.max(b),
        }
    }
}

/// Elements of a group of a rung.
pub(super) fn width_of(rung: &Rung) -> u32 {
    match rung.name {
        "warp_reduce" => 32,
        "sub_warp_16" => 16,
        "sub_warp_4" => 4,
        _ => BLOCK,
    }
}

/// One thread per element.
fn threads(size: u64) -> LaunchConfig {
    LaunchConfig::for_elements(elements_of(size).max(1), BLOCK)
}

/// A kernel for an element type.
macro_rules! typed {
    ($kernel:ident, $fold:ident) => {
        Launch::new(
            |dtype| match dtype {
                Dtype::I32 => AnyKernel::from($kernel::<i32>(Fold::$fold)),
                Dtype::F32 => AnyKernel::from($kernel::<f32>(Fold::$fold)),
                _ => unreachable!("the ladder has no kernel for {dtype}"),
            },
            threads,
        )
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "group-reduce",
    problem: "the sum and the maximum of each group of neighbours",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::I32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "warp_reduce",
        changed: "A warp folds its 32 elements in five shuffles",
        claims: &[],
        launches: &[typed!(warp_reduce, Sum), typed!(warp_reduce, Max)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "sub_warp_16",
        changed: "Each half of a warp folds by itself, both in the same four shuffles",
        claims: &[
            Claim::new(Metric::WarpSyncs, Change::Falls),
            Claim::new(Metric::StoreBytes, Change::Rises),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[typed!(sub_warp_16, Sum), typed!(sub_warp_16, Max)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "sub_warp_4",
        changed: "Eight groups of four lanes fold in the same two shuffles",
        claims: &[
            Claim::new(Metric::WarpSyncs, Change::DividedBy(2)),
            Claim::new(Metric::StoreBytes, Change::Rises),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[typed!(sub_warp_4, Sum), typed!(sub_warp_4, Max)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "block_reduce",
        changed: "Eight warps leave a word of shared memory each, and the first one folds those after a barrier",
        claims: &[
            Claim::new(Metric::StoreBytes, Change::Falls),
            Claim::new(Metric::Barriers, Change::FromZero),
            Claim::new(Metric::SharedAccesses, Change::FromZero),
        ],
        launches: &[typed!(block_reduce, Sum), typed!(block_reduce, Max)],
        finish: Finish::Nothing,
    },
];

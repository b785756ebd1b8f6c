//! The ladder `relu`: the larger of an element and 0. NaN stays NaN, as in PyTorch.

mod r01_plain;
mod r02_vec4;
mod r03_vec4_f16;

pub use r01_plain::plain;
pub use r02_vec4::vec4;
pub use r03_vec4_f16::{PackedRelu, vec4_f16};

use warpfold_device::Device;
use warpfold_kernels::Dtype;

use super::{elements_a_thread, instance, typed_half};
use crate::Error;
use crate::ladder::{Change, Claim, Finish, Guards, Instance, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes};
use crate::row::typed;

fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    instance::open(device, dtype, size, guards, |x| x.max(0.0))
}

/// The ladder.
pub const RELU: Ladder = Ladder {
    name: "relu",
    problem: "the larger of each element and 0",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "plain",
        changed: "One thread per element",
        claims: &[],
        launches: &[Launch::new(typed!(plain()), |size| elements_a_thread(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "vec4",
        changed: "Each thread moves four elements in one access: 16 bytes of f32, 8 of a half",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::GlobalStores, Change::DividedBy(4)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(vec4()), |size| elements_a_thread(size, 4))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "vec4_f16",
        changed: "Four pairs of halves in one access of 16 bytes, and one instruction per pair",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(2)),
            Claim::new(Metric::GlobalStores, Change::DividedBy(2)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[
            Launch::new(typed_half!(vec4_f16), |size| elements_a_thread(size, 8)).only(&[Dtype::F16, Dtype::Bf16])
        ],
        finish: Finish::Nothing,
    },
];

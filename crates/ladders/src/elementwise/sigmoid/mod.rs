//! The ladder `sigmoid`: `1 / (1 + exp(-x))` of each element.

mod r01_plain;
mod r02_safe;
mod r03_vec4;
mod r04_vec4_f16;

pub use r01_plain::plain;
pub use r02_safe::safe;
pub use r03_vec4::vec4;
pub use r04_vec4_f16::vec4_f16;

use warpfold_device::Device;
use warpfold_kernels::Dtype;
use warpfold_lang::Val;

use super::{elements_a_thread, instance, typed_half};
use crate::Error;
use crate::ladder::{Change, Claim, Finish, Guards, Instance, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes};
use crate::row::typed;

fn open(device: &Device, dtype: Dtype, size: u64, guards: Guards) -> Result<Box<dyn Instance>, Error> {
    instance::open(device, dtype, size, guards, |x| 1.0 / (1.0 + (-x).exp()))
}

/// The function from the rung `safe` on: the exponential of what is not above 0 is never infinite.
fn sigmoid(x: Val<f32>) -> Val<f32> {
    let power = (-x.abs()).exp();
    x.ge(0.0).select(Val::constant(1.0), power) / (power + 1.0)
}

/// The ladder.
pub const SIGMOID: Ladder = Ladder {
    name: "sigmoid",
    problem: "1 / (1 + exp(-x)) of each element",
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
        changed: "One thread per element, and the formula as it stands",
        claims: &[],
        launches: &[Launch::new(typed!(plain()), |size| elements_a_thread(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "safe",
        changed: "No exponential overflows, so that results next to 0 keep their digits; that costs a few instructions",
        claims: &[Claim::new(Metric::Instructions, Change::Rises)],
        launches: &[Launch::new(typed!(safe()), |size| elements_a_thread(size, 1))],
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
        changed: "Eight halves in one access of 16 bytes",
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

//! The kernels that the tests print, parse back and assemble.

mod attention;
mod hopper;
pub(crate) mod ladder;
mod numbers;
mod places;
mod threads;
mod tiles;

use warpfold_lang::{Arch, Built, Error, Kernel, Params, Target};

/// The oldest target: sm_80 with the first PTX that knows it.
pub(crate) const SM_80: Target = Target::new(Arch::SM_80, (7, 4));
/// The newest target: sm_90a.
pub(crate) const SM_90A: Target = Target::new(Arch::SM_90A, (8, 0));

/// A kernel with its parameters' types forgotten.
pub(crate) struct Case {
    pub(crate) name: String,
    build: Box<dyn Fn(&Target) -> Result<Built, Error>>,
}

impl Case {
    pub(crate) fn new<Args: Params>(kernel: Kernel<Args>) -> Self {
        Self { name: kernel.name().to_owned(), build: Box::new(move |target| kernel.build(target)) }
    }

    #[track_caller]
    pub(crate) fn build(&self, target: &Target) -> Built {
        (self.build)(target).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Every kernel that a target can run.
pub(crate) fn cases(target: &Target) -> Vec<Case> {
    let mut cases = ladder::cases();
    cases.extend(numbers::cases());
    cases.extend(places::cases());
    cases.extend(threads::cases());
    cases.extend(tiles::cases());
    cases.extend(attention::cases());
    if target.arch.number >= 90 {
        cases.extend(hopper::cases());
        cases.extend(tiles::hopper_cases());
        cases.extend(attention::hopper_cases());
    }
    cases
}

//! What a family of operators is: problems that become plans.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;

use warpfold_device::{Device, Limits};
use warpfold_lang::Target;

use super::{KernelCache, Plan, Ready};
use crate::{AnyKernel, Error};

/// Operators that are planned alike: folds, row operators, products, convolutions.
///
/// A family chooses among its algorithms by rules over the problem and, where results do not depend
/// on it, the device. It has a `plan_with` of its own for benches and tuners that choose
/// themselves.
pub trait Family {
    /// Shapes, strides, types, options and alignments; never an address.
    type Problem: Any + Clone + Debug + Eq + Hash + Send + Sync;

    /// Chooses the kernels and their sizes.
    ///
    /// # Errors
    /// What the family does not compute, and sizes beyond a launch.
    fn plan(&self, problem: &Self::Problem, planner: &Planner<'_>) -> Result<Plan, Error>;

    /// Plans a problem for a device and loads its kernels, without a cache: for a single use.
    ///
    /// # Errors
    /// Those of [`Family::plan`]; what the device says of the kernels.
    fn ready(&self, device: &Device, problem: &Self::Problem) -> Result<Ready, Error> {
        let (target, kernels) = (device.target(), KernelCache::default());
        self.plan(problem, &Planner::new(&target, device.limits(), &kernels))?.ready(device)
    }
}

/// What a family plans for: a kind of device, and the kernels that were built so far.
#[derive(Debug, Clone, Copy)]
pub struct Planner<'a> {
    /// What kernels are built for.
    pub target: &'a Target,
    /// What a launch may take.
    pub limits: &'a Limits,
    kernels: &'a KernelCache,
}

impl<'a> Planner<'a> {
    /// For these targets and limits, with kernels of a cache.
    #[must_use]
    pub const fn new(target: &'a Target, limits: &'a Limits, kernels: &'a KernelCache) -> Self {
        Self { target, limits, kernels }
    }

    /// The kernel of a configuration: see [`KernelCache::get`].
    pub fn kernel<C, K>(&self, config: C, make: impl FnOnce(&C) -> K) -> AnyKernel
    where
        C: Any + Debug + Eq + Hash + Send + Sync,
        K: Into<AnyKernel>,
    {
        self.kernels.get(config, make)
    }
}

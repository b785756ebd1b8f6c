//! Kernels that are kept: one value for each configuration, so that a device recognises what it has loaded.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use warpfold_device::{Device, Function};

use crate::{AnyKernel, Error};

/// The kernels of an operator, made when a configuration is first asked for. Belongs in a `static`.
#[derive(Debug)]
pub(crate) struct Kept<C>(Mutex<BTreeMap<C, AnyKernel>>);

impl<C: Ord> Kept<C> {
    /// No kernels yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The kernel of a configuration, loaded on a device: after the first time two look-ups.
    pub(crate) fn prepare(
        &self,
        device: &Device,
        configuration: C,
        make: impl FnOnce(&C) -> AnyKernel,
    ) -> Result<Function, Error> {
        let kernel = {
            let mut kernels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !kernels.contains_key(&configuration) {
                let kernel = make(&configuration);
                kernels.entry(configuration).or_insert(kernel).clone()
            } else {
                kernels[&configuration].clone()
            }
        };
        Ok(kernel.prepare(device)?)
    }
}

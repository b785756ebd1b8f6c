//! The kernels that an operation has built, by what they are built for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::AnyKernel;

/// Kernels that clones of an operation share.
pub(super) struct Kernels<S>(Arc<Mutex<HashMap<S, AnyKernel>>>);

impl<S: Clone + Eq + Hash> Kernels<S> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// The kernel of a shape, made when it is first asked for.
    pub(super) fn get(&self, shape: &S, make: impl FnOnce() -> AnyKernel) -> AnyKernel {
        let mut kernels = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(shape) {
            return kernel.clone();
        }
        kernels.entry(shape.clone()).or_insert_with(make).clone()
    }
}

impl<S> Clone for Kernels<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

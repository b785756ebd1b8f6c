//! Products that were planned before: on tensors of the same layout and alignment they start at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::Device;
use warpfold_kernels::Error;
use warpfold_kernels::matmul;

/// Plans that a queue keeps at most: then it begins anew.
const KEPT: usize = 4096;

/// The plans of a queue.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    products: Mutex<HashMap<(matmul::Problem, matmul::Epilogue), Arc<matmul::Ready>>>,
}

impl Plans {
    /// The plan of a product, made if it is not known.
    pub(crate) fn product(
        &self,
        device: &Device,
        problem: matmul::Problem,
        epilogue: matmul::Epilogue,
    ) -> Result<Arc<matmul::Ready>, Error> {
        let key = (problem, epilogue);
        if let Some(ready) = self.products.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(ready.clone());
        }
        let plan = matmul::Plan::new(key.0.clone(), key.1.clone(), device.limits())?;
        let ready = Arc::new(matmul::Ready::new(device, plan)?);
        let mut known = self.products.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(key, ready.clone());
        Ok(ready)
    }
}

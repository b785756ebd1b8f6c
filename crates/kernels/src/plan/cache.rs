//! Plans that are ready, by their problems.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::Device;

use super::lru::Lru;
use super::{Family, KernelCache, Key, Plan, Planner, Ready};
use crate::Error;

// THRESHOLD: the plans that were not used for longest make room; launches and graphs keep what they
// use; tested by crates/kernels/src/plan/lru.rs::a_full_cache_drops_what_was_not_used_for_longest
// and crates/kernels/tests/folds/replay.rs::sums_that_blocks_share_are_replayed
/// Plans that are kept at most; the least recently used ones make room.
///
/// A server plans about 9 problems for each new length of a prompt, so that this bounds what a
/// process keeps for lengths that came once.
const CAPACITY: usize = 1024;

/// The plans of one device, for all families. Operators that launch on one stream share a cache.
#[derive(Debug)]
pub struct PlanCache {
    plans: Mutex<Lru<Key, Arc<Ready>>>,
    kernels: KernelCache,
    planned: AtomicU64,
    found: AtomicU64,
}

/// How often plans were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanCounts {
    /// Problems that were planned.
    pub planned: u64,
    /// Problems whose plan was known.
    pub found: u64,
}

impl Default for PlanCache {
    fn default() -> Self {
        Self {
            plans: Mutex::new(Lru::new(CAPACITY)),
            kernels: KernelCache::default(),
            planned: AtomicU64::new(0),
            found: AtomicU64::new(0),
        }
    }
}

impl PlanCache {
    /// The plan of a problem, made and loaded if it is not known. `device` is the same at every
    /// call.
    ///
    /// # Errors
    /// Those of [`Family::plan`]; what the device says of the kernels.
    pub fn get<F: Family>(&self, device: &Device, family: &F, problem: F::Problem) -> Result<Arc<Ready>, Error> {
        let key = Key::of(problem);
        self.get_or_plan(device, &key, &|planner| {
            family.plan(key.value::<F::Problem>().expect("the key of a problem"), planner)
        })
    }

    /// The plan of a problem that is not to run: nothing is loaded, and the plan is not kept. Its
    /// kernels are those that [`PlanCache::get`] takes.
    ///
    /// # Errors
    /// Those of [`Family::plan`].
    pub fn outline<F: Family>(&self, device: &Device, family: &F, problem: &F::Problem) -> Result<Plan, Error> {
        let target = device.target();
        family.plan(problem, &Planner::new(&target, device.limits(), &self.kernels))
    }

    /// The plan of this key. Compiled once, not once for each family.
    fn get_or_plan(
        &self,
        device: &Device,
        key: &Key,
        plan: &dyn Fn(&Planner<'_>) -> Result<Plan, Error>,
    ) -> Result<Arc<Ready>, Error> {
        if let Some(ready) = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            self.found.fetch_add(1, Ordering::Relaxed);
            return Ok(ready);
        }
        // Not under the lock: building and loading kernels takes long.
        let target = device.target();
        let ready = Arc::new(plan(&Planner::new(&target, device.limits(), &self.kernels))?.ready(device)?);
        self.planned.fetch_add(1, Ordering::Relaxed);
        Ok(self.plans.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(key.clone(), ready))
    }

    /// The plans that are kept, the one that was used last at the end.
    #[must_use]
    pub fn ready(&self) -> Vec<Arc<Ready>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).values()
    }

    /// How many problems were planned and how many were known, so far.
    #[must_use]
    pub fn counts(&self) -> PlanCounts {
        PlanCounts { planned: self.planned.load(Ordering::Relaxed), found: self.found.load(Ordering::Relaxed) }
    }
}

//! Plans that are ready, by their problems.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::Device;

use super::{Family, KernelCache, Key, Plan, Planner, Ready};
use crate::Error;

/// Plans that are kept at most; the least recently used ones make room.
const CAPACITY: usize = 4096;

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

    /// How many problems were planned and how many were known, so far.
    #[must_use]
    pub fn counts(&self) -> PlanCounts {
        PlanCounts { planned: self.planned.load(Ordering::Relaxed), found: self.found.load(Ordering::Relaxed) }
    }
}

/// A map with a bound: when it is full, the half that was not used for longest is dropped.
#[derive(Debug)]
pub(super) struct Lru<K, V> {
    entries: HashMap<K, (V, u64)>,
    capacity: usize,
    clock: u64,
}

impl<K: Eq + Hash, V: Clone> Lru<K, V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity, clock: 0 }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        let (value, used) = self.entries.get_mut(key)?;
        self.clock += 1;
        *used = self.clock;
        Some(value.clone())
    }

    /// The value that is there, else this one.
    pub(super) fn get_or_insert(&mut self, key: K, value: V) -> V {
        if self.entries.len() >= self.capacity {
            let mut ages: Vec<u64> = self.entries.values().map(|(_, used)| *used).collect();
            let (_, median, _) = ages.select_nth_unstable(self.capacity / 2);
            let median = *median;
            self.entries.retain(|_, (_, used)| *used > median);
        }
        self.clock += 1;
        let now = self.clock;
        let (value, used) = self.entries.entry(key).or_insert((value, now));
        *used = now;
        value.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_drops_what_was_not_used_for_longest() {
        let mut lru = Lru::new(4);
        for i in 0..4 {
            lru.get_or_insert(i, i);
        }
        assert_eq!(lru.get(&0), Some(0));
        lru.get_or_insert(4, 4);
        assert_eq!((lru.get(&0), lru.get(&1), lru.get(&2), lru.get(&4)), (Some(0), None, None, Some(4)));
        assert!(lru.entries.len() <= 4);
    }

    #[test]
    fn the_first_value_of_a_key_stays() {
        let mut lru = Lru::new(4);
        assert_eq!((lru.get_or_insert('a', 1), lru.get_or_insert('a', 2)), (1, 1));
    }
}

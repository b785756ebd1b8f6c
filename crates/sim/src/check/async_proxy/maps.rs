//! Tensor maps that kernels modify, and the tensormap proxy fences that copies need (PTX ISA,
//! "membar/fence", `.tensormap::generic`).
//!
//! From a change in global memory the way to a copy leads over a release by the block that made it
//! (`tensormap.cp_fenceproxy` is one) and an acquire of the map's address.
//!
//! What can be missed: changes by plain stores; that a release was by another thread of the block,
//! or an acquire by a thread from which nothing leads to the copy. Races over the bytes of a map
//! are those of global memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::check::Space;
use crate::check::block::BlockCheck;
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::records::LaunchCheck;

/// The last modification of a map in this launch.
#[derive(Debug)]
struct Change {
    by: Side,
    is_released: bool,
    is_acquired: bool,
}

/// The modified maps of a launch, by address.
#[derive(Debug, Default)]
pub(in crate::check) struct ChangedMaps(Mutex<HashMap<u64, Change>>);

impl ChangedMaps {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Change>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockCheck {
    /// Notes that a thread has modified the map at an address.
    pub(crate) fn map_changes(&self, launch: &LaunchCheck, by: Side, address: u64) {
        launch.maps.all().insert(address, Change { by, is_released: false, is_acquired: false });
    }

    /// Notes that a thread has released the maps that it modified.
    pub(crate) fn maps_released(&self, launch: &LaunchCheck) {
        #[allow(clippy::iter_over_hash_type, reason = "each is changed by itself")]
        for change in launch.maps.all().values_mut().filter(|change| change.by.block == self.block) {
            change.is_released = true;
        }
    }

    /// Notes that a thread has acquired the map at an address.
    pub(crate) fn map_acquired(&self, launch: &LaunchCheck, address: u64) {
        if let Some(change) = launch.maps.all().get_mut(&address) {
            change.is_acquired |= change.is_released;
        }
    }

    /// Checks a copy that a thread issues with the map at an address.
    pub(crate) fn map_used(&self, launch: &LaunchCheck, this: Side, address: u64, findings: &mut Findings) {
        if let Some(change) = launch.maps.all().get(&address).filter(|change| !change.is_acquired) {
            let (rule, other) = (Rule::UnfencedMap, Some(change.by));
            findings.add(Found { rule, space: Space::Global, address, this, other, count: 1 });
        }
    }
}

//! The kernels that plans are made of, each built once for its configuration.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use super::Key;
use super::lru::Lru;
use crate::AnyKernel;

// THRESHOLD: the kernels that were not used for longest make room; plans keep theirs; tested by
// crates/kernels/src/plan/lru.rs::a_full_cache_drops_what_was_not_used_for_longest and
// crates/kernels/tests/folds/replay.rs::sums_that_blocks_share_are_replayed
/// Kernels that are kept at most; the least recently used ones make room.
const CAPACITY: usize = 4096;

/// Kernels by what they are built for, so that plans of different shapes share them.
#[derive(Debug)]
pub struct KernelCache(Mutex<Lru<Key, AnyKernel>>);

impl Default for KernelCache {
    fn default() -> Self {
        Self(Mutex::new(Lru::new(CAPACITY)))
    }
}

impl KernelCache {
    /// The kernel of a configuration, made when it is first asked for. The type of the
    /// configuration belongs to one family, and its value decides on every line of the kernel.
    pub fn get<C, K>(&self, config: C, make: impl FnOnce(&C) -> K) -> AnyKernel
    where
        C: Any + Debug + Eq + Hash + Send + Sync,
        K: Into<AnyKernel>,
    {
        let key = Key::of(config);
        self.find(&key).unwrap_or_else(|| {
            let config = key.value::<C>().expect("the key of a config");
            self.keep(&key, make(config).into())
        })
    }

    fn find(&self, key: &Key) -> Option<AnyKernel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    /// The kernel that another thread made meanwhile, else this one.
    fn keep(&self, key: &Key, kernel: AnyKernel) -> AnyKernel {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(key.clone(), kernel)
    }
}

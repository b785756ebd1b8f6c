//! State of the random numbers: a seed, and the number of draws from it.

use std::sync::{Mutex, PoisonError};

/// A seed, initially 0, and the number of draws from it: together they determine the next random
/// numbers, on every device.
#[derive(Debug, Default)]
pub struct Draws {
    seed_and_count: Mutex<(u64, u64)>,
}

impl Draws {
    /// Restarts from this seed.
    pub fn set_seed(&self, seed: u64) {
        *self.seed_and_count.lock().unwrap_or_else(PoisonError::into_inner) = (seed, 0);
    }

    /// Returns the seed, and the number of draws before this one.
    #[must_use]
    pub fn next(&self) -> (u64, u64) {
        let mut state = self.seed_and_count.lock().unwrap_or_else(PoisonError::into_inner);
        let (seed, draw) = *state;
        state.1 += 1;
        (seed, draw)
    }
}

//! A seed, and how many draws were made from it.

use std::sync::{Mutex, PoisonError};

/// A seed, which is 0 until it is set, and the number of draws from it: together they say what the
/// next random numbers are, on every device.
#[derive(Debug, Default)]
pub struct Draws {
    seed_and_count: Mutex<(u64, u64)>,
}

impl Draws {
    /// Begins anew, from this seed.
    pub fn set_seed(&self, seed: u64) {
        *self.seed_and_count.lock().unwrap_or_else(PoisonError::into_inner) = (seed, 0);
    }

    /// The seed, and how many draws were made before this one.
    #[must_use]
    pub fn next(&self) -> (u64, u64) {
        let mut state = self.seed_and_count.lock().unwrap_or_else(PoisonError::into_inner);
        let (seed, draw) = *state;
        state.1 += 1;
        (seed, draw)
    }
}

//! Random numbers of a scenario, all from one seed.

use crate::sampling::philox;

/// Numbers below bounds. The same seed gives the same ones.
#[derive(Debug, Clone)]
pub struct SeedDraws {
    seed: u64,
    last: u32,
}

impl SeedDraws {
    /// The numbers of a seed, from the first.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, last: 0 }
    }

    /// Returns a number below a bound, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.last += 1;
        philox(self.seed, [self.last, 0, 0, 0xD57])[0] as usize % bound
    }

    /// Returns true in so many of a hundred cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// Returns one of several.
    pub fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

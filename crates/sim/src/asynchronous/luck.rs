//! The order in which asynchronous copies complete, blocks begin and warps run, drawn from a seed.
//!
//! Seed 0 draws nothing: every copy is as late as the rules allow, and blocks begin and warps run
//! in increasing order. With any other seed copies may land as soon as they have begun, and those
//! towards one barrier in any order; neighbouring blocks begin in any order, and the warps of a
//! block run upwards or downwards from any of them, in each pass anew.

/// A block's draws: SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Luck(Option<u64>);

impl Luck {
    /// The generator of a block.
    pub(crate) fn new(seed: u64, block: u64) -> Self {
        Self((seed != 0).then(|| seed ^ block.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// Returns true if the order is drawn from a seed.
    pub(crate) const fn is_drawn(self) -> bool {
        self.0.is_some()
    }

    fn next(&mut self) -> Option<u64> {
        let state = self.0.as_mut()?;
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(z ^ z >> 31)
    }

    /// True in one of `n` draws; never without a seed.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_some_and(|draw| draw % n == 0)
    }

    /// A number below `n`; 0 without a seed.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        match self.next() {
            Some(draw) if n > 1 => usize::try_from(draw % n as u64).expect("below a length"),
            _ => 0,
        }
    }

    /// Shuffles a list; without a seed it stays as it is.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        if self.is_drawn() {
            for n in (1..list.len()).rev() {
                list.swap(n, self.below(n + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_seed_nothing_is_drawn() {
        let mut luck = Luck::new(0, 5);
        assert!(!luck.one_in(1));
        let mut list = [1, 2, 3];
        luck.shuffle(&mut list);
        assert_eq!(list, [1, 2, 3]);
    }

    #[test]
    fn a_seed_gives_the_same_draws_again_and_blocks_their_own() {
        let draws = |seed, block| {
            let mut luck = Luck::new(seed, block);
            std::array::from_fn::<_, 16, _>(|_| luck.below(1000))
        };
        assert_eq!(draws(1, 0), draws(1, 0));
        assert_ne!(draws(1, 0), draws(2, 0));
        assert_ne!(draws(1, 0), draws(1, 1));
    }
}

//! Set of records of one block, one bit each.

/// Records from the block's first one on.
#[derive(Debug, Default)]
pub(in crate::check) struct Marks {
    first: u32,
    bits: Vec<u64>,
}

impl Marks {
    /// Clears the set, for the records of a block that start at `first`.
    pub(in crate::check) fn begin(&mut self, first: u32) {
        self.first = first;
        self.bits.clear();
    }

    /// Adds a record of the block.
    pub(in crate::check) fn insert(&mut self, id: u32) {
        let at = (id - self.first) as usize;
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        self.bits[at / 64] |= 1 << (at % 64);
    }

    /// Returns true if a record is in the set; those of other blocks are not.
    #[inline]
    pub(in crate::check) fn contains(&self, id: u32) -> bool {
        let at = id.wrapping_sub(self.first) as usize;
        self.bits.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 != 0)
    }
}

//! Block table: locations of the positions of one sequence.

use super::{BlockId, Pool};
use crate::planted::{EngineFault, planted};

/// The blocks of a sequence in order of positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) blocks: Vec<BlockId>,
    /// Nodes of the leading blocks that stand in the prefix index.
    pub(crate) nodes: Vec<u64>,
    /// Leading positions that came with a prefix hit. They are never written, even if their token
    /// is run again.
    pub(crate) cached: usize,
}

impl Table {
    /// The slot of a position that the table covers.
    pub(crate) fn slot(&self, position: usize, block_size: usize) -> u32 {
        let offset = u32::try_from(position % block_size).expect("a block has few positions");
        let size = u32::try_from(block_size).expect("a block has few positions");
        self.blocks[position / block_size] * size + offset
    }

    /// A second holder of what the first `len` positions lie in.
    pub(crate) fn fork(&self, pool: &mut Pool, len: usize, block_size: usize) -> Self {
        let blocks = self.blocks[..len.div_ceil(block_size)].to_vec();
        for id in blocks.iter().skip(usize::from(planted(EngineFault::ForkHoldsTooFew))) {
            pool.share(*id);
        }
        let nodes = self.nodes[..self.nodes.len().min(len / block_size)].to_vec();
        Self { blocks, nodes, cached: self.cached.min(len) }
    }

    /// Gives all blocks back, the last one first, so that a tail is evicted before what it hangs
    /// on.
    pub(crate) fn release(&mut self, pool: &mut Pool, fence: u64) {
        for id in self.blocks.drain(..).rev().skip(usize::from(planted(EngineFault::LastBlockLeaks))) {
            pool.release(id, fence);
        }
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_the_table_and_a_fork_shares_what_it_covers() {
        let mut pool = Pool::new(5);
        let mut table = Table { blocks: vec![3, 1], ..Table::default() };
        pool.share(3);
        pool.share(1);
        assert_eq!([0, 3, 4].map(|p| table.slot(p, 4)), [12, 15, 4]);
        let mut fork = table.fork(&mut pool, 4, 4);
        assert_eq!((fork.blocks.clone(), pool.refs(3), pool.refs(1)), (vec![3], 2, 1));
        table.release(&mut pool, 0);
        fork.release(&mut pool, 0);
        assert_eq!(pool.num_free(), 5);
    }
}

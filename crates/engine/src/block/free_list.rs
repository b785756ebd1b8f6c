//! The free blocks in the order in which they are given out: a doubly linked list inside two
//! arrays.
//!
//! The null block, which is never free, is the ring's sentinel: its links are the list's ends. All
//! operations take constant time and allocate nothing, as in vLLM V1's `FreeKVCacheBlockQueue`.

use super::{BlockId, NULL_BLOCK};
use crate::planted::{EngineFault, planted};

/// A ring through the free blocks and the null block.
#[derive(Debug, Clone)]
pub(crate) struct FreeList {
    next: Vec<BlockId>,
    prev: Vec<BlockId>,
    len: usize,
}

impl FreeList {
    /// Blocks 1 to `num_blocks`, all free, the first at the front.
    pub(crate) fn new(num_blocks: usize) -> Self {
        let last = BlockId::try_from(num_blocks).expect("the number of a block has 32 bits");
        let next = (0..=last).map(|id| if id == last { NULL_BLOCK } else { id + 1 }).collect();
        let prev = (0..=last).map(|id| if id == NULL_BLOCK { last } else { id - 1 }).collect();
        Self { next, prev, len: num_blocks }
    }

    /// Returns the number of free blocks.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether a block is free. One that is not links to itself.
    pub(crate) fn contains(&self, id: BlockId) -> bool {
        id != NULL_BLOCK && self.next[id as usize] != id
    }

    /// The next block to be given out.
    pub(crate) fn pop_front(&mut self) -> Option<BlockId> {
        let first = self.next[NULL_BLOCK as usize];
        (first != NULL_BLOCK).then(|| {
            self.remove(first);
            first
        })
    }

    /// A block that is given out first.
    pub(crate) fn push_front(&mut self, id: BlockId) {
        self.insert_after(NULL_BLOCK, id);
    }

    /// A block that is given out last.
    pub(crate) fn push_back(&mut self, id: BlockId) {
        self.insert_after(self.prev[NULL_BLOCK as usize], id);
    }

    /// Takes a block out, wherever it is.
    pub(crate) fn remove(&mut self, id: BlockId) {
        assert!(self.contains(id), "block {id} is taken from the free list but is not on it");
        let (prev, next) = (self.prev[id as usize], self.next[id as usize]);
        self.next[prev as usize] = next;
        self.prev[next as usize] = prev;
        (self.next[id as usize], self.prev[id as usize]) = (id, id);
        self.len -= usize::from(!planted(EngineFault::FreeLengthIsStale));
    }

    /// The free blocks from front to back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        let step = |id: BlockId| Some(self.next[id as usize]).filter(|n| *n != NULL_BLOCK);
        std::iter::successors(step(NULL_BLOCK), move |id| step(*id))
    }

    fn insert_after(&mut self, before: BlockId, id: BlockId) {
        assert!(id != NULL_BLOCK && !self.contains(id), "block {id} is freed twice");
        let after = self.next[before as usize];
        (self.prev[id as usize], self.next[id as usize]) = (before, after);
        self.next[before as usize] = id;
        self.prev[after as usize] = id;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &FreeList) -> Vec<BlockId> {
        list.iter().collect()
    }

    #[test]
    fn blocks_come_out_in_order_and_go_in_at_either_end() {
        let mut list = FreeList::new(4);
        assert_eq!(all(&list), [1, 2, 3, 4]);
        assert_eq!((list.pop_front(), list.pop_front()), (Some(1), Some(2)));
        list.push_back(1);
        list.push_front(2);
        assert_eq!((all(&list), list.len()), (vec![2, 3, 4, 1], 4));
        list.remove(4);
        assert_eq!((all(&list), list.contains(4), list.contains(3)), (vec![2, 3, 1], false, true));
    }

    #[test]
    fn an_empty_list_gives_nothing_and_can_be_filled_again() {
        let mut list = FreeList::new(1);
        assert_eq!((list.pop_front(), list.pop_front()), (Some(1), None));
        list.push_back(1);
        assert_eq!(all(&list), [1]);
        assert_eq!(FreeList::new(0).pop_front(), None);
    }

    #[test]
    #[should_panic(expected = "block 2 is freed twice")]
    fn freeing_a_free_block_is_a_bug() {
        FreeList::new(3).push_back(2);
    }
}

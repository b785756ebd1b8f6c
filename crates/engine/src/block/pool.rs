//! A pool of blocks: references, the order of reuse, fences, and the index of prefixes.
//!
//! A block is *used* (references), *free*, or *retired*: nobody holds it but a step that is still
//! running may touch it. A free block keeps what it holds, and can be hit, until it is given out
//! again; the free list is the LRU order.

use super::{BlockId, FreeList, Hit, Key, PrefixChange, PrefixIndex};
use crate::planted::{EngineFault, planted};

#[derive(Debug, Clone, Default)]
struct Block {
    refs: u32,
    /// The last step that may touch it.
    fence: u64,
    is_retired: bool,
    /// Hash key of the content, if it can be hit.
    key: Option<Key>,
}

/// Blocks 1 to `num_blocks`, and the null block.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    blocks: Vec<Block>,
    free: FreeList,
    retired: Vec<BlockId>,
    index: PrefixIndex,
    /// The last step that is over.
    done: u64,
}

impl Pool {
    pub(crate) fn new(num_blocks: usize) -> Self {
        let blocks = vec![Block::default(); num_blocks + 1];
        Self { blocks, free: FreeList::new(num_blocks), retired: Vec::new(), index: PrefixIndex::default(), done: 0 }
    }

    /// All blocks but the null block.
    pub(crate) fn num_blocks(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Blocks that [`Self::take`] can give.
    pub(crate) fn num_free(&self) -> usize {
        self.free.len()
    }

    /// Blocks that somebody holds.
    pub(crate) fn num_used(&self) -> usize {
        let retired = self.retired.iter().filter(|id| self.refs(**id) == 0).count();
        self.num_blocks() - self.free.len() - retired
    }

    /// Blocks that can be hit.
    pub(crate) fn num_indexed(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn refs(&self, id: BlockId) -> u32 {
        self.blocks[id as usize].refs
    }

    /// Returns whether the block is free, so that a reference to it takes a free block.
    pub(crate) fn is_free(&self, id: BlockId) -> bool {
        self.free.contains(id)
    }

    /// A block for one holder, the least recently used; what it held is forgotten.
    pub(crate) fn take(&mut self) -> Option<BlockId> {
        let id = self.free.pop_front()?;
        if !planted(EngineFault::TakenBlockStaysInIndex) {
            self.forget(id);
        }
        self.blocks[id as usize].refs = 1;
        Some(id)
    }

    /// The first `len` free blocks whose numbers follow one another.
    pub(crate) fn take_run(&mut self, len: usize) -> Option<Vec<BlockId>> {
        let first = self.find_run(len)?;
        let run: Vec<_> = (first..).take(len).collect();
        for id in &run {
            if !planted(EngineFault::RunIsNotTaken) || *id == first {
                self.free.remove(*id);
            }
            self.forget(*id);
            self.blocks[*id as usize].refs = 1;
        }
        Some(run)
    }

    /// Finds the consecutive blocks for [`Self::take_run`].
    pub(crate) fn find_run(&self, len: usize) -> Option<BlockId> {
        let last = BlockId::try_from(self.num_blocks()).expect("the number of a block has 32 bits");
        let mut found = 0;
        let ends = |id: &BlockId| {
            found = if self.free.contains(*id) { found + 1 } else { 0 };
            found >= len
        };
        let end = (1..=last).find(ends)?;
        Some(end + 1 - u32::try_from(len).expect("a run is shorter than the pool"))
    }

    /// One more holder, also of a free block, which then holds what it held.
    pub(crate) fn share(&mut self, id: BlockId) {
        if self.free.contains(id) {
            self.free.remove(id);
        }
        let block = &mut self.blocks[id as usize];
        block.refs += u32::from(block.refs == 0 || !planted(EngineFault::ShareIsNotCounted));
    }

    /// One holder less. The last one gives the block back once the step `fence` is over.
    pub(crate) fn release(&mut self, id: BlockId, fence: u64) {
        let block = &mut self.blocks[id as usize];
        assert!(block.refs > 0, "block {id} is released more often than it was taken");
        block.refs -= 1;
        block.fence = block.fence.max(fence);
        if block.refs > 0 {
            return;
        }
        if block.fence <= self.done {
            self.put_back(id);
        } else if !block.is_retired {
            block.is_retired = true;
            self.retired.push(id);
        }
    }

    /// Says that all steps up to `step` are over, which frees what they kept.
    pub(crate) fn finish_step(&mut self, step: u64) {
        self.done = step;
        for id in std::mem::take(&mut self.retired) {
            let block = &mut self.blocks[id as usize];
            if block.refs == 0 && block.fence > step {
                if !planted(EngineFault::RetiredBlockIsForgotten) {
                    self.retired.push(id);
                }
                continue;
            }
            block.is_retired = false;
            if block.refs == 0 {
                self.put_back(id);
            }
        }
    }

    /// Lets a computed block be hit, and returns the node of what it holds. If another block stands
    /// for the same prefix, that one stays, and its node is returned.
    pub(crate) fn publish(&mut self, id: BlockId, key: Key) -> u64 {
        if let Some(hit) = self.index.get(&key) {
            return hit.node;
        }
        self.forget(id);
        self.blocks[id as usize].key = Some(key.clone());
        self.index.insert(key, id)
    }

    /// Takes a block out of the index, as it is about to be written or given away.
    pub(crate) fn forget(&mut self, id: BlockId) {
        if let Some(key) = self.blocks[id as usize].key.take() {
            self.index.remove(&key);
        }
    }

    /// The block that holds `key`.
    pub(crate) fn lookup(&self, key: &Key) -> Option<Hit> {
        self.index.get(key)
    }

    /// Blocks that can be hit since the step began, and those that no longer can, if it is traced.
    pub(crate) fn prefix_changes(&self) -> &[PrefixChange] {
        self.index.changes()
    }

    /// Says that a step begins, and whether it is traced.
    pub(crate) fn begin_step(&mut self, is_traced: bool) {
        self.index.begin_changes(is_traced);
    }

    /// Forgets all prefixes; blocks stay with those who hold them.
    pub(crate) fn clear_index(&mut self) {
        for id in 1..self.blocks.len() {
            self.forget(BlockId::try_from(id).expect("the number of a block has 32 bits"));
        }
    }

    /// Compares the pool with the references that holders count, `held[id]`, and with itself.
    ///
    /// # Panics
    /// If an invariant is broken; the message says which.
    pub(crate) fn check(&self, held: &[u32]) {
        let free: Vec<_> = self.free.iter().collect();
        assert_eq!(free.len(), self.free.len(), "the free list has its length");
        for id in &free {
            assert_eq!(self.refs(*id), 0, "block {id} is free but held");
        }
        let mut indexed = 0;
        for (id, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.refs, held[id], "references of block {id}, and tables that name it");
            if let Some(key) = &block.key {
                indexed += 1;
                assert_eq!(self.index.get(key).map(|h| h.block as usize), Some(id), "the index names another block");
            }
        }
        assert_eq!(indexed, self.index.len(), "blocks with a key, and entries of the index");
        let used = self.blocks.iter().filter(|b| b.refs > 0).count();
        assert_eq!(used, self.num_used(), "free, retired and used blocks are all that there are");
    }

    fn put_back(&mut self, id: BlockId) {
        // A block that can be hit waits as long as possible; the others never help again.
        if self.blocks[id as usize].key.is_some() { self.free.push_back(id) } else { self.free.push_front(id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Parent;

    fn key(tokens: &[u32]) -> Key {
        Key::new(Parent::Root { salt: "".into(), adapter: None }, tokens)
    }

    fn take_all(pool: &mut Pool) -> Vec<BlockId> {
        std::iter::from_fn(|| pool.take()).collect()
    }

    #[test]
    fn a_pool_gives_each_block_once_and_then_nothing() {
        let mut pool = Pool::new(3);
        assert_eq!(take_all(&mut pool), [1, 2, 3]);
        assert_eq!(pool.num_free(), 0);
        pool.release(2, 0);
        assert_eq!(pool.take(), Some(2));
    }

    #[test]
    fn the_last_holder_frees_a_block() {
        let mut pool = Pool::new(1);
        let id = pool.take().expect("a free block");
        pool.share(id);
        pool.release(id, 0);
        assert_eq!(pool.num_free(), 0);
        pool.release(id, 0);
        assert_eq!(pool.num_free(), 1);
    }

    #[test]
    #[should_panic(expected = "released more often")]
    fn releasing_a_free_block_is_a_bug() {
        Pool::new(1).release(1, 0);
    }

    #[test]
    fn a_block_is_given_out_only_after_the_last_step_that_may_touch_it() {
        let mut pool = Pool::new(1);
        let id = pool.take().expect("a free block");
        pool.release(id, 5);
        pool.finish_step(4);
        assert_eq!(pool.take(), None);
        pool.check(&[0, 0]);
        pool.finish_step(5);
        assert_eq!(pool.take(), Some(id));
    }

    #[test]
    fn a_retired_block_can_be_hit_and_is_not_freed_under_its_new_holder() {
        let mut pool = Pool::new(2);
        let id = pool.take().expect("a free block");
        pool.publish(id, key(&[1]));
        pool.release(id, 5);
        pool.share(pool.lookup(&key(&[1])).expect("a hit").block);
        pool.finish_step(5);
        assert_eq!((pool.refs(id), pool.num_free()), (1, 1));
        pool.release(id, 6);
        pool.finish_step(6);
        assert_eq!(pool.num_free(), 2);
        pool.check(&[0, 0, 0]);
    }

    #[test]
    fn blocks_that_can_be_hit_are_evicted_last_and_oldest_first() {
        let mut pool = Pool::new(4);
        let ids = take_all(&mut pool);
        pool.publish(ids[0], key(&[0]));
        pool.publish(ids[2], key(&[2]));
        for id in [ids[2], ids[1], ids[0], ids[3]] {
            pool.release(id, 0);
        }
        assert_eq!(pool.num_indexed(), 2);
        assert_eq!(take_all(&mut pool), [ids[3], ids[1], ids[2], ids[0]]);
        assert_eq!(pool.num_indexed(), 0);
    }

    #[test]
    fn a_hit_takes_a_block_from_the_middle_of_the_free_list() {
        let mut pool = Pool::new(3);
        let ids = take_all(&mut pool);
        for id in &ids {
            pool.publish(*id, key(&[*id]));
            pool.release(*id, 0);
        }
        pool.share(2);
        assert_eq!(take_all(&mut pool), [1, 3]);
        assert_eq!(pool.lookup(&key(&[2])).map(|h| h.block), Some(2));
    }

    #[test]
    fn of_two_blocks_with_one_prefix_the_first_stays_in_the_index() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().expect("free"), pool.take().expect("free"));
        let node = pool.publish(a, key(&[1]));
        assert_eq!(pool.publish(b, key(&[1])), node);
        assert_eq!(pool.lookup(&key(&[1])).map(|h| h.block), Some(a));
        pool.check(&[0, 1, 1]);
    }

    #[test]
    fn a_run_needs_neighbours() {
        let mut pool = Pool::new(6);
        assert_eq!(pool.take_run(2), Some(vec![1, 2]));
        assert_eq!(pool.take_run(2), Some(vec![3, 4]));
        pool.release(1, 0);
        pool.release(2, 0);
        assert_eq!((pool.num_free(), pool.take_run(3)), (4, None));
        assert_eq!(pool.take_run(1), Some(vec![1]));
    }
}

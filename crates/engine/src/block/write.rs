//! Room for positions that a step writes: growth, and copy-on-write where a block has other
//! holders.

use std::ops::Range;

use super::{BlockCopy, BlockId, Pool, Table};
use crate::planted::{EngineFault, planted};

/// Returns the exact number of blocks that writing the positions takes from the pool.
///
/// Of the holders of a shared block that all write, the last one writes in place: a group that fits
/// the pool by arithmetic must also fit by this count.
pub(crate) fn blocks_needed<'a>(
    pool: &Pool,
    block_size: usize,
    writes: impl Iterator<Item = (&'a Table, Range<usize>)>,
) -> usize {
    let mut growth = 0;
    let mut shared: Vec<(BlockId, u32)> = Vec::new();
    for (table, positions) in writes {
        growth += positions.end.div_ceil(block_size).saturating_sub(table.blocks.len());
        for id in written(table, &positions, block_size).map(|i| table.blocks[i]) {
            match shared.iter_mut().find(|(other, _)| *other == id) {
                Some((_, writers)) => *writers += 1,
                None if pool.refs(id) > 1 => shared.push((id, 1)),
                None => {}
            }
        }
    }
    let copies = |&(id, writers): &(BlockId, u32)| writers.min(pool.refs(id) - 1) as usize;
    growth + shared.iter().filter(|_| !planted(EngineFault::CopyIsNotCounted)).map(copies).sum::<usize>()
}

/// Makes the table cover `positions` and every block that is written in belong to it alone.
///
/// # Panics
/// If the pool has fewer free blocks than [`blocks_needed`] says.
pub(crate) fn prepare(
    pool: &mut Pool,
    block_size: usize,
    table: &mut Table,
    positions: Range<usize>,
    step: u64,
    copies: &mut Vec<BlockCopy>,
) {
    let take = |pool: &mut Pool| pool.take().expect("blocks were counted before they are taken");
    for i in written(table, &positions, block_size) {
        let id = table.blocks[i];
        if pool.refs(id) > 1 {
            let copy = take(pool);
            if !planted(EngineFault::CopyIsNotMade) {
                copies.push((id, copy));
            }
            pool.release(id, step);
            table.blocks[i] = copy;
        } else {
            // Left by a longer sequence of the same group: what it holds is about to change.
            pool.forget(id);
        }
    }
    while table.blocks.len() * block_size < positions.end {
        let id = take(pool);
        table.blocks.push(id);
    }
}

/// Returns the existing blocks of the table that are written.
fn written(table: &Table, positions: &Range<usize>, block_size: usize) -> Range<usize> {
    let start = positions.start.max(table.cached);
    if start >= positions.end {
        return 0..0;
    }
    let end = positions.end.div_ceil(block_size).min(table.blocks.len());
    (start / block_size).min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pool: &mut Pool, len: usize) -> Table {
        let mut table = Table::default();
        prepare(pool, 4, &mut table, 0..len, 1, &mut Vec::new());
        table
    }

    #[test]
    fn a_table_grows_only_when_its_last_block_is_full() {
        let mut pool = Pool::new(8);
        let mut a = table(&mut pool, 7);
        assert_eq!(a.blocks, [1, 2]);
        assert_eq!(blocks_needed(&pool, 4, [(&a, 7..8)].into_iter()), 0);
        assert_eq!(blocks_needed(&pool, 4, [(&a, 7..9)].into_iter()), 1);
        prepare(&mut pool, 4, &mut a, 7..9, 2, &mut Vec::new());
        assert_eq!(a.blocks, [1, 2, 3]);
    }

    #[test]
    fn the_last_of_the_writers_of_a_shared_block_writes_in_place() {
        let mut pool = Pool::new(8);
        let mut a = table(&mut pool, 7);
        let mut b = a.fork(&mut pool, 7, 4);
        let both = [(&a, 7..8), (&b, 7..8)];
        assert_eq!(blocks_needed(&pool, 4, both.into_iter()), 1);
        let mut copies = Vec::new();
        prepare(&mut pool, 4, &mut a, 7..8, 2, &mut copies);
        prepare(&mut pool, 4, &mut b, 7..8, 2, &mut copies);
        assert_eq!((a.blocks, b.blocks, copies), (vec![1, 3], vec![1, 2], vec![(2, 3)]));
    }

    #[test]
    fn cached_positions_are_run_again_without_a_copy() {
        let mut pool = Pool::new(8);
        let mut a = table(&mut pool, 8);
        let mut b = a.fork(&mut pool, 8, 4);
        b.cached = 8;
        assert_eq!(blocks_needed(&pool, 4, [(&b, 7..8)].into_iter()), 0);
        let mut copies = Vec::new();
        prepare(&mut pool, 4, &mut b, 7..8, 2, &mut copies);
        assert!(copies.is_empty() && a.blocks == b.blocks);
        prepare(&mut pool, 4, &mut a, 7..8, 2, &mut copies);
        assert_eq!(copies, [(2, 3)]);
    }

    #[test]
    fn a_block_that_is_written_leaves_the_index() {
        let mut pool = Pool::new(2);
        let mut a = table(&mut pool, 4);
        pool.publish(
            a.blocks[0],
            crate::block::Key::new(crate::block::Parent::Root { salt: "".into(), adapter: None }, &[1, 2, 3, 4]),
        );
        prepare(&mut pool, 4, &mut a, 2..3, 2, &mut Vec::new());
        assert_eq!(pool.num_indexed(), 0);
    }
}

//! Moving the tables of a group from one pool to the other; what its sequences share stays shared.

use std::collections::BTreeMap;

use super::{BlockCopy, BlockId, Pool, Table};
use crate::planted::{EngineFault, planted};

/// Counts the distinct blocks of the tables.
pub(crate) fn num_unique<'a>(tables: impl Iterator<Item = &'a Table>) -> usize {
    let mut ids: Vec<BlockId> = tables.flat_map(|t| t.blocks.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

/// Gives every block of the tables a counterpart in `to`, releases it in `from`, and returns what
/// is to be copied.
///
/// `fence` is the last step that may touch a block of `from`: the step before for the device, whose
/// copies out run first, and this one for the host, whose blocks must not be written before they
/// were read.
///
/// # Panics
/// If `to` has fewer free blocks than [`num_unique`] says.
pub(crate) fn swap_tables<'a>(
    tables: impl Iterator<Item = &'a mut Table>,
    from: &mut Pool,
    to: &mut Pool,
    fence: u64,
) -> Vec<BlockCopy> {
    let mut moved: BTreeMap<BlockId, BlockId> = BTreeMap::new();
    for table in tables {
        for id in &mut table.blocks {
            let new = match moved.get(id) {
                Some(&new) => {
                    if !planted(EngineFault::SwappedShareIsNotCounted) {
                        to.share(new);
                    }
                    new
                }
                None => to.take().expect("blocks were counted before they are swapped"),
            };
            moved.insert(*id, new);
            from.release(*id, fence);
            *id = new;
        }
        table.nodes.clear();
        table.cached = 0;
    }
    moved.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_blocks_move_once_and_stay_shared() {
        let (mut device, mut host) = (Pool::new(4), Pool::new(4));
        let mut a = Table { blocks: (0..2).filter_map(|_| device.take()).collect(), ..Table::default() };
        let mut b = a.fork(&mut device, 4, 4);
        b.blocks.extend(device.take());
        assert_eq!(num_unique([&a, &b].into_iter()), 3);
        let copies = swap_tables([&mut a, &mut b].into_iter(), &mut device, &mut host, 0);
        assert_eq!(copies.len(), 3);
        assert_eq!((device.num_free(), host.num_free()), (4, 1));
        assert_eq!((a.blocks[0], host.refs(a.blocks[0])), (b.blocks[0], 2));
        swap_tables([&mut a, &mut b].into_iter(), &mut host, &mut device, 0);
        assert_eq!((device.num_free(), host.num_free()), (1, 4));
    }
}

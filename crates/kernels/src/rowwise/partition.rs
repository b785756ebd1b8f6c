//! A row in shared memory, partitioned so that each warp has a part to itself.
//!
//! The threads of a warp copy its part, read it as often as they have to, and overwrite it with the
//! results, which one TMA copy stores. So warps wait for each other in folds alone. Groups that do
//! not fit in shared memory are in registers.

use std::cell::Cell;

use warpfold_lang::{
    Global, Shared, Val, bulk_commit, bulk_wait_read, cluster_block_rank, commit_copies, fence_async, lane_id,
    sync_warp, wait_for_copies, warp_id, when,
};

use super::on_chip::{OnChip, RowPartition};
use super::on_chip_row::{GroupCoord, GroupLoop};
use crate::Dtype;

/// A thread's groups of a partitioned row. The blocks of a cluster have consecutive parts of the
/// row, their warps consecutive parts of those, and the lanes of a warp every 32nd group.
#[derive(Debug)]
pub(super) struct Partition {
    /// Items of the row.
    len: Val<u32>,
    /// Whether the row has all groups of all threads.
    exact: bool,
    /// Items a group.
    vector: u32,
    /// Items of a warp.
    items_per_warp: u32,
    /// The first of them: in the row, and in the block's shared memory.
    first: (Val<u32>, Val<u32>),
    /// The groups in shared memory, then those in registers.
    groups: Vec<GroupCoord>,
    /// How many of them are in shared memory.
    num_smem_groups: usize,
    /// How many groups are copied, and waited for, together.
    unroll: usize,
    /// Whether the first loop over the row, which waits for each of its groups, is recorded.
    has_arrived: Cell<bool>,
}

/// A row of an input or of a result in global memory, and the block's part of it in shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) row: Global<u8>,
    pub(super) smem: Shared<u8>,
    pub(super) dtype: Dtype,
}

/// The groups in registers: for each of them and each input the words that hold its items.
pub(super) type RegisterGroups = Vec<Vec<Vec<Val<u32>>>>;

impl Partition {
    /// A row of so many items.
    pub(super) fn new(shape: &OnChip, partition: RowPartition, unroll: usize, len: Val<u32>) -> Self {
        let OnChip { block, cluster, vector, .. } = *shape;
        let RowPartition { groups, exact, register_groups, .. } = partition;
        let (step, smem_groups) = (32 * vector, groups - register_groups);
        let (items_per_warp, smem_first) = (step * groups, warp_id() * (step * smem_groups));
        let of_block = warp_id() * items_per_warp;
        let first = if cluster > 1 { cluster_block_rank() * (block * groups * vector) + of_block } else { of_block };
        let lane = lane_id() * vector;
        let (base, smem_base) = (first + lane, smem_first + lane);
        let coord = |g: u32| {
            let register_idx = g.checked_sub(smem_groups).map(|number| number as usize);
            GroupCoord { base, offset: g * step, smem_idx: smem_base + g * step, register_idx }
        };
        let groups = (0..groups).map(coord).collect();
        let (first, num_smem_groups, has_arrived) = ((first, smem_first), smem_groups as usize, Cell::new(false));
        Self { len, exact, vector, items_per_warp, first, groups, num_smem_groups, unroll, has_arrived }
    }

    /// Records `body` where the row has a group.
    fn if_there(&self, coord: GroupCoord, body: impl FnOnce()) {
        if self.exact { body() } else { when(coord.position().lt(self.len), body) }
    }

    /// Issues the copies of the inputs; the first loop waits for them, group by group.
    pub(super) fn load(&self, inputs: &[Staged]) -> RegisterGroups {
        let (in_smem, in_registers) = self.groups.split_at(self.num_smem_groups);
        for coords in in_smem.chunks(self.unroll) {
            for coord in coords {
                self.if_there(*coord, || inputs.iter().for_each(|input| self.copy(*coord, *input)));
            }
            commit_copies();
        }
        let words_of = |coord: &GroupCoord| inputs.iter().map(|input| self.load_words(*coord, *input)).collect();
        in_registers.iter().map(words_of).collect()
    }

    /// A group as words; zeros where the row has none.
    fn load_words(&self, coord: GroupCoord, Staged { row, dtype, .. }: Staged) -> Vec<Val<u32>> {
        let from = group_of(row, coord, dtype).reinterpret::<u32>();
        let has = if self.exact { Val::constant(true) } else { coord.position().lt(self.len) };
        match u64::from(self.vector) * dtype.bytes() {
            16 => from.get_vec_or::<4>(0, has).to_vec(),
            8 => from.get_vec_or::<2>(0, has).to_vec(),
            _ => vec![from.get_or(0, has)],
        }
    }

    /// Issues the copy of a group.
    fn copy(&self, coord: GroupCoord, Staged { row, smem, dtype }: Staged) {
        let from = group_of(row, coord, dtype);
        let to = smem.at(coord.smem_idx * dtype.bytes() as u32);
        match u64::from(self.vector) * dtype.bytes() {
            16 => to.copy_async::<16>(from),
            8 => to.copy_async::<8>(from),
            _ => to.copy_async::<4>(from),
        }
    }

    /// Stores the results, which have overwritten inputs in shared memory: one TMA copy a warp.
    pub(super) fn store_by_tma(&self, results: &[Staged]) {
        fence_async();
        sync_warp();
        let (first, smem_first) = self.first;
        let is_there = if self.exact { Val::constant(true) } else { first.lt(self.len) };
        when(lane_id().eq(0) & is_there, || {
            let all = self.items_per_warp;
            let items = if self.exact { Val::constant(all) } else { (self.len - first).min(all) };
            for Staged { row, smem, dtype } in results {
                let bytes = dtype.bytes() as u32;
                let to = row.at(first.cast::<u64>() * u64::from(bytes));
                to.copy_bulk(smem.at(smem_first * bytes), items * bytes);
            }
            bulk_commit();
            bulk_wait_read(0);
        });
    }
}

/// Where a group of a row begins.
fn group_of(row: Global<u8>, coord: GroupCoord, dtype: Dtype) -> Global<u8> {
    row.at(coord.base.cast::<u64>() * dtype.bytes()).at(u64::from(coord.offset) * dtype.bytes())
}

impl GroupLoop for Partition {
    fn for_each(&self, body: &dyn Fn(&[GroupCoord])) {
        let has_arrived = self.has_arrived.replace(true);
        let (in_smem, in_registers) = self.groups.split_at(self.num_smem_groups);
        let copies = in_smem.chunks(self.unroll).len();
        for (number, coords) in in_smem.chunks(self.unroll).chain(in_registers.chunks(self.unroll)).enumerate() {
            if !has_arrived && number < copies {
                wait_for_copies((copies - 1 - number) as u32);
            }
            if self.exact {
                body(coords);
            } else {
                coords.iter().for_each(|coord| self.if_there(*coord, || body(&[*coord])));
            }
        }
    }
}

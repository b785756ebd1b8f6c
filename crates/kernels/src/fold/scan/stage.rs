//! The stages of a scan's tiles: in shared memory, filled by `cp.async`, where each thread reads
//! what it copied, so that no barrier is needed; or in registers.

use std::cell::RefCell;

use warpfold_lang::{
    AnyRegisters, Global, Shared, Val, commit_copies, dynamic_shared, join_words, linear_thread_idx, target,
    wait_for_copies,
};

use crate::Dtype;
use crate::elements::{Origin, Source};

/// Stages of a block: one tile to finish, one to publish, one in flight. With more, blocks drift
/// apart and wait for each other longer. One row of 1 GiB of f32 on an H200 (2026-11-20, driver
/// 580), in GB/s: three tiles of 64 KiB 3,906, two 3,337, six of 32 KiB 2,967.
pub(super) const SLOTS: u32 = 3;
/// Bytes of shared memory a block for everything else.
const RESERVED: u32 = 34 << 10;

/// Bytes of `n` elements of one input, if `cp.async` copies that size.
pub(super) fn copied_bytes(inputs: &[Dtype], n: u32) -> Option<u32> {
    let [dtype] = inputs else { return None };
    let bytes = n * dtype.bytes() as u32;
    matches!(bytes, 4 | 8 | 16).then_some(bytes)
}

/// The stages of a block. A tile has `groups` groups of items a thread.
pub(super) struct Stage<'a> {
    source: &'a Source<AnyRegisters>,
    block: u32,
    groups: u32,
    slots: u32,
    memory: Memory,
}

enum Memory {
    /// As in global memory, with this many words a group.
    Shared(Shared<u32>, u32),
    /// The groups of the only tile that were loaded so far.
    Registers(RefCell<Vec<Vec<AnyRegisters>>>),
}

impl<'a> Stage<'a> {
    /// Up to `slots` stages for groups of `copied` bytes, as many as fit shared memory; without
    /// `cp.async` one, in registers.
    pub(super) fn new(
        source: &'a Source<AnyRegisters>,
        block: u32,
        groups: u32,
        slots: u32,
        copied: Option<u32>,
    ) -> Self {
        let bytes = groups * block * copied.unwrap_or(0);
        let room = (target().limits.max_shared_bytes - RESERVED).checked_div(bytes).unwrap_or(0).min(slots);
        let memory = match copied {
            Some(bytes) if room > 0 => Memory::Shared(dynamic_shared(room * groups * block * bytes / 4), bytes / 4),
            _ => Memory::Registers(RefCell::default()),
        };
        Self { source, block, groups, slots: room.max(1), memory }
    }

    /// Stages that there are.
    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    /// Waits for all tiles but the `last` ones that were requested. To be called once for each
    /// tile.
    pub(super) fn wait(&self, last: u32) {
        if let Memory::Shared(..) = self.memory {
            commit_copies();
            wait_for_copies(last);
        }
    }

    /// The address of the thread's group.
    fn place(&self, memory: Shared<u32>, words: u32, slot: Val<u32>, group: u32) -> Shared<u32> {
        let step = self.block * words;
        memory.at((slot * self.groups * self.block + linear_thread_idx()) * words).at(group * step)
    }

    /// Requests the next group: begins to copy it from `from`, or loads it by `load`.
    pub(super) fn take(
        &self,
        slot: Val<u32>,
        group: u32,
        from: impl FnOnce() -> Global<u8>,
        load: impl FnOnce() -> Vec<AnyRegisters>,
    ) {
        match &self.memory {
            Memory::Shared(memory, words) => {
                let (from, to) = (from().reinterpret::<u32>(), self.place(*memory, *words, slot, group));
                match words {
                    1 => to.copy_async::<1>(from),
                    2 => to.copy_async::<2>(from),
                    _ => to.copy_async::<4>(from),
                }
            }
            Memory::Registers(groups) => groups.borrow_mut().push(load()),
        }
    }

    /// The items of a group, in the order of memory.
    pub(super) fn items(&self, slot: Val<u32>, group: u32) -> Vec<AnyRegisters> {
        match &self.memory {
            Memory::Shared(memory, words) => {
                let from = self.place(*memory, *words, slot, group);
                self.unpack(&match words {
                    1 => vec![from.get()],
                    2 => from.get_vec::<2>().to_vec(),
                    _ => from.get_vec::<4>().to_vec(),
                })
            }
            Memory::Registers(groups) => groups.borrow()[group as usize].clone(),
        }
    }

    fn unpack(&self, words: &[Val<u32>]) -> Vec<AnyRegisters> {
        match self.source.dtypes()[0].bytes() {
            8 => {
                let longs = words.chunks(2).map(|halves| join_words(Val::constant(0_u64), halves));
                longs.flat_map(|long| self.source.load_from(&[Origin::Long(long)], 1)).collect()
            }
            bytes => {
                let each = 4 / bytes as u32;
                words.iter().flat_map(|word| self.source.load_from(&[Origin::Word(*word)], each)).collect()
            }
        }
    }
}

//! The device heap of `malloc` and `free` in kernels.
//!
//! Its size is CUDA's default (`cudaLimitMallocHeapSize`), it belongs to the device's memory, and
//! what a launch leaves there the next one may free (CUDA programming guide, "Dynamic Global Memory
//! Allocation and Operations"). Memory is given out again only when the end of the heap is reached,
//! so that a use after `free` is mostly seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memory::{Allocation, Owned};

/// Bytes of the heap.
pub(crate) const HEAP_BYTES: u64 = 8 << 20;
/// Alignment of `malloc`'s results.
const ALIGNMENT: u64 = 16;

/// The `malloc` call of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The launch.
    pub launch: u64,
    /// The instruction.
    pub instruction: u32,
    /// Linear block index.
    pub block: u64,
    /// Linear thread index in the block.
    pub thread: u32,
}

/// An allocated piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Requested size in bytes.
    pub bytes: u64,
    /// The call that allocated it.
    pub asked: Asked,
}

/// Error of a `free`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadFree {
    /// A double free.
    Twice,
    /// Not an address that `malloc` returned.
    Unknown,
}

/// State of the bytes at an address of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// All bytes are inside one allocated piece.
    Inside,
    /// Some bytes are in a freed piece.
    Freed,
    /// Some bytes are outside of every piece.
    Outside,
}

#[derive(Debug, Default)]
struct Pieces {
    live: BTreeMap<u64, Piece>,
    /// Start and size of freed pieces that have not been reused.
    freed: BTreeMap<u64, u64>,
    /// End of the addresses used so far.
    end: u64,
}

/// The heap of a device.
#[derive(Debug)]
pub(crate) struct Heap {
    allocation: Arc<Allocation>,
    /// Frees the heap's memory with the device's.
    _owner: Owned,
    pieces: Mutex<Pieces>,
}

impl Heap {
    /// Makes a heap in an allocation.
    pub(crate) fn new(allocation: Arc<Allocation>, owner: Owned) -> Self {
        let pieces = Pieces { end: allocation.base, ..Pieces::default() };
        Self { allocation, _owner: owner, pieces: Mutex::new(pieces) }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an address is in the heap.
    pub(crate) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.allocation.base) < self.allocation.bytes
    }

    /// Allocates `bytes` bytes; returns 0 if there is no room.
    pub(crate) fn malloc(&self, bytes: u64, asked: Asked) -> u64 {
        let mut pieces = self.pieces();
        let Some(size) = bytes.checked_next_multiple_of(ALIGNMENT).filter(|&size| size != 0) else { return 0 };
        let limit = self.allocation.base + self.allocation.bytes;
        let address = if size <= limit - pieces.end {
            let address = pieces.end;
            pieces.end += size;
            address
        } else {
            let Some((start, found)) = pieces.freed.iter().map(|(&start, &found)| (start, found)).find(|f| f.1 >= size)
            else {
                return 0;
            };
            pieces.freed.remove(&start);
            if found > size {
                pieces.freed.insert(start + size, found - size);
            }
            // Earlier accesses do not race with later ones.
            self.allocation.begin_anew(start, size);
            start
        };
        pieces.live.insert(address, Piece { bytes, asked });
        address
    }

    /// Frees a piece.
    pub(crate) fn free(&self, address: u64) -> Result<(), BadFree> {
        let mut pieces = self.pieces();
        let Some(piece) = pieces.live.remove(&address) else {
            return Err(if pieces.freed.contains_key(&address) { BadFree::Twice } else { BadFree::Unknown });
        };
        pieces.freed.insert(address, piece.bytes.next_multiple_of(ALIGNMENT));
        Ok(())
    }

    /// State of `bytes` bytes of the heap.
    pub(crate) fn lies(&self, address: u64, bytes: u64) -> Lies {
        let pieces = self.pieces();
        let is_inside = |start: u64, size: u64| address - start < size && bytes <= size - (address - start);
        let before = pieces.live.range(..=address).next_back();
        if before.is_some_and(|(&start, piece)| is_inside(start, piece.bytes)) {
            return Lies::Inside;
        }
        let freed = pieces.freed.range(..=address).next_back();
        if freed.is_some_and(|(&start, &size)| address - start < size) { Lies::Freed } else { Lies::Outside }
    }

    /// Pieces that a launch has allocated and nothing has freed.
    pub(crate) fn left_by(&self, launch: u64) -> Vec<(u64, Piece)> {
        let pieces = self.pieces();
        let left = pieces.live.iter().filter(|(_, piece)| piece.asked.launch == launch);
        left.map(|(&address, &piece)| (address, piece)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    const ASKED: Asked = Asked { launch: 1, instruction: 0, block: 0, thread: 0 };

    #[test]
    fn pieces_are_given_out_anew_only_when_the_heap_is_full() {
        let memory = Memory::new(1 << 30);
        let heap = memory.heap().expect("there is room");
        let half = HEAP_BYTES / 2;
        let (first, second) = (heap.malloc(half, ASKED), heap.malloc(half - 16, ASKED));
        assert!(first != 0 && second == first + half);
        assert_eq!(heap.malloc(half, ASKED), 0, "there is no room");
        assert_eq!(heap.free(first), Ok(()));
        assert_eq!(heap.free(first), Err(BadFree::Twice));
        assert_eq!(heap.free(first + 16), Err(BadFree::Unknown));
        assert_eq!(heap.lies(first + 8, 4), Lies::Freed);
        assert_eq!(heap.malloc(10, ASKED), second + half - 16);
        assert_eq!(heap.malloc(32, ASKED), first);
        assert_eq!((heap.lies(first + 28, 4), heap.lies(first + 30, 4)), (Lies::Inside, Lies::Outside));
        assert_eq!(heap.left_by(1).len(), 3);
        assert!(heap.left_by(2).is_empty() && heap.malloc(0, ASKED) == 0);
    }
}

//! Device memory that the operators of a queue use again and again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpfold_device::{Buffer, Device, Stream};
use warpfold_kernels::Error;

/// Memory for what operators give between [`Queue::reuse`](crate::Queue::reuse)'s beginning and
/// end: when a tensor is dropped, the next one of about its size takes its place. So nothing is
/// allocated once every size has come, and a captured step holds no more than its tensors need at
/// the same time. It has twice the bytes at most that were used at the same time: beyond that, what
/// was not used for longest is freed. Cheap to clone; clones are the same arena.
///
/// Everything that uses it comes one after the other on one stream. A graph that was captured with
/// it overwrites what the arena gave out since, so no tensor of it may be kept from one launch of
/// such a graph to the next.
#[derive(Clone, Default)]
pub struct Arena(Arc<Mutex<FreeBuffers<Buffer<u8>>>>);

impl Arena {
    /// Memory of at least so many bytes, of any content.
    pub(crate) fn take(&self, device: &Device, bytes: usize) -> Result<Memory, Error> {
        let class = class(bytes);
        // What is too much is freed when nobody waits for the lock.
        let (free, outdated) = self.free().take(class);
        drop(outdated);
        let buffer = match free {
            Some(buffer) => buffer,
            None => device.alloc::<u8>(class).inspect_err(|_| self.free().used -= class)?,
        };
        Ok(Memory { buffer: Some(buffer), arena: Some(self.clone()), owner: None, freed_on: None })
    }

    fn free(&self) -> MutexGuard<'_, FreeBuffers<Buffer<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that it has at the moment, of those that nobody uses.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free().bytes
    }
}

/// Buffers that nobody uses.
struct FreeBuffers<B> {
    /// By size, each with its turn; the oldest first.
    by_size: BTreeMap<usize, VecDeque<(u64, B)>>,
    bytes: usize,
    turn: u64,
    /// Bytes that are used, and the most that were at the same time.
    used: usize,
    most_used: usize,
}

impl<B> Default for FreeBuffers<B> {
    fn default() -> Self {
        Self { by_size: BTreeMap::new(), bytes: 0, turn: 0, used: 0, most_used: 0 }
    }
}

impl<B> FreeBuffers<B> {
    /// The smallest buffer of at least a size and at most twice as many bytes, or what is to be
    /// freed before one is made. It counts as used.
    fn take(&mut self, size: usize) -> (Option<B>, Vec<B>) {
        let found = self.by_size.range_mut(size..=2 * size).find_map(|(size, all)| Some((*size, all.pop_back()?.1)));
        let (size, buffer) = found.map_or((size, None), |(size, buffer)| (size, Some(buffer)));
        self.bytes -= if buffer.is_some() { size } else { 0 };
        self.used += size;
        self.most_used = self.most_used.max(self.used);
        let mut outdated = Vec::new();
        while self.bytes > 0 && self.bytes + self.used > 2 * self.most_used {
            let oldest = self.by_size.iter_mut().filter(|(_, all)| !all.is_empty()).min_by_key(|(_, all)| all[0].0);
            let Some((size, all)) = oldest else { break };
            self.bytes -= size;
            outdated.extend(all.pop_front().map(|(_, buffer)| buffer));
        }
        (buffer, outdated)
    }

    /// Takes a buffer back.
    fn give(&mut self, size: usize, buffer: B) {
        self.turn += 1;
        self.used -= size;
        self.bytes += size;
        self.by_size.entry(size).or_default().push_back((self.turn, buffer));
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} free bytes)", self.free_bytes())
    }
}

/// Sizes that share memory: at most an eighth is wasted.
fn class(bytes: usize) -> usize {
    let step = (bytes.max(1).next_power_of_two() / 16).max(256);
    bytes.max(1).next_multiple_of(step)
}

/// The memory of a tensor, which goes back to its arena if it has one.
pub(crate) struct Memory {
    /// There until it is dropped or taken.
    buffer: Option<Buffer<u8>>,
    arena: Option<Arena>,
    /// The owner of foreign memory; dropped with its last user.
    owner: Option<Box<dyn Send + Sync>>,
    /// The stream on which the owner frees, where that is known: it waits for us there.
    freed_on: Option<Stream>,
}

impl Memory {
    /// Memory that somebody else keeps until `owner` is dropped.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn owned_by(buffer: Buffer<u8>, owner: Box<dyn Send + Sync>) -> Self {
        Self { buffer: Some(buffer), arena: None, owner: Some(owner), freed_on: None }
    }

    /// Memory that somebody else keeps until `owner` is dropped, and then frees in the order of
    /// `stream`.
    #[cfg(feature = "candle-cuda")]
    pub(crate) fn freed_on(stream: &Stream, buffer: Buffer<u8>, owner: Box<dyn Send + Sync>) -> Self {
        let mut memory = Self::owned_by(buffer, owner);
        memory.freed_on = Some(stream.clone());
        memory
    }

    /// Returns whether foreign code owns the memory.
    pub(crate) fn is_foreign(&self) -> bool {
        self.owner.is_some()
    }

    /// The memory for good.
    pub(crate) fn into_buffer(mut self) -> Buffer<u8> {
        let buffer = self.buffer.take().expect("the buffer is there until now");
        if let Some(arena) = self.arena.take() {
            arena.free().used -= buffer.len();
        }
        buffer
    }
}

impl From<Buffer<u8>> for Memory {
    fn from(buffer: Buffer<u8>) -> Self {
        Self { buffer: Some(buffer), arena: None, owner: None, freed_on: None }
    }
}

impl Deref for Memory {
    type Target = Buffer<u8>;

    fn deref(&self) -> &Buffer<u8> {
        self.buffer.as_ref().expect("the buffer is there until the end")
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut Buffer<u8> {
        self.buffer.as_mut().expect("the buffer is there until the end")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            if let Some(buffer) = &mut self.buffer {
                let bytes = buffer.as_view_mut();
                let ordered = self.freed_on.take().map(|stream| stream.with_raw_stream(&[], &[&bytes], |_| ()));
                if !matches!(ordered, Some(Ok(_))) {
                    // A device that fails here has failed for good, and later calls report that.
                    let _ = bytes.device().synchronize();
                }
            }
            drop(owner);
        }
        let (Some(arena), Some(buffer)) = (self.arena.take(), self.buffer.take()) else { return };
        arena.free().give(buffer.len(), buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_ever_new_sizes_are_twice_what_is_used_at_a_time() {
        let mut free = FreeBuffers::default();
        let (mut made, mut freed, mut largest) = (0, 0, 0);
        for round in 0..5000_usize {
            // Three at a time, as the tensors of a step are, of any lengths.
            let sizes = [1, 3, 8].map(|width| class(width * (1 + round * 7919 % 1000) * 64));
            let taken = sizes.map(|size| {
                let (found, outdated) = free.take(size);
                freed += outdated.iter().sum::<usize>();
                made += if found.is_some() { 0 } else { size };
                found.unwrap_or(size)
            });
            assert!(taken.iter().zip(sizes).all(|(taken, size)| (size..=2 * size).contains(taken)));
            largest = largest.max(taken.iter().sum());
            assert_eq!(made - freed, free.bytes + free.used);
            assert!(made - freed <= 2 * largest, "{made} - {freed} bytes, where {largest} are used");
            taken.into_iter().for_each(|size| free.give(size, size));
        }
        // Nothing is made for a size that has come.
        let size = class(1000);
        for round in 0..10 {
            let (found, _) = free.take(size);
            assert!(found.is_some() || round == 0);
            free.give(found.unwrap_or(size), size);
        }
    }

    #[test]
    fn classes_waste_an_eighth_at_most() {
        assert_eq!((class(0), class(1), class(256), class(257)), (256, 256, 256, 512));
        for bytes in [4096_usize, 5000, 70_001, 1 << 20, (1 << 20) + 1] {
            let class = class(bytes);
            assert!(class >= bytes && class - bytes <= bytes / 8 + 256, "{bytes}: {class}");
        }
    }
}

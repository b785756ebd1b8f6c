//! Device memory that the operators of a queue use again and again.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::{Buffer, Device, Stream};
use warpfold_kernels::Error;

/// Memory for what operators give between [`Queue::reuse`](crate::Queue::reuse)'s beginning and
/// end: when a tensor is dropped, the next one of about its size takes its place. So nothing is
/// allocated once every size has come, and a captured step holds no more than its tensors need at
/// the same time. Cheap to clone; clones are the same arena.
///
/// Everything that uses it comes one after the other on one stream. A graph that was captured with
/// it overwrites what the arena gave out since, so no tensor of it may be kept from one launch of
/// such a graph to the next.
#[derive(Clone, Default)]
pub struct Arena(Arc<Mutex<BTreeMap<usize, Vec<Buffer<u8>>>>>);

impl Arena {
    /// Memory of at least so many bytes, of any content.
    pub(crate) fn take(&self, device: &Device, bytes: usize) -> Result<Memory, Error> {
        let class = class(bytes);
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&class).and_then(Vec::pop);
        let buffer = match free {
            Some(buffer) => buffer,
            None => device.alloc::<u8>(class)?,
        };
        Ok(Memory { buffer: Some(buffer), arena: Some(self.clone()), owner: None, freed_on: None })
    }

    /// Bytes that it has at the moment, of those that nobody uses.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.iter().map(|(class, buffers)| class * buffers.len()).sum()
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
        self.buffer.take().expect("the buffer is there until now")
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
        let mut free = arena.0.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(buffer.len()).or_default().push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_an_eighth_at_most() {
        assert_eq!((class(0), class(1), class(256), class(257)), (256, 256, 256, 512));
        for bytes in [4096_usize, 5000, 70_001, 1 << 20, (1 << 20) + 1] {
            let class = class(bytes);
            assert!(class >= bytes && class - bytes <= bytes / 8 + 256, "{bytes}: {class}");
        }
    }
}

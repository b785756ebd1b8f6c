//! Pinned (page-locked) host memory, which the copy engines read and write.

use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaEvent, result, sys};

use super::device::Context;
use crate::Error;
use crate::backend::BackendHostMemory;

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToDevice,
    ToHost,
}

/// An asynchronous copy that may still run.
#[derive(Debug)]
struct Busy {
    range: Range<usize>,
    direction: Direction,
    end: Arc<CudaEvent>,
}

/// Pinned bytes. Copies run asynchronously; accessing bytes waits for the copies that use them.
#[derive(Debug)]
pub(super) struct Pinned {
    context: Arc<Context>,
    address: *mut u8,
    len: usize,
    busy: Mutex<Vec<Busy>>,
}

// SAFETY: the bytes belong to this value, and the driver may be called from every thread.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read the bytes or give them to the GPU to read.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates `len` zeros.
    pub(super) fn new(context: Arc<Context>, len: usize) -> Result<Self, Error> {
        context.bind()?;
        // Portable: pinned for every context. Not write-combined, which the host reads slowly.
        // SAFETY: the context is current; the bytes are written before anybody reads them.
        let memory = unsafe { result::malloc_host(len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) };
        let address: *mut u8 = memory.map_err(|e| context.explain("allocating pinned host memory", e))?.cast();
        // SAFETY: the driver gave at least that many bytes.
        unsafe { address.write_bytes(0, len) };
        Ok(Self { context, address, len, busy: Mutex::new(Vec::new()) })
    }

    pub(super) fn of(memory: &dyn BackendHostMemory) -> Option<&Self> {
        let any: &dyn Any = memory;
        any.downcast_ref()
    }

    /// The start of a range for the GPU, which orders its copies by the stream.
    pub(super) fn bytes_now(&self, range: &Range<usize>) -> *mut c_void {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "a range of a buffer of {} bytes: {range:?}",
            self.len
        );
        self.address.wrapping_add(range.start).cast()
    }

    fn busy(&self) -> MutexGuard<'_, Vec<Busy>> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|copy| !copy.end.is_complete());
        busy
    }

    /// The ends of copies that a copy of a range must not overtake: those of the same bytes, unless
    /// both only read them.
    pub(super) fn before(&self, range: &Range<usize>, direction: Direction) -> Vec<Arc<CudaEvent>> {
        let is_before = |copy: &&Busy| {
            let both_read = copy.direction == Direction::ToDevice && direction == Direction::ToDevice;
            !both_read && overlap(&copy.range, range)
        };
        self.busy().iter().filter(is_before).map(|copy| copy.end.clone()).collect()
    }

    /// Notes a copy from or to a range that ends at `end`.
    pub(super) fn busy_until(&self, range: Range<usize>, direction: Direction, end: CudaEvent) {
        self.busy().push(Busy { range, direction, end: Arc::new(end) });
    }

    /// Waits for copies of a range that the host must not overtake; waits for all of them, and
    /// returns the first failure.
    fn wait(&self, range: &Range<usize>, host: Direction) -> Result<(), Error> {
        let waits: Vec<_> = self.before(range, host).iter().map(|end| end.synchronize()).collect();
        waits.into_iter().collect::<Result<(), _>>().map_err(|e| self.context.explain("waiting for a copy", e))
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl BackendHostMemory for Pinned {
    fn bytes(&self, range: Range<usize>) -> Result<&[u8], Error> {
        let start: *const u8 = self.bytes_now(&range).cast_const().cast();
        // A host read, like a copy to the device.
        self.wait(&range, Direction::ToDevice)?;
        // SAFETY: the bytes are initialised, in bounds and live as long as `self`; the GPU writes
        // them only through a mutable reference, which cannot be taken while this one lives.
        Ok(unsafe { std::slice::from_raw_parts(start, range.len()) })
    }

    fn bytes_mut(&mut self, range: Range<usize>) -> Result<&mut [u8], Error> {
        let start: *mut u8 = self.bytes_now(&range).cast();
        self.wait(&range, Direction::ToHost)?;
        // SAFETY: as above, and no copy of these bytes runs: it would need a reference to `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, range.len()) })
    }

    /// Device address of the memory: pinned memory is mapped for every device under unified
    /// addressing, at the host's address (CUDA Driver API, "Unified Addressing").
    fn device_address(&self) -> Option<u64> {
        Some(self.address as u64)
    }

    fn word(&self, index: usize) -> Option<&AtomicU32> {
        let start: *mut u32 = self.bytes_now(&(4 * index..4 * index + 4)).cast();
        // SAFETY: the driver's allocations are aligned to pages, the word is in bounds and lives as
        // long as `self`, and both sides use atomic accesses, of system scope on the GPU.
        Some(unsafe { AtomicU32::from_ptr(start) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let cuda = &self.context.cuda;
        cuda.record_err(cuda.bind_to_thread());
        for copy in self.busy.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            cuda.record_err(copy.end.synchronize());
        }
        // SAFETY: the address came from `malloc_host`, and no copy runs any more.
        cuda.record_err(unsafe { result::free_host(self.address.cast()) });
    }
}

//! Page-locked host memory, which the GPU copies without the processor.

use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, result, sys};

use super::device::Context;
use crate::Error;
use crate::backend::BackendHostMemory;

/// Page-locked bytes. Copies run in the background; whoever looks at the bytes waits for them.
#[derive(Debug)]
pub(super) struct Pinned {
    context: Arc<Context>,
    address: *mut u8,
    len: usize,
    /// The ends of copies that may still run.
    busy: Mutex<Vec<CudaEvent>>,
}

// SAFETY: the bytes belong to this value, and the driver may be called from every thread.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read the bytes or give them to the GPU to read.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// `len` zeros.
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

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes for the GPU, which takes its copies in the stream's order.
    pub(super) fn bytes_now(&self) -> *mut c_void {
        self.address.cast()
    }

    /// A copy from or to the bytes ends at `event`.
    pub(super) fn busy_until(&self, event: CudaEvent) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|earlier| !earlier.is_complete());
        busy.push(event);
    }

    /// Waits for the copies; the first failure is answered, but all of them are waited for.
    fn wait(&self) -> Result<(), Error> {
        let events = std::mem::take(&mut *self.busy.lock().unwrap_or_else(PoisonError::into_inner));
        let waits: Vec<_> = events.iter().map(CudaEvent::synchronize).collect();
        waits.into_iter().collect::<Result<(), _>>().map_err(|e| self.context.explain("waiting for a copy", e))
    }
}

impl BackendHostMemory for Pinned {
    fn bytes(&self) -> Result<&[u8], Error> {
        self.wait()?;
        // SAFETY: the bytes are initialised and live as long as `self`; the GPU writes them only through a mutable
        // reference, which cannot be taken while this one lives.
        Ok(unsafe { std::slice::from_raw_parts(self.address, self.len) })
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8], Error> {
        self.wait()?;
        // SAFETY: as above, and no copy runs: it would need a reference to `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address, self.len) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let cuda = &self.context.cuda;
        cuda.record_err(cuda.bind_to_thread());
        for event in self.busy.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            cuda.record_err(event.synchronize());
        }
        // SAFETY: the address came from `malloc_host`, and no copy runs any more.
        cuda.record_err(unsafe { result::free_host(self.address.cast()) });
    }
}

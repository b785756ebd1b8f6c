//! Work of this process in a driver's context: its streams, captures, and modules that wait to be
//! unloaded.
//!
//! `cuCtxSynchronize` is never called: it synchronises streams that are being captured, too, which
//! is an error that invalidates their captures (CUDA Programming Guide, "Prohibited and Unhandled
//! Operations" of stream capture). A wait for the device is a wait for an event of each stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, sys};

use super::driver;
use super::module::Image;
use super::stream::CudaStreamHandle;
use crate::Error;
use crate::backend::{BackendEvent, BackendStream};

/// The work in flight in one driver context, which may be open as several devices.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    streams: Mutex<Vec<Weak<CudaStreamHandle>>>,
    /// The ends of streams that were dropped.
    ended: Mutex<Vec<Arc<CudaEvent>>>,
    captures: Mutex<Captures>,
}

/// The active captures, and the modules to unload when the last of them ends.
#[derive(Debug, Default)]
struct Captures {
    count: usize,
    modules: Vec<Image>,
}

/// Unloads code that nothing refers to and none of whose kernels runs.
fn unload(image: Image, cuda: &CudaContext) {
    cuda.record_err(cuda.bind_to_thread());
    // SAFETY: as above, and the context is current.
    cuda.record_err(unsafe { image.unload() });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InFlight {
    /// Returns the record of a context.
    pub(super) fn of(cuda: &CudaContext) -> Arc<Self> {
        static CONTEXTS: Mutex<Vec<(usize, Weak<InFlight>)>> = Mutex::new(Vec::new());
        let context = cuda.cu_ctx() as usize;
        let mut contexts = lock(&CONTEXTS);
        contexts.retain(|(_, known)| known.strong_count() > 0);
        if let Some(known) = contexts.iter().find_map(|(of, known)| known.upgrade().filter(|_| *of == context)) {
            return known;
        }
        let new = Arc::new(Self::default());
        contexts.push((context, Arc::downgrade(&new)));
        new
    }

    /// The handle of a stream, created at its first use, so that each stream has one gate.
    pub(super) fn handle(
        &self,
        stream: Arc<CudaStream>,
        make: impl FnOnce(Arc<CudaStream>) -> CudaStreamHandle,
    ) -> Arc<CudaStreamHandle> {
        let mut streams = lock(&self.streams);
        let is_same = |known: &Arc<CudaStreamHandle>| known.raw() == stream.cu_stream();
        if let Some(known) = streams.iter().filter_map(Weak::upgrade).find(is_same) {
            return known;
        }
        let new = Arc::new(make(stream));
        streams.retain(|known| known.strong_count() > 0);
        streams.push(Arc::downgrade(&new));
        new
    }

    /// Notes the end of a stream that is being dropped.
    pub(super) fn stream_ended(&self, end: CudaEvent) {
        let mut ended = lock(&self.ended);
        ended.retain(|earlier| !earlier.is_complete());
        ended.push(Arc::new(end));
    }

    /// Waits for every stream, except for captures; waits for all of them, and returns the first
    /// failure.
    pub(super) fn wait(&self) -> Result<(), Error> {
        let streams: Vec<_> = lock(&self.streams).iter().filter_map(Weak::upgrade).collect();
        let streams: Vec<_> = streams.into_iter().filter(|stream| !stream.is_captured_by_others()).collect();
        let ended = lock(&self.ended).clone();
        let events: Vec<Result<Arc<dyn BackendEvent>, Error>> =
            streams.iter().map(|stream| stream.gate().reached(&**stream)).collect();
        let mut waits: Vec<Result<(), Error>> = events.into_iter().map(|event| event?.synchronize()).collect();
        waits.extend(ended.iter().map(|end| end.synchronize().map_err(|e| driver::error("waiting for a stream", e))));
        lock(&self.ended).retain(|end| !end.is_complete());
        waits.into_iter().collect()
    }

    /// Notes the start of a capture.
    pub(super) fn begin_capture(&self) {
        lock(&self.captures).count += 1;
    }

    /// Notes the end of a capture, or its failure to start.
    pub(super) fn end_capture(&self, cuda: &CudaContext) {
        let mut captures = lock(&self.captures);
        captures.count -= 1;
        if captures.count == 0 {
            captures.modules.drain(..).for_each(|image| unload(image, cuda));
        }
    }

    /// Unloads a module that nothing refers to, once its kernels are done and no capture is going
    /// on.
    ///
    /// NOTE: the documents say neither whether unloading waits for kernels of the module nor
    /// what it does to captures, so it meets neither.
    pub(super) fn unload(&self, cuda: &CudaContext, image: Image) {
        // A failure here is one of the context, which every later call reports.
        let _ = self.wait();
        let mut captures = lock(&self.captures);
        if captures.count == 0 { unload(image, cuda) } else { captures.modules.push(image) }
    }
}

/// Returns true if the default stream and this stream synchronise with each other.
pub(super) fn synchronizes_with_default(stream: &CudaStream) -> Result<bool, DriverError> {
    let mut flags = 0;
    // SAFETY: the stream is alive, and `flags` is valid for a write.
    unsafe { sys::cuStreamGetFlags(stream.cu_stream(), &raw mut flags) }.result()?;
    Ok(flags & sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32 == 0)
}

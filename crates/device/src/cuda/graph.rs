//! CUDA graphs.
//!
//! Capture is in relaxed mode: the driver then forbids neither the capturing thread nor others any
//! call. In thread-local mode the capturing thread could not load a module or allocate pinned
//! memory, and global mode forbids that to every thread. What would still invalidate a capture is
//! kept away from it: a wait for the whole context (`in_flight.rs`), an event or a wait of the
//! stream itself (the stream's gate), work of the default stream while a stream that synchronises
//! with it is captured (refused here), and unloading a module (`in_flight.rs`).

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaGraph, sys};

use super::device::Context;
use super::in_flight::synchronizes_with_default;
use super::stream::CudaStreamHandle;
use crate::backend::BackendGraph;
use crate::{Error, ErrorKind};

/// An instantiated graph.
struct DriverGraph {
    context: Arc<Context>,
    /// The driver does not lock a graph: calls on one must not overlap.
    graph: Mutex<Handle>,
}

struct Handle(CudaGraph);

// SAFETY: the driver's graph handles belong to no thread (CUDA Driver API, "Graph object thread
// safety"); they ask for calls that do not overlap, and the mutex sees to that.
unsafe impl Send for Handle {}

impl CudaStreamHandle {
    pub(super) fn begin_graph(&self) -> Result<(), Error> {
        let explain = |e| self.context.explain("beginning a capture", e);
        self.context.bind()?;
        if synchronizes_with_default(&self.stream).map_err(explain)? {
            return Err(ErrorKind::NotCapturable("work of a stream that synchronises with the default stream").into());
        }
        self.context.in_flight.begin_capture();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let began = self.stream.begin_capture(mode);
        if began.is_err() {
            self.context.in_flight.end_capture(&self.context.cuda);
        }
        began.map_err(explain)
    }

    pub(super) fn end_graph(&self) -> Result<Box<dyn BackendGraph>, Error> {
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        self.context.in_flight.end_capture(&self.context.cuda);
        match graph.map_err(|e| self.context.explain("making a graph", e))? {
            Some(graph) => {
                Ok(Box::new(DriverGraph { context: self.context.clone(), graph: Mutex::new(Handle(graph)) }))
            }
            None => Err(ErrorKind::NotCapturable("nothing").into()),
        }
    }
}

impl BackendGraph for DriverGraph {
    fn launch(&self) -> Result<(), Error> {
        let graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
        graph.0.launch().map_err(|e| self.context.explain("launching a graph", e))
    }
}

impl Drop for DriverGraph {
    fn drop(&mut self) {
        // It is destroyed next, on whichever thread this is.
        self.context.cuda.record_err(self.context.cuda.bind_to_thread());
    }
}

impl std::fmt::Debug for DriverGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverGraph").finish_non_exhaustive()
    }
}

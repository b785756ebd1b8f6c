//! Graphs of the driver.

use std::sync::Arc;

use cudarc::driver::{CudaGraph, sys};

use super::device::Context;
use super::stream::CudaStreamHandle;
use crate::Error;
use crate::backend::BackendGraph;
use crate::error::ErrorKind;

/// A graph that is ready to be launched.
struct DriverGraph {
    context: Arc<Context>,
    graph: CudaGraph,
}

impl CudaStreamHandle {
    /// What may not be captured is kept away by `graph.rs`, so the driver need not watch what else this process does.
    pub(super) fn begin_graph(&self) -> Result<(), Error> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        self.stream.begin_capture(mode).map_err(|e| self.context.explain("beginning a capture", e))
    }

    pub(super) fn end_graph(&self) -> Result<Box<dyn BackendGraph>, Error> {
        let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
        match graph.map_err(|e| self.context.explain("making a graph", e))? {
            Some(graph) => Ok(Box::new(DriverGraph { context: self.context.clone(), graph })),
            None => Err(ErrorKind::NotCapturable("nothing").into()),
        }
    }
}

impl BackendGraph for DriverGraph {
    fn launch(&self) -> Result<(), Error> {
        self.graph.launch().map_err(|e| self.context.explain("launching a graph", e))
    }
}

impl std::fmt::Debug for DriverGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverGraph").finish_non_exhaustive()
    }
}

//! Streams and graphs of the virtual GPU; streams complete their work before a call returns.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpfold_sim as sim;

use super::machine::{Machine, VirtualFunction, host_access};
use super::together::{Part, Together};
use crate::Error;
use crate::backend::{
    Backend, BackendEvent, BackendFunction, BackendGraph, BackendHostMemory, BackendStream, Begin, Clock, Gate,
    LaunchConfig, Parameters, Span, mixed,
};

/// A stream: all its work is complete when a call returns, so there is nothing to wait for.
#[derive(Debug)]
pub(crate) struct VirtualStream {
    line: Arc<Line>,
    gate: Gate,
    /// The work of the graph that is being captured.
    captured: Mutex<Option<Vec<Work>>>,
}

impl VirtualStream {
    pub(super) fn new(machine: &Arc<Machine>) -> Self {
        let line = Line { machine: machine.clone(), launches: sim::Stream::default(), waits: AtomicU64::new(0) };
        Self { line: Arc::new(line), gate: Gate::default(), captured: Mutex::default() }
    }

    /// Contributes a rank's part to a launch over several devices: runs when every rank has come,
    /// or is kept for a graph.
    pub(crate) fn launch_together(
        &self,
        function: &dyn BackendFunction,
        config: &LaunchConfig,
        parameters: &Parameters,
        (meeting, rank): (&Arc<Together>, usize),
    ) -> Result<(), Error> {
        let function = self.function(function)?;
        let (params, meeting) = (parameters.bytes().to_vec(), meeting.clone());
        self.take(Work::Together { function, config: *config, params, meeting, rank }).map(|_| ())
    }

    fn function(&self, function: &dyn BackendFunction) -> Result<VirtualFunction, Error> {
        let any: &dyn Any = function;
        any.downcast_ref().cloned().ok_or_else(|| mixed("the kernel", &self.line.machine.properties))
    }

    fn captured(&self) -> MutexGuard<'_, Option<Vec<Work>>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the work, or keeps it for a graph.
    fn take(&self, work: Work) -> Result<Option<Span>, Error> {
        if let Some(captured) = &mut *self.captured() {
            captured.push(work);
            return Ok(None);
        }
        self.line.run(&work).map(|()| None)
    }
}

/// An operation of a graph.
#[derive(Debug)]
enum Work {
    Fill {
        address: u64,
        byte: u8,
        bytes: u64,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Launch {
        function: VirtualFunction,
        config: LaunchConfig,
        begin: Begin,
        params: Vec<u8>,
        granted: Vec<sim::Granted>,
    },
    /// A rank's part of a launch over several devices.
    Together {
        function: VirtualFunction,
        config: LaunchConfig,
        params: Vec<u8>,
        meeting: Arc<Together>,
        rank: usize,
    },
}

/// Order of a stream's work.
///
/// Only the checks tell a launch that may overlap the one before it from one that may not. A launch
/// waits for everything that comes before it, except for launches and records of events.
#[derive(Debug)]
struct Line {
    machine: Arc<Machine>,
    launches: sim::Stream,
    /// The host waits that the launches know of.
    waits: AtomicU64,
}

impl Line {
    /// The memory, for something that waits for the launches so far, and for which those to come
    /// wait.
    fn memory(&self) -> &sim::Memory {
        self.launches.settle();
        &self.machine.memory
    }

    fn run(&self, work: &Work) -> Result<(), Error> {
        self.machine.end_pending()?;
        match work {
            Work::Fill { address, byte, bytes } => self.memory().fill(*address, *byte, *bytes).map_err(host_access),
            Work::Copy { to, from, bytes } => self.memory().copy(*to, *from, *bytes).map_err(host_access),
            Work::Launch { function, config, begin, params, granted } => {
                self.launch(function, config, *begin, (params, granted))
            }
            Work::Together { function, config, params, meeting, rank } => {
                let (machine, stream) = (self.machine.clone(), self.launches.clone());
                let (function, params) = (function.clone(), params.clone());
                self.machine.give(meeting, *rank, Part { machine, stream, function, config: *config, params })
            }
        }
    }

    fn launch(
        &self,
        function: &VirtualFunction,
        config: &LaunchConfig,
        begin: Begin,
        params: (&[u8], &[sim::Granted]),
    ) -> Result<(), Error> {
        let waits = self.machine.waits.load(Ordering::Relaxed);
        if self.waits.swap(waits, Ordering::Relaxed) != waits {
            self.launches.settle();
        }
        self.machine.launch(function, config, (&self.launches, begin), params)
    }
}

/// Captured work, and the stream that executes it.
#[derive(Debug)]
struct WorkGraph {
    line: Arc<Line>,
    work: Vec<Work>,
}

impl BackendGraph for WorkGraph {
    fn launch(&self) -> Result<(), Error> {
        self.work.iter().try_for_each(|work| self.line.run(work))
    }
}

impl BackendStream for VirtualStream {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn upload(&self, to: u64, from: &[u8], _clock: Clock) -> Result<Option<Span>, Error> {
        self.line.machine.end_pending()?;
        self.line.memory().write(to, from).map(|()| None).map_err(host_access)
    }

    fn download(&self, from: u64, to: &mut [u8], _clock: Clock) -> Result<Option<Span>, Error> {
        self.line.machine.end_pending()?;
        self.line.machine.wait();
        self.line.memory().read(from, to).map_err(host_access)?;
        self.line.machine.check_host_read(from, to.len() as u64).map(|()| None)
    }

    fn upload_async(
        &self,
        to: u64,
        from: &dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        self.upload(to, from.bytes(range)?, clock)
    }

    fn download_async(
        &self,
        from: u64,
        to: &mut dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        self.download(from, to.bytes_mut(range)?, clock)
    }

    fn fill(&self, address: u64, byte: u8, bytes: u64, _clock: Clock) -> Result<Option<Span>, Error> {
        self.take(Work::Fill { address, byte, bytes })
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, _clock: Clock) -> Result<Option<Span>, Error> {
        self.take(Work::Copy { to, from, bytes })
    }

    fn copy_from_peer(
        &self,
        to: u64,
        (from, _owner): (u64, &dyn Backend),
        bytes: u64,
        clock: Clock,
    ) -> Result<Option<Span>, Error> {
        // Peers share their addresses.
        self.copy(to, from, bytes, clock)
    }

    fn launch(
        &self,
        function: &dyn BackendFunction,
        config: &LaunchConfig,
        begin: Begin,
        parameters: &Parameters,
        _clock: Clock,
    ) -> Result<Option<Span>, Error> {
        let (function, params) = (self.function(function)?, parameters.bytes().to_vec());
        let granted = parameters.granted().to_vec();
        self.take(Work::Launch { function, config: *config, begin, params, granted })
    }

    fn record(&self, _clock: Clock) -> Result<Arc<dyn BackendEvent>, Error> {
        Ok(Arc::new(Reached { machine: self.line.machine.clone() }))
    }

    fn wait(&self, _event: &dyn BackendEvent) -> Result<(), Error> {
        self.line.launches.settle();
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.line.machine.end_pending()?;
        self.line.machine.wait();
        Ok(())
    }

    fn begin_capture(&self) -> Result<(), Error> {
        *self.captured() = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&self) -> Result<Box<dyn BackendGraph>, Error> {
        let work = self.captured().take().unwrap_or_default();
        Ok(Box::new(WorkGraph { line: self.line.clone(), work }))
    }
}

/// An event, already reached when it is recorded.
#[derive(Debug)]
struct Reached {
    machine: Arc<Machine>,
}

impl BackendEvent for Reached {
    fn synchronize(&self) -> Result<(), Error> {
        self.machine.end_pending()?;
        self.machine.wait();
        Ok(())
    }

    fn is_complete(&self) -> Result<bool, Error> {
        Ok(true)
    }

    fn elapsed_since(&self, _earlier: &dyn BackendEvent) -> Result<Option<Duration>, Error> {
        Ok(None)
    }
}

//! The gate of a stream: which thread captures it, and who may use it meanwhile.
//!
//! A capture belongs to the thread that began it. Work of that thread goes into the graph; work of
//! any other thread is refused. Others may still have to wait for the stream, because it used a
//! buffer that they need. They wait for what the stream was given before the capture: an event
//! recorded on a stream that is being captured would draw the stream that waits for it into the
//! graph.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, ThreadId};

use super::{BackendEvent, BackendGraph, BackendStream, Clock};
use crate::{Error, ErrorKind};

/// Lets work through to a stream, and keeps a capture from beginning or ending in the middle of it.
///
/// Nobody who holds one gate takes another, so that gates cannot deadlock.
#[derive(Debug, Default)]
pub(crate) struct Gate(RwLock<Option<Captured>>);

/// A capture that is going on.
#[derive(Debug)]
struct Captured {
    id: CaptureId,
    thread: ThreadId,
    /// The end of what the stream was given before.
    before: Arc<dyn BackendEvent>,
}

/// A capture. No two of a process have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureId(u64);

/// A stream that this thread may give work to; no capture begins or ends while it lives.
#[derive(Debug)]
pub(crate) struct Entered<'a>(RwLockReadGuard<'a, Option<Captured>>);

impl Entered<'_> {
    /// The capture that work goes into, if there is one.
    pub(crate) fn capture(&self) -> Option<CaptureId> {
        self.0.as_ref().map(|captured| captured.id)
    }

    /// Refuses what a graph cannot hold.
    pub(crate) fn not_captured(&self, what: &'static str) -> Result<(), Error> {
        if self.0.is_some() { Err(ErrorKind::NotCapturable(what).into()) } else { Ok(()) }
    }
}

impl Gate {
    fn read(&self) -> RwLockReadGuard<'_, Option<Captured>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For work of this thread.
    ///
    /// # Errors
    /// [`ErrorKind::NotCapturable`] while another thread captures the stream.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, Error> {
        let state = self.read();
        match &*state {
            Some(captured) if captured.thread != thread::current().id() => {
                Err(ErrorKind::NotCapturable("work of another thread").into())
            }
            _ => Ok(Entered(state)),
        }
    }

    /// For work that must not go into a graph; nothing while the stream is being captured.
    pub(crate) fn enter_uncaptured(&self) -> Option<Entered<'_>> {
        Some(self.read()).filter(|state| state.is_none()).map(Entered)
    }

    /// Returns true while this capture is active.
    pub(crate) fn is_in(&self, capture: CaptureId) -> bool {
        self.read().as_ref().is_some_and(|captured| captured.id == capture)
    }

    /// The end of what `stream`, whose gate this is, was given so far, but for what it captures.
    pub(crate) fn reached<S: BackendStream + ?Sized>(&self, stream: &S) -> Result<Arc<dyn BackendEvent>, Error> {
        match &*self.read() {
            Some(captured) => Ok(captured.before.clone()),
            None => stream.record(Clock::Off),
        }
    }

    /// Begins a capture of `stream`, whose gate this is, by this thread.
    pub(crate) fn begin(&self, stream: &dyn BackendStream) -> Result<CaptureId, Error> {
        static CAPTURES: AtomicU64 = AtomicU64::new(0);
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if state.is_some() {
            return Err(ErrorKind::NotCapturable("a capture").into());
        }
        let before = stream.record(Clock::Off)?;
        stream.begin_capture()?;
        let id = CaptureId(CAPTURES.fetch_add(1, Ordering::Relaxed));
        *state = Some(Captured { id, thread: thread::current().id(), before });
        Ok(id)
    }

    /// Ends it.
    pub(crate) fn end(&self, stream: &dyn BackendStream) -> Result<Box<dyn BackendGraph>, Error> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = None;
        stream.end_capture()
    }
}

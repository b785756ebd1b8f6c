//! Capture gate of a stream: the thread that captures it, and the rules for other users meanwhile.
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

/// Admits work to a stream, and keeps a capture from beginning or ending in the middle of it.
///
/// A holder of one gate never takes another, so gates cannot deadlock.
#[derive(Debug, Default)]
pub(crate) struct Gate(RwLock<Option<Captured>>);

/// An active capture.
#[derive(Debug)]
struct Captured {
    id: CaptureId,
    thread: ThreadId,
    /// The end of the stream's work before the capture.
    before: Arc<dyn BackendEvent>,
}

/// Identity of a capture, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaptureId(u64);

/// Permission of this thread to give work to a stream; no capture begins or ends while it lives.
#[derive(Debug)]
pub(crate) struct Entered<'a>(RwLockReadGuard<'a, Option<Captured>>);

impl Entered<'_> {
    /// The capture that receives the work, if there is one.
    pub(crate) fn capture(&self) -> Option<CaptureId> {
        self.0.as_ref().map(|captured| captured.id)
    }

    /// Refuses an operation that a graph cannot hold.
    pub(crate) fn not_captured(&self, what: &'static str) -> Result<(), Error> {
        if self.0.is_some() { Err(ErrorKind::NotCapturable(what).into()) } else { Ok(()) }
    }
}

impl Gate {
    fn read(&self) -> RwLockReadGuard<'_, Option<Captured>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters for work of this thread.
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

    /// Enters for work that must not go into a graph; `None` while the stream is being captured.
    pub(crate) fn enter_uncaptured(&self) -> Option<Entered<'_>> {
        Some(self.read()).filter(|state| state.is_none()).map(Entered)
    }

    /// Returns true while this capture is active.
    pub(crate) fn is_in(&self, capture: CaptureId) -> bool {
        self.read().as_ref().is_some_and(|captured| captured.id == capture)
    }

    /// The end of the work of `stream`, whose gate this is, without the work that it captures.
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

    /// Ends the capture.
    pub(crate) fn end(&self, stream: &dyn BackendStream) -> Result<Box<dyn BackendGraph>, Error> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *state = None;
        stream.end_capture()
    }
}

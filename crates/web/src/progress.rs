//! Progress of long runs, told to the page.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::Device;

use crate::failure::Failure;
use crate::page;

/// What runs, and how far it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<String>>);

impl Progress {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The same, for runs that write meanwhile.
    pub(crate) fn lines() -> Self {
        Self::new()
    }

    /// Starts a task.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
        self.show(0, 0);
    }

    /// Blocks finished, of blocks in all.
    pub(crate) fn show(&self, done: u64, all: u64) {
        page::progress(&self.0.lock().unwrap_or_else(PoisonError::into_inner), done, all);
    }

    /// Runs something under these eyes: with the blocks of a virtual GPU.
    pub(crate) fn of<R>(device: &Device, what: &str, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        let progress = Self::new();
        progress.begin(what);
        let watcher = progress.clone();
        device.configure(|options| {
            options.progress = Some(Arc::new(move |done, all| watcher.show(done, all)));
        })?;
        work()
    }

    /// Ends it: the page sees the end of the command.
    pub(crate) fn end(&self) {}

    /// Writes what a kernel prints; the host's streams take everything.
    pub(crate) fn write(&self, mut out: impl Write, text: &str) {
        let _ = out.write_all(text.as_bytes());
    }
}

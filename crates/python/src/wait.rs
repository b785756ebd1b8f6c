//! Long work: done on a thread of its own, while this one lets other Python threads run and looks
//! for Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

/// Interval between checks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// Does work without the interpreter's lock. If a signal's handler raises, `interrupt` is set, the
/// work's end is awaited, and the exception is what comes back.
pub(crate) fn interruptible<R: Send>(
    py: Python<'_>,
    interrupt: &Arc<AtomicBool>,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    std::thread::scope(|scope| {
        let (sender, mut receiver) = channel();
        let worker = scope.spawn(move || {
            // Nobody waits any more only if this thread's owner has panicked.
            let _ = sender.send(work());
        });
        loop {
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(SIGNALS)) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("a worker that ends well has sent its result"),
                },
            }
            if let Err(raised) = py.check_signals() {
                interrupt.store(true, Ordering::Relaxed);
                let ended = py.detach(move || worker.join());
                interrupt.store(false, Ordering::Relaxed);
                return ended.map(|()| Err(raised)).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        }
    })
}

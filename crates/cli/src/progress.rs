//! Progress of long runs: a bar if standard error is a terminal, else an occasional line.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use warpfold_device::Device;

use crate::failure::Failure;
use crate::output;

/// A bar of blocks; where standard error is not a terminal, lines.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal();
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self { bar: ProgressBar::with_draw_target(None, target), lines: (!is_shown).then(|| Lines::start(PAUSES)) }
    }

    /// Lines alone, also on a terminal: for runs that write to it meanwhile.
    pub(crate) fn lines() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Self { bar, lines: Some(Lines::start(PAUSES)) }
    }

    /// Starts a task; its number of blocks is not known yet, and never on CUDA.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        let what = what.into();
        self.tell(|now| *now = Now { what: what.clone(), began: Some(Instant::now()), ..Now::default() });
        self.bar.set_style(style("{msg}"));
        self.bar.unset_length();
        self.bar.set_message(what);
        self.bar.reset();
    }

    /// Blocks finished, of blocks in all.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.tell(|now| now.parts = Some((done, all, "blocks")));
        if self.bar.length().is_none() {
            self.bar.set_length(all);
            self.bar.set_style(style("{msg} {wide_bar} {human_pos}/{human_len} blocks {eta}"));
        }
        self.bar.set_position(done);
    }

    /// Runs something under these eyes: with the blocks of a virtual GPU.
    pub(crate) fn of<R>(device: &Device, what: &str, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        let progress = Self::new();
        progress.begin(what);
        if device.is_virtual() {
            let watcher = progress.clone();
            device.configure(|options| {
                options.progress = Some(Arc::new(move |done, all| watcher.show(done, all)));
            })?;
        }
        let result = work();
        progress.end();
        result
    }

    /// Bytes done, of bytes in all.
    #[cfg(feature = "engine")]
    pub(crate) fn show_bytes(&self, done: u64, all: u64) {
        self.tell(|now| now.parts = Some((done, all, "bytes")));
        if self.bar.length().is_none() {
            self.bar.set_length(all);
            self.bar.set_style(style("{msg} {wide_bar} {bytes}/{total_bytes}"));
        }
        self.bar.set_position(done.min(all));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.tell(|now| now.has_ended = true);
        self.bar.finish_and_clear();
    }

    /// Writes what a kernel prints. A closed stream loses the text, as it does for every other
    /// program.
    pub(crate) fn write(&self, mut out: impl Write, text: &str) {
        self.bar.suspend(|| {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Now)) {
        if let Some(lines) = &self.lines {
            lines.tell(change);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are well formed")
}

/// Seconds between lines: a short run has none, a long one fills no log.
const PAUSES: [u64; 3] = [10, 20, 60];

/// The task in progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Now {
    what: String,
    /// Done, in all, of what.
    parts: Option<(u64, u64, &'static str)>,
    began: Option<Instant>,
    has_ended: bool,
}

impl fmt::Display for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.what.is_empty() { "preparing" } else { &self.what })?;
        match self.parts {
            Some((done, all, unit)) => write!(f, ": {} of {} {unit}", HumanCount(done), HumanCount(all)),
            None => Ok(()),
        }
    }
}

impl Now {
    /// A line of it, so long after what runs began and after all of it.
    fn line(&self, since_begin: Duration, since_start: Duration) -> String {
        let left = self.parts.filter(|(done, all, _)| (1..*all).contains(done)).map(|(done, all, _)| {
            let seconds = since_begin.as_secs_f64() * (all - done) as f64 / done as f64;
            if seconds < 100.0 {
                format!(", about {seconds:.0} s left")
            } else {
                format!(", about {:.0} min left", seconds / 60.0)
            }
        });
        format!("{self}{}, after {} s\n", left.unwrap_or_default(), since_start.as_secs())
    }
}

/// A thread that writes what is going on, also while nothing moves.
#[derive(Debug, Clone)]
struct Lines(Arc<(Mutex<Now>, Condvar)>);

impl Lines {
    fn start<const N: usize>(pauses: [u64; N]) -> Self {
        let this = Self(Arc::default());
        let lines = this.clone();
        std::thread::spawn(move || lines.watch(&pauses));
        this
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut Now)) {
        let mut now = self.now();
        change(&mut now);
        if now.has_ended {
            self.0.1.notify_all();
        }
    }

    /// Ends when the run has ended; the last pause is repeated.
    fn watch(&self, pauses: &[u64]) {
        let begin = Instant::now();
        let mut pauses = pauses.iter().copied().map(Duration::from_secs);
        let mut pause = Duration::ZERO;
        loop {
            pause = pauses.next().unwrap_or(pause);
            let waited = self.0.1.wait_timeout_while(self.now(), pause, |now| !now.has_ended);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if !timeout.timed_out() {
                return;
            }
            let line = now.line(now.began.map(|began| began.elapsed()).unwrap_or_default(), begin.elapsed());
            drop(now);
            output::note(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_runs_and_how_far_it_is() {
        let now = Now { what: "naive (1 of 10)".to_owned(), parts: Some((1234, 131_072, "blocks")), ..Now::default() };
        assert_eq!(now.to_string(), "naive (1 of 10): 1,234 of 131,072 blocks");
        let line = |seconds| now.line(Duration::from_secs(seconds), Duration::from_secs(30));
        assert_eq!(line(10), "naive (1 of 10): 1,234 of 131,072 blocks, about 18 min left, after 30 s\n");
        assert!(line(0).ends_with("blocks, about 0 s left, after 30 s\n"), "{}", line(0));
        let done = Now { parts: Some((7, 7, "blocks")), ..now.clone() };
        assert!(done.line(Duration::from_secs(1), Duration::from_secs(2)).ends_with("7 blocks, after 2 s\n"));
        assert_eq!(Now { parts: None, ..now }.to_string(), "naive (1 of 10)");
    }

    #[test]
    fn a_run_that_has_ended_is_watched_no_longer() {
        let lines = Lines(Arc::default());
        lines.tell(|now| now.has_ended = true);
        lines.watch(&[3600]);
    }
}

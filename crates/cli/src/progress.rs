//! How far a long run is, on standard error: a bar on a terminal, elsewhere a line now and then.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of blocks; where standard error is not a terminal, a line every ten seconds, so that short
/// runs are silent and long ones are not.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Option<Arc<Mutex<Lines>>>,
}

/// Between two lines.
const EVERY: Duration = Duration::from_secs(10);

/// What lines tell.
#[derive(Debug)]
struct Lines {
    what: String,
    next: Instant,
}

impl Lines {
    /// Writes a line if it is time for one.
    fn tell(&mut self, now: Instant, part: impl FnOnce() -> String) -> Option<String> {
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        Some(format!("{}: {}", self.what, part()))
    }
}

impl Progress {
    pub(crate) fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let lines = Lines { what: String::new(), next: Instant::now() + EVERY };
        let lines = (!shown).then(|| Arc::new(Mutex::new(lines)));
        Self { bar: ProgressBar::with_draw_target(None, target), lines }
    }

    /// What runs; how many blocks it has is not known yet, and never on CUDA.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.set_style(style("{msg}"));
        self.bar.unset_length();
        let what = what.into();
        if let Some(lines) = &self.lines {
            lines.lock().unwrap_or_else(PoisonError::into_inner).what.clone_from(&what);
        }
        self.bar.set_message(what);
        self.bar.reset();
    }

    fn tell(&self, part: impl FnOnce() -> String) {
        let Some(lines) = &self.lines else { return };
        let line = lines.lock().unwrap_or_else(PoisonError::into_inner).tell(Instant::now(), part);
        if let Some(line) = line {
            // Nobody is left to be told if it is closed.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Blocks finished, of blocks in all.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.tell(|| format!("{done} of {all} blocks"));
        if self.bar.length().is_none() {
            self.bar.set_length(all);
            self.bar.set_style(style("{msg} {wide_bar} {human_pos}/{human_len} blocks {eta}"));
        }
        self.bar.set_position(done);
    }

    /// Bytes done, of bytes in all.
    pub(crate) fn show_bytes(&self, done: u64, all: u64) {
        self.tell(|| format!("{done} of {all} bytes"));
        if self.bar.length().is_none() {
            self.bar.set_length(all);
            self.bar.set_style(style("{msg} {wide_bar} {bytes}/{total_bytes}"));
        }
        self.bar.set_position(done.min(all));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes what a kernel prints. A closed stream loses the text, as it does for every other
    /// program.
    pub(crate) fn write(&self, mut out: impl Write, text: &str) {
        self.bar.suspend(|| {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are well formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_every_ten_seconds_and_not_before() {
        let start = Instant::now();
        let mut lines = Lines { what: "naive (1 of 5)".to_owned(), next: start + EVERY };
        let mut at = |seconds| lines.tell(start + Duration::from_secs(seconds), || "3 of 9 blocks".to_owned());
        let line = Some("naive (1 of 5): 3 of 9 blocks".to_owned());
        assert_eq!([at(1), at(9), at(10), at(11), at(21)], [None, None, line.clone(), None, line]);
    }
}

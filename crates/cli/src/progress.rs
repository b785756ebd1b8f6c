//! How far a long run is, for somebody who watches: on standard error, if that is a terminal.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of blocks; hidden where standard error is not a terminal.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} blocks {eta}");
        let bar = ProgressBar::with_draw_target(Some(0), target);
        Self { bar: bar.with_style(style.expect("the template is well formed")) }
    }

    /// What runs.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.reset();
        self.bar.set_message(what.into());
    }

    /// Blocks finished, of blocks in all.
    pub(crate) fn show(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Writes what a kernel prints. A closed stream loses the text, as it does for every other program.
    pub(crate) fn write(&self, mut out: impl Write, text: &str) {
        self.bar.suspend(|| {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }
}

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
        Self { bar: ProgressBar::with_draw_target(None, target) }
    }

    /// What runs; how many blocks it has is not known yet, and never on CUDA.
    pub(crate) fn begin(&self, what: impl Into<String>) {
        self.bar.set_style(style("{msg}"));
        self.bar.unset_length();
        self.bar.set_message(what.into());
        self.bar.reset();
    }

    /// Blocks finished, of blocks in all.
    pub(crate) fn show(&self, done: u64, all: u64) {
        if self.bar.length().is_none() {
            self.bar.set_length(all);
            self.bar.set_style(style("{msg} {wide_bar} {human_pos}/{human_len} blocks {eta}"));
        }
        self.bar.set_position(done);
    }

    /// Bytes done, of bytes in all.
    pub(crate) fn show_bytes(&self, done: u64, all: u64) {
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

//! Standard output, for a reader who may leave early.

use std::io::{ErrorKind, Write};

use clap::ValueEnum;

use crate::failure::Failure;

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table for people.
    Table,
    /// One JSON object for programs.
    Json,
}

/// Writes text to standard output. A reader that closed it, as `head` does, has what it wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text to standard error, for those who watch. Nobody is left to be told if it is closed.
pub(crate) fn note(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a value as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).expect("reports are structures of strings and numbers");
    print(&(text + "\n"))
}

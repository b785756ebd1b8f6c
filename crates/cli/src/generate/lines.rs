//! Lines of JSON that `generate --json` writes: each when its answer is there, in the order of the
//! requests, so that a file that was cut off is gone on with.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpfold_engine::Request;

use crate::failure::Failure;
use crate::output;

/// The part of a line that says which request it answers.
#[derive(Deserialize)]
struct Answered {
    prompt_tokens: Vec<u32>,
}

/// The file, or standard output.
#[derive(Debug)]
pub(super) struct Lines(Option<(PathBuf, File)>);

impl Lines {
    /// Standard output, or a file with the number of requests that it has answers to. A line
    /// without an end is removed.
    pub(super) fn open(path: Option<&Path>, asked: &[Request]) -> Result<(Self, usize), Failure> {
        let Some(path) = path else { return Ok((Self(None), 0)) };
        let wrong = |reason: &dyn std::fmt::Display| Failure::usage(format!("{}: {reason}", path.display()));
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            other => other.map_err(|error| wrong(&error))?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut answered = 0;
        for line in whole.lines() {
            let prompt = serde_json::from_str::<Answered>(line).map(|line| line.prompt_tokens);
            let request = asked.get(answered).map(|request| &request.prompt);
            answered += 1;
            if prompt.is_err() || prompt.as_ref().ok() != request {
                return Err(wrong(&format_args!("line {answered} answers no such request: name another file")));
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| wrong(&error))?;
        file.set_len(whole.len() as u64).map_err(|error| wrong(&error))?;
        Ok((Self(Some((path.to_owned(), file))), answered))
    }

    /// Adds a line.
    pub(super) fn write(&mut self, line: &str) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.0 else { return output::print(line) };
        let written = file.write_all(line.as_bytes());
        written.map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))
    }
}

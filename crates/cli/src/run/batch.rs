//! Many commands in one process: a line each, and a line of result each.

use std::path::Path;

use serde::Serialize;
use warpfold::Queue;

use super::command::Command;
use crate::failure::Failure;
use crate::host;
use crate::{Ending, output};

/// The result of a line.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<&'a str>,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The lines of a batch that are not empty, with their numbers from 1.
pub(super) fn read(file: &Path) -> Result<Vec<(usize, String)>, Failure> {
    let text = host::read_to_string(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    Ok(lines.map(|(i, line)| (i + 1, line.to_owned())).collect())
}

/// Runs every line, whatever became of those before.
pub(super) fn run(lines: &[(usize, String)], queue: &Queue) -> Result<Ending, Failure> {
    let mut ending = Ending::Clean;
    for (number, line) in lines {
        let command: Result<Command, _> = serde_json::from_str(line);
        let op = command.as_ref().ok().and_then(Command::op);
        let result = match &command {
            Ok(command) => command.prepare().and_then(|prepared| prepared.run(queue)),
            Err(error) => Err(Failure::usage(format!("not a command: {error}"))),
        };
        if result.is_err() {
            ending = Ending::Findings;
        }
        let error = result.err().map(|failure| failure.to_string());
        let outcome = Outcome { line: *number, op, ok: error.is_none(), error };
        let text = serde_json::to_string(&outcome).expect("an outcome is strings and numbers");
        output::print(&(text + "\n"))?;
    }
    Ok(ending)
}

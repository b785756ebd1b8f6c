//! `warpfold exercise`: problems in small steps, each with a file to start from and a judge.

pub(crate) mod check;
mod progress;
pub(crate) mod rust;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use warpfold_ladders::exercise::{EXERCISES, Exercise};

use crate::Ending;
use crate::failure::Failure;
use crate::host;
use crate::output;
use crate::suggestion::did_you_mean;
use progress::Progress;

/// Problems in small steps, from one thread to attention: a file to start from, and a judge.
///
/// `start index` writes exercises/index.rs, `check index` judges it on the virtual GPU: the result,
/// what the checks find, and what the kernel costs. The file is all that there is to edit. Exit
/// codes of `check`: 0 passed, 1 not yet, 2 bad usage, 3 PTX that is not supported, 4 no compiler.
#[derive(Debug, Args)]
pub(crate) struct ExerciseArgs {
    #[command(subcommand)]
    command: Command,
    /// Folder of the exercise files; progress is kept in its `.warpfold`.
    #[arg(long, global = true, value_name = "DIR", default_value = "exercises")]
    folder: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the exercises, and which were passed.
    List,
    /// Writes the file of an exercise to start from.
    Start {
        /// An exercise; unless given the first that was not passed.
        name: Option<String>,
    },
    /// Judges a kernel.
    Check(check::Check),
    /// Prints the next hint.
    Hint {
        /// The exercise.
        name: String,
    },
    /// Prints a kernel that passes.
    Solution {
        /// The exercise.
        name: String,
    },
}

impl ExerciseArgs {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let mut progress = Progress::read(&self.folder)?;
        match &self.command {
            Command::List => list(&progress),
            Command::Start { name } => start(&self.folder, name.as_deref(), &progress),
            Command::Check(check) => return check.run(&self.folder, &mut progress),
            Command::Hint { name } => hint(named(name)?, &mut progress),
            Command::Solution { name } => output::print(named(name)?.solution),
        }?;
        Ok(Ending::Clean)
    }
}

fn named(name: &str) -> Result<&'static Exercise, Failure> {
    let known = || EXERCISES.iter().map(|exercise| exercise.name);
    let unknown = || {
        let meant = match did_you_mean(name, known()) {
            nothing if nothing.is_empty() => "; `warpfold exercise list` has their names".to_owned(),
            meant => meant,
        };
        Failure::usage(format!("no exercise is called '{name}'{meant}"))
    };
    EXERCISES.iter().find(|exercise| exercise.name == name.replace('_', "-")).ok_or_else(unknown)
}

/// The exercise after all that were passed.
fn next(progress: &Progress) -> Option<&'static Exercise> {
    EXERCISES.iter().find(|exercise| !progress.of(exercise.name).passed)
}

fn list(progress: &Progress) -> Result<(), Failure> {
    let width = EXERCISES.iter().map(|exercise| exercise.name.len()).max().unwrap_or(0);
    let line = |exercise: &Exercise| {
        let mark = if progress.of(exercise.name).passed { "[x]" } else { "[ ]" };
        format!("{mark} {:width$}  {}\n", exercise.name, exercise.task)
    };
    let lines: String = EXERCISES.iter().map(line).collect();
    let passed = EXERCISES.iter().filter(|exercise| progress.of(exercise.name).passed).count();
    let next = next(progress).map_or_else(String::new, |next| format!("; next: warpfold exercise start {}", next.name));
    output::print(&format!("{lines}{passed} of {} passed{next}\n", EXERCISES.len()))
}

fn start(folder: &Path, name: Option<&str>, progress: &Progress) -> Result<(), Failure> {
    let exercise = match name {
        Some(name) => named(name)?,
        None => next(progress).ok_or_else(|| Failure::usage("every exercise was passed; name one"))?,
    };
    let path = file_of(folder, exercise);
    if host::is_file(&path) {
        return Err(Failure::usage(format!("{}: it is there already; check it, or remove it", path.display())));
    }
    let failed = |e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    host::create_dir_all(folder).map_err(failed)?;
    host::write(&path, exercise.start).map_err(failed)?;
    let goals: String = exercise.goals.iter().map(|goal| format!("  {goal}\n")).collect();
    let goals = if goals.is_empty() { goals } else { format!("Goals:\n{goals}") };
    output::print(&format!(
        "{}: {} (n = {}).\n{goals}Edit {}, then: warpfold exercise check {}\n",
        exercise.name,
        exercise.task,
        exercise.n,
        path.display(),
        exercise.name
    ))
}

fn hint(exercise: &Exercise, progress: &mut Progress) -> Result<(), Failure> {
    let (seen, all) = (progress.of(exercise.name).hints, exercise.hints.len());
    let shown = seen.min(all - 1);
    progress.change(exercise.name, |state| state.hints = (seen + 1).min(all))?;
    let rest = if shown + 1 == all { "; no more: `warpfold exercise solution` shows a kernel that passes" } else { "" };
    output::print(&format!("{} (hint {} of {all}{rest})\n", exercise.hints[shown], shown + 1))
}

/// The file of an exercise: of the name as Rust has it.
fn file_of(folder: &Path, exercise: &Exercise) -> PathBuf {
    folder.join(exercise.name.replace('-', "_") + ".rs")
}

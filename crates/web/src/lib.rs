//! The `warpfold` program in a page of a browser: a command's words and files go in, text and files
//! come out.
//!
//! The sources of `crates/cli` without those that need a network, other programs or threads.
//! [`host`] stands for an operating system, [`page`] is the border to JavaScript, [`progress`]
//! tells the page how far a run is. `page/` has the scripts; of them and of the book
//! `deploy/web.py` makes a folder that needs no server.
#![cfg(target_family = "wasm")]

#[path = "../../cli/src/advise/mod.rs"]
mod advise;
#[path = "../../cli/src/bench"]
mod bench {
    //! Recorded runs, for the ladders that show them.
    #[allow(dead_code, reason = "BENCHMARKS.md is not made here")]
    pub(crate) mod markdown;
}
#[path = "../../cli/src/device_choice.rs"]
mod device_choice;
#[path = "../../cli/src/devices.rs"]
mod devices;
#[path = "../../cli/src/draw/mod.rs"]
mod draw;
#[path = "../../cli/src/exercise/mod.rs"]
mod exercise;
#[path = "../../cli/src/failure.rs"]
mod failure;
mod host;
#[path = "../../cli/src/inspect/mod.rs"]
mod inspect;
#[path = "../../cli/src/ladder/mod.rs"]
mod ladder;
#[path = "../../cli/src/npy.rs"]
mod npy;
#[path = "../../cli/src/output.rs"]
mod output;
mod page;
#[path = "../../cli/src/profile.rs"]
mod profile;
mod progress;
#[path = "../../cli/src/replay/mod.rs"]
mod replay;
#[path = "../../cli/src/run/mod.rs"]
mod run;
#[path = "../../cli/src/sarif.rs"]
mod sarif;
#[path = "../../cli/src/sim/mod.rs"]
mod sim;
#[path = "../../cli/src/smi.rs"]
mod smi;
#[path = "../../cli/src/suggestion.rs"]
mod suggestion;
#[path = "../../cli/src/theatre.rs"]
mod theatre;

use std::io::Write as _;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use failure::{Ending, Failure};
use warpfold_report::{json, table};

/// GPU computing in pure Rust: kernels on the virtual GPU, in this page.
#[derive(Debug, Parser)]
#[command(name = "warpfold", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    Devices(devices::Devices),
    Ladder(Box<ladder::Ladder>),
    Inspect(inspect::Inspect),
    Sim(Box<sim::Sim>),
    Advise(advise::Advise),
    Replay(replay::ReplayArgs),
    Exercise(exercise::ExerciseArgs),
    Draw(draw::Draw),
}

/// Runs the command of the host's words; returns its exit code.
fn run_command() -> u8 {
    match ended() {
        Ok(ending) => ending.exit_code(),
        Err(failure) => {
            // The host's stream takes everything.
            let _ = writeln!(host::stderr(), "error: {failure}");
            failure.exit_code()
        }
    }
}

fn ended() -> Result<Ending, Failure> {
    let program = match Program::try_parse_from(std::iter::once("warpfold".to_owned()).chain(host::arguments())) {
        Ok(program) => program,
        Err(help) if matches!(help.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            output::print(&help.render().to_string())?;
            return Ok(Ending::Clean);
        }
        Err(error) => return Err(Failure::of_usage(&error)),
    };
    match program.command {
        Command::Run(run) => run.run(),
        Command::Devices(devices) => devices.run(),
        Command::Ladder(ladder) => ladder.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Sim(sim) => sim.run(),
        Command::Advise(advise) => advise.run(),
        Command::Replay(replay) => replay.run(),
        Command::Exercise(exercise) => exercise.run(),
        Command::Draw(draw) => draw.run(),
    }
}

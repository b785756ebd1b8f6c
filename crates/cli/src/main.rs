//! The `warpfold` program: `advise`, `run`, `generate`, `serve`, `bench`, `devices`, `draw`,
//! `ladder`, `inspect`, `measure`, `sim`, `compare`, `judge`, `replay`, `exercise`.
//!
//! One file a subcommand: it parses its arguments, calls a library, and prints. Beside them stand
//! what they share: `failure` (what goes to standard error, and the exit code), `model`, `output`
//! and `progress`; tables, JSON and pages are of `warpfold_report`. Exit codes: 0 clean, 1 findings of severity error or wrong
//! results, 2 bad usage, 3 PTX that is not supported, 4 a run that failed.

mod advise;
mod bench;
mod compare;
mod device_choice;
mod devices;
mod draw;
mod exercise;
mod failure;
#[cfg(feature = "engine")]
mod generate;
mod host;
mod inspect;
mod judge;
mod ladder;
mod measure;
#[cfg(feature = "engine")]
mod model;
mod npy;
mod output;
mod profile;
mod progress;
mod replay;
mod run;
mod sarif;
#[cfg(feature = "engine")]
mod serve;
mod sim;
mod smi;
mod suggestion;
mod theatre;
#[cfg(not(feature = "engine"))]
mod whole;

use std::io::Write;
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use failure::{Ending, Failure};
use warpfold_report::{json, table};

/// The version, with the commit that a release was built from (deploy/release.sh names it).
static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("WARPFOLD_COMMIT") {
    Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").to_owned(),
});

/// GPU computing in pure Rust: kernels on an NVIDIA GPU, or on the virtual one in this process.
///
/// The environment variable WARPFOLD_DEVICE (virtual, virtual:a100, cuda:N) names the device where
/// --device does not; without both, the first NVIDIA GPU is taken, or else the virtual GPU.
#[derive(Debug, Parser)]
#[command(name = "warpfold", version = VERSION.as_str())]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Run>),
    #[cfg(feature = "engine")]
    Generate(Box<generate::Generate>),
    #[cfg(feature = "engine")]
    Serve(Box<serve::Serve>),
    Bench(bench::Bench),
    Devices(devices::Devices),
    Ladder(Box<ladder::Ladder>),
    Inspect(inspect::Inspect),
    Measure(measure::Measure),
    Sim(Box<sim::Sim>),
    Advise(advise::Advise),
    Compare(compare::Compare),
    Judge(judge::Judge),
    Replay(replay::ReplayArgs),
    Exercise(exercise::ExerciseArgs),
    Draw(draw::Draw),
}

fn main() -> ExitCode {
    match run() {
        Ok(ending) => ExitCode::from(ending.exit_code()),
        Err(failure) => {
            // Nobody is left to be told if standard error is closed.
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run() -> Result<Ending, Failure> {
    #[cfg(not(feature = "engine"))]
    if let Some(ending) = whole::run()? {
        return Ok(ending);
    }
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(help) if matches!(help.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            output::print(&help.render().to_string())?;
            return Ok(Ending::Clean);
        }
        Err(error) => return Err(Failure::of_usage(&error)),
    };
    match program.command {
        Command::Run(run) => run.run(),
        #[cfg(feature = "engine")]
        Command::Generate(generate) => generate.run(),
        #[cfg(feature = "engine")]
        Command::Serve(serve) => serve.run(),
        Command::Bench(bench) => bench.run(),
        Command::Devices(devices) => devices.run(),
        Command::Ladder(ladder) => ladder.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Measure(measure) => measure.run(),
        Command::Sim(sim) => sim.run(),
        Command::Advise(advise) => advise.run(),
        Command::Compare(compare) => compare.run(),
        Command::Judge(judge) => judge.run(),
        Command::Replay(replay) => replay.run(),
        Command::Exercise(exercise) => exercise.run(),
        Command::Draw(draw) => draw.run(),
    }
}

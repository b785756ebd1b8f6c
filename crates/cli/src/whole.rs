//! Subcommands that need models, in the program that is built without them.

use std::env;
use std::process::Command;

use crate::Ending;
use crate::failure::Failure;

/// Runs `generate`, `serve` and `bench serve` by the whole program, `None` of other subcommands.
///
/// `cargo run` builds `warpfold-lite`, a third faster than the whole program; Cargo is asked for
/// the rest when it is needed.
pub(crate) fn run() -> Result<Option<Ending>, Failure> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let words: Vec<_> = arguments.iter().take(2).map(|word| word.to_str().unwrap_or_default()).collect();
    let name = match words[..] {
        [name @ ("generate" | "serve"), ..] => name,
        ["bench", "serve"] => "bench serve",
        _ => return Ok(None),
    };
    let Some(cargo) = env::var_os("CARGO") else {
        return Err(Failure::usage(format!(
            "`{name}` needs the inference engine, which `warpfold-lite` leaves out: run it by `warpfold`, which \
             `cargo build --release --bin warpfold` makes"
        )));
    };
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--bin", "warpfold", "--"]).args(arguments);
    let status = command.status().map_err(|error| Failure::run(format!("cargo run --bin warpfold: {error}")))?;
    Ok(Some(Ending::Code(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(4))))
}

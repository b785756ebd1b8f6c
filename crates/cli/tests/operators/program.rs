//! Runs the program on the device under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program; on the virtual GPU unless the environment names another device.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpfold"));
    let device =
        std::env::var("WARPFOLD_DEVICE").ok().filter(|d| !d.is_empty()).unwrap_or_else(|| "virtual".to_owned());
    command.env("WARPFOLD_DEVICE", device).env_remove("PTXAS");
    command
}

/// `warpfold run` with these arguments.
pub(crate) fn run(args: &[&str]) -> Output {
    command().arg("run").args(args).output().expect("the program starts")
}

/// The names that `warpfold run --list` gives: the first word of each line.
pub(crate) fn listed() -> Vec<String> {
    let output = run(&["--list"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("the program writes UTF-8");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// An empty folder of a family.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("operators").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the old folder can go");
    }
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

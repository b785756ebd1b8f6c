//! Runs the program; makes files for it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, with no device chosen by the environment.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpfold"));
    command.args(args).env_remove("WARPFOLD_DEVICE").env_remove("PTXAS");
    command
}

pub(crate) fn finish(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
    Outcome {
        code: output.status.code().expect("no signal ends the program"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

pub(crate) fn warpfold(args: &[&str]) -> Outcome {
    finish(&mut program(args))
}

impl Outcome {
    /// Asserts the exit code, showing everything where it differs.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", self.stdout))
    }
}

/// Asserts that arguments are refused with this exit code and with one line on standard error,
/// which has `part` in it.
#[track_caller]
pub(crate) fn refused(args: &[&str], code: i32, part: &str) {
    let outcome = warpfold(args).ended_with(code);
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr.matches('\n').count(), 1, "one line: {}", outcome.stderr);
    assert!(outcome.stderr.starts_with("error: ") && outcome.stderr.contains(part), "{}", outcome.stderr);
}

/// A file of PTX beside the tests.
pub(crate) fn ptx(name: &str) -> String {
    format!("{}/tests/program/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder of a test.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the old folder can go");
    }
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder
}

/// A `.npy` file, built here byte for byte.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(header.len()).expect("a short header").to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

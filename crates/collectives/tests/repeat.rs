//! The script that runs a test program many times stops at the first run that fails or hangs.

use std::process::Command;

#[track_caller]
fn ends(arguments: &[&str], status: i32, expected: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/repeat.sh");
    let output = Command::new("sh").arg(script).args(arguments).output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    expected.iter().for_each(|part| assert!(text.contains(part), "{arguments:?}: {text}"));
}

#[test]
fn runs_are_counted_up_to_the_first_that_fails_or_takes_too_long() {
    ends(&["-n", "3", "true"], 0, &["3 of 3 runs passed in "]);
    let third = "echo seed $WARPFOLD_SEED; test $WARPFOLD_SEED -lt 3";
    ends(&["-n", "5", "sh", "-c", third], 1, &["seed 3\n", "run 3 ended with status 1; 2 of 5 runs passed"]);
    ends(&["-n", "2", "-t", "1", "sleep", "5"], 1, &["run 1 took more than 1 s; 0 of 2 runs passed"]);
    ends(&[], 2, &["usage: repeat.sh"]);
}

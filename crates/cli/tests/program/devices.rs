//! `warpfold devices`.

use crate::support::{finish, program, warpfold};

#[test]
fn every_virtual_gpu_is_listed_and_so_is_why_there_is_no_other() {
    let outcome = warpfold(&["devices"]).ended_with(0);
    let line = |name: &str| outcome.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("virtual:h200").contains("sm_90a"), "{}", outcome.stdout);
    assert!(line("virtual:a100").contains("sm_80"), "{}", outcome.stdout);
    assert!(line("cuda:").contains("no NVIDIA driver") || line("cuda:0").contains("sm_"), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.matches(" *").count(), 1, "one is the default: {}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 120), "{}", outcome.stdout);
}

#[test]
fn the_environment_chooses_the_default() {
    let outcome = finish(program(&["devices"]).env("WARPFOLD_DEVICE", "virtual:a100")).ended_with(0);
    assert!(outcome.stdout.contains("virtual:a100 *"), "{}", outcome.stdout);
}

#[test]
fn a_default_that_does_not_exist_is_an_error_behind_the_list() {
    let outcome = finish(program(&["devices"]).env("WARPFOLD_DEVICE", "abacus")).ended_with(2);
    assert!(outcome.stdout.contains("virtual:h200"), "{}", outcome.stdout);
    let expected = "error: unknown device 'abacus': expected virtual, virtual:h200, virtual:a100, cuda or cuda:N\n";
    assert_eq!(outcome.stderr, expected);
}

//! Runs every kernel of the corpus (`corpus/README.md`) on the virtual GPU under all checks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use warpfold_conformance::corpus::{Case, Folder, Outcome, run, verdict};
use warpfold_sim::{Checks, FindingKind};

fn all() -> Vec<Case> {
    [Folder::Pass, Folder::Fault].into_iter().flat_map(|folder| Case::all(folder).unwrap()).collect()
}

/// Runs and judges every case; fails with a list of all that differ from their promise, not with
/// the first.
#[track_caller]
fn check(cases: &[Case], workers: usize, checks: Checks, judge: fn(&Case, &Outcome) -> Vec<String>) {
    let mut failures = Vec::new();
    for case in cases {
        let problems = match catch_unwind(AssertUnwindSafe(|| run(case, workers, checks))) {
            Ok(Ok(outcome)) => judge(case, &outcome),
            Ok(Err(error)) => vec![format!("does not run: {error}")],
            Err(_) => vec!["the simulator panicked".to_owned()],
        };
        if !problems.is_empty() {
            failures.push(format!("{}\n    {}", case.name, problems.join("\n    ")));
        }
    }
    let num = failures.len();
    assert!(num == 0, "{num} of {} kernels, {workers} workers:\n{}", cases.len(), failures.join("\n"));
}

#[test]
fn correct_kernels_leave_their_values_and_are_reported_for_nothing() {
    check(&Case::all(Folder::Pass).unwrap(), 1, Checks::All, verdict);
}

#[test]
fn correct_kernels_are_reported_for_nothing_by_two_workers() {
    check(&Case::all(Folder::Pass).unwrap(), 2, Checks::All, verdict);
}

#[test]
fn correct_kernels_leave_their_values_without_checks() {
    check(&Case::all(Folder::Pass).unwrap(), 1, Checks::None, verdict);
}

#[test]
fn planted_defects_are_reported_at_their_lines() {
    check(&Case::all(Folder::Fault).unwrap(), 1, Checks::All, verdict);
}

#[test]
fn planted_defects_are_reported_at_their_lines_by_two_workers() {
    check(&Case::all(Folder::Fault).unwrap(), 2, Checks::All, verdict);
}

/// Whether hardware itself ends a kernel for such a fault (a deadlock ends by the driver's time
/// limit).
fn is_trapped(kind: FindingKind) -> bool {
    use FindingKind::{
        BarrierDivergence, Deadlock, HostRead, InvalidSync, Leak, Misaligned, MissingProxyFence, MissingWait,
        OutOfBounds, Race, Uninitialized, UseAfterFree, WarpSync,
    };
    match kind {
        OutOfBounds | Misaligned | UseAfterFree | Deadlock => true,
        Race | WarpSync | Leak | Uninitialized | HostRead | BarrierDivergence | InvalidSync | MissingWait
        | MissingProxyFence => false,
    }
}

#[test]
fn without_checks_the_first_fault_that_hardware_traps_ends_the_run() {
    let mut cases = Case::all(Folder::Fault).unwrap();
    // Hardware knows the end of shared memory, but not where one shared variable ends and the next
    // begins; and only the checks look for stores to constant memory, and for where the pieces of
    // the heap end.
    let unseen = ["past_a_shared_variable", "store_to_constant_memory", "heap_memory_overrun"];
    cases.retain(|c| c.fault.as_ref().is_some_and(|f| is_trapped(f.kind)) && !unseen.contains(&c.name.as_str()));
    assert!(cases.len() >= 15);
    check(&cases, 1, Checks::None, |case, outcome| {
        let mut problems = verdict(case, outcome);
        if !outcome.report.aborted {
            problems.push("the run went on".to_owned());
        }
        problems
    });
}

#[test]
fn without_checks_nothing_else_is_reported() {
    let mut cases = Case::all(Folder::Fault).unwrap();
    cases.retain(|c| c.fault.as_ref().is_some_and(|f| !is_trapped(f.kind) && f.consequences.is_empty()));
    assert!(cases.len() >= 30);
    check(&cases, 1, Checks::None, |_, outcome| outcome.report.findings.iter().map(ToString::to_string).collect());
}

#[test]
fn the_corpus_has_many_kernels_of_either_kind() {
    assert!(Case::all(Folder::Pass).unwrap().len() >= 25);
    assert!(Case::all(Folder::Fault).unwrap().len() >= 25);
}

#[test]
fn every_kernel_survives_printing_and_parsing() {
    for case in all() {
        let tree = warpfold_ptx::parse(&case.text).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let again = warpfold_ptx::parse(&tree.to_string()).unwrap_or_else(|e| panic!("{} printed: {e}", case.name));
        assert_eq!(tree, again, "{}", case.name);
    }
}

/// Only where the environment variable `PTXAS` names an assembler, as in CI.
#[test]
fn every_kernel_assembles() {
    let Some(ptxas) = std::env::var_os("PTXAS") else { return };
    for case in all() {
        let file = std::env::temp_dir().join(format!("warpfold-corpus-{}-{}.ptx", std::process::id(), case.name));
        std::fs::write(&file, &case.text).unwrap();
        let output = Command::new(&ptxas)
            .arg(format!("-arch={}", case.target))
            .arg(&file)
            .args(["-o", "/dev/null"])
            .output()
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(output.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&output.stderr));
    }
}

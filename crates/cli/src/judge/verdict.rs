//! The verdict on a kernel: is it right on every case, what do the checks find, how does it cheat.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use warpfold_report::json as reports;
use warpfold_sim::occupancy::{self, Usage};
use warpfold_sim::{Arch, FindingKind, Memory, Program, predict::Machine};

use super::compare::Difference;
use super::launch::{Before, Ran, launch};
use super::reference::Expected;
use super::task::{Case, Content, Role, Task};
use crate::exercise::check::Built;
use crate::failure::Failure;

/// A way to look right without doing the work, or at the cost of others.
#[derive(Debug, Serialize)]
pub(super) struct Trick {
    name: &'static str,
    /// The position of the case that shows it.
    case: usize,
    what: String,
}

/// A case as it went.
struct Judged {
    ran: Ran,
    difference: Difference,
    stale: usize,
}

/// Judges a kernel on all cases; `passed` of the result is the verdict.
pub(super) fn judge(
    task: &Task,
    built: &Built,
    cases: &[Case],
    contents: &[Vec<Content>],
    expected: &[Vec<Expected>],
    machine: &Machine,
) -> Result<Value, Failure> {
    let mut judged = Vec::new();
    let mut tricks = Vec::new();
    for (at, ((case, contents), expected)) in cases.iter().zip(contents).zip(expected).enumerate() {
        let one = judge_case(task, built, case, contents, expected)?;
        tricks.extend(tricks_of(task, at, &one));
        judged.push(one);
    }
    tricks.extend(over_cases(&judged, expected));
    let findings: Vec<Value> = judged.iter().enumerate().flat_map(|(at, one)| findings_of(at, one)).collect();
    let is_clean = judged.iter().all(|one| one.ran.report.findings.iter().all(|finding| !finding.is_failure(&[])));
    let is_right = judged.iter().all(|one| one.difference.wrong_elements == 0);
    let first = &judged[0].ran;
    let predicted = first.report.predict(machine).ok();
    Ok(json!({
        "schema": 1,
        "passed": is_right && is_clean && tricks.is_empty(),
        "right": is_right,
        "clean": is_clean,
        "kernel": built.entry,
        "cases": judged.iter().zip(cases).map(|(one, case)| case_json(one, case)).collect::<Vec<_>>(),
        "tricks": tricks,
        "findings": findings,
        "counters": reports::Counters::from(&first.report.counters),
        "occupancy": occupancy_json(built, first)?,
        "predicted": predicted.as_ref().map(reports::Prediction::from),
    }))
}

fn judge_case(
    task: &Task,
    built: &Built,
    case: &Case,
    contents: &[Content],
    expected: &[Expected],
) -> Result<Judged, Failure> {
    let ran = launch(task, built, case, contents, Before::Unwritten)?;
    let mut difference = Difference::default();
    if ran.outputs.len() != expected.len() {
        let (has, gives) = (ran.outputs.len(), expected.len());
        return Err(Failure::usage(format!("the task has {has} outputs, and the reference gives {gives}")));
    }
    for ((at, data), expected) in ran.outputs.iter().zip(expected) {
        let arg = &task.args[*at];
        if contents[*at].shape != expected.shape {
            let (name, has, gives) = (&arg.name, &contents[*at].shape, &expected.shape);
            return Err(Failure::usage(format!("output {name} is {has:?}, and the reference {gives:?}")));
        }
        difference.add(&arg.name, arg.dtype, data, expected, task.tolerance);
    }
    let mut stale = 0;
    if !ran.report.aborted {
        let filled = [0x5a, 0xa5].map(|byte| launch(task, built, case, contents, Before::Filled(byte)));
        let [one, other] = filled;
        for ((at, one), (_, other)) in one?.outputs.iter().zip(&other?.outputs) {
            let bytes = task.args[*at].dtype.bytes();
            let kept = |(one, other): &(&[u8], &[u8])| {
                one.iter().zip(*other).any(|(one, other)| *one == 0x5a && *other == 0xa5)
            };
            stale += one.chunks(bytes).zip(other.chunks(bytes)).filter(kept).count();
        }
    }
    Ok(Judged { ran, difference, stale })
}

/// The tricks that one case shows.
fn tricks_of(task: &Task, case: usize, judged: &Judged) -> Vec<Trick> {
    let mut tricks = Vec::new();
    let mut add = |name, what: String| tricks.push(Trick { name, case, what });
    let report = &judged.ran.report;
    if judged.stale > 0 {
        let what = format!("{} output elements are what was there before the launch", judged.stale);
        add("stale_output", what);
    }
    for name in &judged.ran.overwritten {
        add("input_overwritten", format!("the input {name} has other bytes after the launch"));
    }
    let counters = &report.counters;
    if counters.global_store_requests + counters.global_atomics == 0 && !report.aborted {
        add("no_work", "nothing is stored to global memory".to_owned());
    }
    let outputs: BTreeSet<&str> =
        task.args.iter().filter(|arg| arg.role == Role::Out).map(|arg| arg.name.as_str()).collect();
    let of = |finding: &warpfold_sim::Finding| {
        finding.place.as_ref().is_some_and(|place| outputs.contains(place.variable.as_str()))
    };
    if report.findings.iter().any(|f| f.kind == FindingKind::Uninitialized && of(f)) {
        add("reads_output", "an output is read before the kernel has written it".to_owned());
    }
    if report.findings.iter().any(|f| f.kind == FindingKind::OutOfBounds) {
        add("other_memory", "memory that is no argument's is accessed".to_owned());
    }
    tricks
}

/// The tricks that several cases show together: the first, other values, other sizes.
fn over_cases(judged: &[Judged], expected: &[Vec<Expected>]) -> Vec<Trick> {
    let mut tricks = Vec::new();
    let [first, values, sizes @ ..] = judged else { return tricks };
    let is_right = |one: &Judged| one.difference.wrong_elements == 0;
    let differ = !expected[0].iter().zip(&expected[1]).all(|(one, other)| one.is_same(other));
    if differ && first.ran.outputs == values.ran.outputs && !first.ran.report.aborted {
        let what = "the output is the same for other inputs".to_owned();
        tricks.push(Trick { name: "constant_output", case: 1, what });
    } else if is_right(first) && !is_right(values) {
        let what = "right on the values of the first case, wrong on others of the same sizes".to_owned();
        tricks.push(Trick { name: "special_values", case: 1, what });
    }
    if is_right(first)
        && is_right(values)
        && let Some(wrong) = sizes.iter().position(|one| !is_right(one))
    {
        let what = "right on the sizes of the first case, wrong on others".to_owned();
        tricks.push(Trick { name: "special_sizes", case: wrong + 2, what });
    }
    tricks
}

/// The findings of a case, grouped by cause.
fn findings_of(case: usize, judged: &Judged) -> Vec<Value> {
    let report = &judged.ran.report;
    let group = |group: warpfold_sim::Group| {
        let example = reports::Finding::from(&report.findings[group.findings[0]]);
        json!({"case": case, "times": group.count, "remedy": group.remedy, "example": example})
    };
    report.groups().into_iter().map(group).collect()
}

fn case_json(judged: &Judged, case: &Case) -> Value {
    let ran = &judged.ran;
    json!({
        "sizes": case.sizes,
        "values_seed": case.seed,
        "grid": ran.grid,
        "block": ran.block,
        "right": judged.difference.wrong_elements == 0,
        "aborted": ran.report.aborted,
        "difference": judged.difference,
    })
}

fn occupancy_json(built: &Built, ran: &Ran) -> Result<Value, Failure> {
    let memory = Memory::new(1 << 30);
    let program = Program::load(&memory, &built.ptx, Arch::SM_90A)?;
    let kernel = program.kernel(&built.entry)?;
    let usage = Usage {
        threads: ran.block.iter().product(),
        registers_per_thread: kernel.registers,
        static_shared: kernel.static_shared,
        dynamic_shared: ran.shared,
    };
    let occupancy = occupancy::occupancy(Arch::SM_90A, &usage);
    Ok(json!({
        "blocks_per_sm": occupancy.blocks_per_sm,
        "occupancy": occupancy.occupancy,
        "registers_estimated": kernel.registers,
        "static_shared": kernel.static_shared,
        "dynamic_shared": ran.shared,
    }))
}

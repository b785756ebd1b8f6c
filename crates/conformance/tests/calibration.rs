//! The calibration cases, on every device at hand.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use warpfold_conformance::calibration::{Case, Observed, Probe, Rule, cases, find, measure, table};
use warpfold_device::{Checks, Device, Profile};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The answer, which the test needs.
fn ask(case: &Case, device: &Device) -> Observed {
    measure(case, device).unwrap_or_else(|failure| panic!("{} on {device}: {failure}", case.name))
}

#[test]
fn the_virtual_gpu_behaves_as_the_model_that_each_case_says() {
    let device = Device::virtual_gpu(Profile::H200);
    let mut wrong = Vec::new();
    for case in cases() {
        let observed = ask(case, &device);
        #[allow(clippy::cast_precision_loss, reason = "small costs")]
        let expected = match case.probe {
            Probe::Value { .. } => Observed::Value(case.claimed().predicts),
            Probe::Access(_) => Observed::Cost(case.claimed().predicts as f64),
        };
        if observed != expected {
            wrong.push(format!("{}: {observed:x?}, expected {expected:x?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hardware_follows_the_isa_where_it_decides() {
    let mut wrong = Vec::new();
    for device in Device::all() {
        println!("on {device}");
        for case in cases() {
            let observed = measure(case, &device);
            println!("  {}: {}", case.name, table::answer(case, &observed));
            let Rule::Isa(section) = case.rule else { continue };
            let answer = observed.ok().and_then(|o| case.judge(o));
            if answer != Some(case.claimed()) {
                wrong.push(format!("{} on {device}: {answer:?}, but {section}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_marks_of_every_ruler_cost_what_they_say() {
    let device = Device::virtual_gpu(Profile::H200);
    for case in cases() {
        let Probe::Access(access) = case.probe else { continue };
        for mark in access.kind.marks() {
            let probe =
                Probe::Access(warpfold_conformance::calibration::accesses::Access { pattern: mark.pattern, ..access });
            #[allow(clippy::cast_precision_loss, reason = "small costs")]
            let expected = Observed::Cost(mark.cost as f64);
            assert_eq!(ask(&Case { probe, ..*case }, &device), expected, "{:?}", access.kind);
        }
    }
}

#[test]
fn every_case_has_models_that_differ_and_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for case in cases() {
        assert!(names.insert(case.name), "{} stands twice", case.name);
        let predictions: BTreeSet<_> = case.models.iter().map(|m| m.predicts).collect();
        assert!(predictions.len() == case.models.len() && predictions.len() > 1, "{}: models agree", case.name);
        assert!(case.models.contains(&case.claimed()));
        assert!(root().join(case.source).is_file(), "{}: there is no {}", case.name, case.source);
    }
    assert!(names.len() >= 20, "{} cases", names.len());
}

#[test]
fn values_are_free_of_findings_under_all_checks() {
    let device = Device::virtual_gpu(Profile::H200);
    device.set_checks(Checks::All).expect("a virtual GPU checks");
    // These two ask what a broken rule does.
    let broken = ["store-winner", "shfl-from-outside"];
    for case in cases().filter(|c| matches!(c.probe, Probe::Value { .. }) && !broken.contains(&c.name)) {
        ask(case, &device);
        let report = device.last_report().expect("a report").report;
        assert!(report.findings.is_empty(), "{}: {:?}", case.name, report.findings);
    }
}

#[test]
fn a_cost_far_from_every_model_speaks_for_none() {
    let case = find("v4-quarters-apart").expect("the case");
    let name = |cost| case.judge(Observed::Cost(cost)).map(|m| m.name);
    assert_eq!(name(30.0), Some("quarter-warps in turn"));
    assert_eq!(name(9.5), Some("the warp as a whole"));
    assert_eq!(name(16.0), None);
    assert_eq!(name(-3.0), None);
    assert_eq!(find("nan-f32").expect("the case").judge(Observed::Value(1)), None);
}

#[test]
fn the_document_has_the_row_of_every_case() {
    let text = fs::read_to_string(root().join("CALIBRATION.md")).expect("the document exists");
    let device = Device::virtual_gpu(Profile::H200);
    let missing: Vec<_> = cases()
        .map(|case| table::row(case, &table::answer(case, &Ok(ask(case, &device))), ""))
        .map(|row| row.trim_end_matches("  |").to_owned() + " ")
        .filter(|start| !text.lines().any(|line| line.starts_with(start)))
        .collect();
    assert!(missing.is_empty(), "CALIBRATION.md lacks rows that start with\n{}", missing.join("\n"));
}

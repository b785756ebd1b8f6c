//! PTX of nvcc and Triton through the virtual GPU: right results, expected counters, no findings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use warpfold_conformance::foreign::case::{self, Arg, Case};
use warpfold_conformance::foreign::{fixtures, on_device, reference, virtual_gpu};
use warpfold_device::Device;
use warpfold_sim::{Checks, Counters, Report};

fn cases() -> Vec<Case> {
    case::read(&fixtures().join("cases.json"))
}

/// Runs every case from every file, and fails with all that went wrong.
#[track_caller]
fn check_all(checks: Checks, judge: impl Fn(&Case, &Report) -> Result<(), String>) {
    let cases = cases();
    let runs: Vec<(&Case, &str)> = cases.iter().flat_map(|c| c.files.iter().map(move |f| (c, f.as_str()))).collect();
    let mut failures = Vec::new();
    for &(case, file) in &runs {
        let outcome = virtual_gpu::run(case, file, checks).and_then(|report| judge(case, &report));
        if let Err(what) = outcome {
            failures.push(format!("{file}, {} <<<{:?}, {:?}>>>: {what}", case.entry, case.grid, case.block));
        }
    }
    assert!(failures.is_empty(), "{} of {} runs failed:\n{}", failures.len(), runs.len(), failures.join("\n"));
}

#[test]
fn foreign_kernels_give_right_results_and_the_counters_that_arithmetic_predicts() {
    check_all(Checks::None, |case, report| {
        let counters = by_name(&report.counters);
        let wrong: Vec<String> = case
            .counters
            .iter()
            .filter(|&(name, want)| counters[name.as_str()] != *want)
            .map(|(name, want)| format!("{name} is {}, expected {want}", counters[name.as_str()]))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    });
}

#[test]
fn the_checks_find_in_foreign_kernels_what_is_wrong_with_them_and_nothing_else() {
    check_all(Checks::All, |case, report| {
        let kinds: BTreeSet<String> =
            report.findings.iter().map(|f| format!("{}: {}", f.severity.name(), f.kind.name())).collect();
        if kinds == case.findings {
            return Ok(());
        }
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        Err(format!("expected the findings {:?}, got: {}", case.findings, found.join("; ")))
    });
}

/// The figure that nvprof measured on hardware, from this kernel, block and size.
#[test]
fn interleaved_addressing_has_the_4587520_bank_conflicts_that_hardware_measured() {
    let (n, blocks) = (1 << 25, 1 << 17);
    let mut case = cases().into_iter().find(|c| c.entry == "interleaved").expect("the ladder is in the list");
    case.grid = [blocks, 1, 1];
    let [Arg::In(input), Arg::Out { shape, .. }, Arg::U32(len)] = case.args.as_mut_slice() else {
        panic!("interleaved takes input, output and length")
    };
    (input.shape, *shape, *len) = (vec![n as usize], vec![blocks as usize], n);
    let report = virtual_gpu::run(&case, &case.files[0], Checks::None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.counters.shared_store_bank_conflicts, 4_587_520);
}

#[test]
fn foreign_kernels_give_right_results_on_the_gpu() {
    let asked = std::env::var("WARPFOLD_DEVICE").is_ok_and(|d| d.starts_with("cuda"));
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(e) if asked => panic!("a GPU was asked for: {e}"),
        Err(e) => return println!("not run: {e}"),
    };
    println!("running on {device}");
    let cases = cases();
    let mut failures = Vec::new();
    for case in &cases {
        for file in case.files.iter().filter(|f| on_device::runs_on(Case::arch(f), device.arch())) {
            if let Err(what) = on_device::run(case, file, &device) {
                failures.push(format!("{file}, {} <<<{:?}, {:?}>>>: {what}", case.entry, case.grid, case.block));
            }
        }
    }
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_foreign_file_parses_and_prints_back_to_the_same_tree() {
    for path in ptx_files() {
        let text = std::fs::read_to_string(&path).expect("a listed file can be read");
        let module = warpfold_ptx::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let again =
            warpfold_ptx::parse(&module.to_string()).unwrap_or_else(|e| panic!("{} printed: {e}", path.display()));
        assert_eq!(module.to_string(), again.to_string(), "{}", path.display());
    }
}

#[test]
fn every_entry_of_a_foreign_file_has_a_case() {
    let covered: BTreeSet<(String, String)> =
        cases().iter().flat_map(|c| c.files.iter().map(|f| (f.clone(), c.entry.clone())).collect::<Vec<_>>()).collect();
    let mut missing = Vec::new();
    for path in ptx_files() {
        let file = path.strip_prefix(fixtures()).expect("the walk starts there").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a listed file can be read");
        for entry in text.split(".entry ").skip(1).filter_map(|rest| rest.split('(').next()) {
            // The variant with fast functions shares its exact kernels with the plain one.
            let exact_in_fast = file.contains(".fast.") && entry == "float_roundings";
            if !exact_in_fast && !covered.contains(&(file.clone(), entry.to_owned())) {
                missing.push(format!("{file}: {entry}"));
            }
        }
    }
    assert!(missing.is_empty(), "no case for\n{}", missing.join("\n"));
}

#[test]
fn every_case_names_a_known_reference_and_known_counters() {
    let counters = by_name(&Counters::default());
    for case in cases() {
        assert!(reference::find(&case.reference).is_some(), "{}: no reference `{}`", case.entry, case.reference);
        for name in case.counters.keys() {
            assert!(counters.contains_key(name.as_str()), "{}: no counter `{name}`", case.entry);
        }
    }
}

fn ptx_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&fixtures(), &mut found);
    found.sort();
    assert!(found.len() > 40, "only {} PTX files under {}", found.len(), fixtures().display());
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of the fixtures can be read") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "ptx") {
            found.push(path);
        }
    }
}

fn by_name(c: &Counters) -> BTreeMap<&'static str, u64> {
    macro_rules! fields {
        ($($name:ident)*) => { [$((stringify!($name), c.$name)),*].into() };
    }
    fields!(
        warp_instructions thread_instructions predicated_on_thread_instructions branches divergent_branches
        shared_load_requests shared_load_wavefronts shared_load_bank_conflicts
        shared_store_requests shared_store_wavefronts shared_store_bank_conflicts
        global_load_requests global_load_sectors global_load_bytes
        global_store_requests global_store_sectors global_store_bytes
        local_requests distributed_requests global_atomics shared_atomics shared_atomic_bank_conflicts barriers warp_syncs
    )
}

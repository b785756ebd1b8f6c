//! What moves bytes: ladders `transfer` and `all_reduce`, `bench transfer`, `devices --query`.

use serde_json::Value;
use warpfold_device::Device;

use crate::support::{refused, warpfold};

fn names(report: &Value) -> Vec<&str> {
    report["rungs"].as_array().expect("a list").iter().filter_map(|rung| rung["name"].as_str()).collect()
}

#[test]
fn ladder_all_reduce_counts_steps_and_bytes_of_each_link() {
    let ladder = ["ladder", "all_reduce", "--device", "virtual", "--devices", "4", "--size", "100"];
    let report = warpfold(&[&ladder[..], &["--report", "json"]].concat()).ended_with(0).json();
    assert_eq!(names(&report), ["through_rank_0", "tree", "ring", "halving_doubling", "one_shot"]);
    let ring = &report["rungs"][2];
    assert_eq!((&ring["steps"], &ring["bytes"], &ring["right"]), (&6.into(), &2400.into(), &true.into()), "{ring}");
    assert_eq!(ring["links"][0], serde_json::json!([0, 600, 0, 0]), "a ring uses one link a device: {ring}");
    assert_eq!(report["rungs"][4]["rank_order"], true, "{report}");
    let table = warpfold(&ladder).ended_with(0).stdout;
    assert!(table.contains("the sum of 100 f32 on each of 4 devices") && table.contains("one_shot"), "{table}");
}

#[test]
fn ladder_all_reduce_says_which_way_needs_a_power_of_two() {
    let outcome = warpfold(&["ladder", "all_reduce", "--device", "virtual", "--devices", "3", "--size", "64"]);
    let text = outcome.ended_with(0).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Needs a power of two of devices."), "{text}");
}

#[test]
fn ladder_transfer_shows_the_order_of_copies_and_kernels() {
    let ladder = ["ladder", "transfer", "--device", "virtual", "--size", "64"];
    let text = warpfold(&ladder).ended_with(0).stdout;
    for part in ["pageable", "pinned", "mapped", "graph", "512", "stream 0  H0 K0 D0 H2 K2 D2\nstream 1     H1 K1 D1"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report =
        warpfold(&[&ladder[..], &["--report", "json", "--rung", "breadth_first"]].concat()).ended_with(0).json();
    assert_eq!(names(&report), ["breadth_first"]);
    assert_eq!(report["rungs"][0]["events"].as_array().map(Vec::len), Some(12), "{report}");
    assert_eq!(report["rungs"][0]["overlaps"], true, "{report}");
}

#[test]
fn a_copy_overlaps_a_kernel_by_the_clock_of_a_gpu() {
    if warpfold_device::Device::num_cuda().unwrap_or(0) == 0 {
        eprintln!("skipped: there is no CUDA GPU");
        return;
    }
    let ladder = ["ladder", "transfer", "--device", "cuda:0", "--rung", "breadth_first", "--report", "json"];
    let report = warpfold(&ladder).ended_with(0).json();
    assert_eq!(report["rungs"][0]["overlaps"], true, "{report}");
}

#[test]
fn ladder_reduce_over_devices_ends_with_the_last_level_of_the_fold() {
    let ladder = ["ladder", "reduce", "--device", "virtual", "--devices", "2", "--size", "1000"];
    let report = warpfold(&[&ladder[..], &["--report", "json"]].concat()).ended_with(0).json();
    assert_eq!(names(&report), ["gather", "host_adds", "last_level"]);
    assert!(report["rungs"].as_array().expect("a list").iter().all(|rung| rung["ok"] == true), "{report}");
    assert_eq!(report["rungs"][2]["sums"].as_array().map(Vec::len), Some(2), "each device has it: {report}");
}

#[test]
fn several_devices_are_named_alike_by_every_command() {
    for devices in [&["--device", "virtual", "--devices", "3"][..], &["--device", "virtual,virtual,virtual"]] {
        for ladder in ["all_reduce", "reduce"] {
            let number: &[&str] = if ladder == "reduce" { &["--devices", "3"] } else { &[] };
            let devices = if devices.contains(&"--devices") { devices } else { &[devices, number].concat() };
            let arguments = [&["ladder", ladder, "--size", "96"], devices].concat();
            assert!(warpfold(&arguments).ended_with(0).stdout.contains("3 devices"), "{arguments:?}");
        }
    }
    let answer = |devices: &[&str]| {
        let arguments = [&["generate", "--temperature", "0", "--max-tokens", "3"], devices].concat();
        warpfold(&arguments).ended_with(0).stdout
    };
    let expected = answer(&["--device", "virtual", "--tensor-parallel", "2"]);
    assert_eq!(answer(&["--device", "virtual", "--devices", "2"]), expected);
    assert_eq!(answer(&["--device", "virtual,virtual"]), expected);
}

#[test]
fn devices_links_says_what_there_is_to_measure() {
    if Device::num_cuda().unwrap_or(0) < 2 {
        let text = warpfold(&["devices", "--links"]).stdout;
        assert!(text.contains("links: there are") && text.contains("a link has two"), "{text}");
    }
}

#[test]
fn ladder_reduce_ends_with_rungs_over_two_devices() {
    let ladder = ["ladder", "reduce", "--device", "virtual", "--size", "4096"];
    let text = warpfold(&ladder).ended_with(0).stdout;
    assert!(text.contains("split over 2 devices") && text.contains("last_level"), "{text}");
    let report = warpfold(&[&ladder[..], &["--report", "json"]].concat()).ended_with(0).json();
    assert_eq!(names(&report).len(), 10, "{report}");
    assert_eq!(names(&report["over_devices"]), ["gather", "host_adds", "last_level"]);
    // Who asks for a rung gets that one.
    let one = warpfold(&[&ladder[..], &["--report", "json", "--rung", "sequential"]].concat()).ended_with(0).json();
    assert!(one["over_devices"].is_null(), "{one}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    refused(&["ladder", "softmax", "--devices", "2"], 2, "--devices is an option of ladders all_reduce and reduce");
    refused(&["ladder", "all_reduce", "--devices", "9", "--device", "virtual"], 2, "--devices: 9 is not from 1 to 8");
    refused(&["ladder", "all_reduce", "--device", "virtual,virtual", "--devices", "3"], 2, "--device names 2 devices");
    refused(&["ladder", "all_reduce", "--device", "virtual,virtual:a100"], 2, "several devices are of one kind");
    refused(&["ladder", "all_reduce", "--dtype", "f32"], 2, "ladder all_reduce has no --dtype");
    refused(&["ladder", "softmax", "--nccl", "libnccl.so.2"], 2, "--nccl is an option of ladder all_reduce");
    refused(&["ladder", "all_reduce", "--rung", "magic"], 2, "ladder all_reduce has no rung 'magic'");
    refused(&["ladder", "transfer", "--size", "6", "--device", "virtual"], 2, "a multiple of 4 elements");
    refused(&["ladder", "transfer", "--size", "many"], 2, "'many' is not a number of elements");
    refused(&["bench", "transfer", "--sizes", "0"], 2, "--sizes: 0 is not from 1 to");
}

#[test]
fn bench_transfer_has_a_row_for_each_direction_and_size() {
    let report = warpfold(&["bench", "transfer", "--device", "virtual", "--sizes", "100,4096", "--report", "json"]);
    let report = report.ended_with(0).json();
    let copies = report["copies"].as_array().expect("a list");
    assert_eq!(copies.len(), 10);
    assert!(copies.iter().all(|copy| copy["seconds"].is_null()), "the virtual GPU has no clock: {report}");
}

#[test]
fn devices_query_prints_the_limits_of_each_device() {
    let text = warpfold(&["devices", "--query"]).ended_with(0).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["virtual:h200", "compute capability 9.0", "multiprocessors (SMs) 132", "wgmma"] {
        assert!(words.contains(part), "{part}: {text}");
    }
}

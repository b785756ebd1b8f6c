//! `--profile` on every command that runs something.

use std::fs;

use serde_json::Value;

use crate::support::{folder, npy, refused, warpfold};

/// A file of 256 numbers, and a folder for more.
fn input(name: &str) -> (String, std::path::PathBuf) {
    let folder = folder(name);
    let data: Vec<u8> = (0..256_i32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let path = folder.join("x.npy");
    fs::write(&path, npy("<f4", "(256,)", &data)).expect("written");
    (path.display().to_string(), folder)
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn an_operator_shows_its_traffic_and_its_calls() {
    let (x, folder) = input("an_operator_shows_its_traffic_and_its_calls");
    let (y, file) = (folder.join("y.npy"), folder.join("p.json"));
    let (y, file) = (y.display().to_string(), file.display().to_string());
    let args = ["run", "sum", &x, "-o", &y, "--device", "virtual", "--profile", "--profile-json", &file];
    let outcome = warpfold(&args).ended_with(0);
    has(&outcome.stdout, &["activity", "[memcpy host to device]", "1,024", "driver API call", "cuLaunchKernelEx"]);
    let profile: Value = serde_json::from_slice(&fs::read(&file).expect("written")).expect("JSON");
    let calls = profile["calls"].as_array().expect("a list");
    assert!(calls.iter().any(|call| call["function"] == "cuMemAlloc"), "{profile}");
    refused(&["run", "--list", "--profile"], 2, "--list runs nothing that --profile, --l1 or --check could look at");
    refused(&["run", "sum", &x, "-o", &y, "--device", "virtual", "--profile-trace", &file], 2, "has no clock");
}

#[test]
fn a_simulated_kernel_has_a_profile_too() {
    let (x, folder) = input("a_simulated_kernel_has_a_profile_too");
    let ptx = folder.join("k.ptx");
    fs::write(&ptx, warpfold(&["inspect", "reduce_sequential_f32"]).ended_with(0).stdout).expect("written");
    let (ptx, sums) = (ptx.display().to_string(), format!("out={},f32,1", folder.join("y.npy").display()));
    let (x, launch) = (format!("in={x}"), ["--grid", "1", "--block", "256", "--profile"]);
    let args = [&["sim", &ptx, "--entry", "reduce_sequential_f32"], &launch[..]].concat();
    let outcome = warpfold(&[&args[..], &["--arg", &x, "--arg", &sums, "--arg", "u32=256"]].concat()).ended_with(0);
    has(&outcome.stdout, &["reduce_sequential_f32", "[memcpy host to device]", "cuMemAlloc", "cuLibraryLoadData"]);
}

#[test]
fn a_benchmark_shows_what_its_operators_do_and_not_what_measuring_takes() {
    for (family, kernel) in [("scale", "abs_max_scale"), ("segments", "sum_f32_f32_segments")] {
        let outcome =
            warpfold(&["bench", family, "--device", "virtual", "--profile", "--report", "json"]).ended_with(0);
        let (activities, calls) = (&outcome.json()["profile"]["activities"], &outcome.json()["profile"]["calls"]);
        let (activities, calls) = (activities.to_string(), calls.to_string());
        has(&activities, &[kernel]);
        has(&calls, &["cuLaunchKernelEx", "cuLibraryLoadData"]);
        // Inputs are the harness's, and so are events.
        assert!(!activities.contains("memcpy") && !calls.contains("Memcpy"), "{activities} {calls}");
        assert!(!calls.contains("cuEventRecord"), "{calls}");
    }
    let drawn = ["bench", "scale", "--device", "virtual", "--profile", "--report", "html", "-o", "b.html"];
    refused(&drawn, 2, "--profile has no picture");
    let ladder =
        warpfold(&["ladder", "reduce", "--size", "4096", "--rung", "vec4", "--device", "virtual", "--profile"]);
    let text = ladder.ended_with(0).stdout;
    has(&text, &["reduce_vec4_i32", "[memcpy host to device]", "16,384"]);
    assert!(!text.contains("cuEventRecord"), "{text}");
}

#[test]
fn kernels_are_listed() {
    let list = warpfold(&["inspect", "--list"]).ended_with(0).stdout;
    has(&list, &["reduce/naive", "reduce_naive_i32", "scan/look_back", "softmax_grid_sync_f32"]);
    refused(&["inspect"], 2, "`warpfold inspect --list` lists them");
    refused(&["ladder"], 2, "`warpfold ladder --list` lists them");
    refused(&["inspect", "reduce/navie"], 2, "did you mean 'reduce/naive'?");
}

#[test]
fn the_book_shows_what_is_chosen_for_a_shape() {
    let folder = folder("the_book_shows_what_is_chosen_for_a_shape");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reduction.md");
    let page = fs::read_to_string(page).expect("there is a chapter");
    let [x, y] = ["x.npy", "y.npy"].map(|file| folder.join(file).display().to_string());
    for (told, shape, len, axes) in [
        ("10", "(10,)", 10, "0"),
        ("300,000", "(300000,)", 300_000, "0"),
        ("4 x 40,000, 1", "(4, 40000)", 160_000, "1"),
        ("40,000 x 4, 1", "(40000, 4)", 160_000, "1"),
        ("40,000 x 4, 0", "(40000, 4)", 160_000, "0"),
        ("40,000 x 40, 0", "(40000, 40)", 1_600_000, "0"),
    ] {
        fs::write(&x, npy("<f4", shape, &vec![0; 4 * len])).expect("written");
        let args = ["run", "sum", &x, "-o", &y, "--axes", axes, "--device", "virtual", "--profile"];
        let shown = warpfold(&args).ended_with(0).stdout;
        let (_, plan) = shown.split_once("fold: ").expect("a plan");
        let (path, chosen) = plan.lines().next().and_then(|line| line.split_once(", ")).expect("two parts");
        let launch: Vec<&str> =
            plan.lines().nth(1).expect("a launch").split("  ").filter(|part| !part.is_empty()).collect();
        assert!(launch[0].ends_with(path) && launch[2] == "256 x 1 x 1", "{launch:?}");
        let row = format!("| {told} | {path} | {chosen} | {} |", launch[1]);
        assert!(page.contains(&row), "docs/book/src/reduction.md has no row {row}");
    }
}

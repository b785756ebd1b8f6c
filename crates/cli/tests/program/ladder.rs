//! `warpfold ladder`.

use serde_json::Value;

use crate::support::{finish, program, refused, warpfold};

/// A small run on the virtual GPU.
fn ladder(name: &str, size: &str, more: &[&str]) -> crate::support::Outcome {
    warpfold(&[&["ladder", name, "--device", "virtual", "--size", size], more].concat())
}

const REDUCE: [&str; 10] = [
    "naive",
    "interleaved",
    "sequential",
    "first_add",
    "unroll_last_warp",
    "unroll_all",
    "shuffle",
    "vec4",
    "grid_stride",
    "single_pass",
];

fn names(report: &Value) -> Vec<&str> {
    report["rungs"].as_array().expect("a list").iter().filter_map(|rung| rung["name"].as_str()).collect()
}

#[test]
fn the_roofline_has_figures() {
    let text = ladder("sgemm", "64", &["--rung", "shared", "--roofline"]).ended_with(0).stdout;
    // 2 * 64^3 operations.
    for part in ["roofline", "524,288", "FLOP per byte", "Roofs of the H200, by its data sheet", "memory"] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let report = ladder("reduce", "4096", &["--rung", "vec4", "--roofline", "--report", "json"]).ended_with(0).json();
    let rung = &report["roofline"]["rungs"][0];
    assert!(rung["flops"].as_u64().is_some_and(|flops| flops >= 4095), "{report}");
    assert_eq!((&rung["name"], &rung["limit"]), (&Value::from("vec4"), &Value::from("memory")));
    assert_eq!(rung["teraflops_per_second"], Value::Null);
}

#[test]
fn blocks_rows_and_lengths_can_be_chosen() {
    let text = ladder("reduce", "4096", &["--block", "32"]).ended_with(0).stdout;
    assert!(text.contains("4,096 elements, block 32, i32"), "{text}");
    let text = ladder("scale", "4096", &["--columns", "256", "--check", "all"]).ended_with(0).stdout;
    assert!(text.contains("4,096 elements, columns 256, f32"), "{text}");
    refused(&["ladder", "reduce", "--block", "48"], 2, "--block 32, 64, 128, 256, 512 or 1024");
    refused(&["ladder", "scan", "--block", "64"], 2, "ladder scan has no --block");
    refused(&["ladder", "scan", "--lengths", "equal"], 2, "--lengths is an option of ladder serving");
    let equal = ladder("serving", "16", &["--lengths", "equal", "--report", "json"]).ended_with(0).json();
    let rung = |name: &str| {
        let rungs = equal["rungs"].as_array().expect("a list");
        rungs.iter().find(|rung| rung["name"] == name).expect("it ran").clone()
    };
    let (fixed, each) = (rung("static"), rung("orca"));
    assert_eq!((&fixed["steps"], &fixed["padding_rows"]), (&each["steps"], &Value::from(0)), "{equal}");
}

#[test]
fn times_of_a_gpu_stand_beside_the_counters() {
    let text = ladder("reduce", "4096", &[]).ended_with(0).stdout;
    let (_, recorded) = text.split_once("Recorded earlier, with --size 33554432, on NVIDIA H200").expect("a record");
    assert!(
        recorded.lines().next().is_some_and(|line| line.ends_with("(the counters above are of 4096):")),
        "{recorded}"
    );
    // Each rung has a time, or the reason why it has none.
    let (rows, changed) =
        recorded.split_once("not recorded since its kernel or launch changed: ").unwrap_or((recorded, ""));
    for rung in REDUCE {
        let row = rows.lines().find(|line| line.split(' ').next() == Some(rung));
        assert!(row.map_or(changed.contains(rung), |row| row.contains(" us ")), "{rung}: {recorded}");
    }
    assert!(recorded.contains("what limits it"), "{recorded}");
    let one = ladder("reduce", "4096", &["--rung", "vec4"]).ended_with(0).stdout;
    let (_, recorded) = one.split_once("Recorded earlier").expect("a record");
    assert!(recorded.contains("vec4") && !recorded.contains("single_pass"), "{recorded}");
    // Other elements, and other kernels, have no record, and none is made up.
    let floats = ladder("reduce", "4096", &["--dtype", "f32"]).ended_with(0).stdout;
    assert!(!floats.contains("Recorded"), "{floats}");
    let exact = ladder("sgemm", "256", &["--rung", "naive"]).ended_with(0).stdout;
    assert!(exact.contains("Recorded earlier, with --size 256x256x256, on"), "{exact}");
    assert!(!exact.contains("the counters above"), "{exact}");
}

#[test]
fn the_json_report_has_the_documented_fields() {
    let report = ladder("reduce", "100000", &["--report", "json"]).ended_with(0).json();
    assert_eq!(report["ladder"], "reduce");
    assert!(report["device"].as_str().is_some_and(|device| device.starts_with("virtual")), "{report}");
    assert_eq!(report["problem"], serde_json::json!({ "size": 100_000, "dtype": "i32" }));
    assert_eq!(names(&report), REDUCE);
    for rung in report["rungs"].as_array().expect("a list") {
        assert_eq!((&rung["ok"], &rung["max_error"]), (&Value::from(true), &Value::from(0.0)), "{rung}");
        assert_eq!((&rung["seconds"], &rung["gigabytes_per_second"]), (&Value::Null, &Value::Null), "{rung}");
        assert_eq!(rung["findings"], Value::Array(Vec::new()));
        assert_eq!(rung["fingerprint"].as_str().map(str::len), Some(16), "{rung}");
        assert!(rung["counters"]["warp_instructions"].as_u64().is_some_and(|count| count > 0), "{rung}");
        assert!(rung["sentence"].as_str().is_some_and(|sentence| sentence.ends_with('.')), "{rung}");
    }
    assert_eq!(report.get("profile"), None, "nobody asked for it");
}

#[test]
fn bank_conflicts_of_the_interleaved_rung_are_35_a_block() {
    let report = ladder("reduce", "65536", &["--report", "json", "--rung", "interleaved"]).ended_with(0).json();
    assert_eq!(report["rungs"][0]["counters"]["shared_store_bank_conflicts"], 35 * 256);
}

#[test]
fn the_table_has_a_row_and_a_sentence_for_each_rung_and_no_times() {
    let outcome = ladder("reduce", "65536", &[]).ended_with(0);
    for name in REDUCE {
        let mut lines = outcome.stdout.lines().skip_while(|line| !line.starts_with(&format!("{name} ")));
        let row = lines.next().unwrap_or_else(|| panic!("no row for {name}:\n{}", outcome.stdout));
        assert_eq!(row.split_whitespace().nth(1), Some("right"), "{row}");
        let sentence = lines.next().unwrap_or_default();
        assert!(sentence.starts_with("    ") && sentence.trim().len() > 20, "{name}: {sentence}");
    }
    assert!(outcome.stdout.contains("65,536 i32 on virtual:h200"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("no clock"), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 120), "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn rungs_and_element_types_can_be_chosen() {
    let more = ["--report", "json", "--dtype", "f32", "--rung", "vec4", "--rung", "naive"];
    let report = ladder("reduce", "1_000", &more).ended_with(0).json();
    assert_eq!(names(&report), ["naive", "vec4"], "in the order of the ladder");
    assert_eq!(report["problem"], serde_json::json!({ "size": 1000, "dtype": "f32" }));
}

#[test]
fn every_ladder_is_right_under_all_checks() {
    for (name, size) in [("vector-add", "3000"), ("reduce", "3000"), ("reduce-lessons", "2000")] {
        let report = ladder(name, size, &["--report", "json", "--check", "all"]).ended_with(0).json();
        for rung in report["rungs"].as_array().expect("a list") {
            assert_eq!((&rung["ok"], &rung["findings"]), (&Value::from(true), &Value::Array(Vec::new())), "{rung}");
        }
    }
}

#[test]
fn elementary_ladders_are_right_under_all_checks() {
    let sizes = [("relu", "5e3"), ("sigmoid", "5K"), ("dot", "5,000"), ("group-reduce", "5000"), ("scan", "5000")];
    for (name, size) in sizes {
        let outcome = ladder(name, size, &["--check", "all"]).ended_with(0);
        assert!(!outcome.stdout.contains("WRONG") && !outcome.stdout.contains("race"), "{}", outcome.stdout);
    }
    for dtype in ["f16", "bf16"] {
        for name in ["vector-add", "relu", "sigmoid"] {
            ladder(name, "3001", &["--check", "all", "--dtype", dtype]).ended_with(0);
        }
        ladder("conv", "2x32", &["--check", "all", "--dtype", dtype]).ended_with(0);
    }
}

#[test]
fn a_fence_for_a_barrier_of_the_grid_is_refuted_and_the_grids_barrier_is_right() {
    let report = ladder("softmax-vector", "20000", &["--check", "all", "--report", "json"]).ended_with(0).json();
    assert_eq!(names(&report), ["threadfence", "grid", "grid_vec4", "grid_sync"]);
    let rungs = report["rungs"].as_array().expect("a list");
    let finding = rungs[0]["findings"][0].to_string();
    assert!(rungs[0]["is_race"] == true && finding.contains("race"), "{finding}");
    for rung in &rungs[1..] {
        assert_eq!((&rung["ok"], &rung["findings"]), (&Value::from(true), &Value::Array(Vec::new())), "{rung}");
    }
    let table = ladder("softmax-vector", "20000", &["--check", "all", "--rung", "threadfence"]).ended_with(0);
    assert!(table.stdout.contains("refuted"), "{}", table.stdout);
}

#[test]
fn columns_and_factors_are_options_of_their_ladders() {
    for columns in ["16", "32", "128"] {
        let report = ladder("gemv", "64K", &["--columns", columns, "--report", "json"]).ended_with(0).json();
        assert_eq!(report["problem"]["size"], format!("65536 with columns = {columns}"));
    }
    let more = |factor| ["--factor", factor, "--report", "json", "--check", "all"];
    for factor in ["2", "4", "8"] {
        let report = ladder("reduce-lessons", "100_000", &more(factor)).ended_with(0).json();
        assert_eq!(names(&report), ["segmented", "coarsened"], "the others are of one block");
        let blocks = report["rungs"][1]["blocks"].as_u64().expect("a number");
        assert_eq!(blocks, 100_000_u64.div_ceil(512 * factor.parse::<u64>().expect("a number")));
    }
    refused(&["ladder", "reduce-lessons", "--factor", "3"], 2, "'--factor 3' is not --factor 2, 4 or 8");
    refused(&["ladder", "gemv", "--columns", "0"], 2, "'--columns 0' is not --columns from 1 to 1048575");
    refused(&["ladder", "reduce", "--factor", "2"], 2, "ladder reduce has no --factor");
}

#[test]
fn branch_efficiency_rises_from_simple_to_no_divergence() {
    let outcome = ladder("reduce-lessons", "2048", &[]).ended_with(0);
    let cell = |rung: &str| -> f64 {
        let line = outcome.stdout.lines().find(|line| line.starts_with(&format!("{rung} "))).unwrap_or_default();
        let percent = line.split_whitespace().filter(|word| word.contains('.')).nth(3);
        percent.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no percentage in {line}"))
    };
    let (simple, no_divergence) = (cell("simple"), cell("no_divergence"));
    assert!(simple < no_divergence && no_divergence > 95.0, "{simple} {no_divergence}");
}

#[test]
fn ladders_are_listed_and_their_sources_shown() {
    let list = warpfold(&["ladder", "--list"]).ended_with(0).stdout;
    for part in [
        "vector-add: ",
        "scan: the inclusive sums",
        "hillis_steele, blelloch",
        "allocation: ",
        "serving: ",
        "transfer: ",
        "all_reduce: ",
    ] {
        assert!(list.contains(part), "{part} in:\n{list}");
    }
    let source = warpfold(&["ladder", "reduce", "--rung", "shuffle", "--source"]).ended_with(0).stdout;
    assert!(source.starts_with("//! Rung 7: ") && source.contains("fold_block("), "{source}");
    for (ladder, rung, helper) in [
        ("softmax", "online", "pub fn push_all("),
        ("norm", "welford", "let between = distance * distance * left.0 * share;"),
        ("conv", "implicit_gemm", "fn place("),
        ("attention", "flash2", "// of attention/"),
    ] {
        let source = warpfold(&["ladder", ladder, "--rung", rung, "--source"]).ended_with(0).stdout;
        assert!(source.contains(helper), "{helper} in:\n{source}");
    }
    refused(&["ladder", "reduce", "--source"], 2, "--rung");
    refused(&["ladder", "reduec"], 2, "did you mean 'reduce'?");
    refused(&["ladder", "reduce", "--rung", "shufle"], 2, "did you mean 'shuffle'?");
}

#[test]
fn a_tree_is_drawn_step_by_step() {
    let args = ["ladder", "reduce", "--explain", "--device", "virtual", "--values", "5,5,8,8"];
    let outcome = warpfold(&[&args[..], &["--rung", "sequential"]].concat()).ended_with(0);
    for part in ["[5, 5, 8, 8]", "[13, 13, ·, ·]", "[26, ·, ·, ·]", "t0: [0] += [2]"] {
        assert!(outcome.stdout.contains(part), "{part} in:\n{}", outcome.stdout);
    }
    let report = warpfold(&[&args[..], &["--report", "json"]].concat()).ended_with(0).json();
    let rungs: Vec<_> = report["trees"].as_array().expect("a list").iter().map(|tree| tree["rung"].clone()).collect();
    assert_eq!(rungs, ["naive", "interleaved", "sequential"]);
    let maximum = ["--max", "--values", "5,2,8,1,9,3,7,4,6,0"];
    let text = warpfold(&[&["ladder", "reduce", "--explain", "--device", "virtual"], &maximum[..]].concat());
    let text = text.ended_with(0).stdout;
    for part in ["serial: the maximum", "[5, 5, 8, 8]", "[5, 8, 9, 7, 6]\n", "t0: max([0], [1])", "-inf"] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let blocks = ["ladder", "reduce", "--explain", "--device", "virtual", "--rung", "naive", "--block", "2"];
    let text = warpfold(&[&blocks[..], &["--values", "1,2,3,4,5"]].concat()).ended_with(0).stdout;
    assert!(text.contains("naive, block 2\n") && text.contains("naive, second launch"), "{text}");
    assert!(text.contains("[3, 7, 5]") && text.contains("[15, ·, ·, ·]"), "{text}");
    refused(&[&blocks[..8], &["3"]].concat(), 2, "--block 3 of --explain is not a power of two from 2 to 1024");
    refused(&["ladder", "scan", "--explain"], 2, "--explain is an option of ladder reduce, not of scan");
    refused(&["ladder", "reduce", "--explain", "--values", "1,x"], 2, "'1,x' is not up to 1024 numbers");
    refused(&["ladder", "reduce", "--explain", "--rung", "vec4"], 2, "not of vec4");
}

#[test]
fn a_pool_and_a_workspace_allocate_less() {
    let report = ladder("allocation", "500", &["--report", "json"]).ended_with(0).json();
    let rungs = report["rungs"].as_array().expect("a list");
    let counts: Vec<_> = rungs.iter().map(|rung| rung["allocations"].as_u64().expect("a number")).collect();
    assert!(counts[0] == 500 && counts[1] < 20 && counts[2] == 1, "{counts:?}");
    refused(&["ladder", "allocation", "--size", "0"], 2, "'0' is not a number of calls");
    refused(&["ladder", "allocation", "--check", "all"], 2, "ladder allocation has no --check");
}

#[test]
fn no_elements_are_a_problem_as_well() {
    ladder("reduce", "0", &["--report", "json"]).ended_with(0);
}

#[test]
fn the_profile_counts_calls_and_bytes() {
    let outcome = ladder("vector-add", "1000", &["--profile", "--rung", "grid"]).ended_with(0);
    let row = |name: &str| -> Vec<String> {
        let line = outcome.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split("  ").map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
    };
    assert_eq!(row("activity"), ["activity", "calls", "bytes"], "{}", outcome.stdout);
    assert_eq!(row("vector_add_grid")[1..], ["1"], "{}", outcome.stdout);
    assert!(row("[memcpy host to device]").len() == 3, "{}", outcome.stdout);
    let report = ladder("vector-add", "1000", &["--profile", "--rung", "grid", "--report", "json"]).json();
    let find = |table: &str, field: &str, name: &str| {
        let rows = report["profile"][table].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row[field] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
    };
    // The program's own traffic: two inputs, one output, and nothing of the guards around them.
    let copies = find("activities", "activity", "[memcpy host to device]");
    assert_eq!((&copies["calls"], &copies["bytes"]), (&Value::from(2), &Value::from(8000)));
    let back = find("activities", "activity", "[memcpy device to host]");
    assert_eq!((&back["calls"], &back["bytes"]), (&Value::from(1), &Value::from(4000)));
    assert_eq!(copies["total_seconds"], Value::Null);
    assert_eq!(find("calls", "function", "cuLaunchKernelEx")["calls"], 1);
    assert!(outcome.stdout.contains("driver API call"), "{}", outcome.stdout);
    refused(&["ladder", "vector-add", "--device", "virtual", "--profile-trace", "t.json"], 2, "has no clock");
}

#[test]
fn the_environment_chooses_the_device_and_the_option_beats_it() {
    let args = ["ladder", "reduce", "--size", "1000", "--rung", "naive"];
    let outcome = finish(program(&args).env("WARPFOLD_DEVICE", "virtual:a100")).ended_with(0);
    assert!(outcome.stdout.contains("on virtual:a100"), "{}", outcome.stdout);
    let args = [&args[..], &["--device", "virtual"]].concat();
    let outcome = finish(program(&args).env("WARPFOLD_DEVICE", "virtual:a100")).ended_with(0);
    assert!(outcome.stdout.contains("on virtual:h200"), "{}", outcome.stdout);
}

#[test]
fn names_and_sizes_that_do_not_exist_are_refused() {
    refused(
        &["ladder", "stairs"],
        2,
        "unknown ladder 'stairs': expected one of vector-add, relu, sigmoid, dot, reduce, reduce-lessons",
    );
    refused(&["ladder", "reduce", "--rung", "top"], 2, "ladder reduce has no rung 'top': expected one of naive, ");
    refused(
        &["ladder", "reduce", "--size", "many"],
        2,
        "'many' is not a number of elements such as 1000, 64K, 32M or 1e6",
    );
    refused(&["ladder", "reduce", "--size", "-1"], 2, "'-1'");
    refused(&["ladder", "reduce", "--size", "99999999999"], 2, "at most 2147483648 elements, not 99999999999");
    refused(&["ladder", "reduce", "--dtype", "f16"], 2, "ladder reduce runs with i32 or f32, not with f16");
    refused(&["ladder", "reduce", "--device", "abacus"], 2, "unknown device 'abacus'");
    // Without a driver the reason is that there is none.
    let outcome = warpfold(&["ladder", "reduce", "--device", "cuda:4000"]).ended_with(2);
    let reasons = ["error: no device cuda:4000", "error: no NVIDIA driver"];
    assert!(reasons.iter().any(|reason| outcome.stderr.starts_with(reason)), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn serving_shows_what_each_idea_buys_and_sweeps_the_size_of_blocks() {
    let report = ladder("serving", "48", &["--report", "json"]).ended_with(0).json();
    let expected = ["no-kv-cache", "contiguous", "static", "orca", "paged", "vllm-v0", "continuous", "prefix-cache"];
    assert_eq!(names(&report), expected);
    let rungs = report["rungs"].as_array().expect("a list");
    assert_eq!((&report["problem"]["requests"], &report["model"]), (&Value::from(48), &Value::from("scripted")));
    assert_eq!(rungs[0]["slots"], Value::Null, "there is no cache");
    let number = |rung: &Value, field: &str| rung[field].as_f64().expect("a number");
    for rung in &rungs[1..] {
        let shares = rung["slots"].as_object().expect("shares").values().map(|share| share.as_f64().expect("a number"));
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{rung}");
        assert_eq!(rung["seconds"], Value::Null);
    }
    assert!(number(&rungs[6], "tokens_per_step") > 3.0 * number(&rungs[2], "tokens_per_step"), "{report}");
    let sizes = report["block_sizes"].as_array().expect("a list").iter().map(|rung| rung["block_size"].as_u64());
    assert_eq!(sizes.collect::<Option<Vec<_>>>().expect("numbers"), [1, 2, 4, 8, 16, 32, 64, 128]);
}

#[test]
fn serving_has_a_table_and_options_of_its_own() {
    let more = ["--rung", "orca", "--rung", "paged", "--block-size", "8"];
    let outcome = ladder("serving", "16", &more).ended_with(0);
    for part in ["serving: ", "16 requests", "orca ", "paged ", "external", "reserved", "blocks of 128 "] {
        assert!(outcome.stdout.contains(part), "{part} in:\n{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("static "), "it was not asked for");
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 120), "{}", outcome.stdout);
    let refuses =
        |more: &[&str], part| refused(&[&["ladder", "serving", "--device", "virtual"], more].concat(), 2, part);
    refuses(&["--rung", "v1"], "ladder serving has no rung 'v1': expected one of no-kv-cache, contiguous");
    refuses(&["--size", "0"], "'0' is not a number of requests");
    refuses(&["--block-size", "256"], "--block-size: 256 is not from 1 to 128");
    refuses(&["--dtype", "f32"], "ladder serving has no --dtype");
    refused(&["ladder", "reduce", "--block-size", "4"], 2, "--block-size is an option of ladder serving");
    refused(&["ladder", "nothing"], 2, ", serving");
}

//! `--l1`: hits in a model of the L1 data cache, where they are asked for.

use std::fs;

use crate::support::{folder, npy, refused, warpfold};

/// The command, with JSON as its report.
fn json(args: &[&str]) -> serde_json::Value {
    warpfold(&[args, &["--report", "json"]].concat()).ended_with(0).json()
}

#[test]
fn a_ladder_has_the_hit_rate_that_a_profiler_shows() {
    let args = ["ladder", "reduce-lessons", "--device", "virtual"];
    let asked = warpfold(&[&args[..], &["--l1"]].concat()).ended_with(0).stdout;
    // As hardware's profiler has it for one block that adds in place, its strides halving.
    let row = asked.lines().find(|line| line.starts_with("no_divergence")).expect("a row");
    assert!(row.ends_with("66.88 %"), "{row}");
    assert!(asked.contains("L1 hits: sectors of loads and stores that a model of the cache has"), "{asked}");
    let unasked = warpfold(&args).ended_with(0).stdout;
    assert!(!unasked.contains("L1"), "{unasked}");

    let rungs = json(&[&args[..], &["--l1"]].concat());
    let counters = |rung: usize| rungs["rungs"][rung]["counters"].clone();
    // Each stride loads twice and stores once: 255 sectors each for 1,024 down to 8, one each for 4
    // down to 1, and for the result one load and one store. The first stride's loads miss, and that
    // store.
    assert_eq!((&counters(1)["l1_sectors"], &counters(1)["l1_hit_sectors"]), (&776.into(), &519.into()));
    assert_eq!(counters(1)["l1_hit_rate"].as_f64(), Some(519.0 / 776.0));
    // Read once.
    assert_eq!(counters(2)["l1_hit_rate"], 0.0);
    assert!(json(&args)["rungs"][1]["counters"].get("l1_hit_rate").is_none());
    refused(&["ladder", "allocation", "--l1"], 2, "ladder allocation has no --l1");
}

#[test]
fn an_operator_and_a_simulated_kernel_have_it_too() {
    let folder = folder("an_operator_and_a_simulated_kernel_have_it_too");
    let path = |name: &str| folder.join(name).display().to_string();
    let (in_npy, out_npy, ptx) = (path("x.npy"), path("y.npy"), path("k.ptx"));
    let data: Vec<u8> = (0..4096_i32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    fs::write(&in_npy, npy("<f4", "(4096,)", &data)).expect("written");
    let run = ["run", "sum", &in_npy, "-o", &out_npy, "--device", "virtual"];
    assert_eq!(warpfold(&run).ended_with(0).stdout, "");
    let table = warpfold(&[&run[..], &["--l1"]].concat()).ended_with(0).stdout;
    assert!(
        table.starts_with("kernel") && table.contains("sum_f32_f32_rows") && table.contains("L1 hit rate"),
        "{table}"
    );
    refused(&["run", "--list", "--l1"], 2, "--list runs nothing that --profile, --l1 or --check could look at");

    fs::write(&ptx, warpfold(&["inspect", "reduce_sequential_f32"]).ended_with(0).stdout).expect("written");
    let (x, sums) = (format!("in={in_npy}"), format!("out={},f32,16", path("s.npy")));
    let args = ["--entry", "reduce_sequential_f32", "--grid", "16", "--block", "256", "--arg", &x, "--arg", &sums];
    let sim = [&["sim", &ptx], &args[..], &["--arg", "u32=4096"]].concat();
    let text = warpfold(&[&sim[..], &["--l1"]].concat()).ended_with(0).stdout;
    for part in
        ["L1 sectors looked up", "0.00 % L1 hit rate", "the model of the L1: 248 KiB per SM", "4 sets of 496 ways"]
    {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    let report = json(&[&sim[..], &["--l1"]].concat());
    // 4,096 elements of four bytes, and 16 sums.
    assert_eq!(report["counters"]["l1_sectors"], 512 + 16);
    assert!(report["l1_model"].as_str().is_some_and(|model| model.contains("one resident block")), "{report}");
    assert!(json(&sim).get("l1_model").is_none());
}

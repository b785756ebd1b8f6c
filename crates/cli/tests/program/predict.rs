//! `--predict`: times that a model makes of counters, where they are asked for.

use std::fs;

use crate::support::{folder, refused, warpfold};

#[test]
fn a_ladder_has_a_range_for_each_rung_and_what_binds() {
    let args = ["ladder", "reduce-lessons", "--rung", "segmented", "--size", "64K", "--device", "virtual"];
    let asked = [&args[..], &["--predict", "h200", "--report", "json"]].concat();
    let report = warpfold(&asked).ended_with(0).json();
    let rung = &report["predicted"][0];
    let seconds = |name: &str| rung[name].as_f64().expect("a number");
    assert!(seconds("low_seconds") < seconds("seconds") && seconds("seconds") < seconds("high_seconds"), "{rung}");
    assert_eq!(rung["launches"][0]["gpu"], "h200");
    assert!(rung["launches"][0]["error"]["launches"].as_u64().is_some_and(|launches| launches >= 8), "{rung}");
    // A time that was measured is another thing.
    assert!(report["rungs"][0]["seconds"].is_null(), "{report}");
    let text = warpfold(&[&args[..], &["--predict", "h100:cold"]].concat()).ended_with(0).stdout;
    assert!(text.contains("predicted, not measured"), "{text}");
    assert!(warpfold(&args).ended_with(0).stdout.find("predicted").is_none());
    refused(&["ladder", "allocation", "--predict", "h200"], 2, "ladder allocation has no --predict");
}

#[test]
fn a_simulated_kernel_has_one_for_gpus_that_run_it() {
    let folder = folder("a_simulated_kernel_has_one_for_gpus_that_run_it");
    let ptx = folder.join("k.ptx").display().to_string();
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n ret;\n}\n";
    fs::write(&ptx, text).expect("written");
    let args = ["sim", &ptx, "--grid", "264", "--block", "128"];
    let with = |more: &[&str]| warpfold(&[&args[..], more].concat());
    let text = with(&["--predict", "h100"]).ended_with(0).stdout;
    assert!(text.contains("predicted on h100: ") && text.contains("launch binds"), "{text}");
    assert!(text.contains("timed on an H100 80GB HBM3: ") && text.contains("median error of "), "{text}");
    let report = with(&["--predict", "h200:cold", "--report", "json"]).ended_with(0).json();
    assert_eq!(report["predicted"]["caches"], "cold");
    assert_eq!(report["predicted"]["binds"], "launch");
    assert!(with(&["--report", "json"]).ended_with(0).json().get("predicted").is_none());
    let all = |more: &[&'static str]| [&args[..], more].concat();
    refused(&all(&["--predict", "h300"]), 2, "no table of times of a GPU 'h300': h100, h200");
}

#[test]
fn a_list_of_launches_is_counted_and_predicted() {
    let folder = folder("a_list_of_launches_is_counted_and_predicted");
    let path = |name: &str| folder.join(name).display().to_string();
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n .reg .b64 %a;\n \
        .reg .b32 %r;\n ld.param.u64 %a, [p];\n mov.u32 %r, 7;\n st.global.u32 [%a], %r;\n ret;\n}\n";
    fs::write(path("k.ptx"), text).expect("written");
    let case = |name: &str, entry: &str| {
        format!(
            "{{\"name\":\"{name}\",\"family\":\"own\",\"set\":\"held-out\",\"file\":\"k.ptx\",\"entry\":\"{entry}\",\
             \"grid\":[1,1,1],\"block\":[32,1,1],\"args\":[{{\"out\":{{\"dtype\":\"u32\",\"len\":4}}}}]}}\n"
        )
    };
    fs::write(path("list.jsonl"), case("one", "k") + &case("two", "none")).expect("written");
    let (list, results) = (path("list.jsonl"), path("results.jsonl"));
    let args = ["measure", &list, "--device", "virtual", "-o", &results];
    warpfold(&args).ended_with(0);
    let lines = fs::read_to_string(&results).expect("results");
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["facts"]["sectors_written"], 1);
    assert!(lines[0]["predicted"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{}", lines[0]);
    assert!(lines[1]["error"].as_str().is_some_and(|error| error.contains("no kernel named 'none'")), "{}", lines[1]);
    warpfold(&[&args[..], &["--skip", "1"]].concat()).ended_with(0);
    assert_eq!(fs::read_to_string(&results).expect("results").lines().count(), 3);
}

//! `warpfold sim`.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Outcome, finish, folder, npy, program, ptx, warpfold};

/// A launch of a kernel that has the name of its file, or the second name.
fn sim(file: &str, entry: &str, launch: &[&str], arguments: &[String]) -> Outcome {
    let file = ptx(file);
    let mut args = vec!["sim", &file, "--entry", entry];
    args.extend(launch);
    args.extend(arguments.iter().flat_map(|spec| ["--arg", spec.as_str()]));
    warpfold(&args)
}

#[test]
fn arrays_of_every_type_come_back_as_they_went_in() {
    let folder = folder("arrays_of_every_type_come_back_as_they_went_in");
    let (x, y) = (folder.join("x.npy"), folder.join("y.npy"));
    let types = [
        ("u8", "|u1", 1),
        ("i8", "|i1", 1),
        ("u16", "<u2", 2),
        ("i16", "<i2", 2),
        ("u32", "<u4", 4),
        ("i32", "<i4", 4),
        ("u64", "<u8", 8),
        ("i64", "<i8", 8),
        ("f16", "<f2", 2),
        ("bf16", "<u2", 2),
        ("f32", "<f4", 4),
        ("f64", "<f8", 8),
    ];
    for (dtype, descr, bytes) in types {
        let data: Vec<u8> = (0..15 * bytes).map(|i| (i * 37 + 11) as u8).collect();
        fs::write(&x, npy(descr, "(3, 5)", &data)).expect("written");
        let arguments =
            [format!("in={}", x.display()), format!("out={},{dtype},3x5", y.display()), format!("u32={}", data.len())];
        let outcome = sim("copy", "copy", &["--grid", "2", "--block", "64", "--check", "all"], &arguments);
        outcome.ended_with(0);
        assert!(fs::read(&y).expect("saved") == npy(descr, "(3, 5)", &data), "{dtype}");
    }
}

#[test]
fn an_array_read_and_written_keeps_its_type_and_shape() {
    let folder = folder("an_array_read_and_written_keeps_its_type_and_shape");
    let (x, y, z) = (folder.join("x.npy"), folder.join("y.npy"), folder.join("z.npy"));
    fs::write(&x, npy("<f2", "(4,)", &[1, 2, 3, 4, 5, 6, 7, 8])).expect("written");
    fs::write(&y, npy("<i2", "(2, 1, 2)", &[9; 8])).expect("written");
    let arguments =
        [format!("in={}", x.display()), format!("inout={},{}", y.display(), z.display()), "u32=3".to_owned()];
    sim("copy", "copy", &["--grid", "1", "--block", "32"], &arguments).ended_with(0);
    assert_eq!(fs::read(&z).expect("saved"), npy("<i2", "(2, 1, 2)", &[1, 2, 3, 9, 9, 9, 9, 9]));
    assert_eq!(fs::read(&y).expect("there"), npy("<i2", "(2, 1, 2)", &[9; 8]), "the input stays as it was");
}

#[test]
fn arrays_may_be_empty() {
    let folder = folder("arrays_may_be_empty");
    let (x, y) = (folder.join("x.npy"), folder.join("y.npy"));
    fs::write(&x, npy("<f4", "(0, 7)", &[])).expect("written");
    let arguments = [format!("in={}", x.display()), format!("out={},f32,0", y.display()), "u32=0".to_owned()];
    sim("copy", "copy", &["--grid", "1", "--block", "32", "--check", "all"], &arguments).ended_with(0);
    assert_eq!(fs::read(&y).expect("saved"), npy("<f4", "(0,)", &[]));
}

#[test]
fn scalars_of_every_kind_reach_the_kernel() {
    let folder = folder("scalars_of_every_kind_reach_the_kernel");
    let y = folder.join("y.npy");
    let out = format!("out={},u8,40", y.display());
    let specs = ["i32=-2", "u32=0xffffffff", "i64=-3", "u64=4", "f32=1.5", "f64=-inf", "bytes=0000000001020304"];
    let arguments: Vec<String> = std::iter::once(out).chain(specs.map(str::to_owned)).collect();
    sim("scalars", "scalars", &["--grid", "1", "--block", "1", "--check", "all"], &arguments).ended_with(0);
    let mut expected = Vec::new();
    expected.extend((-2_i32).to_le_bytes());
    expected.extend(u32::MAX.to_le_bytes());
    expected.extend((-3_i64).to_le_bytes());
    expected.extend(4_u64.to_le_bytes());
    expected.extend(1.5_f32.to_le_bytes());
    expected.extend([1, 2, 3, 4]);
    expected.extend(f64::NEG_INFINITY.to_le_bytes());
    assert_eq!(fs::read(&y).expect("saved"), npy("|u1", "(40,)", &expected));
}

#[test]
fn the_json_report_has_the_documented_fields() {
    let file = ptx("conflicts");
    let args = [&["sim", &file, "--entry", "conflicts", "--report", "json"], &LAUNCH_OF_CONFLICTS[..]].concat();
    let report = warpfold(&args).ended_with(0).json();
    assert_eq!((&report["kernel"], &report["seconds"]), (&Value::from("conflicts"), &Value::Null));
    assert_eq!(report["findings"], Value::Array(Vec::new()));
    let counters = &report["counters"];
    let expected = [
        // Two warps; eight instructions, of which the load is executed by 32 and by 16 lanes.
        ("warp_instructions", 18),
        ("thread_instructions", 560),
        ("branches", 2),
        ("divergent_branches", 1),
        ("shared_load_wavefronts", 3),
        ("shared_load_bank_conflicts", 1),
        ("shared_store_wavefronts", 4),
        ("shared_store_bank_conflicts", 2),
        ("global_load_requests", 0),
        ("global_load_sectors", 0),
        ("global_store_requests", 0),
        ("global_store_sectors", 0),
        ("atomics", 0),
        ("barriers", 0),
    ];
    let found: Vec<(&str, Option<u64>)> = expected.iter().map(|(name, _)| (*name, counters[name].as_u64())).collect();
    assert_eq!(found, expected.map(|(name, count)| (name, Some(count))));
}

const LAUNCH_OF_CONFLICTS: [&str; 6] = ["--grid", "1", "--block", "64", "--shared", "512"];

#[test]
fn the_table_groups_digits_and_fits_a_terminal() {
    let launch = ["--grid", "1000", "--block", "64", "--shared", "512"];
    let outcome = sim("conflicts", "conflicts", &launch, &[]).ended_with(0);
    let has = |words: &[&str]| outcome.stdout.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words);
    assert!(has(&["shared", "store", "bank", "conflicts", "2,000"]), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("no findings"), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 120), "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "", "no progress is shown where nobody watches");
}

#[test]
fn annotations_stand_beside_the_instructions() {
    let launch = [&LAUNCH_OF_CONFLICTS[..], &["--annotate"]].concat();
    let outcome = sim("conflicts", "conflicts", &launch, &[]).ended_with(0);
    let cells = |instruction: &str| -> Vec<String> {
        let line = outcome.stdout.lines().find(|line| line.contains(instruction)).unwrap_or_default();
        line.split('|').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    // Executions, lanes, diverged executions, conflicts.
    assert_eq!(cells("st.shared.u32"), ["2", "32.0", "2"], "{}", outcome.stdout);
    assert_eq!(cells("bra DONE"), ["2", "32.0", "1"], "{}", outcome.stdout);
    assert_eq!(cells("ld.shared.u32"), ["2", "24.0", "1"], "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" | DONE:\n"), "labels are shown: {}", outcome.stdout);
    assert!(outcome.stdout.contains(" | }\n"), "up to the last brace: {}", outcome.stdout);
}

#[test]
fn annotations_are_in_the_json_report_when_asked_for() {
    let file = ptx("conflicts");
    let args = [&["sim", &file, "--entry", "conflicts", "--report", "json"], &LAUNCH_OF_CONFLICTS[..]].concat();
    assert_eq!(warpfold(&args).json().get("instructions"), None);
    let report = warpfold(&[&args[..], &["--annotate"]].concat()).ended_with(0).json();
    let instructions = report["instructions"].as_array().expect("a list");
    let store = instructions.iter().find(|i| i["line"] == 17).expect("line 17 has an instruction");
    assert_eq!((&store["executions"], &store["active_lanes"]), (&Value::from(2), &Value::from(64)));
    assert_eq!((&store["bank_conflicts"], &store["function"]), (&Value::from(2), &Value::from("conflicts")));
}

#[test]
fn a_race_is_a_finding_with_both_sides_and_exit_code_1() {
    let folder = folder("a_race_is_a_finding_with_both_sides_and_exit_code_1");
    let out = [format!("out={},u32,64", folder.join("y.npy").display())];
    let launch = ["--grid", "1", "--block", "64"];
    sim("race", "race", &launch, &out).ended_with(0);
    let checked = [&launch[..], &["--check", "all"]].concat();
    let table = sim("race", "race", &checked, &out).ended_with(1);
    assert!(table.stdout.contains("error: race in kernel race at line "), "{}", table.stdout);
    let json = sim("race", "race", &[&checked[..], &["--report", "json"]].concat(), &out).ended_with(1).json();
    let race = json["findings"].as_array().and_then(|all| all.iter().find(|f| f["kind"] == "race")).expect("a race");
    assert_eq!(race["severity"], "error");
    let lines = [race["line"].as_u64(), race["other"]["line"].as_u64()];
    assert!(lines.contains(&Some(19)) && lines.contains(&Some(22)), "store and load: {race}");
    assert!(race["place"].as_str().is_some_and(|place| place.starts_with("tile")), "{race}");
    assert!(race["count"].as_u64().is_some_and(|count| count > 0), "{race}");
    assert!(race["message"].as_str().is_some_and(|message| message.contains("tile")), "{race}");
}

#[test]
fn an_access_outside_of_an_array_is_a_finding_with_or_without_checks() {
    let folder = folder("an_access_outside_of_an_array_is_a_finding_with_or_without_checks");
    let (x, y) = (folder.join("x.npy"), folder.join("y.npy"));
    fs::write(&x, npy("|u1", "(8,)", &[7; 8])).expect("written");
    let arguments = [format!("in={}", x.display()), format!("out={},u8,8", y.display()), "u32=9".to_owned()];
    for check in ["none", "all"] {
        let launch = ["--grid", "1", "--block", "32", "--report", "json", "--check", check];
        let report = sim("copy", "copy", &launch, &arguments).ended_with(1).json();
        let finding = &report["findings"][0];
        assert_eq!((&finding["kind"], &finding["severity"]), (&Value::from("out_of_bounds"), &Value::from("error")));
        assert!(finding["message"].as_str().is_some_and(|text| text.contains("x.npy")), "{finding}");
        assert_eq!(report["aborted"], check == "none");
    }
}

#[test]
fn an_output_is_not_initialised() {
    let folder = folder("an_output_is_not_initialised");
    let y = |name: &str| format!("out={},u8,32", folder.join(name).display());
    let arguments = [y("a.npy"), y("b.npy"), "u32=32".to_owned()];
    let launch = ["--grid", "1", "--block", "32", "--report", "json", "--check", "all"];
    let report = sim("copy", "copy", &launch, &arguments).ended_with(1).json();
    let finding = &report["findings"][0];
    assert_eq!(finding["kind"], "host_read");
    let message = finding["message"].as_str().unwrap_or_default();
    assert!(message.contains("the host reads 32 of 32 bytes"), "{message}");
}

#[test]
fn a_trap_is_a_failed_run() {
    let outcome = sim("trap", "gives_up", &["--grid", "1", "--block", "1"], &[]).ended_with(4);
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr, "error: kernel gives_up trapped at line 8 (block [0, 0, 0], thread [0, 0, 0])\n");
}

#[test]
fn ptx_that_is_not_executed_names_line_and_instruction() {
    let outcome = sim("texture", "texture", &["--grid", "1", "--block", "1"], &["u64=0".to_owned()]).ended_with(3);
    assert_eq!(outcome.stdout, "");
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("line 16: ") && outcome.stderr.contains("tex.1d"), "{}", outcome.stderr);
}

#[test]
fn what_a_kernel_prints_does_not_disturb_json() {
    let launch = ["--grid", "1", "--block", "2"];
    let printed = "hello from 0\nhello from 1\n";
    let table = sim("hello", "hello", &launch, &[]).ended_with(0);
    assert!(table.stdout.starts_with(printed), "{}", table.stdout);
    let json = sim("hello", "hello", &[&launch[..], &["--report", "json"]].concat(), &[]).ended_with(0);
    assert_eq!((&json.json()["kernel"], json.stderr.as_str()), (&Value::from("hello"), printed));
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let file = ptx("conflicts");
    let args = [&["sim", &file, "--entry", "conflicts", "--annotate"], &LAUNCH_OF_CONFLICTS[..]].concat();
    let mut child = program(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = warpfold(&["--help"]).ended_with(0);
    for name in ["devices", "sim"] {
        assert!(help.stdout.contains(name), "{}", help.stdout);
    }
    let version = finish(&mut program(&["--version"])).ended_with(0);
    let commit = option_env!("WARPFOLD_COMMIT").map(|commit| format!(" ({commit})")).unwrap_or_default();
    assert_eq!(version.stdout, format!("warpfold {}{commit}\n", env!("CARGO_PKG_VERSION")));
}

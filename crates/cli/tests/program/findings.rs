//! `warpfold sim`: findings where the author can read them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Outcome, folder, npy, program, ptx, refused, warpfold};

/// A file of `tests/program/source`.
fn source(name: &str) -> String {
    format!("{}/tests/program/source/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A file of floats that count up.
pub(crate) fn floats(folder: &Path, name: &str, shape: &str, count: u16) -> PathBuf {
    let data: Vec<u8> = (0..count).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let path = folder.join(name);
    fs::write(&path, npy("<f4", shape, &data)).expect("written");
    path
}

/// Runs the transpose that lacks its barrier.
fn transpose(test: &str, more: &[&str]) -> Outcome {
    let folder = folder(test);
    let input = floats(&folder, "in.npy", "(32, 32)", 1024);
    let (input, output) =
        (format!("in={}", input.display()), format!("out={},f32,32,32", folder.join("out.npy").display()));
    let file = source("transpose.ptx");
    let args =
        ["sim", &file, "--entry", "transpose", "--grid", "1", "--block", "32x8x1", "--arg", &input, "--arg", &output];
    warpfold(&[&args[..], more].concat())
}

/// The line of a file of `tests/program/source` that has a piece of text first.
fn line_with(file: &str, text: &str) -> String {
    let lines = fs::read_to_string(source(file)).expect("it is there");
    let at = lines.lines().position(|line| line.contains(text)).expect("the text is there");
    format!("{file}:{}", at + 1)
}

#[test]
fn a_missing_barrier_is_one_finding_on_two_lines_of_source() {
    let test = "a_missing_barrier_is_one_finding_on_two_lines_of_source";
    let report = transpose(test, &["--check", "all", "--report", "json"]).ended_with(1).json();
    let (store, load) = (line_with("transpose.cu", "tile[y][threadIdx.x] ="), line_with("transpose.cu", "out[y * N"));
    let groups = report["groups"].as_array().expect("a list");
    let roots: Vec<&Value> = groups.iter().filter(|group| group["follows_from"].is_null()).collect();
    assert_eq!(roots.len(), 1, "{groups:#?}");
    assert_eq!((&roots[0]["kind"], &roots[0]["variable"]), (&Value::from("race"), &Value::from("tile")));
    let lines: Vec<&str> = roots[0]["lines"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(lines.contains(&store.as_str()) && lines.contains(&load.as_str()), "{lines:?}");
    assert!(roots[0]["remedy"].as_str().is_some_and(|text| text.contains("__syncthreads()")), "{}", roots[0]);
    assert!(roots[0]["findings"].as_array().is_some_and(|all| all.len() > 10), "many pairs: {}", roots[0]);
    assert!(groups.iter().any(|group| group["kind"] == "host_read" && group["follows_from"] == 0), "{groups:#?}");
}

#[test]
fn a_report_for_people_quotes_the_source_and_sums_up_in_its_last_line() {
    let test = "a_report_for_people_quotes_the_source_and_sums_up_in_its_last_line";
    let page = transpose(test, &["--check", "all"]).ended_with(1).stdout;
    let (store, load) = (line_with("transpose.cu", "tile[y][threadIdx.x] ="), line_with("transpose.cu", "out[y * N"));
    assert!(page.starts_with("void transpose<float>(float const*, float*) on the virtual GPU"), "{page}");
    assert!(page.contains(&format!("  {store}: error: race in kernel transpose<float>")), "{page}");
    assert!(page.contains(&format!("    {load} | out[y * N + threadIdx.x] = tile[")), "{page}");
    assert!(page.contains(", tile["), "{page}");
    assert!(!page.contains("0x100000"), "elements, not addresses: {page}");
    assert!(page.contains("follows from it: host_read of out at "), "{page}");
    assert!(page.lines().last().is_some_and(|line| line == "1 error (1 race); 1 more that follow from them"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 120), "{page}");
}

#[test]
fn an_element_has_the_indices_of_its_declaration() {
    let test = "an_element_has_the_indices_of_its_declaration";
    let report = transpose(test, &["--check", "all", "--report", "json"]).ended_with(1).json();
    let elements: Vec<&str> =
        report["findings"].as_array().expect("a list").iter().filter_map(|f| f["element"].as_str()).collect();
    // A row of the tile has 33 elements, which `T tile[N][N + 1]` says and the PTX does not.
    let (tile, rest): (Vec<_>, Vec<_>) = elements.into_iter().partition(|e| e.starts_with("tile["));
    assert!(!tile.is_empty() && tile.iter().all(|e| e.matches('[').count() == 2), "{tile:?}");
    // What was copied from there before anybody wrote it.
    assert_eq!(rest, ["out[0][1]"]);
}

#[test]
fn an_access_past_an_array_names_the_inlined_line_and_element() {
    let folder = folder("an_access_past_an_array_names_the_inlined_line_and_element");
    let input = format!("in={}", floats(&folder, "in.npy", "(64,)", 64).display());
    let output = format!("out={},f32,64", folder.join("out.npy").display());
    let file = source("transpose.ptx");
    let args = ["sim", &file, "--entry", "overrun", "--grid", "1", "--block", "96", "--report", "json"];
    let args = [&args[..], &["--arg", &input, "--arg", &output, "--arg", "u32=64"]].concat();
    let report = warpfold(&args).ended_with(1).json();
    let finding = &report["findings"][0];
    let (inner, outer) = (line_with("transpose.cu", "return 2.0f"), line_with("transpose.cu", "out[i % n]"));
    assert_eq!(finding["source"]["text"], Value::from(inner));
    assert_eq!(finding["source"]["lines"].as_array().map(Vec::len), Some(2), "{finding}");
    assert!(outer.ends_with(&format!(":{}", finding["source"]["lines"][1]["line"])), "{finding}");
    assert_eq!(finding["place"], "0 bytes past the end of in.npy (256 bytes)");
}

#[test]
fn a_trap_names_its_line_first() {
    let file = source("transpose.ptx");
    let args = ["sim", &file, "--entry", "gives_up", "--grid", "1", "--block", "1", "--arg", "i32=1"];
    let outcome = warpfold(&args).ended_with(4);
    let line = line_with("transpose.cu", "__trap();");
    assert!(
        outcome.stderr.starts_with(&format!("error: {line}: kernel gives_up trapped at PTX line ")),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_source_is_annotated_line_by_line() {
    let page = transpose("a_source_is_annotated_line_by_line", &["--annotate=source"]).ended_with(0).stdout;
    let row = page.lines().find(|line| line.contains("tile[y][threadIdx.x] =")).expect("the line is shown");
    let cells: Vec<&str> = row.split('|').next().unwrap_or_default().split_whitespace().collect();
    // Four stores and loads by eight warps, among other instructions of the line; no conflicts.
    assert!(cells.len() == 4 && cells[1] == "0.0" && cells[2] == "0" && cells[3] == "128", "{row}");
    assert!(page.contains("    // __syncthreads() is missing here."), "{page}");
}

#[test]
fn tools_look_for_one_class_and_choose_exit_codes() {
    let test = "tools_look_for_one_class_and_choose_exit_codes";
    let page = transpose(test, &["--tool", "memcheck"]).ended_with(0).stdout;
    assert!(page.lines().last().is_some_and(|line| line.contains("no findings: looked for accesses out of")), "{page}");
    let page = transpose(test, &["--tool", "racecheck", "--error-exitcode", "7"]).ended_with(7).stdout;
    assert!(page.contains("1 error (1 race)") && !page.contains("host_read"), "{page}");
    let page = transpose(test, &["--tool", "initcheck"]).ended_with(1).stdout;
    assert!(page.contains("1 error (1 host_read)"), "{page}");
    transpose(test, &["--tool", "synccheck"]).ended_with(0);
    transpose(test, &["--tool", "racecheck", "--check", "all"]).ended_with(2);
}

#[test]
fn findings_are_suppressed_by_the_rules_that_the_report_gives() {
    let test = "findings_are_suppressed_by_the_rules_that_the_report_gives";
    let report = transpose(test, &["--check", "all", "--report", "json"]).ended_with(1).json();
    let groups = report["groups"].as_array().expect("a list");
    let rules: Vec<&str> = groups.iter().filter_map(|group| group["suppression"].as_str()).collect();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rules.txt");
    fs::write(&file, format!("# known\n{}\nrace variable=other\n", rules.join("\n"))).expect("written");
    let path = file.display().to_string();
    let page = transpose(test, &["--check", "all", "--suppressions", &path]).ended_with(0).stdout;
    assert!(page.contains("the suppression 'race variable=other' fits nothing"), "{page}");
    assert!(page.lines().last().is_some_and(|line| line.ends_with("; 2 suppressed")), "{page}");
    let page = transpose(test, &["--check", "all", "--allow", "race", "--allow", "host_read"]).ended_with(0).stdout;
    assert!(page.contains("no findings") && page.trim_end().ends_with("; 2 suppressed"), "{page}");
    let outcome = transpose(test, &["--check", "all", "--allow", "races"]).ended_with(2);
    assert!(
        outcome.stderr.contains("'races' is no kind of findings: expected one of race, warp_sync"),
        "{}",
        outcome.stderr
    );
    fs::write(&file, "races\n").expect("written");
    let outcome = transpose(test, &["--check", "all", "--suppressions", &path]).ended_with(2);
    assert!(outcome.stderr.contains("rules.txt:1: 'races' is no kind of findings"), "{}", outcome.stderr);
}

#[test]
fn a_limit_on_findings_leaves_the_last_line_whole() {
    let page = transpose("a_limit_on_findings_leaves_the_last_line_whole", &["--check", "all", "--max-findings", "0"]);
    let page = page.ended_with(1).stdout;
    assert!(page.contains("2 more are not shown"), "{page}");
    assert!(page.lines().last().is_some_and(|line| line.starts_with("1 error (1 race)")), "{page}");
}

#[test]
fn kernels_are_listed_with_what_a_launch_has_to_give() {
    let list = warpfold(&["sim", &source("transpose.ptx"), "--list"]).ended_with(0).stdout;
    assert!(list.contains("void transpose<float>(float const*, float*)  [_Z9transposeIfEvPKT_PS0_]"), "{list}");
    assert!(list.contains("any block, 4224 bytes of static shared memory"), "{list}");
    let list = warpfold(&["sim", "--triton", &source("triton"), "--list"]).ended_with(0).stdout;
    assert!(list.contains("block 128x1x1") && list.contains("a pointer (in=, out=, inout=)"), "{list}");
}

#[test]
fn an_entry_is_any_part_of_a_name_that_is_unique() {
    let file = source("transpose.ptx");
    let launch = ["--grid", "1", "--block", "1"];
    refused(&[&["sim", &file, "--entry", "float"], &launch[..]].concat(), 2, "'float' is part of 2 kernels' names");
    refused(&[&["sim", &file, "--entry", "sgemm"], &launch[..]].concat(), 2, "no kernel named 'sgemm'");
    refused(&[&["sim", &file], &launch[..]].concat(), 2, "--entry is needed: the module has 3 kernels");
    refused(&["sim", &file, "--entry", "gives", "--grid", "1"], 2, "--block is needed");
}

#[test]
fn standard_input_is_read_where_a_file_would_stand() {
    let text = fs::read(ptx("conflicts")).expect("it is there");
    let args = ["sim", "-", "--grid", "1x1x1", "--block", "64x1", "--shared", "512", "--report", "json"];
    let mut child =
        program(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(&text).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["file"], &report["schema"]), (&Value::from("-"), &Value::from(1)));
    assert_eq!((&report["grid"], &report["block"]), (&Value::from(vec![1, 1, 1]), &Value::from(vec![64, 1, 1])));
    let metric = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
    assert_eq!(report["metrics"]["shared_load_bank_conflicts"], metric);
    for (counter, _) in report["metrics"].as_object().expect("a map") {
        // Hits in the L1 are counted where somebody asks for them.
        assert_eq!(report["counters"][counter].is_u64(), !counter.starts_with("l1_"), "{counter}");
    }
}

#[test]
fn a_kernel_of_tritons_cache_needs_its_own_arguments_alone() {
    let folder = folder("a_kernel_of_tritons_cache_needs_its_own_arguments_alone");
    let input = format!("in={}", floats(&folder, "in.npy", "(2, 200)", 400).display());
    let output = folder.join("out.npy");
    let out = format!("out={},f32,2", output.display());
    let cache = source("triton");
    let args = ["sim", "--triton", &cache, "--grid", "2", "--check", "all"];
    let args = [&args[..], &["--arg", &input, "--arg", &out, "--arg", "i32=200", "--arg", "f32=0.5"]].concat();
    warpfold(&args).ended_with(0);
    let sums = [0.5 * 19_900.0_f32, 0.5 * 59_900.0];
    let expected: Vec<u8> = sums.into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(fs::read(&output).expect("saved"), npy("<f4", "(2,)", &expected));
    let missing = ["sim", "--triton", &cache, "--grid", "2", "--arg", &input];
    refused(&missing, 2, "has 6 parameters");
    refused(
        &["sim", "--triton", &folder.display().to_string(), "--grid", "1"],
        2,
        "has no kernel that Triton compiled",
    );
}

#[test]
fn a_finding_in_tritons_library_is_said_of_the_line_that_called_it() {
    let folder = folder("a_finding_in_tritons_library_is_said_of_the_line_that_called_it");
    let input = format!("in={}", floats(&folder, "in.npy", "(100,)", 100).display());
    let out = format!("out={},f32,1", folder.join("out.npy").display());
    let cache = source("triton");
    let args = ["sim", "--triton", &cache, "--grid", "1", "--report", "json", "--annotate"];
    let args = [&args[..], &["--arg", &input, "--arg", &out, "--arg", "i32=200", "--arg", "f32=1"]].concat();
    let report = warpfold(&args).ended_with(1).json();
    assert_eq!(report["findings"][0]["source"]["text"], line_with("tri.py", "x = tl.load"));
    let texts: Vec<&str> = report["instructions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|i| i["source"]["text"].as_str())
        .collect();
    let inlined = format!("{} (in standard.py:", line_with("tri.py", "tl.sum"));
    assert!(texts.iter().any(|text| text.starts_with(&inlined)), "{texts:?}");
}

#[test]
fn findings_are_written_as_sarif_at_the_lines_of_their_source() {
    let test = "findings_are_written_as_sarif_at_the_lines_of_their_source";
    let path = folder(test).join("findings.sarif");
    let to = path.to_str().expect("UTF-8");
    let table = transpose(test, &["--check", "all", "--sarif", to]).ended_with(1).stdout;
    assert!(table.contains("race"), "{table}");
    let log: Value = serde_json::from_str(&fs::read_to_string(&path).expect("it is written")).expect("JSON");
    let run = &log["runs"][0];
    assert_eq!((&log["version"], &run["tool"]["driver"]["name"]), (&"2.1.0".into(), &"warpfold".into()));
    let results = run["results"].as_array().expect("a list");
    let races: Vec<_> = results.iter().filter(|result| result["ruleId"] == "race").collect();
    let [race] = races[..] else { panic!("{results:#?}") };
    assert_eq!(race["level"], "error");
    assert!(
        race["message"]["text"].as_str().is_some_and(|text| text.starts_with("race in kernel transpose<float>")),
        "{race}"
    );
    let at = |location: &Value| {
        let place = &location["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|uri| uri.ends_with("transpose.cu")), "{place}");
        format!("transpose.cu:{}", place["region"]["startLine"])
    };
    let mut lines = [at(&race["locations"][0]), at(&race["relatedLocations"][0])];
    lines.sort();
    let mut expected = [line_with("transpose.cu", "tile[y][threadIdx.x] ="), line_with("transpose.cu", "out[y * N")];
    expected.sort();
    assert_eq!(lines, expected);
    let rules = run["tool"]["driver"]["rules"].as_array().expect("a list");
    assert!(results.iter().all(|result| rules.iter().any(|rule| rule["id"] == result["ruleId"])), "{rules:?}");
    // A clean run has an empty list, which closes what was reported before.
    let clean = ["ladder", "reduce", "--size", "512", "--rung", "shuffle", "--device", "virtual", "--check", "all"];
    warpfold(&[&clean[..], &["--sarif", to]].concat()).ended_with(0);
    let log: Value = serde_json::from_str(&fs::read_to_string(&path).expect("it is written")).expect("JSON");
    assert_eq!(log["runs"][0]["results"], Value::Array(Vec::new()));
    refused(&["ladder", "serving", "--sarif", to], 2, "ladder serving has no --sarif");
}

#[test]
fn a_counter_that_has_risen_is_found_by_comparing_reports() {
    let folder = folder("a_counter_that_has_risen_is_found_by_comparing_reports");
    let report = |name: &str, more: &[&str]| {
        let path = folder.join(name);
        let ladder = ["ladder", "reduce", "--size", "4096", "--device", "virtual", "--report", "json", "-o"];
        warpfold(&[&ladder[..], &[path.to_str().expect("UTF-8")], more].concat()).ended_with(0);
        path.to_str().expect("UTF-8").to_owned()
    };
    let (old, new) =
        (report("old.json", &["--rung", "naive"]), report("new.json", &["--rung", "naive", "--rung", "interleaved"]));
    let same = warpfold(&["compare", &old, &new]).ended_with(0).stdout;
    assert_eq!(same, "reduce/interleaved: new\n1 kernels compared: 0 counters worse, 0 better\n");
    let gone = warpfold(&["compare", &new, &old]).ended_with(1).stdout;
    assert!(gone.starts_with("reduce/interleaved: gone\n"), "{gone}");
    // 10,001 instructions instead of 10,000: 0.01 %.
    let rung = |instructions: u64, hits: u64| {
        let counters = serde_json::json!({"warp_instructions": instructions, "l1_hit_sectors": hits, "barriers": 0});
        serde_json::json!({"demangled": "k", "counters": counters}).to_string()
    };
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text).expect("written");
        folder.join(name).to_str().expect("UTF-8").to_owned()
    };
    let (a, b) = (write("a.json", rung(10_000, 7)), write("b.json", rung(10_001, 9)));
    let found = warpfold(&["compare", &a, &b, "--report", "json"]).ended_with(1).json();
    assert_eq!((&found["worse"], found["changed"].as_array().map(Vec::len)), (&1.into(), Some(2)), "{found}");
    warpfold(&["compare", &a, &b, "--allow", "0.01"]).ended_with(0);
    warpfold(&["compare", &a, &b, "--allow", "0.009"]).ended_with(1);
    warpfold(&["compare", &a, &b, "--counters", "l1_hit_sectors,barriers"]).ended_with(0);
    let better = warpfold(&["compare", &b, &a]).ended_with(0).stdout;
    assert!(better.ends_with("1 kernels compared: 0 counters worse, 1 better\n"), "{better}");
    refused(&["compare", &a, &b, "--counters", "wavefronts"], 2, "wavefronts is not in both reports");
    refused(&["compare", &a, &b, "--allow", "-1"], 2, "-1 is not a share of 0 percent and more");
    refused(&["compare", &a, &write("c.json", "{}".to_owned())], 2, "it has no counters");
    refused(&["compare", &a, "absent.json"], 2, "absent.json");
}

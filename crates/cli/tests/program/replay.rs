//! `warpfold replay`.

use std::fs;

use crate::support::{folder, refused, warpfold};

/// A file with this log.
fn log(test: &str, lines: &str) -> String {
    let file = folder(test).join("requests.jsonl");
    fs::write(&file, lines).expect("a file for the test");
    file.to_str().expect("a name").to_owned()
}

/// Ten answers that run when a long prompt arrives, as three servers write them.
fn mixed() -> String {
    let ours = (0..10)
        .map(|i| format!(r#"{{"time": {}, "prompt_tokens": 20, "completion_tokens": 60}}"#, f64::from(i) / 100.0));
    let long =
        r#"{"timestamp": "1970-01-01T01:00:00.3+01:00", "usage": {"prompt_tokens": 3000, "completion_tokens": 5}}"#;
    let other = r#"{"arrival_time": 0.5, "meta_info": {"input_len": 7, "output_len": 3}, "max_tokens": 90}"#;
    ours.chain([long, other].map(str::to_owned)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_long_prompt_holds_answers_up_unless_it_is_cut() {
    let file = log("a_long_prompt", &mixed());
    let report = warpfold(&["replay", &file, "--report", "json"]).ended_with(0).json();
    assert_eq!((report["requests"].as_u64(), report["prompt_tokens"].as_u64()), (Some(12), Some(3207)));
    let plays = report["rungs"].as_array().expect("a play for each policy");
    let of = |name: &str, what: &str| {
        let play = plays.iter().find(|play| play["name"] == name).expect("a play");
        play[what].as_f64().expect("a number")
    };
    for name in ["static", "orca", "vllm-v0", "continuous"] {
        assert_eq!(of(name, "tokens"), 608.0, "{name}");
    }
    // A step of 3,010 rows takes 5 + 60 ms; one of 512 takes 5 + 10.
    assert!(of("orca", "longest_wait_ms") > 60.0 && of("continuous", "longest_wait_ms") < 16.0, "{report}");
    assert!(of("static", "unfilled") > 0.1 && of("continuous", "unfilled") < 0.01, "{report}");
    assert!(of("static", "mean_first_token_ms") > of("continuous", "mean_first_token_ms"), "{report}");
    let table = warpfold(&["replay", &file, "--policy", "continuous", "--budget", "256,64"]).ended_with(0).stdout;
    assert!(table.contains("continuous 256") && table.contains("continuous 64"), "{table}");
    assert!(table.contains("12 requests within 0.5 s, 3,207 tokens of prompts and 608 of answers"), "{table}");
}

#[test]
fn a_line_that_is_no_request_is_refused_with_its_number() {
    let right = r#"{"time": 1, "prompt_tokens": 16777216, "completion_tokens": 1}"#;
    let wrong = [
        ("{", "requests.jsonl:2: EOF"),
        (r#"{"prompt_tokens": 1, "completion_tokens": 1}"#, ":2: no time: one of time, timestamp"),
        (r#"{"time": "noon", "prompt_tokens": 1, "completion_tokens": 1}"#, "is neither a number nor a date"),
        (
            r#"{"time": "2026-02-29T00:00:00Z", "prompt_tokens": 1, "completion_tokens": 1}"#,
            "neither a number nor a date",
        ),
        (
            r#"{"time": "2026-02-28T24:00:00Z", "prompt_tokens": 1, "completion_tokens": 1}"#,
            "neither a number nor a date",
        ),
        (r#"{"time": 1, "prompt_tokens": 0, "completion_tokens": 1}"#, "prompt_tokens: 0 is not a number of tokens"),
        (r#"{"time": 1, "prompt_tokens": 16777217, "completion_tokens": 1}"#, "16777217 is not a number of tokens"),
        (r#"{"time": 1, "prompt_tokens": 5, "input_len": 6, "completion_tokens": 1}"#, "which counts?"),
        (r#"{"time": 1, "prompt_tokens": 5, "completion_tokens": 9, "max_tokens": 8}"#, "longer than its limit, 8"),
    ];
    for (i, (line, part)) in wrong.into_iter().enumerate() {
        let file = log(&format!("a_line_that_is_no_request-{i}"), &format!("{right}\n{line}\n"));
        refused(&["replay", &file], 2, part);
    }
    let empty = log("a_log_of_nothing", "\n");
    refused(&["replay", &empty], 2, "there is no request in it");
    let file = log("a_log_and_times", r#"{"time": 1, "prompt_tokens": 4, "completion_tokens": 2}"#);
    refused(&["replay", &file, "--step-ms", "60000"], 2, "--step-ms: 60000 is not a time from 0 to a minute");
    warpfold(&["replay", &file, "--step-ms", "59999"]).ended_with(0);
    refused(&["replay", &file, "--kv-blocks", "0"], 2, "--kv-blocks: 0 is not positive");
}

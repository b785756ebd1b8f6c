//! The catalogue in docs/catalog.md: each row has a command, each command parses and names what
//! exists, and nothing that exists is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use warpfold::by_name;
use warpfold_ladders::ladder::{LADDERS, ladder};

use crate::support::{finish, folder, program, warpfold};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/catalog.md")).expect("there is a catalogue")
}

/// The rows of the tables of commands: what, and the commands.
fn rows() -> Vec<(String, Vec<Vec<String>>)> {
    let page = page();
    let (tables, _) = page.split_once("## Reported figures").expect("the figures come last");
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| what |");
    let row = |line: &str| {
        let (what, commands) = line.trim_matches('|').split_once(" | ").expect("two columns");
        let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
        (what.trim().to_owned(), commands.split('`').skip(1).step_by(2).map(words).collect())
    };
    tables.lines().filter(is_row).map(row).collect()
}

/// The value of an option of a command.
fn value<'a>(command: &'a [String], option: &str) -> Option<&'a str> {
    let at = command.iter().position(|word| word == option)?;
    command.get(at + 1).map(String::as_str)
}

/// Each option is one that the subcommand has.
#[track_caller]
fn check_options(command: &[String]) {
    let depth = if command[0] == "bench" && ["serve", "transfer"].contains(&command[1].as_str()) { 2 } else { 1 };
    let args: Vec<&str> = command[..depth].iter().map(String::as_str).chain(["--help"]).collect();
    let help = warpfold(&args).ended_with(0).stdout;
    let known: BTreeSet<&str> = help.split(|c: char| c.is_whitespace() || ",=[".contains(c)).collect();
    for option in command.iter().filter(|word| word.starts_with('-') && word.parse::<f64>().is_err()) {
        let is_axes = option.split(',').all(|part| part.parse::<i64>().is_ok());
        assert!(is_axes || known.contains(option.as_str()), "{option} of {command:?}");
    }
}

/// A ladder with its rungs, size and type.
#[track_caller]
fn check_ladder(command: &[String]) {
    let name = &command[1];
    let Ok(ladder) = ladder(name) else {
        // Those whose rungs are no kernels.
        assert!(["serving", "transfer", "all_reduce", "allocation"].contains(&name.as_str()), "{name}");
        return;
    };
    if let Some(rung) = value(command, "--rung") {
        ladder.rung(rung).expect(rung);
    }
    if let Some(size) = value(command, "--size") {
        ladder.check_size(ladder.parse_size(size).expect(size)).expect(size);
    }
    if let Some(dtype) = value(command, "--dtype") {
        ladder.check_dtype(dtype.parse().expect(dtype)).expect(dtype);
    }
}

/// An operator with its files and options: all is right but that there are no such files.
#[track_caller]
fn check_run(command: &[String]) {
    let args: Vec<&str> = command.iter().map(String::as_str).collect();
    let outcome = finish(program(&args).current_dir(folder("catalog"))).ended_with(2);
    assert!(outcome.stderr.starts_with("error: cannot read "), "{command:?}: {}", outcome.stderr);
}

#[track_caller]
fn check_cargo(command: &[String]) {
    let example = value(command, "--example").expect("an example");
    assert!(root().join(format!("examples/{example}.rs")).exists(), "{example}");
}

#[test]
fn each_row_has_commands_that_parse_and_name_what_exists() {
    let rows = rows();
    assert!(rows.len() > 140, "{} rows", rows.len());
    for (what, commands) in rows {
        assert!(!commands.is_empty(), "{what} has no command");
        for command in commands {
            let [first, command @ ..] = &command[..] else { panic!("{what}: an empty command") };
            if first == "cargo" {
                check_cargo(command);
                continue;
            }
            assert_eq!(first, "warpfold", "{what}");
            check_options(command);
            match command[0].as_str() {
                "ladder" => check_ladder(command),
                "run" => check_run(command),
                "bench" if !["serve", "transfer"].contains(&command[1].as_str()) => {
                    assert!(warpfold_bench::FAMILIES.contains(&command[1].as_str()), "{what}: {command:?}");
                }
                "inspect" => drop(warpfold(&["inspect", &command[1]]).ended_with(0)),
                "advise" => {
                    let (name, rung) = command[1].split_once('/').expect("a rung");
                    ladder(name).expect(name).rung(rung).expect(rung);
                }
                // Their options are what there is to check.
                "bench" | "devices" | "draw" | "generate" | "replay" | "serve" | "sim" => {}
                other => panic!("{what}: no subcommand {other}"),
            }
        }
    }
}

/// The name by which a link finds a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn each_row_has_a_page_and_its_heading_exists() {
    for (what, _) in rows() {
        let (_, link) = what.split_once("](").unwrap_or_else(|| panic!("{what} has no page"));
        let (file, heading) = link.trim_end_matches(')').split_once('#').unwrap_or((link.trim_end_matches(')'), ""));
        let text = fs::read_to_string(root().join("docs").join(file)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut headings =
            text.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#').trim()));
        assert!(heading.is_empty() || headings.any(|known| known == heading), "{what}: no such heading");
    }
}

#[test]
fn no_ladder_and_no_rung_is_missing() {
    let commands: Vec<_> = rows().into_iter().flat_map(|(_, commands)| commands).collect();
    for ladder in LADDERS {
        let is_run_whole = |command: &&Vec<String>| {
            command[1] == "ladder" && command[2] == ladder.name && value(command, "--rung").is_none()
        };
        assert!(commands.iter().any(|command| is_run_whole(&command)), "{}", ladder.name);
    }
}

#[test]
fn figures_stand_beside_rungs_that_exist() {
    let page = page();
    let (_, figures) = page.split_once("## Reported figures").expect("there are figures");
    let mut of: Option<&'static warpfold_ladders::ladder::Ladder> = None;
    let mut num = 0;
    for line in figures.lines() {
        if let Some(command) = line.strip_prefix("`warpfold ladder ") {
            of = Some(ladder(command.split([' ', '`']).next().expect("a name")).expect("a ladder"));
        }
        let Some(first) = line.strip_prefix("| `").and_then(|row| row.split(" |").next()) else { continue };
        for rung in format!("`{first}").split('`').skip(1).step_by(2) {
            of.expect("a ladder comes first").rung(rung).expect(rung);
            num += 1;
        }
    }
    assert!(num > 20, "{num} rungs");
}

#[test]
fn families_of_operators_have_a_row() {
    let page = page();
    for name in [
        "max-pool",
        "avg-pool",
        "lp-pool",
        "unique",
        "unique-count",
        "topk",
        "nms",
        "softmax-v",
        "max-sum-exp",
        "scatter",
        "index-scatter",
        "interpolate",
    ] {
        by_name::find(name).expect(name);
        assert!(page.contains(&format!("warpfold run {name} ")), "{name}");
    }
}

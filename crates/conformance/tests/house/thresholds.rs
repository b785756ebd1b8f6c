//! Thresholds: sizes, counts and alignments from which on another path is taken.
//!
//! Beside each stands a comment, `// THRESHOLD: what changes; tested by PATH::NAME`, with one test
//! or more that see both sides. From these comments `docs/thresholds.md` is made
//! (`UPDATE_SNAPSHOTS=1` writes it), and the named tests must exist. A number whose name says that
//! it is one ([`WORDS`]) and that has no such comment fails, unless it stands in a list below:
//! [`NO_THRESHOLDS`] are sizes of arrays, of formats and of hardware, where nothing changes;
//! [`UNTESTED`] is what no test can see.
//!
//! Names decide, since almost every condition on a size compares with a constant that is named; a
//! scan for comparisons would find hundreds that are no thresholds. A condition without a constant
//! may have such a comment as well.

use std::fmt::Write as _;
use std::fs;

use super::{File, nothing, root, sources};

/// Words of names of thresholds.
const WORDS: &[&str] = &[
    "CAPACITY",
    "ENOUGH",
    "FEW",
    "GENEROUS",
    "HELD",
    "KEPT",
    "LARGE",
    "LARGEST",
    "LEAST",
    "LIMIT",
    "LONG",
    "LONGEST",
    "MANY",
    "MAX",
    "MOST",
    "POLLED",
    "REMEMBERED",
    "SHORT",
    "SMALL",
    "SPARE",
];

/// Where paths are chosen: not lessons, reports, benches and tests.
const CRATES: &[&str] = &["collectives", "device", "engine", "kernels", "models", "serve", "sim", "warpfold"];

/// Sizes of arrays, of formats and of hardware, defaults, and names that only sound so.
const NO_THRESHOLDS: &[(&str, &str)] = &[
    ("crates/device/src/cuda/device.rs", "REMEMBERED_LAUNCHES"),
    ("crates/engine/src/exercise.rs", "MAX_LEN"),
    ("crates/kernels/src/attention/factor.rs", "LOG2_LARGEST_E4M3_WEIGHT"),
    ("crates/kernels/src/attention/factor.rs", "LOG2_LARGEST_WEIGHT"),
    ("crates/kernels/src/elements/spill.rs", "MAX_ARRAYS"),
    ("crates/kernels/src/fold/geometry.rs", "MAX_INPUTS"),
    ("crates/kernels/src/fold/geometry.rs", "MAX_OUTPUTS"),
    ("crates/kernels/src/histogram/mod.rs", "LARGE_BLOCK"),
    ("crates/kernels/src/layout.rs", "MAX_RANK"),
    ("crates/kernels/src/map/geometry.rs", "MAX_INPUTS"),
    ("crates/kernels/src/map/geometry.rs", "MAX_OUTPUTS"),
    ("crates/kernels/src/map/geometry.rs", "MAX_SCALARS"),
    ("crates/kernels/src/matmul/epilogue.rs", "MAX_INPUTS"),
    ("crates/kernels/src/matmul/epilogue.rs", "MAX_SCALARS"),
    ("crates/kernels/src/matmul/problem.rs", "MAX_BATCH_RANK"),
    ("crates/kernels/src/overlap.rs", "FEW"),
    ("crates/kernels/src/rowwise/family.rs", "MAX_OPERANDS"),
    ("crates/kernels/src/sort/pair.rs", "LONG_SIGN"),
    ("crates/models/src/layers/shard.rs", "MOST"),
    ("crates/serve/src/openai/completions.rs", "MAX_TOKENS"),
    ("crates/serve/src/openai/logprobs.rs", "LEAST"),
    ("crates/sim/src/alu/convert/integer.rs", "MAX"),
    ("crates/sim/src/alu/video/scalar.rs", "MAX"),
    ("crates/sim/src/asynchronous/bulk.rs", "SMALL_ROWS"),
    ("crates/warpfold/src/axes.rs", "MAX_RANK"),
    ("crates/warpfold/src/npy/zip.rs", "MANY"),
];

/// Thresholds that no test can see from both sides, each with the reason beside it.
const UNTESTED: &[(&str, &str)] = &[];

/// The comment's beginning, and what is before the names of tests.
const MARK: &str = "// THRESHOLD: ";
const TESTED: &str = "; tested by ";

/// A threshold with its comment.
struct Threshold {
    path: String,
    /// `NAME = value`, or the line with the condition.
    subject: String,
    /// The constant, if it is one.
    name: Option<String>,
    change: String,
    tests: Vec<String>,
}

/// The name and the value of a number that a line declares.
fn number(line: &str) -> Option<(&str, &str)> {
    const TYPES: [&str; 11] =
        ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f32", "f64", "Duration", "std::time::Duration"];
    let (_, rest) = line.trim_start().strip_prefix("const ").map(|rest| ("", rest)).or_else(|| {
        let (before, rest) = line.trim_start().split_once(" const ")?;
        before.starts_with("pub").then_some((before, rest))
    })?;
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.split_once(" = ")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    (is_name && TYPES.contains(&kind)).then(|| (name, value.split(';').next().unwrap_or(value)))
}

fn sounds_like_one(name: &str) -> bool {
    name.split('_').any(|word| WORDS.contains(&word))
}

/// The thresholds of a file that have a comment.
fn marked(file: &File) -> Vec<Threshold> {
    let mut lines = file.text.lines().map(str::trim).peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let Some(text) = line.strip_prefix(MARK) else { continue };
        let mut text = text.to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with("// ")) {
            text += &more[2..];
        }
        // Documents and attributes may come between.
        while lines.next_if(|line| line.starts_with("///") || line.starts_with("#[")).is_some() {}
        let subject = lines.peek().copied().unwrap_or_default();
        let (name, subject) = match number(subject) {
            Some((name, value)) => (Some(name.to_owned()), format!("{name} = {value}")),
            None => (None, subject.trim_end_matches(" {").to_owned()),
        };
        let (change, tests) = text.split_once(TESTED).unwrap_or((&text, ""));
        let tests = tests.split(" and ").map(str::to_owned).filter(|test| !test.is_empty()).collect();
        found.push(Threshold { path: file.path.clone(), subject, name, change: change.to_owned(), tests });
    }
    found
}

/// The files where paths are chosen.
fn choosing() -> Vec<File> {
    let is_one = |path: &str| CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    sources().into_iter().filter(|file| is_one(&file.path) && !file.is_test()).collect()
}

#[test]
fn every_threshold_names_a_test_that_exists() {
    let mut problems = Vec::new();
    let sources = sources();
    for Threshold { path, subject, tests, .. } in choosing().iter().flat_map(marked) {
        if tests.is_empty() {
            problems.push(format!("{path}: {subject}: the comment names no test ({TESTED:?})"));
        }
        for test in tests {
            let exists = test.split_once("::").is_some_and(|(path, name)| {
                let file = sources.iter().find(|file| file.path == path);
                file.is_some_and(|file| file.text.contains("#[test]") && file.text.contains(&format!("fn {name}()")))
            });
            if !exists {
                problems.push(format!("{path}: {subject}: there is no test {test}"));
            }
        }
    }
    nothing(&problems);
}

#[test]
fn a_number_that_sounds_like_a_threshold_has_a_test_or_is_owed_one() {
    let mut problems = Vec::new();
    let mut listed: Vec<(&str, &str)> = [NO_THRESHOLDS, UNTESTED].concat();
    for list in [NO_THRESHOLDS, UNTESTED] {
        assert!(list.is_sorted(), "the lists are in order");
    }
    for file in choosing() {
        let marked: Vec<String> = marked(&file).into_iter().filter_map(|threshold| threshold.name).collect();
        // What is declared in tests at a file's end is theirs.
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (name, _) in code.lines().filter_map(number) {
            let known = (file.path.as_str(), name);
            let is_listed = listed.contains(&known);
            listed.retain(|listed| *listed != known);
            let is_marked = marked.iter().any(|marked| marked == name);
            match (is_marked, is_listed, sounds_like_one(name)) {
                (true, true, _) => problems.push(format!("{}: {name} has a test and is in a list", file.path)),
                (false, false, true) if !is_again(&file, name) => {
                    problems.push(format!("{}: {name} needs a comment, {MARK}…{TESTED}PATH::NAME", file.path));
                }
                _ => {}
            }
        }
    }
    problems.extend(listed.iter().map(|(path, name)| format!("{path} has no {name}: take it out of the list")));
    nothing(&problems);
}

/// Whether a name of the file is in a list, so that its second declaration needs no comment.
fn is_again(file: &File, name: &str) -> bool {
    [NO_THRESHOLDS, UNTESTED].iter().any(|list| list.contains(&(file.path.as_str(), name)))
}

#[test]
fn the_page_of_thresholds_is_what_the_sources_say() {
    let mut page = String::from(
        "# Thresholds\n\nSizes, counts and alignments from which on another path is taken, with the tests that see both \
         sides. Made from the\ncomments beside them by the tests of `crates/conformance/tests/house/thresholds.rs` \
         (`UPDATE_SNAPSHOTS=1`); that file\nsays what must have such a comment.\n\n| threshold | file | what changes | tests |\n|---|---|---|---|\n",
    );
    for Threshold { path, subject, change, tests, .. } in choosing().iter().flat_map(marked) {
        let name = |test: &String| format!("`{}`", test.rsplit("::").next().unwrap_or_default());
        let tests: Vec<String> = tests.iter().map(name).collect();
        let subject = subject.replace('|', "\\|");
        writeln!(page, "| `{subject}` | `{path}` | {change} | {} |", tests.join(", ")).expect("a text");
    }
    if !UNTESTED.is_empty() {
        page += "\n## Owed\n\nThresholds that no test sees from both sides.\n\n| threshold | file |\n|---|---|\n";
    }
    for (path, name) in UNTESTED {
        writeln!(page, "| `{name}` | `{path}` |").expect("a text");
    }
    let path = root().join("docs/thresholds.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(page.lines()).find(|(old, new)| old != new);
    assert!(committed == page, "docs/thresholds.md is old (UPDATE_SNAPSHOTS=1 writes it): {differs:?}");
}

#[test]
fn comments_and_numbers_are_read_as_they_are_written() {
    let text = "// THRESHOLD: more are refused; tested by a.rs::one and\n// b/c.rs::two\n/// Its doc.\npub(crate) const MAX_LEN: u64 = 1 << 30;\n\
        \x20   // THRESHOLD: another path; tested by a.rs::three\n    if len > 7 {\n";
    let file = File { path: "x.rs".to_owned(), text: text.to_owned() };
    let found: Vec<_> = marked(&file).into_iter().map(|t| (t.subject, t.name, t.change, t.tests.join(" "))).collect();
    let of = |subject: &str, name: Option<&str>, change: &str, tests: &str| {
        (subject.to_owned(), name.map(str::to_owned), change.to_owned(), tests.to_owned())
    };
    assert_eq!(
        found,
        [
            of("MAX_LEN = 1 << 30", Some("MAX_LEN"), "more are refused", "a.rs::one b/c.rs::two"),
            of("if len > 7", None, "another path", "a.rs::three"),
        ]
    );
    assert_eq!(number("    const LEAST: usize = 4; // why"), Some(("LEAST", "4")));
    assert_eq!(number("pub const fn of(x: u32) -> u32 {"), None);
    assert_eq!(number("const NAMES: [&str; 2] = [];"), None);
    assert!(sounds_like_one("KEPT_REPORTS") && !sounds_like_one("UPMOST"));
}

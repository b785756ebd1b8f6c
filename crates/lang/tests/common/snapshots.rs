//! Snapshots of a crate's PTX: a row per kernel and target in `tests/digests.tsv`, and the text
//! of some kernels under `tests/snapshots/`.
//!
//! A test that includes this module gives by `super::build` the kernels, and by `super::text_group`
//! the group of a kernel: the smallest of each group keeps its text, unless that is long. A run
//! leaves every text under `target/snapshots/`, named by kernel, target and hash, so that after a
//! change the texts before and after it can be compared.

#[allow(clippy::duplicate_mod, reason = "two modules of one test program have it")]
#[path = "fnv.rs"]
mod fnv;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use warpfold_lang::{Arch, Built, Target};
use warpfold_ptx::{Opcode, Statement};

use fnv::fnv1a;

/// The oldest target, then the newest, which runs every kernel.
const TARGETS: [Target; 2] = [Target::new(Arch::SM_80, (7, 4)), Target::new(Arch::SM_90A, (8, 0))];

/// The most lines of a text that is kept: nobody reads a change of more.
const MAX_LINES: usize = 1000;

const HEADER: &str = "kernel\ttarget\thash\tinstructions\tregisters\tshared bytes";

/// Rows of the table: the columns after the target, by kernel and target joined by a dot.
type Rows = BTreeMap<String, [String; 4]>;

/// Calls a function with every kernel for every target.
fn for_each_kernel(mut act: impl FnMut(&Target, &Built)) {
    for target in &TARGETS {
        for built in super::build(target) {
            match built {
                Ok(built) => act(target, &built),
                Err(error) if *target == TARGETS[0] && error.is_unsupported() => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn every_kernel_prints_what_its_row_and_its_text_say() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/digests.tsv");
    let is_update = std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1");
    let (rows, texts) = print();
    if is_update {
        fs::write(&table, to_tsv(&rows)).expect("the table can be written");
    }
    let written = fs::read_to_string(&table).expect("the table exists");
    let mut different = changes(&from_tsv(&written), &rows);
    if different.is_empty() && written != to_tsv(&rows) {
        different.push(format!("{} is not as UPDATE_SNAPSHOTS=1 writes it", table.display()));
    }
    different.extend(check_texts(&texts, is_update));
    assert!(
        different.is_empty(),
        "{}\n\nUPDATE_SNAPSHOTS=1 accepts. A text that is missing in {} was not printed here yet: this test writes it \
         when it runs at the commit before, with this target folder.",
        different.join("\n"),
        printed_folder().display()
    );
}

#[test]
fn what_is_printed_parses_back_to_the_same_tree() {
    for_each_kernel(|target, built| {
        let parsed = warpfold_ptx::parse(&built.ptx());
        let parsed = parsed.unwrap_or_else(|error| panic!("{}.{}: {error}", built.entry, target.arch));
        assert_eq!(parsed, built.module, "{}.{}", built.entry, target.arch);
    });
}

/// The rows of all kernels, and the texts that are kept, by file. Leaves every text in
/// [`printed_folder`].
fn print() -> (Rows, BTreeMap<PathBuf, String>) {
    let (mut rows, mut smallest) = (Rows::new(), BTreeMap::new());
    fs::create_dir_all(printed_folder()).expect("the target folder can be written");
    for_each_kernel(|target, built| {
        let (key, text) = (format!("{}.{}", built.entry, target.arch), built.ptx());
        let row = row(built, &text);
        let printed = printed_file(&key, &row);
        if !printed.exists() {
            fs::write(&printed, &text).expect("the target folder can be written");
        }
        if let Some(other) = rows.insert(key.clone(), row) {
            assert_eq!(other, rows[&key], "two kernels are named {key}");
        }
        if let Some(group) = super::text_group(built).filter(|_| *target == TARGETS[1]) {
            let candidate = (text.lines().count(), kept_folder().join(format!("{key}.ptx")), text);
            let first = smallest.entry(group).or_insert_with(|| candidate.clone());
            if candidate < *first {
                *first = candidate;
            }
        }
    });
    let kept = smallest.into_values().filter(|(lines, ..)| *lines <= MAX_LINES);
    (rows, kept.map(|(_, file, text)| (file, text)).collect())
}

fn kept_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

fn printed_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("snapshots")
}

fn printed_file(key: &str, row: &[String; 4]) -> PathBuf {
    printed_folder().join(format!("{key}.{}.ptx", row[0]))
}

/// Hash, instructions, registers and shared bytes of a kernel.
fn row(built: &Built, text: &str) -> [String; 4] {
    let (mut instructions, mut registers) = (BTreeMap::new(), BTreeMap::new());
    for function in built.module.functions() {
        for instruction in function.instructions() {
            let mut class = instruction.opcode.mnemonic().to_owned();
            if matches!(instruction.opcode, Opcode::Ld | Opcode::St | Opcode::Cp) {
                class = format!("{class}.{}", instruction.modifiers[0]);
            }
            *instructions.entry(class).or_insert(0) += 1;
        }
        for statement in function.statements() {
            if let Statement::Register(declared) = statement {
                let count: u32 = declared.names.iter().map(|(_, count)| count.unwrap_or(1)).sum();
                *registers.entry(declared.ty.name().to_owned()).or_insert(0) += u64::from(count * declared.vector);
            }
        }
    }
    let mut shared = BTreeMap::from([("static".to_owned(), built.static_shared_bytes)]);
    shared.insert("dynamic".to_owned(), built.dynamic_shared_bytes);
    [
        format!("{:016x}", fnv1a(text)),
        counts_to_text(&instructions),
        counts_to_text(&registers),
        counts_to_text(&shared),
    ]
}

/// Counts as `bar 12 wgmma 64`, without zeros.
fn counts_to_text(counts: &BTreeMap<String, u64>) -> String {
    let words = counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name} {count}"));
    words.collect::<Vec<_>>().join(" ")
}

fn counts_from_text(text: &str) -> BTreeMap<&str, u64> {
    let words: Vec<_> = text.split_whitespace().collect();
    words.chunks_exact(2).map(|pair| (pair[0], pair[1].parse().expect("a count"))).collect()
}

fn to_tsv(rows: &Rows) -> String {
    let mut text = format!("{HEADER}\n");
    for (key, columns) in rows {
        let (kernel, target) = key.rsplit_once('.').expect("a key has a target");
        text.push_str(&format!("{kernel}\t{target}\t{}\n", columns.join("\t")));
    }
    text
}

fn from_tsv(text: &str) -> Rows {
    let row = |line: &str| {
        let columns: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let Ok([kernel, target, rest @ ..]) = <[String; 6]>::try_from(columns) else { panic!("no row: {line}") };
        (format!("{kernel}.{target}"), rest)
    };
    text.lines().skip(1).map(row).collect()
}

/// One entry per row that differs.
fn changes(before: &Rows, after: &Rows) -> Vec<String> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let entry = |key: &String| match (before.get(key), after.get(key)) {
        (Some(before), Some(after)) if before == after => None,
        (Some(before), Some(after)) => {
            let files = [before, after].map(|row| printed_file(key, row).display().to_string());
            Some(format!("{key}: {}\n    diff {}", change(before, after), files.join(" ")))
        }
        (None, Some(after)) => Some(format!("{key}: no row\n    {}", printed_file(key, after).display())),
        (_, None) => Some(format!("{key}: a row, but no kernel prints it")),
    };
    keys.into_iter().filter_map(entry).collect()
}

/// The counts that differ between two rows, `bar 12 → 13, wgmma 64 → 72`.
fn change(before: &[String; 4], after: &[String; 4]) -> String {
    let mut different = Vec::new();
    for (column, name) in ["", "registers ", "shared bytes "].into_iter().enumerate() {
        let [before, after] = [before, after].map(|row| counts_from_text(&row[column + 1]));
        for class in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let [before, after] = [&before, &after].map(|counts| counts.get(class).copied().unwrap_or(0));
            if before != after {
                different.push(format!("{name}{class} {before} → {after}"));
            }
        }
    }
    if different.is_empty() { "the same counts, another text".to_owned() } else { different.join(", ") }
}

#[test]
fn a_change_names_the_counts_that_differ() {
    let row = |hash: &str, instructions: &str, shared: &str| [hash, instructions, "b32 9", shared].map(str::to_owned);
    let before = row("0", "bar 12 ld.global 2 wgmma 64", "");
    let after = row("1", "bar 13 ld.global 2 st.global 1 wgmma 72", "static 16");
    assert_eq!(change(&before, &after), "bar 12 → 13, st.global 0 → 1, wgmma 64 → 72, shared bytes static 0 → 16");
    assert_eq!(change(&before, &row("1", &before[1], "")), "the same counts, another text");
}

/// The texts that are not as kept; an update makes them so.
fn check_texts(texts: &BTreeMap<PathBuf, String>, is_update: bool) -> Vec<String> {
    let mut different = Vec::new();
    for (file, text) in texts {
        if fs::read_to_string(file).ok().as_deref() != Some(text) {
            if is_update {
                fs::write(file, text).expect("the snapshot folder can be written");
            } else {
                different.push(format!("{} is not what its kernel prints", file.display()));
            }
        }
    }
    for entry in fs::read_dir(kept_folder()).expect("the snapshot folder exists") {
        let file = entry.expect("the snapshot folder can be read").path();
        if !texts.contains_key(&file) {
            if is_update {
                fs::remove_file(&file).expect("the snapshot folder can be written");
            } else {
                different.push(format!("{} is not a text that is kept", file.display()));
            }
        }
    }
    different
}

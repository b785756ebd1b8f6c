//! The form of ladders: each rung is one file, opens with its five lines, and reads as a small
//! change to the one before.

use std::fs;
use std::path::{Path, PathBuf};

use warpfold_ladders::ladder::LADDERS;
use warpfold_ladders::rung_source;

/// Lines added plus lines removed against the rung before, at most.
const MAX_CHANGED: usize = 80;

const FOLDERS: &[(&str, &str)] = &[
    ("vector-add", "vector_add/ladder"),
    ("relu", "elementwise/relu"),
    ("sigmoid", "elementwise/sigmoid"),
    ("dot", "dot/ladder"),
    ("reduce", "reduce/ladder"),
    ("reduce-lessons", "reduce/lessons"),
    ("group-reduce", "groups/ladder"),
    ("scan", "scan/ladder"),
    ("softmax", "softmax/ladder"),
    ("softmax-vector", "softmax/vector"),
    ("norm", "norm/ladder"),
    ("rms-norm", "norm/rms"),
    ("scale", "scale/ladder"),
    ("gemv", "gemv/ladder"),
    ("histogram", "histogram/ladder"),
    ("sgemm", "gemm/ladder"),
    ("hgemm", "hgemm/ladder"),
    ("conv", "conv/ladder"),
    ("attention", "attention/ladder"),
    ("decode", "attention/decode"),
];

/// The files of a ladder's rungs, in order.
fn rungs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let files = fs::read_dir(folder).expect("the ladder's folder is there").map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| !file.ends_with("mod.rs")).collect();
    files.sort();
    files
}

/// Lines that one text has and the other has not, as a shortest edit has them.
fn num_changed(before: &str, after: &str) -> usize {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let mut common = vec![vec![0; after.len() + 1]; before.len() + 1];
    for (i, a) in before.iter().enumerate() {
        for (j, b) in after.iter().enumerate() {
            let longest = common[i][j + 1].max(common[i + 1][j]);
            common[i + 1][j + 1] = if a == b { common[i][j] + 1 } else { longest };
        }
    }
    before.len() + after.len() - 2 * common[before.len()][after.len()]
}

#[test]
fn every_ladder_has_a_file_for_each_rung_and_no_other() {
    assert_eq!(LADDERS.len(), FOLDERS.len());
    for (ladder, (name, folder)) in LADDERS.iter().zip(FOLDERS) {
        assert_eq!(ladder.name, *name);
        let expected: Vec<_> = (1..).zip(ladder.rungs).map(|(n, rung)| format!("r{n:02}_{}.rs", rung.name)).collect();
        let found: Vec<_> =
            rungs(folder).iter().map(|f| f.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_source_that_is_shown_is_the_file_of_the_rung() {
    for (ladder, (_, folder)) in LADDERS.iter().zip(FOLDERS) {
        for (rung, file) in ladder.rungs.iter().zip(rungs(folder)) {
            assert_eq!(
                rung_source(ladder.name, rung.name).unwrap(),
                fs::read_to_string(&file).unwrap(),
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn every_rung_opens_with_its_five_lines() {
    for (_, folder) in FOLDERS {
        for (n, file) in (1..).zip(rungs(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let openings = [
                format!("//! Rung {n}: ").as_str(),
                "//! Changed: ",
                "//! Removes: ",
                "//! Measured: ",
                "//! Limit now: ",
            ]
            .map(str::to_owned);
            for (line, opening) in text.lines().zip(openings) {
                assert!(line.starts_with(&opening), "{}: `{line}`, expected `{opening}…`", file.display());
            }
        }
    }
}

#[test]
fn every_rung_is_a_small_change_to_the_one_before() {
    for (_, folder) in FOLDERS {
        for pair in rungs(folder).windows(2) {
            let [before, after] = [0, 1].map(|i| fs::read_to_string(&pair[i]).unwrap());
            // The library's kernel has files of its own, nothing to be read as a change.
            let is_shipped = pair[1].file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_shipped"));
            let changed = if is_shipped { after.lines().count() } else { num_changed(&before, &after) };
            println!("{changed} lines changed in {}", pair[1].display());
            assert!(changed <= MAX_CHANGED, "{}: {changed} lines changed", pair[1].display());
        }
    }
}

//! What each kernel of the suite prints: equal to its file under `snapshots/`, and parsed back to
//! the same tree. `UPDATE_SNAPSHOTS=1` rewrites the files.

use std::fs;
use std::path::PathBuf;

use crate::suite::{SM_80, SM_90A, cases};
use warpfold_lang::Target;

fn path(name: &str, target: &Target) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(format!("{name}.{}.ptx", target.arch))
}

#[test]
fn every_kernel_prints_its_snapshot() {
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1");
    let mut different = Vec::new();
    for target in [SM_80, SM_90A] {
        for case in cases(&target) {
            let (text, path) = (case.build(&target).ptx(), path(&case.name, &target));
            if update {
                fs::write(&path, text).expect("the snapshot folder can be written");
            } else if fs::read_to_string(&path).ok().as_deref() != Some(&text) {
                different.push(path);
            }
        }
    }
    assert!(different.is_empty(), "differ from what is printed (UPDATE_SNAPSHOTS=1 accepts): {different:#?}");
}

#[test]
fn every_snapshot_belongs_to_a_kernel() {
    let expected: Vec<_> = [SM_80, SM_90A]
        .iter()
        .flat_map(|target| cases(target).into_iter().map(|case| path(&case.name, target)))
        .collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    for entry in fs::read_dir(folder).expect("the snapshot folder exists") {
        let path = entry.expect("the snapshot folder can be read").path();
        assert!(expected.contains(&path), "no kernel prints {}", path.display());
    }
}

#[test]
fn building_twice_prints_the_same_text() {
    for case in cases(&SM_80) {
        assert_eq!(case.build(&SM_80).ptx(), case.build(&SM_80).ptx(), "{}", case.name);
    }
}

#[test]
fn what_is_printed_parses_back_to_the_same_tree() {
    for target in [SM_80, SM_90A] {
        for case in cases(&target) {
            let built = case.build(&target);
            let parsed = warpfold_ptx::parse(&built.ptx()).unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert_eq!(parsed, built.module, "{}", case.name);
        }
    }
}

//! What each kernel of a crate prints: equal to its file under `tests/snapshots/` of that crate,
//! and parsed back to the same tree. `UPDATE_SNAPSHOTS=1` rewrites the files. A test that includes
//! this module says by `super::kernels` which kernels there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use warpfold_kernels::Listed;
use warpfold_lang::{Arch, Built, Error, ErrorKind, Target};

use super::kernels;

const TARGETS: [Target; 2] = [Target::new(Arch::SM_80, (7, 4)), Target::new(Arch::SM_90A, (8, 0))];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

/// Every kernel for every target, with its snapshot's file.
fn printed() -> Vec<(PathBuf, Built)> {
    let of = |listed: &Listed, target: &Target| {
        let built = match listed.kernel.build(target) {
            Ok(built) => built,
            // The newest target has everything.
            Err(error) if *target == TARGETS[0] && is_lacking(&error) => return None,
            Err(error) => panic!("{error}"),
        };
        Some((folder().join(format!("{}.{}.ptx", built.entry, target.arch)), built))
    };
    kernels().iter().flat_map(|listed| TARGETS.iter().filter_map(move |target| of(listed, target))).collect()
}

/// Whether the kernel wants instructions or shared memory that the target has not.
fn is_lacking(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported { .. } | ErrorKind::NeedsSpecific { .. } | ErrorKind::TooMuchShared { .. }
    )
}

#[test]
fn every_kernel_prints_its_snapshot() {
    let update = std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1");
    let mut different = Vec::new();
    for (file, built) in printed() {
        let text = built.ptx();
        if update {
            fs::write(&file, text).expect("the snapshot folder can be written");
        } else if fs::read_to_string(&file).ok().as_deref() != Some(&text) {
            different.push(file);
        }
    }
    assert!(different.is_empty(), "differ from what is printed (UPDATE_SNAPSHOTS=1 accepts): {different:#?}");
}

#[test]
fn every_snapshot_belongs_to_a_kernel() {
    let expected: BTreeSet<_> = printed().into_iter().map(|(file, _)| file).collect();
    for entry in fs::read_dir(folder()).expect("the snapshot folder exists") {
        let file = entry.expect("the snapshot folder can be read").path();
        assert!(expected.contains(&file), "no kernel prints {}", file.display());
    }
}

#[test]
fn what_is_printed_parses_back_to_the_same_tree() {
    for (file, built) in printed() {
        let parsed = warpfold_ptx::parse(&built.ptx()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(parsed, built.module, "{}", file.display());
    }
}

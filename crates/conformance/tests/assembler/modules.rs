//! The modules of the repository: what its kernels print, and its `.ptx` files.

use std::path::{Path, PathBuf};

use warpfold_ladders::all_kernels;
use warpfold_lang::{Built, Error, Target};
use warpfold_ptx::{Module, parse};

use super::suite;

/// Every module, in an order that stays.
pub(crate) fn modules() -> impl Iterator<Item = Module> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["crates", "fixtures"] {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    let files = paths.into_iter().filter_map(|path| parse(&std::fs::read_to_string(path).expect("PTX is text")).ok());
    files.chain([suite::SM_80, suite::SM_90A].into_iter().flat_map(kernels))
}

/// The kernels that a target can run.
fn kernels(target: Target) -> impl Iterator<Item = Module> {
    let listed = all_kernels().into_iter().map(move |listed| listed.kernel.build(&target));
    let suite = suite::cases(&target).into_iter().map(move |case| Ok(case.build(&target)));
    listed.chain(suite).filter_map(|built: Result<Built, Error>| match built {
        Ok(built) => Some(built.module),
        Err(error) if error.is_unsupported() => None,
        Err(error) => panic!("{error}"),
    })
}

/// The `.ptx` files below a folder, less those that kernels print.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() && !path.ends_with("tests/snapshots") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            paths.push(path);
        }
    }
}

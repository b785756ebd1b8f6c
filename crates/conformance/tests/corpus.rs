//! Runs every kernel of the corpus (`corpus/README.md`) on the virtual GPU under all checks.

use std::process::Command;

use warpfold_conformance::corpus::{Case, Folder};

fn all() -> Vec<Case> {
    [Folder::Pass, Folder::Fault].into_iter().flat_map(|folder| Case::all(folder).unwrap()).collect()
}

#[test]
fn the_corpus_has_many_kernels_of_either_kind() {
    assert!(Case::all(Folder::Pass).unwrap().len() >= 25);
    assert!(Case::all(Folder::Fault).unwrap().len() >= 25);
}

#[test]
fn every_kernel_survives_printing_and_parsing() {
    for case in all() {
        let tree = warpfold_ptx::parse(&case.text).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let again = warpfold_ptx::parse(&tree.to_string()).unwrap_or_else(|e| panic!("{} printed: {e}", case.name));
        assert_eq!(tree, again, "{}", case.name);
    }
}

/// Only where the environment variable `PTXAS` names an assembler, as in CI.
#[test]
fn every_kernel_assembles() {
    let Some(ptxas) = std::env::var_os("PTXAS") else { return };
    for case in all() {
        let file = std::env::temp_dir().join(format!("warpfold-corpus-{}-{}.ptx", std::process::id(), case.name));
        std::fs::write(&file, &case.text).unwrap();
        let output = Command::new(&ptxas)
            .arg(format!("-arch={}", case.target))
            .arg(&file)
            .args(["-o", "/dev/null"])
            .output()
            .unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(output.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&output.stderr));
    }
}

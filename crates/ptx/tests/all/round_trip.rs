//! Real PTX text survives parse, print, parse.

use std::path::{Path, PathBuf};

/// Every `.ptx` file below `folder`; none when it does not exist.
fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.is_dir() {
            files.extend(ptx_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn every_file_prints_to_text_that_parses_to_the_same_tree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = ptx_files(&root.join("tests/files"));
    assert!(!own.is_empty(), "no files to test");
    for path in own.into_iter().chain(ptx_files(&root.join("../../fixtures"))) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let module = warpfold_ptx::parse(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        let printed = module.to_string();
        let again = warpfold_ptx::parse(&printed)
            .unwrap_or_else(|error| panic!("{}, printed:{error}\n{printed}", path.display()));
        assert!(again == module, "{} changes when printed", path.display());
        assert_eq!(again.to_string(), printed, "{} prints in two ways", path.display());
    }
}

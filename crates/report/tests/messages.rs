//! What rustc says to lines that do not compile is what the book quotes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The library that the book's programs use, as it lies beside this test: the newest of its builds.
fn library() -> PathBuf {
    let deps = std::env::current_exe().expect("a test is a program").parent().expect("in a folder").to_owned();
    let files = fs::read_dir(&deps).expect("readable").map(|entry| entry.expect("readable").path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libwarpfold_lang-") && name.ends_with(".rlib")
    };
    let age = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).expect("it has an age");
    files.filter(is_library).max_by_key(age).expect("this crate depends on it")
}

/// What rustc says to a program, without drawings and positions.
fn said(program: &str) -> String {
    let (library, rustc) = (library(), std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let mut child = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "-o", "/dev/null", "-"])
        .arg("-L")
        .arg(format!("dependency={}", library.parent().expect("a folder").display()))
        .arg("--extern")
        .arg(format!("warpfold_lang={}", library.display()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rustc runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), program.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "this compiles:\n{program}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn rustc_says_to_the_six_lines_what_the_book_quotes() {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/if-you-know-cuda.md");
    let text = fs::read_to_string(chapter).expect("there is a chapter");
    let blocks: Vec<&str> = text.split("```rust,compile_fail").skip(1).filter_map(|b| b.split("```").next()).collect();
    assert_eq!(blocks.len(), 6);
    for block in blocks {
        let is_quote = |line: &&str| line.trim_start().starts_with("// ");
        let code = block.lines().filter(|line| !is_quote(line)).collect::<Vec<_>>().join("\n");
        let said = said(&format!("fn main() {{\n{code}\n}}\n"));
        let quotes: Vec<&str> = block.lines().filter(is_quote).map(|line| &line.trim_start()[3..]).collect();
        assert!(!quotes.is_empty(), "{block}");
        for quote in quotes {
            // A label stands behind the marks under the code that it is about.
            assert!(said.contains(quote), "rustc does not say '{quote}' to\n{code}\nbut\n{said}");
        }
    }
}

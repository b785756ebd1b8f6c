//! Names that stand for nothing, for two things or for the wrong one are found; real text has none.

use std::path::{Path, PathBuf};

use warpfold_ptx::{parse, verify};

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let module = parse(&format!(".version 8.7\n.target sm_90a\n.address_size 64\n{text}")).expect("valid PTX");
    let findings: Vec<_> = verify(&module).iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected, "{text}");
}

#[track_caller]
fn check_body(statements: &str, expected: &[&str]) {
    check(&format!(".entry k(.param .u64 a) {{\n{statements}\n}}"), expected);
}

#[test]
fn an_undeclared_name_is_found_wherever_it_stands() {
    check_body("mov.b32 x, 1;", &["5:1: `x` is not declared (in `k`)"]);
    check_body(
        ".reg .b32 r; mov.b64 {r, y}, [z+4];",
        &["5:14: `y` is not declared (in `k`)", "5:14: `z` is not declared (in `k`)"],
    );
    check_body("@!q ret;", &["5:1: `q` is not declared (in `k`)"]);
    check_body("bra nowhere;", &["5:1: `nowhere` is not declared (in `k`)"]);
    check_body("call f, ();", &["5:1: `f` is not declared (in `k`)"]);
    check(
        ".entry k() {\nmov.b64 a, b;\n} .global .u32 b;",
        &["5:1: `a` is not declared (in `k`)", "5:1: `b` is not declared (in `k`)"],
    );
    check(".func f() { ret; } .alias g, f;", &["0:0: `g` is not declared"]);
    check(".global .u64 p[] = {0, generic(q)+4};", &["4:14: `q` is not declared"]);
}

#[test]
fn a_set_declares_exactly_its_numbers() {
    check_body(".reg .b32 %r<11>; mov.b32 %r0, %r10;", &[]);
    check_body(".reg .b32 %r1<3>; mov.b32 %r10, %r12;", &[]);
    check_body(".reg .b32 %r<11>; mov.b32 %r11, 1;", &["5:19: `%r11` is not declared (in `k`)"]);
    check_body(".reg .b32 %r<2>; mov.b32 %r, 1;", &["5:18: `%r` is not declared (in `k`)"]);
}

#[test]
fn a_name_ends_with_its_scope_and_may_be_hidden() {
    check_body("{ .reg .b32 x; } mov.b32 x, 1;", &["5:18: `x` is not declared (in `k`)"]);
    check_body(".reg .pred x; { .reg .b32 x; mov.b32 x, 1; } @x ret;", &[]);
    check_body("{ bra l; } l: { m: bra m; } { m: bra m; }", &[]);
    check_body("bra m; { m: }", &["5:1: `m` is not declared (in `k`)"]);
}

#[test]
fn a_repeated_name_is_found() {
    check_body("l: l: ret;", &["5:4: `l` is declared twice in one scope (in `k`)"]);
    check_body(".reg .b32 x, x;", &["4:8: `x` is declared twice in one scope (in `k`)"]);
    check_body(".reg .b32 x<3>; .shared .b32 x1;", &["5:30: `x1` is declared twice in one scope (in `k`)"]);
    check_body(".reg .b32 a;", &["4:8: `a` is declared twice in one scope (in `k`)"]);
    check(".func f(); .func f() { ret; } .func f();", &[]);
    check(".func f() { ret; } .global .u32 f;", &["4:33: `f` is declared twice in one scope"]);
    check(".extern .global .u32 v; .extern .global .u32 v; .global .u32 v;", &[]);
}

#[test]
fn guards_are_predicates_and_branches_go_to_labels() {
    check_body(".reg .b32 x; @x ret;", &["5:14: `x` is not a predicate (in `k`)"]);
    check_body(".reg .b32 x; .reg .pred p; and.pred p, p, !x;", &["5:28: `x` is not a predicate (in `k`)"]);
    check_body(".reg .b32 x; bra x;", &["5:14: `x` is not a label (in `k`)"]);
    check_body("t: .branchtargets a;", &["4:8: `a` is not a label (in `k`)"]);
}

/// Every `.ptx` file below `folder`.
fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let is_ptx = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ptx");
    paths.flat_map(|path| if path.is_dir() { ptx_files(&path) } else { vec![path] }).filter(is_ptx).collect()
}

#[test]
fn text_that_ptxas_accepts_has_no_findings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = ptx_files(&root.join("tests/files"));
    assert!(!own.is_empty(), "no files to test");
    for path in own.into_iter().chain(ptx_files(&root.join("../../fixtures"))) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let module = parse(&text).expect("valid PTX");
        let findings: Vec<_> = verify(&module).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{}: {findings:#?}", path.display());
    }
}

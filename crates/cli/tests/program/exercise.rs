//! `warpfold exercise`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Outcome, finish, program, refused};

/// A folder that is not there yet.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exercises-{name}"));
    fs::remove_dir_all(&folder).ok();
    folder
}

fn exercise(folder: &Path, args: &[&str]) -> Outcome {
    let folder = folder.to_str().expect("a name");
    finish(&mut program(&[&["exercise"], args, &["--folder", folder]].concat()))
}

/// The exercise `index`, as PTX that another compiler might have made.
const INDEX: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry index(.param .u64 y, .param .u32 n)
{
    .reg .b32 %r<2>;
    .reg .b64 %d<4>;
    .reg .f32 %f;
    ld.param.u64 %d0, [y];
    cvta.to.global.u64 %d1, %d0;
    mov.u32 %r0, %tid.x;
    cvt.rn.f32.u32 %f, %r0;
    mul.wide.u32 %d2, %r0, 4;
    add.u64 %d3, %d1, %d2;
    st.global.f32 [%d3], %f;
    ret;
}
";

#[test]
fn an_exercise_is_started_hinted_at_and_solved() {
    let folder = folder("steps");
    let list = exercise(&folder, &["list"]).ended_with(0).stdout;
    assert!(list.starts_with("[ ] index        Write its own position"), "{list}");
    assert!(list.ends_with("0 of 42 passed; next: warpfold exercise start index\n"), "{list}");
    let started = exercise(&folder, &["start"]).ended_with(0).stdout;
    assert!(started.starts_with("index: Write its own position to each of n places"), "{started}");
    assert!(started.ends_with("then: warpfold exercise check index\n"), "{started}");
    let file = folder.join("index.rs");
    assert!(fs::read_to_string(&file).expect("the file").contains("pub fn solution()"));
    let again = exercise(&folder, &["start", "index"]).ended_with(2).stderr;
    assert!(again.contains("it is there already"), "{again}");
    let hints: Vec<String> = (0..3).map(|_| exercise(&folder, &["hint", "index"]).ended_with(0).stdout).collect();
    assert!(hints[0].contains("(hint 1 of 2)") && hints[1].contains("(hint 2 of 2; no more"), "{hints:?}");
    assert_eq!(hints[1], hints[2]);
    let solution = exercise(&folder, &["solution", "warp_sum"]).ended_with(0).stdout;
    assert!(solution.contains("shfl_xor"), "{solution}");
    refused(&["exercise", "start", "indx"], 2, "no exercise is called 'indx'; did you mean 'index'?");
    refused(&["exercise", "check", "index", "--folder", "nowhere"], 2, "`warpfold exercise start index` writes");
}

#[test]
fn ptx_of_any_compiler_is_judged_and_remembered() {
    let folder = folder("ptx");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("index.ptx");
    let path = file.to_str().expect("a name");
    fs::write(&file, INDEX.replace("%tid.x", "%ctaid.x")).expect("a file");
    let launch = ["--grid", "1", "--block", "256"];
    let wrong = exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(1).stdout;
    assert!(wrong.starts_with("index: not yet\n  [ ] the result is wrong"), "{wrong}");
    assert!(wrong.ends_with("For the next thought: warpfold exercise hint index\n"), "{wrong}");
    fs::write(&file, INDEX).expect("a file");
    let right = exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(0).stdout;
    assert!(
        right.starts_with("index: passed\n") && right.ends_with("Next: warpfold exercise start blocks\n"),
        "{right}"
    );
    let list = exercise(&folder, &["list"]).ended_with(0).stdout;
    assert!(
        list.starts_with("[x] index") && list.contains("1 of 42 passed; next: warpfold exercise start blocks"),
        "{list}"
    );
    // A wrong kernel later takes nothing back.
    fs::write(&file, INDEX.replace("%tid.x", "%ctaid.x")).expect("a file");
    exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(1);
    assert!(exercise(&folder, &["list"]).ended_with(0).stdout.starts_with("[x] index"));
    let missing = exercise(&folder, &["check", path, "--grid", "1"]).ended_with(2).stderr;
    assert!(missing.contains("--block is needed"), "{missing}");
    fs::write(&file, INDEX.replace(".entry", ".func")).expect("a file");
    let none = exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(2).stderr;
    assert!(none.contains("one kernel is expected, not 0"), "{none}");
}

#[test]
fn a_kernel_in_rust_is_one_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exercises-rust");
    // The kernel language stays built from one run to the next.
    for name in ["index.rs", ".warpfold/progress.json"] {
        fs::remove_file(folder.join(name)).ok();
    }
    exercise(&folder, &["start", "index"]).ended_with(0);
    let start = exercise(&folder, &["check", "index"]).ended_with(1);
    assert!(start.stdout.starts_with("index: not yet\n"), "{start:?}");
    let solution = exercise(&folder, &["solution", "index"]).ended_with(0).stdout;
    fs::write(folder.join("index.rs"), &solution).expect("the file");
    let passed = exercise(&folder, &["check", "index"]).ended_with(0);
    assert!(passed.stdout.starts_with("index: passed\n"), "{passed:?}");
    fs::write(folder.join("index.rs"), solution.replace("y.at(i)", "y.at(j)")).expect("the file");
    let broken = exercise(&folder, &["check", "index"]).ended_with(2).stderr;
    assert!(broken.contains("cannot find value `j`") && broken.contains("does not build"), "{broken}");
    let outside = solution.replace("y.at(i)", "y.at(i + 1)");
    fs::write(folder.join("index.rs"), outside).expect("the file");
    let outside = exercise(&folder, &["check", "index"]).ended_with(1).stdout;
    // The line of the reader's own file.
    assert!(outside.contains("index.rs:") && outside.contains("[ ] the checks find an error"), "{outside}");
}

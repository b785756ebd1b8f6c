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
    assert!(list.ends_with("0 of 43 passed; next: warpfold exercise start index\n"), "{list}");
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
        list.starts_with("[x] index") && list.contains("1 of 43 passed; next: warpfold exercise start blocks"),
        "{list}"
    );
    // A wrong kernel later takes nothing back.
    fs::write(&file, INDEX.replace("%tid.x", "%ctaid.x")).expect("a file");
    exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(1);
    assert!(exercise(&folder, &["list"]).ended_with(0).stdout.starts_with("[x] index"));
    let missing = exercise(&folder, &["check", path, "--grid", "1"]).ended_with(2).stderr;
    assert!(missing.contains("--block is needed"), "{missing}");
    let unknown = exercise(&folder, &[&["check", path, "--allow", "race"], &launch[..]].concat()).ended_with(2).stderr;
    assert!(unknown.contains("one of warp_sync, invalid_sync, barrier_divergence is expected"), "{unknown}");
    exercise(&folder, &[&["check", path, "--allow", "warp_sync"], &launch[..]].concat()).ended_with(1);
    fs::write(&file, INDEX.replace(".entry", ".func")).expect("a file");
    let none = exercise(&folder, &[&["check", path], &launch[..]].concat()).ended_with(2).stderr;
    assert!(none.contains("one kernel is expected, not 0"), "{none}");
}

/// The exercise `streams`, as PTX that another compiler might have made.
const THRICE: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry thrice(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .b32 %r<4>;
    .reg .b64 %d<6>;
    .reg .f32 %f<2>;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %tid.x;
    mad.lo.u32 %r2, %r0, 256, %r1;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d3, %d0, %d2;
    add.u64 %d4, %d1, %d2;
    ld.global.f32 %f0, [%d3];
    mul.f32 %f1, %f0, 0f40400000;
    st.global.f32 [%d4], %f1;
    ret;
}
";

#[test]
fn a_plan_of_streams_is_judged_with_its_kernel_and_takes_a_place() {
    let folder = folder("plan");
    fs::create_dir_all(&folder).expect("a folder");
    let (file, plan) = (folder.join("streams.ptx"), folder.join("plan"));
    fs::write(&file, THRICE).expect("a file");
    let paths = [file.to_str().expect("a name"), plan.to_str().expect("a name")];
    let judged = |text: &str, code: i32| {
        fs::write(&plan, text).expect("a file");
        let args = ["check", paths[0], "--grid", "4", "--block", "256", "--plan", paths[1]];
        exercise(&folder, &args).ended_with(code).stdout
    };
    let parts = |streams: [u32; 4]| {
        let part =
            |(part, stream): (usize, u32)| format!("{stream} in {part}\n{stream} run {part}\n{stream} out {part}\n");
        (0..).zip(streams).map(part).collect::<String>()
    };
    let serial = judged(&parts([0; 4]), 1);
    assert!(serial.contains("[ ] at most 6 steps to the result: 12 (place 2 of 3; the solution has 6)"), "{serial}");
    let overlapped = judged(&parts([0, 1, 2, 0]), 0);
    assert!(overlapped.contains("[x] at most 6 steps to the result: 6 (place 1 of 3"), "{overlapped}");
    let unordered = judged("0 in 0\n1 run 0\n", 1);
    assert!(unordered.contains("'1 run 0' may begin before 'in 0' has ended"), "{unordered}");
}

/// The exercise `guard`, in Triton.
const GUARD: &str = "
import triton
import triton.language as tl

GRID = [4, 1, 1]
NUM_WARPS = 8


@triton.jit
def solution(x, y, n, BLOCK: tl.constexpr = 256):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
";

/// Runs where `TRITON_PYTHON` names an interpreter with Triton.
#[test]
fn a_kernel_in_triton_is_judged() {
    let Some(python) = std::env::var_os("TRITON_PYTHON") else {
        eprintln!("skipped: TRITON_PYTHON names no interpreter");
        return;
    };
    let folder = folder("triton");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("guard.py");
    fs::write(&file, GUARD).expect("a file");
    let mut check = program(&["exercise", "check", file.to_str().expect("a name")]);
    let judged = finish(check.arg("--folder").arg(&folder).env("PYTHON", python)).ended_with(0).stdout;
    assert!(judged.starts_with("guard: passed\n"), "{judged}");
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

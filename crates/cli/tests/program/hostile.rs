//! Command lines drawn from a seed: whatever is typed, the program ends with one of its exit codes.

use crate::support::{finish, folder, npy, program, ptx};

/// Command lines that are tried.
const TRIED: usize = 60;
/// What they are made of.
const WORDS: &[&str] = &[
    "sim",
    "inspect",
    "run",
    "devices",
    "ladder",
    "list",
    "--grid",
    "--block",
    "--cluster",
    "--arg",
    "--shared",
    "--check",
    "--report",
    "--limit",
    "--memory",
    "--timeout",
    "--seed",
    "--entry",
    "--arch",
    "--list",
    "--help",
    "--",
    "-",
    "",
    "0",
    "-1",
    "1x1x1",
    "4,1,1",
    "4294967296",
    "18446744073709551616",
    "1e9",
    "nan",
    "all",
    "none",
    "json",
    "copy",
    "in=",
    "in=a.npy",
    "out=o.npy,f32,4x",
    "out=o.npy,f32,99999999999999x9999999",
    "u32=-1",
    "u32=",
    "f32=1e999",
    "bytes=0g",
    "bytes=",
    "struct=;;",
    "struct=8:u32=1",
    "tensormap=in=a.npy;box=0",
    "\u{e9}",
    "--arg=u64=0",
    "memory.npy",
    "sm_90a",
    "sum",
    "--axis",
    "--dtype",
    "f8",
];

#[test]
fn whatever_is_typed_ends_with_an_exit_code() {
    let here = folder("whatever_is_typed_ends_with_an_exit_code");
    std::fs::write(here.join("a.npy"), npy("<f4", "(4,)", &[0; 16])).expect("written");
    let kernel = ptx("copy");
    let mut seed = 1u64;
    let mut below = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).expect("small") % bound
    };
    for n in 0..TRIED {
        // Half of them begin like a launch that would work.
        let launch = ["sim", &kernel, "--entry", "copy", "--grid", "1", "--block", "32", "--limit", "1000", "--arg"];
        let mut args: Vec<&str> = if n % 2 == 0 { launch.to_vec() } else { Vec::new() };
        args.extend((0..=below(6)).map(|_| WORDS[below(WORDS.len())]));
        let outcome = finish(program(&args).current_dir(&here).stdin(std::process::Stdio::null()));
        let is_known = (0..=4).contains(&outcome.code);
        assert!(is_known && !outcome.stderr.contains("panicked"), "{args:?}: {outcome:?}");
    }
}

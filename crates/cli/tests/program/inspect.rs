//! `warpfold inspect`.

use std::fs;

use crate::support::{Outcome, finish, folder, program, refused, warpfold};

/// A run that finds no ptxas.
fn inspect(args: &[&str]) -> Outcome {
    finish(program(&[&["inspect"], args].concat()).env("PATH", ""))
}

impl Outcome {
    fn has(&self, line: &str) {
        assert!(self.stdout.lines().any(|l| l == line), "no line `{line}` in:\n{}", self.stdout);
    }
}

#[test]
fn a_kernel_is_shown_with_what_it_takes() {
    let outcome = inspect(&["reduce/interleaved"]).ended_with(0);
    outcome.has(".target sm_90a");
    outcome.has("// reduce/interleaved (reduce_interleaved_i32) for sm_90a");
    outcome.has("// threads per block 256 (256x1x1)");
    outcome.has("// shared memory     1,024 bytes static");
    outcome.has("// ptxas             not found: name it in PTXAS, or put it on the path");
    let line = |start: &str| outcome.stdout.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("// parameters").ends_with(": 8 bytes at offset 0"), "{}", outcome.stdout);
    assert!(line("// registers").ends_with("live at once: the virtual GPU's estimate"), "{}", outcome.stdout);
    assert_eq!(line("// occupancy"), "// occupancy         100.0 %: 8 blocks per multiprocessor, limited by warps");
}

#[test]
fn what_a_plan_has_under_way_is_shown() {
    // Four loads of 16 bytes per thread, and six blocks of 256.
    let outcome = inspect(&["sum_f32_f32_rows"]).ended_with(0);
    outcome.has("// loads under way   64 bytes per thread, 96.0 KiB per multiprocessor");
    // Of a rung no plan says it.
    let rung = inspect(&["reduce/interleaved"]).ended_with(0);
    assert!(!rung.stdout.contains("loads under way"), "{}", rung.stdout);
}

#[test]
fn the_target_and_the_element_type_can_be_chosen() {
    let outcome = inspect(&["interleaved", "--target", "sm_80", "--dtype", "f32"]).ended_with(0);
    outcome.has(".target sm_80");
    outcome.has("// reduce/interleaved (reduce_interleaved_f32) for sm_80");
    inspect(&["reduce_interleaved_f32"]).ended_with(0).has("// reduce/interleaved (reduce_interleaved_f32) for sm_90a");
}

#[test]
fn what_is_printed_runs_as_it_is() {
    let folder = folder("what_is_printed_runs_as_it_is");
    let file = folder.join("k.ptx");
    fs::write(&file, inspect(&["reduce/sequential"]).ended_with(0).stdout).expect("written");
    let (file, sums) = (file.display().to_string(), format!("out={},i32,1", folder.join("y.npy").display()));
    let data: Vec<u8> = (0..256_i32).flat_map(i32::to_le_bytes).collect();
    let input = folder.join("x.npy");
    fs::write(&input, crate::support::npy("<i4", "(256,)", &data)).expect("written");
    let input = format!("in={}", input.display());
    let launch = ["--entry", "reduce_sequential_i32", "--grid", "1", "--block", "256", "--check", "all"];
    let args = [&["sim", &file], &launch[..], &["--arg", &input, "--arg", &sums, "--arg", "u32=256"]].concat();
    warpfold(&args).ended_with(0);
    let saved = fs::read(folder.join("y.npy")).expect("saved");
    assert_eq!(saved, crate::support::npy("<i4", "(1,)", &(255 * 256 / 2_i32).to_le_bytes()));
}

#[test]
fn names_that_mean_no_kernel_or_several_are_refused() {
    refused(&["inspect", "fold"], 2, "unknown kernel 'fold': `warpfold inspect --list` lists them");
    refused(&["inspect", "dot"], 2, "unknown kernel 'dot': expected one of dot/plain, dot/vec4, dot/single_pass");
    refused(&["inspect", "reduec/naive"], 2, "; did you mean 'reduce/naive'?");
    refused(&["inspect", "shared"], 2, "'shared' can mean histogram/shared or reduce-lessons/shared or sgemm/shared");
    refused(&["inspect", "reduce/naive", "--target", "sm_75"], 2, "unknown architecture 'sm_75'");
    refused(&["inspect", "reduce/naive", "--target", "sm_120"], 3, "or sm_90a, not sm_120");
    refused(&["inspect", "reduce/naive", "--dtype", "f16"], 2, "runs with i32 or f32, not with f16");
    refused(&["inspect", "softmax-vector/grid"], 2, "name softmax_grid_partials_f32 or softmax_grid_f32");
    refused(&["inspect", "gemv", "--dtype", "f32"], 2, "gemv has one element type");
}

#[test]
fn a_ptxas_that_is_named_but_does_not_run_is_an_error() {
    let outcome = finish(program(&["inspect", "reduce/naive"]).env("PTXAS", "/no/such/ptxas")).ended_with(2);
    assert!(outcome.stderr.starts_with("error: cannot run /no/such/ptxas (PTXAS): "), "{}", outcome.stderr);
}

#[cfg(unix)]
mod with_ptxas {
    use super::{Outcome, finish, program};

    /// With a script in the place of ptxas.
    fn inspect_with(script: &str) -> Outcome {
        let path = format!("{}/tests/program/ptxas/{script}", env!("CARGO_MANIFEST_DIR"));
        finish(program(&["inspect", "reduce/naive"]).env("PTXAS", path)).ended_with(0)
    }

    #[test]
    fn its_figures_and_their_occupancy_are_shown() {
        let outcome = inspect_with("takes.sh");
        outcome.has("// ptxas             128 registers, no spills, 1024 bytes of shared memory");
        outcome.has("// occupancy, ptxas  25.0 %: 2 blocks per multiprocessor, limited by registers");
    }

    #[test]
    fn what_it_refuses_is_shown() {
        inspect_with("refuses.sh").has("// ptxas             refuses the text: ptxas fatal   : no");
    }
}

//! The rungs of attention end with the kernels of the library.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_ladders::attention::{DECODE, LADDER};
use warpfold_ladders::ladder::{Heads, Ladder, RunOptions, run};

/// Runs the last rung under every check.
#[track_caller]
fn check(ladder: &'static Ladder, heads: Heads, dtype: Dtype, begin: &str) {
    let last = ladder.rungs.last().expect("a ladder has rungs");
    assert_eq!(last.name, "shipped");
    let device = Device::virtual_gpu(Profile::H200);
    let (rungs, size) = (vec![last.name.to_owned()], heads.pack());
    let options = RunOptions { rungs, checks: Checks::All, repetitions: 1, ..RunOptions::default() };
    let report = run(&device, ladder, size, dtype, &options).unwrap_or_else(|error| panic!("{heads:?}: {error}"));
    assert_eq!(report.rungs.len(), 1, "{heads:?}: {:?}", report.absent);
    let rung = &report.rungs[0];
    assert!(rung.ok, "{heads:?}: max error {}, {:?}", rung.max_error, rung.failure);
    assert!(rung.findings.is_empty(), "{heads:?}: {:?}", rung.findings);
    let kernel = last.launches[0].kernel(dtype, size);
    assert!(kernel.name().starts_with(begin), "{heads:?}: {}", kernel.name());
}

const SMALL: Heads = Heads { length: 70, heads: 6, kv_heads: 2, head_dim: 64, sequences: 2, causal: false };

#[test]
fn the_last_rung_of_attention_is_the_kernel_of_the_library() {
    check(&LADDER, SMALL, Dtype::Bf16, "attention_wgmma_");
    check(&LADDER, Heads { head_dim: 128, causal: true, ..SMALL }, Dtype::F16, "attention_wgmma_");
    // Two segments of keys.
    let long = Heads { length: 1100, heads: 2, kv_heads: 1, sequences: 1, causal: true, ..SMALL };
    check(&LADDER, long, Dtype::Bf16, "attention_wgmma_");
}

#[test]
fn the_last_rung_of_decode_is_the_kernel_of_the_library_and_one_launch() {
    check(&DECODE, SMALL, Dtype::F16, "attention_wgmma_");
    // Blocks share keys, and the last of them merges.
    let long = Heads { length: 3000, head_dim: 128, sequences: 1, ..SMALL };
    check(&DECODE, long, Dtype::Bf16, "attention_wgmma_");
    let kernel = DECODE.rungs.last().expect("a ladder has rungs").launches[0].kernel(Dtype::Bf16, long.pack());
    assert!(kernel.name().ends_with("_merged"), "{}", kernel.name());
}

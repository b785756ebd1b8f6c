//! Bars and accesses of ladders, each from its own run.

use warpfold_device::Device;
use warpfold_ladders::ladder::{Metric, RunOptions, ladder, run};
use warpfold_sim::{MemorySpace, WarpAccess};

use super::Error;
use super::measured::{access_svg, ladder_svg};

/// A metric of some rungs of a ladder, or of all without any.
fn bars(device: &Device, (of, size): (&str, &str), rungs: &[&str], metric: Metric) -> Result<String, Error> {
    let of = ladder(of)?;
    let options = RunOptions { rungs: rungs.iter().map(ToString::to_string).collect(), ..RunOptions::default() };
    let report = run(device, of, of.parse_size(size)?, of.default_dtype(), &options)?;
    assert!(report.is_ok(), "a picture of ladder {}", of.name);
    Ok(ladder_svg(of, &report, metric).expect("the virtual GPU counts"))
}

/// The first access of a rung's first launch that `is_meant`.
fn access(
    device: &Device,
    (of, rung, size): (&str, &str, &str),
    title: &str,
    is_meant: impl Fn(&str, &WarpAccess) -> bool,
) -> Result<String, Error> {
    let of = ladder(of)?;
    let options = RunOptions { rungs: vec![rung.to_owned()], record: Some(8), ..RunOptions::default() };
    let report = run(device, of, of.parse_size(size)?, of.default_dtype(), &options)?;
    let instructions = &report.rungs[0].launches[0].report.instructions;
    let mut all = instructions.iter().flat_map(|i| i.accesses.iter().map(move |access| (i.text.as_str(), access)));
    let (_, found) = all.find(|(text, access)| is_meant(text, access)).expect("such an access was recorded");
    Ok(access_svg(title, found))
}

fn is_load(text: &str, access: &WarpAccess) -> bool {
    text.starts_with("ld.") && access.space == MemorySpace::Global
}

/// Whether lanes store to shared memory so many bytes apart.
fn stores_apart(bytes: u64) -> impl Fn(&str, &WarpAccess) -> bool {
    move |text, access| text.starts_with("st.shared") && access.addresses[1] == access.addresses[0] + bytes
}

/// Functions that draw a metric.
macro_rules! bars {
    ($($name:ident $ladder:literal $size:literal $rungs:tt $metric:ident;)+) => {$(
        pub(super) fn $name(device: &Device) -> Result<String, Error> {
            bars(device, ($ladder, $size), &$rungs, Metric::$metric)
        }
    )+};
}

bars! {
    vector_add "vector-add" "65536" [] Instructions;
    reduce "reduce" "65536" [] StoreConflicts;
    reduce_instructions "reduce" "65536" [] Instructions;
    // Blocks of the other two wait for one another: how often they look is a matter of time.
    scan "scan" "65536" ["hillis_steele", "blelloch", "shuffle"] Barriers;
    softmax "softmax" "65536" [] LoadSectors;
    relu "relu" "65536" [] GlobalLoads;
    sigmoid "sigmoid" "65536" [] Instructions;
    histogram "histogram" "65536" [] Atomics;
    histogram_conflicts "histogram" "65536" [] AtomicConflicts;
    gemv "gemv" "65536" [] LoadSectors;
    sgemm "sgemm" "128" [] LoadSectors;
    sgemm_shared "sgemm" "128" [] SharedLoadsPerOutput;
    hgemm "hgemm" "256" [] Instructions;
    conv "conv" "2x16" [] LoadBytes;
    attention "attention" "128x2x2x64x1" [] LoadBytes;
    attention_scores "attention" "128x2x2x64x1" [] StoreBytes;
}

pub(super) fn vector_add_grid(device: &Device) -> Result<String, Error> {
    access(device, ("vector-add", "grid", "65536"), "grid loads", is_load)
}

pub(super) fn vector_add_vec4(device: &Device) -> Result<String, Error> {
    access(device, ("vector-add", "grid_vec4", "65536"), "grid_vec4 loads", is_load)
}

pub(super) fn interleaved_banks(device: &Device) -> Result<String, Error> {
    access(device, ("reduce", "interleaved", "65536"), "interleaved stores, stride 8", stores_apart(32))
}

pub(super) fn sequential_banks(device: &Device) -> Result<String, Error> {
    access(device, ("reduce", "sequential", "65536"), "sequential stores", stores_apart(4))
}

pub(super) fn sgemm_naive(device: &Device) -> Result<String, Error> {
    access(device, ("sgemm", "naive", "128"), "naive loads", is_load)
}

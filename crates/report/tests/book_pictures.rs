//! The pictures of the book: made from runs on the virtual GPU, and committed.
//!
//! `UPDATE_PICTURES=1 cargo test --release -p warpfold-report --test book_pictures` writes them;
//! without it they have to be as the runs are.

use std::fs;
use std::path::{Path, PathBuf};

use warpfold_device::{Device, Profile};
use warpfold_ladders::ladder::{Metric, RunOptions, ladder, run};
use warpfold_report::{access_svg, ladder_svg};
use warpfold_sim::{MemorySpace, WarpAccess};

/// The largest file that belongs into a repository of sources.
const MOST_BYTES: usize = 20_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/pictures")
}

#[track_caller]
fn is_as_drawn(name: &str, svg: &str) {
    let file = folder().join(name);
    assert!(svg.len() < MOST_BYTES, "{name} has {} bytes", svg.len());
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        fs::write(&file, svg).expect("the folder is there");
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == svg, "docs/book/src/pictures/{name} is not as it is drawn: UPDATE_PICTURES=1 writes it");
}

/// A metric of each rung of a ladder.
#[track_caller]
fn bars(name: &str, of: &str, size: &str, metric: Metric) {
    bars_of(name, (of, &[]), size, metric);
}

/// A metric of some rungs of a ladder, or of all.
#[track_caller]
fn bars_of(name: &str, (of, rungs): (&str, &[&str]), size: &str, metric: Metric) {
    let (device, ladder) = (Device::virtual_gpu(Profile::H200), ladder(of).expect("there is one"));
    let size = ladder.parse_size(size).expect("a size");
    let options = RunOptions { rungs: rungs.iter().map(ToString::to_string).collect(), ..RunOptions::default() };
    let report = run(&device, ladder, size, ladder.default_dtype(), &options).expect("it runs");
    assert!(report.is_ok(), "{name}");
    is_as_drawn(name, &ladder_svg(ladder, &report, metric).expect("there are counters"));
}

/// The access of a rung's first launch that `is_meant`.
#[track_caller]
fn access(name: &str, (of, rung, size): (&str, &str, &str), title: &str, is_meant: impl Fn(&str, &WarpAccess) -> bool) {
    let (device, ladder) = (Device::virtual_gpu(Profile::H200), ladder(of).expect("there is one"));
    let size = ladder.parse_size(size).expect("a size");
    let options = RunOptions { rungs: vec![rung.to_owned()], record: Some(8), ..RunOptions::default() };
    let report = run(&device, ladder, size, ladder.default_dtype(), &options).expect("it runs");
    let instructions = &report.rungs[0].launches[0].report.instructions;
    let mut all = instructions.iter().flat_map(|i| i.accesses.iter().map(move |access| (i.text.as_str(), access)));
    let (_, found) = all.find(|(text, access)| is_meant(text, access)).expect("such an access was recorded");
    is_as_drawn(name, &access_svg(title, found));
}

#[test]
fn pictures_of_one_thread_to_a_grid_are_as_the_runs() {
    bars("vector-add.svg", "vector-add", "65536", Metric::Instructions);
    let is_load = |text: &str, access: &WarpAccess| text.starts_with("ld.") && access.space == MemorySpace::Global;
    access("vector-add-grid.svg", ("vector-add", "grid", "65536"), "grid loads", is_load);
    access("vector-add-vec4.svg", ("vector-add", "grid_vec4", "65536"), "grid_vec4 loads", is_load);
}

#[test]
fn pictures_of_the_reduction_are_as_the_runs() {
    bars("reduce.svg", "reduce", "65536", Metric::StoreConflicts);
    bars("reduce-instructions.svg", "reduce", "65536", Metric::Instructions);
    let is_store = |text: &str, a: &WarpAccess| text.starts_with("st.shared") && a.addresses[1] == a.addresses[0] + 32;
    access("interleaved-banks.svg", ("reduce", "interleaved", "65536"), "interleaved stores, stride 8", is_store);
    let is_store = |text: &str, a: &WarpAccess| text.starts_with("st.shared") && a.addresses[1] == a.addresses[0] + 4;
    access("sequential-banks.svg", ("reduce", "sequential", "65536"), "sequential stores", is_store);
}

#[test]
fn pictures_of_rows_are_as_the_runs() {
    bars("softmax.svg", "softmax", "65536", Metric::LoadSectors);
    // Blocks of the other two wait for one another: how often they look is a matter of time.
    let rungs = ["hillis_steele", "blelloch", "shuffle"];
    bars_of("scan.svg", ("scan", &rungs), "65536", Metric::Barriers);
}

#[test]
fn pictures_of_products_are_as_the_runs() {
    bars("sgemm.svg", "sgemm", "128", Metric::LoadSectors);
    bars("sgemm-shared.svg", "sgemm", "128", Metric::SharedLoadsPerOutput);
    bars("hgemm.svg", "hgemm", "256", Metric::Instructions);
    let is_load = |text: &str, access: &WarpAccess| text.starts_with("ld.") && access.space == MemorySpace::Global;
    access("sgemm-naive.svg", ("sgemm", "naive", "128"), "naive loads", is_load);
}

#[test]
fn pictures_of_attention_are_as_the_runs() {
    bars("attention.svg", "attention", "128x2x2x64x1", Metric::LoadBytes);
    bars("attention-scores.svg", "attention", "128x2x2x64x1", Metric::StoreBytes);
}

//! `warpfold sim` on what other compilers wrote.

use std::fs;
use std::path::Path;

use crate::support::{folder, npy, warpfold};

/// A file of the repository's foreign PTX.
fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).display().to_string()
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

#[test]
fn a_triton_kernel_takes_zeros_for_its_scratch_pointers() {
    let folder = folder("a_triton_kernel_takes_zeros_for_its_scratch_pointers");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("a.npy"), npy("<f4", "(1000,)", &floats((0..1000).map(|i| i as f32)))).expect("written");
    fs::write(path("b.npy"), npy("<f4", "(1000,)", &floats((0..1000).map(|i| 0.5 * i as f32)))).expect("written");
    let specs =
        [format!("in={}", path("a.npy")), format!("in={}", path("b.npy")), format!("out={},f32,1000", path("c.npy"))];
    let file = fixture("triton/vector_add.sm_80.ptx");
    let mut args = vec!["sim", &file, "--entry", "triton_vector_add", "--grid", "1", "--block", "128"];
    args.extend(["--check", "all", "--report", "json"]);
    let zeros = ["u32=1000", "u64=0", "u64=0"];
    args.extend(specs.iter().map(String::as_str).chain(zeros).flat_map(|spec| ["--arg", spec]));
    let report = warpfold(&args).ended_with(0).json();
    // 1000 floats are 125 sectors, of each input and of the output. A thread has four neighbours
    // and accesses each by an instruction of its own, so that every sector is asked for four times.
    assert_eq!(report["counters"]["global_load_sectors"], 4 * 250);
    assert_eq!(report["counters"]["global_store_sectors"], 4 * 125);
    let expected = floats((0..1000).map(|i| 1.5 * i as f32));
    assert_eq!(fs::read(path("c.npy")).expect("saved"), npy("<f4", "(1000,)", &expected));
}

#[test]
fn a_kernel_of_nvcc_has_the_bank_conflicts_of_ours() {
    let folder = folder("a_kernel_of_nvcc_has_the_bank_conflicts_of_ours");
    let path = |name: &str| folder.join(name).display().to_string();
    let data: Vec<u8> = (0..4096_i32).flat_map(i32::to_le_bytes).collect();
    fs::write(path("x.npy"), npy("<i4", "(4096,)", &data)).expect("written");
    let specs = [format!("in={}", path("x.npy")), format!("out={},i32,16", path("y.npy")), "u32=4096".to_owned()];
    let file = fixture("nvcc/reduce.sm_80.ptx");
    let mut args = vec!["sim", &file, "--entry", "interleaved", "--grid", "16", "--block", "256"];
    args.extend(["--check", "all", "--report", "json"]);
    args.extend(specs.iter().flat_map(|spec| ["--arg", spec.as_str()]));
    let report = warpfold(&args).ended_with(0).json();
    assert_eq!(report["counters"]["shared_store_bank_conflicts"], 35 * 16);
    let sums = (0..16_i32).flat_map(|block| (0..256).map(|i| 256 * block + i).sum::<i32>().to_le_bytes());
    assert_eq!(fs::read(path("y.npy")).expect("saved"), npy("<i4", "(16,)", &sums.collect::<Vec<u8>>()));
}

//! Plans of operators that memory limits have enough of it under way: at least 48 KiB of loads a
//! multiprocessor of an H200, at the occupancy that registers leave: by ptxas's count where PTXAS
//! names it, by the virtual GPU's (mostly more) elsewhere.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use warpfold_kernels::{Listed, kernels, reductions};
use warpfold_lang::Target;
use warpfold_sim::occupancy::{Usage, occupancy};
use warpfold_sim::{Arch, Memory, Program};

/// What an H200 needs to be as fast as its memory: 4.8 TB/s over 132 multiprocessors for 1.3 us.
const ENOUGH: u64 = 48 << 10;

/// Kernels for long rows that lie as they should. Not here: rows too short for several loads, and
/// maps, which have 32 KiB of loads beside as much of stores by measurement (100 % of a copy; more
/// of them less).
const LIMITED_BY_MEMORY: &[&str] = &[
    "sum_f32_f32_rows",
    "cumsum_f32_f32_scan_rows",
    "cumsum_f64_f64_scan_rows",
    "cumsum_bf16_bf16_scan_rows",
    "cumsum_i64_i64_scan_columns",
    "cummax_f32_f32_scan_columns",
    "softmax_bf16_on_chip_32x4x8",
    "softmax_bf16_on_chip_512x4x8",
    "softmax_bf16_pieces_128x4x8_8",
    "softmax_bf16_pieces_256x16x8_3",
    "softmax_bf16_pieces_256x32x8_2_5kept_stored",
    "softmax_bf16_pieces_512x24x8_1_stored",
    "softmax_bf16_pieces_2x256x32x8_2_5kept_stored",
    "softmax_bf16_in_shared_256x16x1_2",
    "softmax_bf16_on_chip_8x512x4x8",
    "softmax_bf16_long_8",
    "softmax_f32_on_chip_128x8x4",
    "quantize_bf16_i8_on_chip_128x4x8",
    "gemv_split_f32_to_f32_w4",
    "gemv_columns_f32_to_f32_l32_w4",
    "gemv_rows_f64_l32_r2_u1_w2",
    "histogram_copies_u16_b1024_c4",
];

#[test]
fn plans_have_enough_bytes_under_way() {
    let all = kernels();
    let named = |name: &&str| {
        let listed = all.iter().find(|listed| listed.kernel.name() == *name);
        listed.unwrap_or_else(|| panic!("no kernel is {name}")).clone()
    };
    check(LIMITED_BY_MEMORY.iter().map(named));
}

#[test]
fn folds_have_enough_bytes_under_way() {
    if std::env::var_os("PTXAS").is_none() {
        println!("no ptxas is named (in PTXAS): the virtual GPU's estimate of registers is too high for folds");
        return;
    }
    let folds = reductions::kernels().into_iter();
    // Of the longest lists that there are each item meets every entry: instructions limit them.
    check(folds.filter(|listed| !listed.kernel.name().starts_with("topk")));
}

/// Prints what each has under way, and fails where that is not enough.
#[track_caller]
fn check(kernels: impl Iterator<Item = Listed>) {
    let all: Vec<_> = kernels.map(|listed| (listed.kernel.name().to_owned(), bytes_under_way(&listed))).collect();
    let few: Vec<_> = all.iter().filter(|(_, bytes)| *bytes < ENOUGH).collect();
    assert!(few.is_empty(), "too little is under way, of {ENOUGH} bytes: {few:?}");
}

/// Bytes of loads that a multiprocessor has under way.
fn bytes_under_way(listed: &Listed) -> u64 {
    let (arch, name) = (Arch::SM_90A, listed.kernel.name());
    let target = Target::new(arch, (8, 0));
    let in_flight = listed.in_flight.unwrap_or_else(|| panic!("no plan says what {name} has under way"));
    let built = listed.kernel.build(&target).unwrap_or_else(|error| panic!("{name}: {error}"));
    let memory = Memory::new(1 << 30);
    let text = built.ptx();
    let program = Program::load(&memory, &text, arch).unwrap_or_else(|error| panic!("{name}: {error}"));
    let info = program.kernel(&built.entry).expect("the kernel is in its module");
    let assembled = std::env::var_os("PTXAS").map(|ptxas| registers_of(ptxas.as_ref(), &text, name));
    let threads = listed.block.iter().product();
    let usage = Usage {
        threads,
        registers_per_thread: assembled.unwrap_or(info.registers),
        static_shared: info.static_shared,
        dynamic_shared: built.dynamic_shared_bytes as u32,
    };
    let bytes = in_flight * u64::from(occupancy(arch, &usage).blocks_per_sm * threads);
    let registers = usage.registers_per_thread;
    println!("{name}: {registers} registers, {in_flight} bytes a thread, {} KiB a multiprocessor", bytes >> 10);
    bytes
}

/// Registers a thread, as ptxas allocates them.
fn registers_of(ptxas: &Path, text: &str, name: &str) -> u32 {
    // Tests that run side by side assemble the same kernels.
    static NUM_FILES: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (std::process::id(), NUM_FILES.fetch_add(1, Ordering::Relaxed));
    let file = std::env::temp_dir().join(format!("warpfold-in-flight-{process}-{number}.ptx"));
    std::fs::write(&file, text).expect("the temporary folder can be written");
    let arguments = ["--gpu-name", "sm_90a", "--verbose", "--output-file", "/dev/null"];
    let output = Command::new(ptxas).args(arguments).arg(&file).output();
    std::fs::remove_file(&file).expect("the temporary file is ours");
    let output = output.unwrap_or_else(|error| panic!("cannot run {} (PTXAS): {error}", ptxas.display()));
    let log = String::from_utf8_lossy(&output.stderr);
    let registers = log.split_once("Used ").and_then(|(_, rest)| rest.split_once(" registers")?.0.parse().ok());
    registers.unwrap_or_else(|| panic!("ptxas says no registers of {name}: {log}"))
}

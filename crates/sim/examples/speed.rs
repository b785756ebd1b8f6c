//! Times the virtual GPU on foreign PTX: `cargo run --release -p warpfold-sim --example speed [interleaved|gemm|FILE ...]`.
#![allow(clippy::print_stdout, reason = "an example")]

use warpfold_sim::{Arch, Checks, Launch, Memory, Options, Program};

/// CPU seconds of this process: the machine may be busy with other things.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    let _ = stat;
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let _ = tasks;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let workers = std::env::args().nth(1).and_then(|w| w.parse().ok()).unwrap_or(2usize);
    let ptx = std::fs::read_to_string("fixtures/nvcc/reduce.sm_90a.ptx").expect("run from the repository root");
    let n = 1u32 << 25;
    let memory = Memory::new(1 << 34);
    let data: Vec<u8> = (0..n).flat_map(|i| (i % 7).to_le_bytes()).collect();
    let input = memory.allocate(u64::from(n) * 4, "input").unwrap();
    memory.write(input, &data).unwrap();
    let output = memory.allocate(u64::from(n) / 64, "output").unwrap();
    let program = Program::load(&memory, &ptx, Arch::SM_90A).unwrap();
    let only = std::env::args().nth(2).unwrap_or_default();
    for kernel in ["naive", "interleaved", "sequential"].into_iter().filter(|k| only.is_empty() || *k == only) {
        for checks in [Checks::None, Checks::All] {
            let mut params = Vec::new();
            params.extend(input.to_le_bytes());
            params.extend(output.to_le_bytes());
            params.extend(n.to_le_bytes());
            let launch = Launch {
                kernel: kernel.to_owned(),
                grid: [n / 256, 1, 1],
                block: [256, 1, 1],
                cluster: [1, 1, 1],
                dynamic_shared: 0,
                params,
                cooperative: false,
            };
            let options = Options { checks, workers: Some(workers), ..Options::default() };
            let start = cpu();
            let report = program.launch(&memory, &launch, &options).unwrap();
            let seconds = cpu() - start;
            let c = &report.counters;
            println!(
                "{kernel:12} {checks:?} {seconds:.3} s, {:.2} G thread-instructions/s, {:.1} ns a warp instruction a core, conflicts {} {}, findings {}",
                c.thread_instructions as f64 / seconds / 1e9,
                seconds * 1e9 / c.warp_instructions as f64,
                c.shared_load_bank_conflicts,
                c.shared_store_bank_conflicts,
                report.findings.len(),
            );
        }
    }
    let ptx = std::fs::read_to_string("fixtures/nvcc/gemm.sm_90a.ptx").unwrap();
    let program = Program::load(&memory, &ptx, Arch::SM_90A).unwrap();
    let n = 1024u32;
    let abc: Vec<u64> = (0..3).map(|_| memory.allocate(4 << 20, "m").unwrap()).collect();
    for &m in &abc[..2] {
        memory.write(m, &vec![0u8; 4 << 20]).unwrap();
    }
    let info = program.kernels()[0].clone();
    for checks in [Checks::None, Checks::All] {
        let mut params: Vec<u8> = abc.iter().flat_map(|a| a.to_le_bytes()).collect();
        for _ in 0..3 {
            params.extend(n.to_le_bytes());
        }
        params.truncate(info.param_bytes as usize);
        let launch = Launch {
            kernel: info.name.clone(),
            grid: [32, 32, 1],
            block: [32, 32, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            params,
            cooperative: false,
        };
        let options = Options { checks, workers: Some(workers), ..Options::default() };
        let start = cpu();
        let report = program.launch(&memory, &launch, &options).unwrap();
        let seconds = cpu() - start;
        let c = &report.counters;
        println!(
            "gemm {checks:?} {seconds:.3} s, {:.2} G thread-instructions/s, {:.1} ns a warp instruction a core, findings {}",
            c.thread_instructions as f64 / seconds / 1e9,
            seconds * 1e9 / c.warp_instructions as f64,
            report.findings.len(),
        );
    }
}

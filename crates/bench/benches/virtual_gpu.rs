//! The speed of the virtual GPU: `cargo bench -p warpfold-bench --bench virtual_gpu`.
//!
//! Prints a table: wall and processor seconds of a launch, thread-instructions a second for each
//! core, and what all checks cost. Processor seconds are what to compare on a machine that does
//! other things, too.

use std::time::Instant;

use warpfold_device::{Arguments, Device, Function, LaunchConfig, Profile};
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{self, RunOptions};
use warpfold_ladders::{gemm, rungs};
use warpfold_sim::Checks;

/// Elements of the reductions, as in the ladder.
const SIZE: u32 = 1 << 25;
/// Rows and columns of the matrices.
const MATRIX: u32 = 1024;

type Failure = Box<dyn std::error::Error>;

/// What one run took.
struct Run {
    wall: f64,
    /// `None` where the host does not tell.
    processor: Option<f64>,
    thread_instructions: u64,
    warp_instructions: u64,
}

fn main() -> Result<(), Failure> {
    let cores = std::thread::available_parallelism()?.get();
    println!("virtual GPU on {cores} cores; counters on; seconds a launch");
    println!(
        "{:<34}{:>8}{:>8}{:>10}{:>14}{:>12}{:>10}",
        "kernel", "workers", "wall", "processor", "G thread-i/s", "ns/warp-i", "checks"
    );
    let device = Device::virtual_gpu(Profile::H200);
    let input: Vec<i32> = (0..SIZE as i32).map(|i| i % 1000 - 500).collect();
    let input = device.upload_named("input", &input)?;
    let mut sums = device.alloc_named::<i32>("sums", SIZE as usize / 64)?;
    for rung in ["naive", "interleaved", "sequential", "unroll_all", "shuffle"] {
        let listed = rungs().into_iter().find(|k| k.kernel.name() == format!("reduce_{rung}_i32"));
        let listed = listed.ok_or_else(|| format!("no kernel reduce_{rung}_i32"))?;
        let function = listed.kernel.prepare(&device)?;
        let blocks = (ladder::ladder("reduce")?.rung(rung)?.launches[0].config)(u64::from(SIZE));
        let arguments = Arguments::new().input(&input).output(&mut sums).value(SIZE);
        row(&device, &format!("reduce/{rung}, {SIZE} i32"), cores, &function, blocks, &arguments)?;
    }
    drop((input, sums));

    let elements = (MATRIX * MATRIX) as usize;
    let a = device.upload_named("a", &vec![0.5f32; elements])?;
    let b = device.upload_named("b", &vec![0.25f32; elements])?;
    let mut c = device.alloc_named::<f32>("c", elements)?;
    let function = device.prepare(&gemm::ladder::shared())?;
    let size = ladder::pack([MATRIX as usize; 3]);
    let config = (ladder::ladder("sgemm")?.rung("shared")?.launches[0].config)(size);
    let arguments = Arguments::new().input(&a).input(&b).output(&mut c).value(MATRIX).value(MATRIX).value(MATRIX);
    row(&device, "sgemm/shared, 1024 x 1024 x 1024 f32", cores, &function, config, &arguments)?;

    for checks in [Checks::None, Checks::All] {
        let options = RunOptions { checks, ..RunOptions::default() };
        let start = Instant::now();
        let report = ladder::run(&device, ladder::ladder("reduce")?, u64::from(SIZE), Dtype::I32, &options)?;
        let wall = start.elapsed().as_secs_f64();
        assert!(report.is_ok(), "the ladder is right");
        println!("whole ladder `reduce`, data and verification included, checks {checks:?}: {wall:.1} s");
    }
    Ok(())
}

/// Measures one launch with one worker and with all, without checks and with.
fn row(
    device: &Device,
    name: &str,
    cores: usize,
    function: &Function,
    config: LaunchConfig,
    arguments: &Arguments<'_>,
) -> Result<(), Failure> {
    let mut workers = vec![1, cores];
    workers.dedup();
    for workers in workers {
        let plain = run(device, Checks::None, workers, function, config, arguments)?;
        let checked = run(device, Checks::All, workers, function, config, arguments)?;
        let time = |run: &Run| run.processor.unwrap_or(run.wall);
        println!(
            "{name:<36}{workers:>6}{:>8.2}{:>10}{:>14.2}{:>12.1}{:>9.1}x",
            plain.wall,
            plain.processor.map_or_else(|| "-".to_owned(), |p| format!("{p:.2}")),
            plain.thread_instructions as f64 / time(&plain) / 1e9,
            time(&plain) / plain.warp_instructions as f64 * 1e9,
            time(&checked) / time(&plain),
        );
    }
    Ok(())
}

fn run(
    device: &Device,
    checks: Checks,
    workers: usize,
    function: &Function,
    config: LaunchConfig,
    arguments: &Arguments<'_>,
) -> Result<Run, Failure> {
    device.configure(|options| {
        options.checks = checks;
        options.workers = Some(workers);
    })?;
    let (start, processor) = (Instant::now(), processor_seconds());
    device.default_stream().launch_raw(function, config, arguments)?;
    let wall = start.elapsed().as_secs_f64();
    let processor = processor_seconds().zip(processor).map(|(end, start)| end - start);
    let report = device.last_report().ok_or("a virtual GPU keeps reports")?;
    let counters = report.report.counters;
    Ok(Run {
        wall,
        processor,
        thread_instructions: counters.thread_instructions,
        warp_instructions: counters.warp_instructions,
    })
}

/// Processor time of this process so far, where the host tells (Linux, in hundredths of a second).
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

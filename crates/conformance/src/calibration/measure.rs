//! Asks a device: runs the kernel of a case and reads the answer.

use warpfold_device::{Arguments, Device, Error, LaunchConfig};

use super::accesses::{Access, Kind};
use super::case::{Case, Observed, Probe};

/// Copies of an access in the body of the loop.
const COPIES: u32 = 8;
/// Bytes of global memory of one copy of one warp.
const PLACE_BYTES: u32 = 8192;
/// Warps that keep the pipeline full on hardware: a whole block.
const WARPS: u32 = 32;
/// Times around the loop on hardware.
const REPEATS: u32 = 256;
/// Runs on hardware; the fastest counts, since whatever disturbs a run makes it longer.
const RUNS: usize = 9;

/// Why a case has no answer.
#[derive(Debug)]
pub enum Failure {
    /// The device refused to load or run the kernel.
    Device(Error),
    /// The ruler is useless: its dear pattern took no longer than its cheap one.
    Ruler {
        /// Cycles of the cheap pattern.
        cheap: u64,
        /// Cycles of the dear one.
        dear: u64,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Ruler { cheap, dear } => write!(f, "no ruler: marks of {cheap} and {dear} cycles"),
        }
    }
}

impl std::error::Error for Failure {}

/// Runs a case on a device. On the virtual GPU this turns on counters per instruction for later
/// launches too.
///
/// # Errors
/// [`Failure`].
pub fn measure(case: &Case, device: &Device) -> Result<Observed, Failure> {
    match case.probe {
        Probe::Value { body, inputs } => Ok(Observed::Value(value(body, inputs, device)?)),
        Probe::Access(access) if device.is_virtual() => Ok(Observed::Cost(count(access, device)?)),
        Probe::Access(access) => Ok(Observed::Cost(time(access, device)?)),
    }
}

/// The PTX text that a case runs.
#[must_use]
pub fn ptx(case: &Case) -> String {
    match case.probe {
        Probe::Value { body, .. } => value_text(body),
        Probe::Access(access) => access_text(access.kind),
    }
}

fn value_text(body: &str) -> String {
    include_str!("value.ptx").replace("    // body\n", &format!("{body}\n"))
}

fn value(body: &str, inputs: [u64; 2], device: &Device) -> Result<u64, Error> {
    let kernel = device.load(&value_text(body))?.kernel("calibration")?;
    let inputs = device.upload(&inputs)?;
    let mut memory = device.upload(&[0_u64; 4])?;
    let mut value = device.upload(&[u64::MAX])?;
    let arguments = Arguments::new().input(&inputs).output(&mut memory).output(&mut value);
    device.default_stream().launch_raw(&kernel, LaunchConfig::new(1, 32), &arguments)?;
    drop(arguments);
    Ok(value.download()?[0])
}

/// The kernel of an access.
fn access_text(kind: Kind) -> String {
    let frame = if kind.is_global() { include_str!("global.ptx") } else { include_str!("shared.ptx") };
    let copies = |line: &str| -> String {
        let place = |n: u32| (n * PLACE_BYTES).to_string();
        (0..COPIES).map(|n| line.replace('#', &n.to_string()).replace("PLACE", &place(n)) + "\n").collect()
    };
    let accesses = copies(kind.instruction());
    let uses: String = kind.results().iter().map(|r| copies(&format!("xor.b32 sum, sum, {r};"))).collect();
    frame.replace("    // accesses\n", &accesses).replace("    // uses\n", &uses)
}

/// Cycles of one run.
fn run(kind: Kind, pattern: fn(u32) -> u32, warps: u32, repeats: u32, device: &Device) -> Result<u64, Error> {
    let kernel = device.load(&access_text(kind))?.kernel("calibration")?;
    let offsets: Vec<u32> = (0..32).map(pattern).collect();
    let offsets = device.upload(&offsets)?;
    let bytes = if kind.is_global() { warps * COPIES * PLACE_BYTES } else { 4 };
    let mut data = device.upload(&vec![0_u8; bytes as usize])?;
    let mut cycles = device.upload(&[0_u64])?;
    let mut sink = device.upload(&vec![0_u32; warps as usize * 32])?;
    let arguments =
        Arguments::new().input(&offsets).output(&mut data).output(&mut cycles).output(&mut sink).value(repeats);
    device.default_stream().launch_raw(&kernel, LaunchConfig::new(1, warps * 32), &arguments)?;
    drop(arguments);
    Ok(cycles.download()?[0])
}

/// The virtual GPU counts.
#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn count(access: Access, device: &Device) -> Result<f64, Error> {
    device.configure(|options| options.per_instruction = true)?;
    run(access.kind, access.pattern, 1, 1, device)?;
    let report = device.last_report().expect("the virtual GPU reports each launch").report;
    let is_asked = |text: &str| text.contains(".volatile.shared") || text.contains(".relaxed.gpu.global");
    let asked = report.instructions.iter().filter(|i| is_asked(&i.text));
    let (mut executions, mut cost) = (0, 0);
    for instruction in asked {
        executions += instruction.executions;
        cost += if access.kind.is_global() { instruction.sectors } else { instruction.wavefronts };
    }
    assert_eq!(executions, u64::from(COPIES), "each copy of the access runs once");
    Ok(cost as f64 / executions as f64)
}

/// Hardware is timed, and the cycles read off between two marks.
#[allow(clippy::cast_precision_loss, reason = "cycles are far below 2^52")]
fn time(access: Access, device: &Device) -> Result<f64, Failure> {
    let fastest = |pattern| -> Result<u64, Error> {
        let mut best = u64::MAX;
        for _ in 0..RUNS {
            best = best.min(run(access.kind, pattern, WARPS, REPEATS, device)?);
        }
        Ok(best)
    };
    let marks = access.kind.marks();
    let (cheap, dear) = (fastest(marks[0].pattern)?, fastest(marks[1].pattern)?);
    if dear <= cheap {
        return Err(Failure::Ruler { cheap, dear });
    }
    let asked = fastest(access.pattern)?;
    let share = (asked as f64 - cheap as f64) / (dear as f64 - cheap as f64);
    Ok(marks[0].cost as f64 + share * (marks[1].cost as f64 - marks[0].cost as f64))
}

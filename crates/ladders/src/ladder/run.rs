//! Runs a ladder on a device: each rung launched, timed or counted, judged and explained.

use std::fmt;
use std::sync::Arc;

use warpfold_device::{Checks, Counters, Device, Finding, LaunchReport};

use super::timing::{copy_gigabytes_per_second, median, timed};
use super::{Absent, Finish, Guards, Instance, Ladder, LadderReport, Launch, Rung, RungReport, Verdict, elements_of};
use crate::{Error, ErrorKind};
use warpfold_kernels::Dtype;
use warpfold_lang::ErrorKind as Lacking;

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// The rungs to run, by name; all of them if empty.
    pub rungs: Vec<String>,
    /// The checks to run under: [`Checks::All`] needs the virtual GPU.
    pub checks: Checks,
    /// Timed launches of each rung, at least one. Without a clock each rung runs once.
    pub repetitions: u32,
    /// Keep what each instruction of a launch counted, and so many accesses of one warp with their
    /// addresses, for pictures; without effect on CUDA.
    pub record: Option<usize>,
    /// Count hits in the model of the L1; needs the virtual GPU.
    pub l1: bool,
    /// Keep what a [prediction of time](warpfold_device::Report::predict) needs, in the reports of
    /// launches; needs the virtual GPU.
    pub timing: bool,
    /// Told what is going on.
    pub progress: Option<ProgressFn>,
}

/// Progress callback.
pub type ProgressFn = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The rung that runs.
    pub rung: &'static str,
    /// Its position among the rungs to run.
    pub rung_idx: usize,
    /// Number of rungs to run.
    pub num_rungs: usize,
    /// Blocks finished and blocks in all of the launch; `None` before it, and on CUDA.
    pub blocks: Option<(u64, u64)>,
    /// Floating-point operations of the problem, where they and not bytes are what takes time.
    pub flops: Option<u64>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            rungs: Vec::new(),
            checks: Checks::None,
            repetitions: 20,
            record: None,
            l1: false,
            timing: false,
            progress: None,
        }
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("rungs", &self.rungs)
            .field("checks", &self.checks)
            .field("repetitions", &self.repetitions)
            .field("record", &self.record)
            .field("l1", &self.l1)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// Runs a ladder.
///
/// A rung that gives a wrong result, or fails on the virtual GPU, is reported as such, and the
/// others run on.
///
/// ```
/// use warpfold_device::{Device, Profile};
/// use warpfold_kernels::Dtype;
/// use warpfold_ladders::ladder::{RunOptions, ladder, run};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let report = run(&device, ladder("reduce")?, 10_000, Dtype::I32, &RunOptions::default())?;
/// assert!(report.is_ok());
/// println!("{}", report.rungs[0].sentence);
/// # Ok::<(), warpfold_ladders::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::UnknownRung`], [`ErrorKind::TooManyElements`], [`ErrorKind::NoRepetitions`];
/// [`ErrorKind::Device`] for checks and the L1 on CUDA, too little memory, and a failed launch on CUDA, behind
/// which nothing runs any more.
pub fn run(
    device: &Device,
    ladder: &'static Ladder,
    size: u64,
    dtype: Dtype,
    options: &RunOptions,
) -> Result<LadderReport, Error> {
    let rungs = chosen(ladder, &options.rungs)?;
    ladder.check_size(size)?;
    ladder.check_dtype(dtype)?;
    if options.repetitions == 0 {
        return Err(ErrorKind::NoRepetitions.into());
    }
    let _restore = configured(device, options)?;
    let guards = if options.checks == Checks::All { Guards::Checker } else { Guards::Bands };
    let mut instance = (ladder.open)(device, dtype, size, guards)?;
    let mut reports: Vec<RungReport> = Vec::new();
    let mut absent = Vec::new();
    for (rung_idx, rung) in rungs.iter().copied().enumerate() {
        if let Some(reason) = lacking(device, rung, (size, dtype))? {
            absent.push(Absent { name: rung.name, reason });
            continue;
        }
        let (num_rungs, flops) = (rungs.len(), instance.flops());
        let progress = Progress { rung: rung.name, rung_idx, num_rungs, blocks: None, flops };
        announce(device, options.progress.clone(), progress)?;
        let mut report = match run_rung(device, &mut *instance, rung, (size, dtype), options) {
            Err(error) if is_too_large(rung, size, &error) => {
                absent.push(Absent { name: rung.name, reason: error.to_string() });
                continue;
            }
            report => report?,
        };
        report.sentence = report.explain(rung, &reports, before(ladder, rung, &reports));
        reports.push(report);
    }
    Ok(LadderReport {
        ladder: ladder.name,
        device: device.to_string(),
        size,
        dtype,
        copy_gigabytes_per_second: device.unrecorded(|| copy_gigabytes_per_second(device))?,
        rungs: reports,
        absent,
    })
}

/// Elements that a rung of [`Finish::OneBlock`] takes: two per thread.
pub(crate) const ONE_BLOCK_MOST: usize = 2048;

/// Returns the requirement of a rung that the device or the element type does not meet.
fn lacking(device: &Device, rung: &Rung, (size, dtype): (u64, Dtype)) -> Result<Option<String>, Error> {
    if let Err(error) = rung.check_dtype(dtype) {
        return Ok(Some(error.to_string()));
    }
    if rung.finish == Finish::OneBlock && elements_of(size) > ONE_BLOCK_MOST {
        return Ok(Some(format!("its one block takes at most {ONE_BLOCK_MOST} elements")));
    }
    for launch in rung.launches {
        if let Err(error) = launch.kernel(dtype, size).build(&device.target()) {
            return match error.kind() {
                Lacking::Unsupported { .. } | Lacking::NeedsSpecific { .. } => Ok(Some(error.kind().to_string())),
                _ => Err(ErrorKind::Device(warpfold_device::ErrorKind::Build(error).into()).into()),
            };
        }
    }
    Ok(None)
}

/// The rungs of these names, in the ladder's order.
fn chosen(ladder: &'static Ladder, names: &[String]) -> Result<Vec<&'static Rung>, Error> {
    for name in names {
        ladder.rung(name)?;
    }
    let is_chosen = |rung: &&Rung| names.is_empty() || names.iter().any(|name| name == rung.name);
    Ok(ladder.rungs.iter().filter(is_chosen).collect())
}

/// The report of the rung that stands before this one in the ladder, if it was run.
fn before<'a>(ladder: &Ladder, rung: &Rung, reports: &'a [RungReport]) -> Option<&'a RungReport> {
    let position = ladder.rungs.iter().position(|other| other.name == rung.name)?;
    let name = ladder.rungs[position.checked_sub(1)?].name;
    reports.last().filter(|report| report.name == name)
}

/// Puts a virtual GPU's options back as they were.
struct Restore<'a> {
    device: &'a Device,
    checks: Checks,
    per_instruction: bool,
    record: usize,
    l1: bool,
    timing: bool,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let restored = self.device.configure(|options| {
            options.checks = self.checks;
            options.per_instruction = self.per_instruction;
            options.record = self.record;
            options.l1 = self.l1;
            options.timing = self.timing;
            options.progress = None;
        });
        debug_assert!(restored.is_ok(), "it is a virtual GPU: {restored:?}");
    }
}

/// Sets a virtual GPU's options; CUDA has none, and refuses checks and the model of the L1.
fn configured<'a>(device: &'a Device, asked: &RunOptions) -> Result<Option<Restore<'a>>, Error> {
    if !device.is_virtual() && asked.checks == Checks::None && !asked.l1 && !asked.timing {
        return Ok(None);
    }
    let mut before =
        Restore { device, checks: Checks::None, per_instruction: false, record: 0, l1: false, timing: false };
    device.configure(|options| {
        before.checks = std::mem::replace(&mut options.checks, asked.checks);
        (before.per_instruction, before.record) = (options.per_instruction, options.record);
        before.l1 = std::mem::replace(&mut options.l1, asked.l1);
        before.timing = std::mem::replace(&mut options.timing, asked.timing);
        if let Some(record) = asked.record {
            (options.per_instruction, options.record) = (true, record);
        }
    })?;
    Ok(Some(before))
}

fn announce(device: &Device, tell: Option<ProgressFn>, progress: Progress) -> Result<(), Error> {
    let Some(tell) = tell else { return Ok(()) };
    tell(&progress);
    if device.is_virtual() {
        device.configure(|options| {
            let tell = move |done, all| tell(&Progress { blocks: Some((done, all)), ..progress });
            options.progress = Some(Arc::new(tell));
        })?;
    }
    Ok(())
}

fn run_rung(
    device: &Device,
    instance: &mut dyn Instance,
    rung: &Rung,
    (size, dtype): (u64, Dtype),
    options: &RunOptions,
) -> Result<RungReport, Error> {
    let stream = device.default_stream();
    let prepare = |launch: &Launch| Ok((launch.kernel(dtype, size).prepare(device)?, (launch.config)(size)));
    let launches = rung.launches.iter().map(prepare).collect::<Result<Vec<_>, Error>>()?;
    let mut times = Vec::new();
    let mut failure = None;
    drop(device.take_reports());
    for _ in 0..if device.is_virtual() { 1 } else { options.repetitions } {
        instance.reset(rung)?;
        let run = || {
            for (launch_idx, (function, config)) in launches.iter().enumerate() {
                stream.launch_raw(function, *config, &instance.arguments(rung, launch_idx)?)?;
            }
            Ok(())
        };
        match timed(&stream, run) {
            Ok(time) => times.extend(time),
            Err(error) if is_failed_run(device, &error) => failure = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let Verdict { ok, max_error } = match failure {
        None => instance.verdict(rung)?,
        Some(_) => Verdict { ok: false, max_error: f64::INFINITY },
    };
    let mut launches = device.take_reports();
    let (counters, findings) = told(&launches);
    if options.record.is_none() && !options.timing {
        launches.clear();
    }
    let (seconds, bytes) = (median(times), instance.bytes());
    Ok(RungReport {
        name: rung.name,
        ok,
        max_error,
        seconds,
        bytes,
        gigabytes_per_second: seconds.map(|seconds| bytes as f64 / seconds / 1e9),
        flops: instance.flops(),
        teraflops_per_second: seconds.zip(instance.flops()).map(|(seconds, flops)| flops as f64 / seconds / 1e12),
        counters,
        launches,
        findings,
        failure,
        is_race: rung.finish == Finish::Race,
        blocks: rung.num_blocks(size),
        steps: rung.steps(),
        memory: instance.memory(),
        sentence: String::new(),
    })
}

/// Returns whether a cooperative launch has more blocks than the device can keep resident.
fn is_too_large(rung: &Rung, size: u64, error: &Error) -> bool {
    let is_refused = matches!(error.kind(), ErrorKind::Device(error)
        if matches!(error.kind(), warpfold_device::ErrorKind::InvalidLaunch { .. }));
    is_refused && rung.launches.iter().any(|launch| (launch.config)(size).cooperative)
}

/// Returns whether the rung is to blame, and the device still usable.
fn is_failed_run(device: &Device, error: &Error) -> bool {
    let ErrorKind::Device(error) = error.kind() else { return false };
    device.is_virtual() && matches!(error.kind(), warpfold_device::ErrorKind::LaunchFailed { .. })
}

/// Counters and findings of the launches; no counters on CUDA.
fn told(launches: &[LaunchReport]) -> (Option<Counters>, Vec<Finding>) {
    let reports = launches.iter().map(|launch| &launch.report);
    reports.fold((None, Vec::new()), |(counters, mut findings), report| {
        findings.extend(report.findings.iter().cloned());
        (Some(counters.unwrap_or_default() + report.counters), findings)
    })
}

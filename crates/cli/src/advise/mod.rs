//! `warpfold advise`: a kernel held against the checklist of optimisation, each point with its
//! number, the instruction that gives it, and what would fix it.

mod instruction;
mod next;
mod points;
mod report;
mod subject;

use clap::{Args, Parser};
use warpfold_device::Device;
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{self as ladders, Guards};

use crate::failure::Failure;
use crate::output::{PlainReportTo, ReportTo};
use crate::progress::Progress;
use crate::run::Run;
use crate::sim::Sim;
use crate::{Ending, device_choice};
use subject::{Subject, Texts};

/// Runs a kernel on the virtual GPU and goes through the checklist: are accesses coalesced and
/// vectorised, is what they load reused, are there atomics or bank conflicts, does it diverge, how
/// many registers, how high is the occupancy, can it be fused? Each point has its number, the line
/// that gives it, and what would fix it. `first` is the change that
/// the ladders make at such a kernel.
///
/// KERNEL is a rung of a ladder with --size, --dtype (advise reduce/interleaved), an operator with
/// its files and options (advise softmax x.npy), or a PTX file with the options of sim (advise
/// k.ptx --entry k --grid 1 --block 32 --arg in=x.npy). --report and -o stand before it, or after a
/// rung. Exit codes: 0 done, 2 bad usage, 3 PTX that is not supported, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Advise {
    #[command(flatten)]
    to: PlainReportTo,
    /// The kernel, and what it is run with.
    #[arg(value_name = "KERNEL", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// A rung and what it is run with.
#[derive(Debug, Parser)]
#[command(name = "warpfold advise", about = None, long_about = None)]
struct OfRung {
    /// A rung such as reduce/interleaved.
    rung: String,
    /// Elements, as `ladder` takes them; unless given what ends within seconds.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    size: Option<String>,
    /// The element type; unless given the first of the ladder's.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<Dtype>,
    /// A virtual GPU.
    #[arg(long, value_name = "DEVICE", default_value = "virtual")]
    device: String,
    #[command(flatten)]
    to: PlainReportTo,
}

/// An operator and what it is run with.
#[derive(Debug, Parser)]
#[command(name = "warpfold advise", about = None, long_about = None)]
struct OfOperator {
    #[command(flatten)]
    run: Run,
}

/// A PTX file and what it is run with.
#[derive(Debug, Parser)]
#[command(name = "warpfold advise", about = None, long_about = None)]
struct OfFile {
    #[command(flatten)]
    sim: Sim,
}

impl Advise {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let rung = self.of_rung()?;
        let to = match &rung {
            Some(rung) if !rung.to.is_default() => ReportTo::from(&rung.to),
            _ => ReportTo::from(&self.to),
        };
        to.check()?;
        let subjects = match &rung {
            Some(rung) => of_rung(rung)?,
            None => self.subjects()?,
        };
        if subjects.is_empty() {
            return Err(Failure::usage(format!("{} launches no kernel", self.words[0])));
        }
        to.write_no_page(&report::text(&subjects), &report::json(&subjects))?;
        Ok(Ending::Clean)
    }

    fn all_words(&self) -> impl Iterator<Item = &str> {
        std::iter::once("warpfold advise").chain(self.words.iter().map(String::as_str))
    }

    /// The rung that is asked about, if it is one.
    fn of_rung(&self) -> Result<Option<OfRung>, Failure> {
        let name = self.words[0].as_str();
        if is_file(name) || !name.contains('/') {
            return Ok(None);
        }
        OfRung::try_parse_from(self.all_words()).map(Some).map_err(|error| Failure::of_usage(&error))
    }

    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let words = || self.all_words();
        let name = self.words[0].as_str();
        if is_file(name) {
            let file = OfFile::try_parse_from(words()).map_err(|error| Failure::of_usage(&error))?;
            return of_file(&file.sim);
        }
        let operator = OfOperator::try_parse_from(words()).map_err(|error| Failure::of_usage(&error))?;
        let device = virtual_gpu(operator.run.device().unwrap_or("virtual"))?;
        let texts = Texts::of(&device);
        Progress::of(&device, name, || operator.run.advised(&warpfold::Queue::of(&device)))?;
        Subject::all(device.take_reports(), &texts, device.arch())
    }
}

/// A virtual GPU that counts for each instruction.
fn virtual_gpu(name: &str) -> Result<Device, Failure> {
    let device = device_choice::open(Some(name))?;
    if !device.is_virtual() {
        return Err(Failure::usage("advise needs the virtual GPU, which counts: leave --device out"));
    }
    device.configure(|options| options.per_instruction = true)?;
    Ok(device)
}

fn is_file(name: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|extension| extension == "ptx")
}

fn of_rung(asked: &OfRung) -> Result<Vec<Subject>, Failure> {
    let (ladder, rung) = asked
        .rung
        .split_once('/')
        .ok_or_else(|| Failure::usage(format!("{}: a rung is LADDER/RUNG, as reduce/interleaved", asked.rung)))?;
    let ladder = ladders::ladder(ladder)?;
    let rung = ladder.rung(rung)?;
    let given = asked.size.as_ref().map(|text| ladder.parse_size(text)).transpose()?;
    ladder.check_size(given.unwrap_or(ladder.default_size))?;
    let dtype = asked.dtype.unwrap_or(ladder.default_dtype());
    ladder.check_dtype(dtype)?;
    rung.check_dtype(dtype)?;
    let device = virtual_gpu(&asked.device)?;
    let size = given.unwrap_or_else(|| ladder.default_size_on(&device));
    let texts = Texts::of(&device);
    let mut instance = (ladder.open)(&device, dtype, size, Guards::Bands)?;
    instance.reset(rung)?;
    drop(device.take_reports());
    Progress::of(&device, &asked.rung, || {
        for (launch_idx, launch) in rung.launches.iter().enumerate() {
            let function = launch.kernel(dtype, size).prepare(&device).map_err(Failure::unsupported)?;
            let arguments = instance.arguments(rung, launch_idx)?;
            device.default_stream().launch_raw(&function, (launch.config)(size), &arguments)?;
        }
        Ok(device.default_stream().synchronize()?)
    })?;
    Subject::all(device.take_reports(), &texts, device.arch())
}

fn of_file(sim: &Sim) -> Result<Vec<Subject>, Failure> {
    let (text, launch, report, arch) = sim.advised()?;
    Ok(vec![Subject::of_text(&launch, report, text, arch)?])
}

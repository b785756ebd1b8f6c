//! `warpfold measure`: times or counts a list of launches of PTX, for predictions of time.

pub(crate) mod case;
mod timing;
pub(crate) mod values;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use warpfold_device::{Arguments, Buffer, Device, Function, LaunchConfig, Module, Stream};
use warpfold_sim::predict::Machine;

use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::json;
use case::{Arg, Case, Set};

/// Runs a list of launches of PTX: on a GPU it times them, on the virtual one it counts them and
/// predicts their times.
///
/// The list has one JSON object a line: name, family, set (calibration or held-out), file (PTX,
/// below the folder of the list), entry, grid, block, cluster, shared, cooperative, reset, args
/// (fixtures/timing/lists.py makes some). So has the result: one line a case, in order, of a case
/// that failed with `error`. Exit codes: 0 all ran, 2 bad usage, 4 a launch failed on a GPU, behind
/// which nothing runs any more: go on with --skip.
#[derive(Debug, Args)]
pub(crate) struct Measure {
    /// The list.
    #[arg(value_name = "LIST.jsonl")]
    list: PathBuf,
    /// virtual or cuda:N; unless given what WARPFOLD_DEVICE says, or the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Leave out so many cases at the start, and append to the output.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Only cases whose names contain this.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// The GPU whose times are predicted, on the virtual GPU: h100, h200, h200:cold.
    #[arg(long, value_name = "GPU", default_value = "h100")]
    predict: Machine,
    /// The file of results.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct Line<'a> {
    name: &'a str,
    family: &'a str,
    set: Set,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Registers per thread: the driver's, or an estimate.
    registers: Option<u32>,
    /// Microseconds, on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<timing::Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<json::Counters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<json::TimingFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<json::Prediction>,
}

/// A kernel with its buffers.
struct Prepared<'a> {
    case: &'a Case,
    stream: Stream,
    function: Function,
    config: LaunchConfig,
    buffers: Vec<Option<Buffer<u8>>>,
    /// What they held before, where each launch needs it.
    pristine: Vec<Option<Buffer<u8>>>,
}

impl Measure {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let cases = case::read(&self.list)?;
        let folder = self.list.parent().unwrap_or(Path::new("."));
        let device = device_choice::open(self.device.as_deref())?;
        let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", self.output.display()));
        let mut output = File::options()
            .create(true)
            .append(self.skip > 0)
            .truncate(self.skip == 0)
            .write(true)
            .open(&self.output)
            .map_err(cannot)?;
        // Cases of one file follow one another.
        let mut loaded = None;
        let is_chosen = |case: &&Case| self.only.as_ref().is_none_or(|part| case.name.contains(part));
        for case in cases.iter().skip(self.skip).filter(is_chosen) {
            let mut line = Line {
                name: &case.name,
                family: &case.family,
                set: case.set,
                device: device.to_string(),
                error: None,
                registers: None,
                measured: None,
                counters: None,
                facts: None,
                predicted: None,
            };
            let result = self.fill(&mut line, &device, &mut loaded, folder, case);
            line.error = result.as_ref().err().map(ToString::to_string);
            let text = serde_json::to_string(&line).expect("numbers and strings");
            writeln!(output, "{text}").map_err(cannot)?;
            // A GPU whose kernel failed runs nothing any more.
            if let Err(failure) = result.and_then(|()| Ok(device.synchronize()?))
                && device.is_cuda()
                && device.alloc_zeroed::<u8>(1).and_then(|one| one.download()).is_err()
            {
                return Err(Failure::run(format!("{}: {failure}", case.name)));
            }
        }
        Ok(Ending::Clean)
    }

    fn fill(
        &self,
        line: &mut Line<'_>,
        device: &Device,
        loaded: &mut Option<(String, Module)>,
        folder: &Path,
        case: &Case,
    ) -> Result<(), Failure> {
        let known = loaded.take().filter(|(file, _)| *file == case.file);
        let (_, module) = match known {
            Some(known) => loaded.insert(known),
            None => {
                let path = folder.join(&case.file);
                let text = std::fs::read_to_string(&path);
                let text = text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
                loaded.insert((case.file.clone(), device.load(&text)?))
            }
        };
        let mut prepared = Prepared::new(device, case, module)?;
        line.registers = Some(prepared.function.info().registers);
        if device.is_virtual() {
            device.configure(|options| options.timing = true)?;
            drop(device.take_reports());
            prepared.launch()?;
            device.synchronize()?;
            let told = device.last_report().ok_or_else(|| Failure::run("no report of the launch"))?;
            line.counters = Some((&told.report.counters).into());
            line.facts = told.report.timing.as_ref().map(json::TimingFacts::from);
            line.predicted = Some((&told.report.predict(&self.predict).map_err(Failure::usage)?).into());
            return Ok(());
        }
        let stream = prepared.stream.clone();
        let prepared = std::cell::RefCell::new(&mut prepared);
        let measured = timing::measure(
            &stream,
            || prepared.borrow_mut().launch(),
            || prepared.borrow_mut().restore(),
            case.reset,
        )?;
        line.measured = Some(measured);
        Ok(())
    }
}

impl<'a> Prepared<'a> {
    fn new(device: &Device, case: &'a Case, module: &Module) -> Result<Self, Failure> {
        let function = module.kernel(&case.entry)?;
        let contents = |arg: &Arg| -> Result<Option<Buffer<u8>>, warpfold_device::Error> {
            match arg {
                Arg::In(buffer) => device.upload(&buffer.values.bytes(buffer.dtype, buffer.len)).map(Some),
                Arg::Out { dtype, len } => device.alloc_zeroed::<u8>(len * dtype.bytes()).map(Some),
                _ => Ok(None),
            }
        };
        let all = || case.args.iter().map(contents).collect::<Result<Vec<_>, _>>();
        let config = LaunchConfig {
            dynamic_shared: case.shared,
            cluster: case.cluster,
            cooperative: case.cooperative,
            ..LaunchConfig::new(case.grid, case.block)
        };
        Ok(Self {
            case,
            stream: device.default_stream(),
            function,
            config,
            buffers: all()?,
            pristine: if case.reset { all()? } else { Vec::new() },
        })
    }

    fn restore(&mut self) -> Result<(), warpfold_device::Error> {
        for (buffer, pristine) in self.buffers.iter_mut().zip(&self.pristine) {
            if let (Some(buffer), Some(pristine)) = (buffer, pristine) {
                self.stream.copy(buffer.as_view_mut(), pristine)?;
            }
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), warpfold_device::Error> {
        let mut arguments = Arguments::new();
        for (arg, buffer) in self.case.args.iter().zip(&mut self.buffers) {
            arguments = match (arg, buffer) {
                (_, Some(buffer)) => arguments.output(buffer.as_view_mut()),
                (Arg::Bytes(digits), None) => arguments.raw(&hex(digits), 8),
                (Arg::U8(x), None) => arguments.value(*x),
                (Arg::I32(x), None) => arguments.value(*x),
                (Arg::U32(x), None) => arguments.value(*x),
                (Arg::I64(x), None) => arguments.value(*x),
                (Arg::U64(x), None) => arguments.value(*x),
                (Arg::F32(x), None) => arguments.value(*x),
                (Arg::F64(x), None) => arguments.value(*x),
                (Arg::Null | Arg::In(_) | Arg::Out { .. }, None) => arguments.value(0_u64),
            };
        }
        self.stream.launch_raw(&self.function, self.config, &arguments)
    }
}

fn hex(digits: &str) -> Vec<u8> {
    let pair = |i: usize| digits.get(i..i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).unwrap_or(0);
    (0..digits.len()).step_by(2).map(pair).collect()
}

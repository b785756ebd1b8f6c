//! `warpfold ladder`: one problem, solved by kernels from naive to shipped, each checked and
//! explained.

mod all_reduce;
mod allocation;
mod explain;
mod list;
mod note;
mod over_devices;
mod predicted;
mod recorded;
pub(crate) mod serving;
mod transfer;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use warpfold_device::Recorded;
use warpfold_kernels::Dtype;
use warpfold_ladders::all_reduce as ladders_of_devices;
use warpfold_ladders::ladder::{self as ladders, HeadOptions, LadderReport, RunOptions};
use warpfold_ladders::reduce::{self as ladders_of_sums, Combine};
use warpfold_ladders::transfer as ladders_of_copies;
use warpfold_report::{Figures, LadderJson, LadderRun, ladder_page, ladder_roofline, ladder_text};

use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::host;
use crate::output::{self, Form, ReportTo};
use crate::profile;
use crate::progress::Progress;
use crate::sarif::SarifTo;
use crate::sim::Check;
use crate::suggestion::did_you_mean;
use over_devices::OverDevices;
use predicted::Predicted;
use warpfold_sim::predict::Machine;

/// Runs the kernels of a ladder, from naive to shipped: each result is checked, each step
/// explained.
///
/// A GPU gives times, bandwidth, speed-up over the first rung and the share of its measured copy
/// bandwidth; the virtual GPU, which has no clock, gives counters, and beside them the times that
/// were recorded on an H200. Exit codes: 0 everything is
/// right, 1 a wrong result or findings of severity error, 2 bad usage, 3 PTX that the device
/// refuses, 4 a run failed.
#[derive(Debug, Args)]
pub(crate) struct Ladder {
    #[arg(value_name = "NAME", help = names(), default_value = "", hide_default_value = true)]
    name: String,
    /// List the ladders with their problems and rungs.
    #[arg(long, exclusive = true)]
    list: bool,
    /// virtual, virtual:h200, virtual:a100 or cuda:N; unless given what WARPFOLD_DEVICE says, or
    /// the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Elements, as 1000, 64K, 32M (powers of two) or 1e6; MxNxK for products of matrices; PxD for
    /// convolutions, the catalogue's problem P made D times smaller;
    /// LENGTHxHEADSxKV_HEADSxHEAD_DIMxSEQUENCES[-causal] for attention and decode, the last ones
    /// left out or not; requests of serving; calls of allocation. Unless given what the ladder was
    /// measured with, or on the virtual GPU what ends within seconds.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    size: Option<String>,
    /// The element type; unless given the first of the ladder's.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<Dtype>,
    /// A rung to run, any number of times; unless given all of them.
    #[arg(long = "rung", value_name = "NAME")]
    rungs: Vec<String>,
    /// Columns of the matrix or elements of a row; of gemv and scale.
    #[arg(long, value_name = "N")]
    columns: Option<usize>,
    /// Threads of a block, a power of two from 32 to 1024; of reduce. With --explain elements of a
    /// block, from 2 on.
    #[arg(long, value_name = "N")]
    block: Option<usize>,
    /// Coarsening factor of the rung `coarsened` in reduce-lessons: 2, 4 or 8.
    #[arg(long, value_name = "N")]
    factor: Option<usize>,
    /// Print the Rust source of the rungs that --rung names.
    #[arg(long, requires = "rungs", conflicts_with_all = ["profile", "explain"])]
    source: bool,
    /// Draw the serial way, the pairs and the trees step by step, instead of running the ladder; of
    /// reduce alone.
    #[arg(long, conflicts_with = "profile")]
    explain: bool,
    /// Explain the maximum, not the sum.
    #[arg(long, requires = "explain")]
    max: bool,
    /// Elements for --explain to reduce: numbers such as 3,1,7,0.
    #[arg(
        long,
        value_name = "X,Y,…",
        requires = "explain",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    values: String,
    /// Positions of a block of the KV cache, from 1 to 128; of serving alone.
    #[arg(long, value_name = "N")]
    block_size: Option<usize>,
    /// Lengths of prompts and answers; of serving alone.
    #[arg(long, value_name = "LENGTHS")]
    lengths: Option<serving::LengthsOf>,
    /// Devices, from 1 to 8; of all_reduce, and of reduce, whose fold then ends with a level over
    /// devices.
    #[arg(long, value_name = "N")]
    devices: Option<usize>,
    /// Time NCCL, too, in turns with the rungs: its library, by a path or a name such as
    /// libnccl.so.2; of all_reduce alone.
    #[arg(long, value_name = "LIBRARY")]
    nccl: Option<PathBuf>,
    /// Checks to run; all needs the virtual GPU.
    #[arg(long, default_value = "none")]
    check: Check,
    /// Add the L1 hit rate, counted in a model of the cache; needs the virtual GPU.
    #[arg(long)]
    l1: bool,
    /// Predict the time of each rung on a GPU, h100 or h200: a range, its parts, what binds. It is
    /// of the size that is run here, on the virtual GPU, with what the launch before has left in
    /// the L2; with :cold (h200:cold) nothing.
    #[arg(long, value_name = "GPU")]
    predict: Option<Machine>,
    /// Add the roofline in figures: operations, bytes, their ratio, and what the device's roofs
    /// allow at it.
    #[arg(long)]
    roofline: bool,
    #[command(flatten)]
    heads: Heads,
    #[command(flatten)]
    profile: profile::Options,
    #[command(flatten)]
    to: ReportTo,
    #[command(flatten)]
    sarif: SarifTo,
}

/// Numbers of attention and decode, instead of those of the size.
#[derive(Debug, Args)]
#[command(next_help_heading = "Attention and decode")]
struct Heads {
    /// Tokens of a sequence.
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// Query heads.
    #[arg(long, value_name = "N")]
    heads: Option<usize>,
    /// Heads of keys and values; unless given as many as --heads says.
    #[arg(long, value_name = "N")]
    kv_heads: Option<usize>,
    /// Elements of a head: 64 or 128.
    #[arg(long, value_name = "N")]
    head_dim: Option<usize>,
    /// Sequences.
    #[arg(long, value_name = "N")]
    sequences: Option<usize>,
    /// A query sees the keys up to its own alone.
    #[arg(long)]
    causal: bool,
}

impl Heads {
    fn is_any(&self) -> bool {
        let Self { length, heads, kv_heads, head_dim, sequences, causal } = *self;
        causal || [length, heads, kv_heads, head_dim, sequences].iter().any(Option::is_some)
    }
}

impl From<&Heads> for HeadOptions {
    fn from(heads: &Heads) -> Self {
        let Heads { length, heads, kv_heads, head_dim, sequences, causal } = *heads;
        Self { length, heads, kv_heads, head_dim, sequences, causal }
    }
}

impl Ladder {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        self.to.check()?;
        if self.list {
            return list::print().map(|()| Ending::Clean);
        }
        if self.name.is_empty() {
            return Err(Failure::usage("a ladder's name is needed; `warpfold ladder --list` lists them"));
        }
        if self.name == serving::NAME {
            return self.run_serving();
        }
        let is_reduce = self.name == ladders_of_sums::LADDER.name;
        if self.devices.is_some() && self.name != ladders_of_devices::NAME && !is_reduce {
            let names = format!("{} and {}", ladders_of_devices::NAME, ladders_of_sums::LADDER.name);
            return Err(Failure::usage(format!("--devices is an option of ladders {names}")));
        }
        if self.nccl.is_some() && self.name != ladders_of_devices::NAME {
            return Err(Failure::usage(format!("--nccl is an option of ladder {}", ladders_of_devices::NAME)));
        }
        if self.devices.is_some() && is_reduce
            || self.name == ladders_of_devices::NAME
            || self.name == ladders_of_copies::NAME
        {
            return self.run_moves();
        }
        let of_serving = [(self.block_size.is_some(), "--block-size"), (self.lengths.is_some(), "--lengths")];
        if let Some((_, option)) = of_serving.iter().find(|(is_given, _)| *is_given) {
            return Err(Failure::usage(format!("{option} is an option of ladder {}", serving::NAME)));
        }
        if self.name == allocation::NAME {
            return self.run_allocation();
        }
        let ladder = self.ladder()?;
        for name in &self.rungs {
            ladder.rung(name).map_err(|error| {
                let names = ladder.rungs.iter().map(|rung| rung.name);
                Failure::usage(format!("{error}{}", did_you_mean(name, names)))
            })?;
        }
        if self.source {
            return list::print_source(ladder, &self.rungs).map(|()| Ending::Clean);
        }
        if self.explain {
            if ladder.name != "reduce" {
                return Err(Failure::usage(format!("--explain is an option of ladder reduce, not of {}", ladder.name)));
            }
            let device = device_choice::open(self.device.as_deref())?;
            let asked = explain::Asked {
                values: &self.values,
                rungs: &self.rungs,
                block: self.block,
                combine: if self.max { Combine::Maximum } else { Combine::Sum },
            };
            return explain::run(&device, &asked, &self.to);
        }
        // Names and sizes are refused before a device is looked for.
        let given = self.size.as_ref().map(|text| ladder.parse_size(text)).transpose()?;
        let size = self.with_options(ladder, given.unwrap_or(ladder.default_size))?;
        ladder.check_size(size)?;
        let dtype = self.dtype.unwrap_or(ladder.default_dtype());
        ladder.check_dtype(dtype)?;
        let device = device_choice::open(self.device.as_deref().or(self.predict.map(|_| "virtual")))?;
        let size = match given {
            None => self.with_options(ladder, ladder.default_size_on(&device))?,
            Some(_) => size,
        };
        let progress = Progress::new();
        let options = RunOptions {
            rungs: self.rungs.clone(),
            checks: self.check.into(),
            l1: self.l1,
            timing: self.predict.is_some(),
            record: match self.to.form {
                Form::Html => Some(RECORDED),
                // What instructions do is counted one by one, and no address kept.
                Form::Table | Form::Json => self.roofline.then_some(0),
            },
            progress: Some(watched_by(&progress, ladder, size, device.is_virtual())),
            ..RunOptions::default()
        };
        if self.profile.is_any() && self.to.form == Form::Html {
            return Err(Failure::usage("--profile has no picture: --report table or json"));
        }
        self.profile.start(&device)?;
        let report = ladders::run(&device, ladder, size, dtype, &options);
        progress.end();
        let report = report?;
        let recorded = self.profile.finish(&device)?;
        let run = LadderRun { ladder, report: &report, device: &device };
        // The ladder of sums goes on over devices; a page has pictures of kernels alone.
        let goes_on = is_reduce && self.rungs.is_empty() && self.to.form != Form::Html;
        let more = match host::check_threads().map_err(|failure| failure.to_string()) {
            Err(reason) if goes_on => {
                output::note(&format!("without the ladder over devices: {reason}\n"));
                None
            }
            _ => goes_on.then(|| OverDevices::beside(&device, ladders::elements_of(size))).transpose()?,
        };
        let predicted = self.predict.map(|machine| predicted::of(&report, &machine)).transpose()?;
        self.write(run, recorded.as_ref(), more.as_ref(), predicted.as_deref())?;
        match ending(&report)? {
            Ending::Clean if more.is_some_and(|more| !more.is_ok()) => Ok(Ending::Findings),
            ended => Ok(ended),
        }
    }

    /// The ladder of the name.
    fn ladder(&self) -> Result<&'static ladders::Ladder, Failure> {
        ladders::ladder(&self.name).map_err(|error| {
            let names = ladders::LADDERS.iter().map(|ladder| ladder.name).chain(OTHERS);
            Failure::usage(format!("{error}, {}{}", OTHERS.join(", "), did_you_mean(&self.name, names)))
        })
    }

    /// A size with what the options say.
    fn with_options(&self, ladder: &ladders::Ladder, size: u64) -> Result<u64, Failure> {
        let mut size = ladder.with_heads(size, &(&self.heads).into())?;
        for (option, value) in [("columns", self.columns), ("factor", self.factor), ("block", self.block)] {
            if let Some(value) = value {
                size = ladder.with_option(size, option, value)?;
            }
        }
        Ok(size)
    }
}

impl Ladder {
    /// Refuses options that a ladder without kernels of its own does not have.
    fn refuse_options(&self, name: &str, more: &[(bool, &str)]) -> Result<(), Failure> {
        let is_given = [
            (self.dtype.is_some(), "--dtype"),
            (self.check != Check::None, "--check"),
            (self.l1, "--l1"),
            (self.predict.is_some(), "--predict"),
            (self.roofline, "--roofline"),
            (self.profile.is_any(), "--profile"),
            (self.sarif.is_asked(), "--sarif"),
            (self.columns.is_some(), "--columns"),
            (self.factor.is_some(), "--factor"),
            (self.block.is_some(), "--block"),
            (self.source, "--source"),
            (self.explain, "--explain"),
            (self.heads.is_any(), "options of attention and decode"),
        ];
        match is_given.iter().chain(more).find(|(is_given, _)| *is_given) {
            Some((_, option)) => Err(Failure::usage(format!("ladder {name} has no {option}"))),
            None => Ok(()),
        }
    }

    fn run_allocation(&self) -> Result<Ending, Failure> {
        self.refuse_options(allocation::NAME, &[(!self.rungs.is_empty(), "--rung")])?;
        allocation::run(&device_choice::open(self.device.as_deref())?, self.size.as_deref(), &self.to)
    }
}

/// Options of ladders that move bytes.
struct Asked<'a> {
    size: Option<&'a str>,
    rungs: &'a [String],
    device: Option<&'a str>,
    to: &'a ReportTo,
}

impl Asked<'_> {
    /// The size as a number of elements, if there is one.
    fn elements(&self, most: usize) -> Result<Option<usize>, Failure> {
        let number = |text: &str| ladders::number(text).filter(|size| (1..=most).contains(size));
        let wrong = |text: &str| Failure::usage(format!("'{text}' is not a number of elements from 1 to {most}"));
        self.size.map(|text| number(text).ok_or_else(|| wrong(text))).transpose()
    }
}

/// Accesses of one warp that pictures show of an instruction: enough for the strides of a tree.
const RECORDED: usize = 8;

/// A ladder's report, and what its device was given to do, where that was asked for.
#[derive(Debug, Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    ladder: LadderJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_devices: Option<serde_json::Value>,
    /// What `--predict` asks for: no measured times.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<&'a [Predicted]>,
    roofline: Option<Figures>,
}

impl Ladder {
    fn write(
        &self,
        run: LadderRun<'_>,
        recorded: Option<&Recorded>,
        more: Option<&OverDevices>,
        predicted: Option<&[Predicted]>,
    ) -> Result<(), Failure> {
        let LadderRun { ladder, report, .. } = run;
        self.sarif.write(None, &LadderJson::new(ladder, report))?;
        let roofline = if self.roofline { ladder_roofline(run) } else { None };
        let earlier = run.device.is_virtual().then(|| recorded::of(ladder, report)).flatten();
        match self.to.form {
            Form::Table => {
                let mut page = ladder_text(ladder, report);
                if let Some(text) = earlier.and_then(|earlier| recorded::text(&earlier, ladder, report)) {
                    page.push_str(&format!("\n{text}"));
                }
                if let Some(predicted) = predicted {
                    page.push_str(&format!("\n{}", predicted::text(predicted)));
                }
                if let Some(figures) = roofline {
                    page.push_str(&format!("\n{}", figures.text()));
                }
                if let Some(recorded) = recorded {
                    page.push('\n');
                    page.push_str(&profile::tables(recorded));
                }
                if let Some(more) = more {
                    page.push('\n');
                    page.push_str(&more.text());
                }
                self.to.write(&page)
            }
            Form::Json => self.to.write_json(&Json {
                ladder: LadderJson::new(ladder, report),
                profile: recorded.map(profile::json),
                over_devices: more.map(OverDevices::record),
                predicted,
                roofline,
            }),
            Form::Html => {
                let mut page = ladder_page(run, &[], &output::about());
                page.recorded = earlier.map(|earlier| earlier.times());
                self.to.write_page(&page)
            }
        }
    }
}

impl Ladder {
    fn run_moves(&self) -> Result<Ending, Failure> {
        self.refuse_options(
            &self.name,
            &[(self.block_size.is_some(), "--block-size"), (self.lengths.is_some(), "--lengths")],
        )?;
        let (size, device) = (self.size.as_deref(), self.device.as_deref());
        let asked = Asked { size, rungs: &self.rungs, device, to: &self.to };
        match (&*self.name, self.devices) {
            (ladders_of_copies::NAME, _) => transfer::run(&asked),
            (name, num) => {
                host::check_threads()?;
                match name {
                    ladders_of_devices::NAME => all_reduce::run(&asked, num, self.nccl.as_deref()),
                    _ => over_devices::run(&asked, num.unwrap_or(2)),
                }
            }
        }
    }

    fn run_serving(&self) -> Result<Ending, Failure> {
        self.refuse_options(serving::NAME, &[])?;
        let asked = serving::Asked {
            size: self.size.as_deref(),
            block_size: self.block_size,
            lengths: self.lengths.unwrap_or_default(),
            rungs: &self.rungs,
            to: &self.to,
        };
        serving::run(&asked, &device_choice::open(self.device.as_deref())?)
    }
}

/// Shows which rung runs, and how far it is.
fn watched_by(
    progress: &Progress,
    ladder: &'static ladders::Ladder,
    size: u64,
    is_virtual: bool,
) -> ladders::ProgressFn {
    let progress = progress.clone();
    Arc::new(move |now| {
        if let Some(note) = note::note(ladder, size, now).filter(|_| is_virtual) {
            progress.write(host::stderr(), &note);
        }
        match now.blocks {
            None => progress.begin(format!("{} ({} of {})", now.rung, now.rung_idx + 1, now.num_rungs)),
            Some((done, all)) => progress.show(done, all),
        }
    })
}

/// Findings explain a failed run better than the failure itself.
fn ending(report: &LadderReport) -> Result<Ending, Failure> {
    let unexplained = report.rungs.iter().filter(|rung| rung.findings.is_empty());
    match unexplained.filter_map(|rung| Some((rung.name, rung.failure.as_ref()?))).next() {
        Some((name, failure)) => Err(Failure::run(format!("rung {name}: {failure}"))),
        None if report.is_ok() => Ok(Ending::Clean),
        None => Ok(Ending::Findings),
    }
}

/// Ladders whose rungs are no kernels.
const OTHERS: [&str; 4] = [allocation::NAME, ladders_of_copies::NAME, ladders_of_devices::NAME, serving::NAME];

/// Lists the names of the ladders: `a, b or c`
fn names() -> String {
    let names: Vec<_> = ladders::LADDERS.iter().map(|ladder| ladder.name).collect();
    let names: Vec<_> = names.into_iter().chain(OTHERS).collect();
    let (last, before) = names.split_last().expect("there are ladders");
    format!("{} or {last}", before.join(", "))
}

//! `warpfold ladder`: one problem, solved by kernels from naive to shipped, each checked and
//! explained.

mod allocation;
mod explain;
mod json;
mod list;
mod report;
mod serving;

use std::sync::Arc;

use clap::Args;
use warpfold_kernels::Dtype;
use warpfold_ladders::ladder::{self as ladders, HeadOptions, LadderReport, RunOptions};

use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::output::Form;
use crate::profile;
use crate::progress::Progress;
use crate::sim::Check;
use crate::suggestion::did_you_mean;

/// Runs the kernels of a ladder, from naive to shipped: each result is checked, each step
/// explained.
///
/// A GPU gives times, bandwidth, speed-up over the first rung and the share of its measured copy
/// bandwidth; the virtual GPU, which has no clock, gives counters. Exit codes: 0 everything is
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
    #[command(flatten)]
    heads: Heads,
    /// The element type; unless given the first of the ladder's.
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<Dtype>,
    /// A rung to run, any number of times; unless given all of them.
    #[arg(long = "rung", value_name = "NAME")]
    rungs: Vec<String>,
    /// Columns of the matrix; of gemv alone.
    #[arg(long, value_name = "N")]
    columns: Option<usize>,
    /// How many times as many elements a thread of `coarsened` takes: 2, 4 or 8; of reduce-lessons
    /// alone.
    #[arg(long, value_name = "N")]
    factor: Option<usize>,
    /// Print the Rust source of the rungs that --rung names.
    #[arg(long, requires = "rungs", conflicts_with_all = ["profile", "explain"])]
    source: bool,
    /// Draw the trees step by step, instead of running the ladder; of reduce alone.
    #[arg(long, conflicts_with = "profile")]
    explain: bool,
    /// What --explain adds up: numbers such as 3,1,7,0.
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
    /// Which checks to run; all needs the virtual GPU.
    #[arg(long, default_value = "none")]
    check: Check,
    #[command(flatten)]
    profile: profile::Options,
    /// The form of the report.
    #[arg(long, default_value = "table")]
    report: Form,
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
        if self.list {
            return list::print().map(|()| Ending::Clean);
        }
        if self.name.is_empty() {
            return Err(Failure::usage("a ladder's name is needed; `warpfold ladder --list` lists them"));
        }
        if self.name == serving::NAME {
            return self.run_serving();
        }
        if self.block_size.is_some() {
            return Err(Failure::usage(format!("--block-size is an option of ladder {}", serving::NAME)));
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
            return explain::run(&device, &self.values, &self.rungs, self.report);
        }
        // Names and sizes are refused before a device is looked for.
        let given = self.size.as_ref().map(|text| ladder.parse_size(text)).transpose()?;
        let size = self.with_options(ladder, given.unwrap_or(ladder.default_size))?;
        ladder.check_size(size)?;
        let dtype = self.dtype.unwrap_or(ladder.default_dtype());
        ladder.check_dtype(dtype)?;
        let device = device_choice::open(self.device.as_deref())?;
        let size = match given {
            None => self.with_options(ladder, ladder.default_size_on(&device))?,
            Some(_) => size,
        };
        let progress = Progress::new();
        let options = RunOptions {
            rungs: self.rungs.clone(),
            checks: self.check.into(),
            progress: Some(watched_by(&progress)),
            ..RunOptions::default()
        };
        self.profile.start(&device)?;
        let report = ladders::run(&device, ladder, size, dtype, &options);
        progress.end();
        let report = report?;
        let recorded = self.profile.finish(&device)?;
        match self.report {
            Form::Table => report::print(ladder, &report, recorded.as_ref())?,
            Form::Json => json::print(ladder, &report, recorded.as_ref())?,
        }
        ending(&report)
    }

    /// The ladder of the name.
    fn ladder(&self) -> Result<&'static ladders::Ladder, Failure> {
        ladders::ladder(&self.name).map_err(|error| {
            let others = [allocation::NAME, serving::NAME];
            let names = ladders::LADDERS.iter().map(|ladder| ladder.name).chain(others);
            Failure::usage(format!("{error}, {}{}", others.join(", "), did_you_mean(&self.name, names)))
        })
    }

    /// A size with what the options say.
    fn with_options(&self, ladder: &ladders::Ladder, size: usize) -> Result<usize, Failure> {
        let mut size = ladder.with_heads(size, &(&self.heads).into())?;
        for (option, value) in [("columns", self.columns), ("factor", self.factor)] {
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
            (self.profile.is_any(), "--profile"),
            (self.columns.is_some(), "--columns"),
            (self.factor.is_some(), "--factor"),
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
        allocation::run(&device_choice::open(self.device.as_deref())?, self.size.as_deref(), self.report)
    }
}

impl Ladder {
    fn run_serving(&self) -> Result<Ending, Failure> {
        self.refuse_options(serving::NAME, &[])?;
        let asked = serving::Asked {
            size: self.size.as_deref(),
            block_size: self.block_size,
            rungs: &self.rungs,
            form: self.report,
        };
        serving::run(&asked, &device_choice::open(self.device.as_deref())?)
    }
}

/// Shows which rung runs, and how far it is.
fn watched_by(progress: &Progress) -> ladders::ProgressFn {
    let progress = progress.clone();
    Arc::new(move |now| match now.blocks {
        None => progress.begin(format!("{} ({} of {})", now.rung, now.rung_idx + 1, now.num_rungs)),
        Some((done, all)) => progress.show(done, all),
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

/// What ladders there are: `a, b or c`
fn names() -> String {
    let names: Vec<_> = ladders::LADDERS.iter().map(|ladder| ladder.name).collect();
    format!("{}, {} or {}", names.join(", "), allocation::NAME, serving::NAME)
}

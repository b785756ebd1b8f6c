//! `warpfold ladder serving`: one job of mixed lengths, served by one idea after the other.
//!
//! What the ideas buy is counted, so that it needs no weights: the scripted model of the engine
//! serves. On a GPU the model that ships serves the same job, and there are times beside, of
//! engines that have served it once, with steps overlapped as they are in earnest.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
#[cfg(feature = "engine")]
use warpfold::Queue;
use warpfold_device::Device;
use warpfold_engine::ladder::{Lengths, Outcome, Rung, Server, SlotUse, block_sizes, climb, job, rungs, steps};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Limits, Model, Request};
use warpfold_ladders::ladder as ladders;
#[cfg(feature = "engine")]
use warpfold_models::{LanguageModel, ModelFiles};

use crate::Ending;
use crate::failure::Failure;
use crate::host;
use crate::output::{Form, ReportTo, Rungs};
use crate::progress::Progress;
use crate::table::{Table, grouped};
use crate::theatre::{MOST_REQUESTS, Theatre};

/// The name of the ladder.
pub(super) const NAME: &str = "serving";

pub(super) const PROBLEM: &str = "requests of mixed lengths share a model and a cache";

/// The lengths of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LengthsOf {
    /// As those of conversations.
    #[default]
    Mixed,
    /// The same prompt length and the same answer length for all.
    Equal,
}

impl From<LengthsOf> for Lengths {
    fn from(lengths: LengthsOf) -> Self {
        match lengths {
            LengthsOf::Mixed => Self::Mixed,
            LengthsOf::Equal => Self::Equal,
        }
    }
}

impl LengthsOf {
    const fn problem(self) -> &'static str {
        match self {
            Self::Mixed => PROBLEM,
            Self::Equal => "requests of equal lengths share a model and a cache",
        }
    }
}

/// The longest sequence of the job, the cache in slots, and what else all rungs have in common.
pub(crate) const MAX_LEN: usize = 512;
const SLOTS: usize = 4096;
const BUDGET: usize = 512;
const MAX_SEQS: usize = 32;
const REQUESTS: u32 = 128;
pub(crate) const SEED: u64 = 1;

/// Its rungs by name.
pub(super) fn rung_names() -> Vec<&'static str> {
    rungs(&Config::default()).iter().map(|rung| rung.name).collect()
}

/// Options of the ladder.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) size: Option<&'a str>,
    pub(super) block_size: Option<usize>,
    pub(super) lengths: LengthsOf,
    pub(super) rungs: &'a [String],
    pub(super) to: &'a ReportTo,
}

#[derive(Debug, Serialize)]
struct Report {
    ladder: &'static str,
    device: String,
    model: &'static str,
    problem: Problem,
    rungs: Vec<RungReport>,
    /// The shipped engine with blocks of other sizes, and as many slots.
    block_sizes: Vec<RungReport>,
    /// Only of a page of few requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    theatre: Vec<Theatre>,
}

#[derive(Debug, Serialize)]
struct Problem {
    #[serde(skip)]
    told: &'static str,
    requests: u32,
    prompt_tokens: usize,
    generated_tokens: u64,
    max_len: usize,
    slots: usize,
    budget: usize,
    max_seqs: usize,
}

#[derive(Debug, Serialize)]
struct RungReport {
    name: &'static str,
    change: &'static str,
    block_size: usize,
    steps: u64,
    tokens_per_step: f64,
    rows: u64,
    padding_rows: u64,
    most_rows: usize,
    mean_steps_to_first_token: f64,
    most_steps_to_first_token: u64,
    /// Rows that were computed from one token of an answer to its next, the most.
    longest_wait_rows: u64,
    preemptions: u64,
    prefix_hits: u64,
    /// Shares of all slots over all steps; their sum is 1. `null` of a rung without a cache.
    slots: Option<Slots>,
    /// `null` without a GPU.
    seconds: Option<f64>,
    tokens_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Slots {
    filled: f64,
    reserved: f64,
    internal_fragmentation: f64,
    external_fragmentation: f64,
    free: f64,
}

impl RungReport {
    fn new(rung: &Rung, outcome: &Outcome, seconds: Option<f64>) -> Self {
        let SlotUse { filled, reserved, internal, external, free } = outcome.slots;
        let (mean, most) = outcome.steps_to_first_token;
        Self {
            name: rung.name,
            change: rung.change,
            block_size: outcome.block_size,
            steps: outcome.steps,
            tokens_per_step: outcome.tokens_per_step,
            rows: outcome.rows,
            padding_rows: outcome.padding_rows,
            most_rows: outcome.most_rows,
            mean_steps_to_first_token: mean,
            most_steps_to_first_token: most,
            longest_wait_rows: outcome.longest_wait_rows,
            preemptions: outcome.preemptions,
            prefix_hits: outcome.prefix_hits,
            slots: rung.config.kv_cache.then_some(Slots {
                filled,
                reserved,
                internal_fragmentation: internal,
                external_fragmentation: external,
                free,
            }),
            seconds,
            tokens_per_second: seconds.map(|seconds| outcome.tokens as f64 / seconds),
        }
    }
}

/// Climbs the ladder and prints what came of it.
pub(super) fn run(asked: &Asked<'_>, device: &Device) -> Result<Ending, Failure> {
    let requests = match asked.size {
        None => REQUESTS,
        Some(text) => ladders::number(text)
            .and_then(|num| u32::try_from(num).ok())
            .filter(|num| (1..=100_000).contains(num))
            .ok_or_else(|| Failure::usage(format!("'{text}' is not a number of requests from 1 to 100,000")))?,
    };
    let block_size = asked.block_size.unwrap_or(16);
    if !(1..=128).contains(&block_size) {
        return Err(Failure::usage(format!("--block-size: {block_size} is not from 1 to 128")));
    }
    let all = rungs(&base(block_size));
    let chosen = chosen(&all, asked.rungs)?;
    let sizes = all.last().map(block_sizes).unwrap_or_default();
    let mut report = Progress::of(device, NAME, || {
        #[cfg(feature = "engine")]
        if !device.is_virtual() {
            let (files, queue) = (ModelFiles::shipped()?, Queue::of(device));
            let model = || Ok::<LanguageModel, Failure>(files.load(&queue, files.dtype(), &mut |_, _| ())?);
            return climbed(warpfold_models::SHIPPED, model, (requests, asked.lengths), device, true, &chosen, &sizes);
        }
        let model = || Ok(Scripted::new(64, MAX_LEN));
        climbed("scripted", model, (requests, asked.lengths), device, false, &chosen, &sizes)
    })?;
    if asked.to.form == Form::Html && requests <= MOST_REQUESTS {
        let limits = Limits { max_len: MAX_LEN, ..Scripted::new(64, MAX_LEN).limits() };
        let job = job(&limits, asked.lengths.into(), requests, SEED);
        for rung in &chosen {
            let traces = steps(Scripted::new(64, MAX_LEN), &job, rung)?;
            report.theatre.push(Theatre::of(rung.name.to_owned(), &rung.config, &traces));
        }
    }
    // A rung that changed an answer would have been an error.
    let subtitle = format!("{}; {}", asked.lengths.problem(), problem(&report));
    let about = Rungs { ladder: NAME, subtitle, right: report.rungs.len(), all: report.rungs.len() };
    asked.to.write_rungs(&text(&report), &report, about)?;
    Ok(Ending::Clean)
}

/// Returns the configuration that all rungs start from.
pub(crate) fn base(block_size: usize) -> Config {
    Config {
        block_size,
        num_blocks: SLOTS / block_size,
        budget: BUDGET,
        max_seqs: MAX_SEQS,
        max_len: Some(MAX_LEN),
        ..Config::default()
    }
}

/// The rungs of these names, in the order of the ladder; all of them without names.
fn chosen(all: &[Rung], names: &[String]) -> Result<Vec<Rung>, Failure> {
    let known: Vec<&str> = all.iter().map(|rung| rung.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        return Err(Failure::usage(format!("ladder {NAME} has no rung '{name}': expected one of {known}")));
    }
    Ok(all.iter().filter(|rung| names.is_empty() || names.iter().any(|name| name == rung.name)).cloned().collect())
}

fn climbed<M: Model>(
    name: &'static str,
    model: impl Fn() -> Result<M, Failure>,
    (requests, lengths): (u32, LengthsOf),
    device: &Device,
    is_timed: bool,
    rungs: &[Rung],
    sizes: &[Rung],
) -> Result<Report, Failure> {
    let limits = Limits { max_len: MAX_LEN, ..model()?.limits() };
    let job = job(&limits, lengths.into(), requests, SEED);
    let outcomes = counted(&model, &job, rungs)?;
    let swept = counted(&model, &job, sizes)?;
    let seconds = match is_timed {
        true => timed(&model, &job, rungs)?.into_iter().map(Some).collect(),
        false => vec![None; rungs.len()],
    };
    let reports = rungs.iter().zip(&outcomes).zip(seconds).map(|((r, o), s)| RungReport::new(r, o, s));
    Ok(Report {
        ladder: NAME,
        device: device.to_string(),
        model: name,
        problem: Problem {
            told: lengths.problem(),
            requests,
            prompt_tokens: job.iter().map(|request| request.prompt.len()).sum(),
            generated_tokens: outcomes.first().map_or(0, |outcome| outcome.tokens),
            max_len: MAX_LEN,
            slots: SLOTS,
            budget: BUDGET,
            max_seqs: MAX_SEQS,
        },
        rungs: reports.collect(),
        block_sizes: sizes.iter().zip(&swept).map(|(r, o)| RungReport::new(r, o, None)).collect(),
        theatre: Vec::new(),
    })
}

fn counted<M: Model>(
    model: &impl Fn() -> Result<M, Failure>,
    job: &[Request],
    rungs: &[Rung],
) -> Result<Vec<Outcome>, Failure> {
    let mut models = rungs.iter().map(|_| model()).collect::<Result<Vec<M>, Failure>>()?;
    Ok(climb(|| models.pop().expect("there is a model for each rung"), job, rungs)?)
}

/// Most timed runs of a rung, and the time after which no further run starts.
const RUNS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(3);

/// The seconds that each rung takes for the job: the median of some runs after the first, in which
/// kernels are built and steps captured, which is nobody's idea.
fn timed<M: Model>(
    model: &impl Fn() -> Result<M, Failure>,
    job: &[Request],
    rungs: &[Rung],
) -> Result<Vec<f64>, Failure> {
    let mut expected = None;
    let mut median = |rung: &Rung| {
        let mut server = Server::new(model()?, rung)?;
        let first = server.serve(job)?;
        let expected = expected.get_or_insert_with(|| first.clone());
        let (begin, mut times) = (host::Instant::now(), Vec::new());
        while times.is_empty() || times.len() < RUNS && begin.elapsed() < PATIENCE {
            let start = host::Instant::now();
            let answers = server.serve(job)?;
            times.push(start.elapsed().as_secs_f64());
            if answers != *expected || first != *expected {
                return Err(Failure::run(format!("rung {} has other answers than {}", rung.name, rungs[0].name)));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    };
    rungs.iter().map(&mut median).collect()
}

fn problem(report: &Report) -> String {
    let Problem { requests, prompt_tokens, generated_tokens, slots, budget, max_seqs, .. } = report.problem;
    format!(
        "{requests} requests, {} tokens of prompts and {} of answers; {} slots, at most {max_seqs} sequences and \
         {budget} rows per step",
        grouped(prompt_tokens as u64),
        grouped(generated_tokens),
        grouped(slots as u64),
    )
}

fn text(report: &Report) -> String {
    let mut page = format!(
        "{NAME}: {}\n{}\nmodel {} on {}\n\n",
        report.problem.told,
        problem(report),
        report.model,
        report.device
    );
    let has_times = report.rungs.iter().any(|rung| rung.seconds.is_some());
    page.push_str(&table("rung", report.rungs.iter().map(|rung| (rung.name.to_owned(), rung)), has_times, true));
    page.push_str("\nprefix-cache with blocks of other sizes\n\n");
    let sizes = report.block_sizes.iter().map(|rung| (format!("blocks of {}", rung.block_size), rung));
    page.push_str(&table("", sizes, false, false));
    page.push_str(
        "\nfirst token: steps until it comes, mean and most; longest wait: rows computed from one token of an answer to\n\
         its next, preemptions apart; reserved: held for tokens to come; internal: held, and never used; external: free,\n\
         but not side by side; free: nobody's. Shares are of all slots over all steps.\n",
    );
    page.push_str(&gain(&report.rungs));
    if has_times {
        page.push_str("counts are of engines that take turns with the model, times of such as overlap steps\n");
    } else {
        page.push_str("times need a GPU and the engine: a step of the scripted model costs nothing\n");
    }
    page
}

/// Formats the gain of continuous over static batching; empty unless both ran.
fn gain(rungs: &[RungReport]) -> String {
    let of = |name| rungs.iter().find(|rung| rung.name == name);
    let (Some(old), Some(new)) = (of("static"), of("continuous")) else { return String::new() };
    let steps = new.tokens_per_step / old.tokens_per_step;
    let time = old.seconds.zip(new.seconds).map(|(old, new)| format!(", {:.1} times as many per second", old / new));
    format!("continuous gives {steps:.1} times as many tokens per step as static{}\n", time.unwrap_or_default())
}

fn table<'a>(
    first: &str,
    rungs: impl Iterator<Item = (String, &'a RungReport)>,
    has_times: bool,
    has_sentences: bool,
) -> String {
    let last = if has_times { "tok/s" } else { "" };
    let mut table = Table::new(["", "", "tokens", "", "", "first", "longest", "", "", "", "", "", ""]);
    let heading = [
        first, "steps", "per step", "rows", "padding", "token", "wait", "filled", "reserved", "internal", "external",
        "free", last,
    ];
    table.row(heading.map(str::to_owned));
    for (name, rung) in rungs {
        let share = |of: fn(&Slots) -> f64| match &rung.slots {
            Some(slots) => format!("{:.1} %", 100.0 * of(slots)),
            None => "-".to_owned(),
        };
        table.row([
            name,
            grouped(rung.steps),
            format!("{:.1}", rung.tokens_per_step),
            grouped(rung.rows),
            grouped(rung.padding_rows),
            format!("{:.0}, {}", rung.mean_steps_to_first_token, rung.most_steps_to_first_token),
            grouped(rung.longest_wait_rows),
            share(|slots| slots.filled),
            share(|slots| slots.reserved),
            share(|slots| slots.internal_fragmentation),
            share(|slots| slots.external_fragmentation),
            share(|slots| slots.free),
            rung.tokens_per_second.map_or_else(String::new, |speed| grouped(speed as u64)),
        ]);
        if has_sentences {
            table.text(&format!("{}.", rung.change));
        }
    }
    table.render()
}

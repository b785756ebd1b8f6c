//! `warpfold replay`: the request log of a server under other policies and budgets.

mod log;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use warpfold_engine::replay::{Arrival, ReplayResult, StepCost, replay};
use warpfold_engine::{Allocator, Config, Policy};
use warpfold_report::{Kind, Page};

use crate::Ending;
use crate::failure::Failure;
use crate::output::{self, Form, ReportTo};
use crate::table::{Table, grouped};
use crate::theatre::{MOST_STEPS, Theatre};
use log::TimeUnit;

/// Replays a server's request log under other policies and budgets, in virtual time: latencies,
/// throughput, and use of the KV cache.
///
/// LOG has one JSON object a line: a time (time, timestamp, arrival_time, arrived_at, created; a
/// number, or a date in RFC 3339), the tokens of the prompt (prompt_tokens, prompt_len,
/// input_length, input_tokens, input_len) and of the answer (completion_tokens, output_length,
/// output_tokens, output_len, answer_tokens), and optionally the limit of the answer (max_tokens,
/// max_completion_tokens). They may be inside usage, response.usage, meta_info or out.meta_info, as
/// in answers of OpenAI's interface and in logs of SGLang. Other fields are ignored; a line without
/// these is refused.
///
/// The scheduler is the engine's own. A step takes --step-ms plus --row-us per row, whatever the
/// lengths of its sequences; shared prefixes are unknown. static and orca reserve slots for the
/// longest answer, the others take blocks as they need them. Policies that run prompts whole get a
/// budget of at least the longest sequence.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A log of requests.
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Policies to play; all of them unless given.
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policy: Vec<Policy>,
    /// Rows of a step, at most; several are played one after the other.
    #[arg(long, value_name = "ROWS", value_delimiter = ',', default_value = "512")]
    budget: Vec<usize>,
    /// Blocks of the KV cache.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    kv_blocks: usize,
    /// Positions of a block.
    #[arg(long, value_name = "N", default_value_t = 16)]
    block_size: usize,
    /// Sequences that run at a time, at most.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_seqs: usize,
    /// The longest sequence; unless given the longest of the log.
    #[arg(long, value_name = "N")]
    max_len: Option<usize>,
    /// Milliseconds of a step, however few rows it has.
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    step_ms: f64,
    /// Microseconds of each row.
    #[arg(long, value_name = "US", default_value_t = 20.0)]
    row_us: f64,
    /// The unit of times that are numbers.
    #[arg(long, value_name = "UNIT", default_value = "s")]
    time_unit: TimeUnit,
    #[command(flatten)]
    to: ReportTo,
}

#[derive(Debug, Serialize)]
struct ReplayReport {
    log: String,
    requests: usize,
    prompt_tokens: usize,
    /// From the first arrival to the last.
    seconds: f64,
    step_ms: f64,
    row_us: f64,
    max_len: usize,
    slots: usize,
    max_seqs: usize,
    #[serde(rename = "rungs")]
    plays: Vec<PlayedPolicy>,
    /// Only of a page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    theatre: Vec<Theatre>,
}

/// Result of a policy with a budget.
#[derive(Debug, Serialize)]
struct PlayedPolicy {
    name: String,
    change: &'static str,
    budget: usize,
    steps: u64,
    rows: u64,
    padding_rows: u64,
    tokens: u64,
    seconds: f64,
    tokens_per_second: f64,
    mean_first_token_ms: f64,
    /// 99th percentile.
    p99_first_token_ms: f64,
    longest_wait_ms: f64,
    preemptions: u64,
    /// Shares of all slots over the time of all steps: held and empty; free, but not side by side.
    unfilled: f64,
    external: f64,
}

impl ReplayArgs {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        self.to.check()?;
        let cost =
            StepCost { step: duration("--step-ms", self.step_ms, 1e3)?, row: duration("--row-us", self.row_us, 1e6)? };
        let log = log::read(&self.log, self.time_unit)?;
        let longest = |arrival: &Arrival| arrival.prompt + arrival.max_tokens.unwrap_or(arrival.answer);
        let max_len = self.max_len.or_else(|| log.iter().map(longest).max()).unwrap_or(1).max(2);
        let num_traces = if self.to.form == Form::Html { MOST_STEPS } else { 0 };
        let mut report = self.report(&log, max_len);
        for (name, change, config) in self.configs(max_len) {
            let seen = replay(&log, max_len, &config, cost, num_traces)?;
            if num_traces > 0 {
                report.theatre.push(Theatre::timed(name.clone(), &config, &seen.traces, seen.steps));
            }
            report.plays.push(PlayedPolicy::of(name, change, &config, &seen));
        }
        match self.to.form {
            Form::Table => self.to.write(&text(&report))?,
            Form::Json => self.to.write_json(&report)?,
            Form::Html => {
                let mut page = Page::new(Kind::Rungs, "replay", &report, &output::about());
                page.subtitle = subtitle(&report);
                page.verdict = format!("{} plays of {} requests.", report.plays.len(), grouped(log.len() as u64));
                self.to.write_page(&page)?;
            }
        }
        Ok(Ending::Clean)
    }

    /// A name, what it does, and the settings of each play. A policy that raises two budgets to the
    /// same is played once.
    fn configs(&self, max_len: usize) -> Vec<(String, &'static str, Config)> {
        let policies = if self.policy.is_empty() { &Policy::ALL[..] } else { &self.policy };
        let mut configs: Vec<(String, &'static str, Config)> = Vec::new();
        for policy in policies {
            for budget in &self.budget {
                let (change, allocator, least) = match policy {
                    Policy::Static => ("batches that run padded to their end", Allocator::Contiguous, max_len),
                    Policy::Orca => ("each step takes who is there, prompts whole", Allocator::Contiguous, max_len),
                    Policy::VllmV0 => ("blocks when needed; prefills and decodes apart", Allocator::Naive, max_len),
                    Policy::Continuous => ("blocks when needed; prompts are cut at the budget", Allocator::Naive, 1),
                };
                let budget = if *budget == 0 { 0 } else { least.max(*budget) };
                let name = match self.budget.len() {
                    1 => policy.name().to_owned(),
                    _ => format!("{} {budget}", policy.name()),
                };
                let config = Config {
                    policy: *policy,
                    allocator,
                    budget,
                    num_blocks: self.kv_blocks,
                    block_size: self.block_size,
                    max_seqs: self.max_seqs,
                    max_len: Some(max_len),
                    ..Config::default()
                };
                if configs.iter().all(|(known, ..)| *known != name) {
                    configs.push((name, change, config));
                }
            }
        }
        configs
    }

    fn report(&self, log: &[Arrival], max_len: usize) -> ReplayReport {
        ReplayReport {
            log: self.log.display().to_string(),
            requests: log.len(),
            prompt_tokens: log.iter().map(|arrival| arrival.prompt).sum(),
            seconds: log.iter().map(|arrival| arrival.at).max().unwrap_or_default().as_secs_f64(),
            step_ms: self.step_ms,
            row_us: self.row_us,
            max_len,
            slots: self.kv_blocks.saturating_mul(self.block_size),
            max_seqs: self.max_seqs,
            plays: Vec::new(),
            theatre: Vec::new(),
        }
    }
}

fn duration(option: &str, value: f64, a_second: f64) -> Result<Duration, Failure> {
    // THRESHOLD: a minute and more is refused; tested by
    // crates/cli/tests/program/replay.rs::a_line_that_is_no_request_is_refused_with_its_number
    let duration = Duration::try_from_secs_f64(value / a_second).ok().filter(|of| of.as_secs() < 60);
    duration.ok_or_else(|| Failure::usage(format!("{option}: {value} is not a time from 0 to a minute")))
}

impl PlayedPolicy {
    fn of(name: String, change: &'static str, config: &Config, seen: &ReplayResult) -> Self {
        let ms = |time: Duration| 1e3 * time.as_secs_f64();
        let num = seen.first_token.len();
        let late = (num * 99).div_ceil(100).saturating_sub(1);
        Self {
            name,
            change,
            budget: config.budget,
            steps: seen.steps,
            rows: seen.rows,
            padding_rows: seen.padding_rows,
            tokens: seen.tokens,
            seconds: seen.wall.as_secs_f64(),
            tokens_per_second: if seen.wall.is_zero() { 0.0 } else { seen.tokens as f64 / seen.wall.as_secs_f64() },
            mean_first_token_ms: seen.first_token.iter().map(|time| ms(*time)).sum::<f64>() / num.max(1) as f64,
            p99_first_token_ms: seen.first_token.get(late).map_or(0.0, |time| ms(*time)),
            longest_wait_ms: ms(seen.longest_wait),
            preemptions: seen.preemptions,
            unfilled: seen.unfilled,
            external: seen.external,
        }
    }
}

fn subtitle(report: &ReplayReport) -> String {
    let tokens = report.plays.first().map_or(0, |play| play.tokens);
    format!(
        "{}: {} requests within {:.1} s, {} tokens of prompts and {} of answers; {} slots, at most {} sequences; a step \
         takes {} ms and {} us a row",
        report.log,
        grouped(report.requests as u64),
        report.seconds,
        grouped(report.prompt_tokens as u64),
        grouped(tokens),
        grouped(report.slots as u64),
        report.max_seqs,
        report.step_ms,
        report.row_us,
    )
}

fn text(report: &ReplayReport) -> String {
    let mut table = Table::new(["", "", "", "", "first token, ms", "", "longest", "", "", "", ""]);
    let heading = ["policy", "budget", "steps", "padding", "mean", "p99", "wait, ms", "tok/s", "preempted", "unfilled"];
    table.row(heading.into_iter().chain(["external"]).map(str::to_owned).collect::<Vec<_>>());
    for play in &report.plays {
        let ms = |time: f64| grouped(time.round() as u64);
        let share = |part: f64| format!("{:.1} %", 100.0 * part);
        table.row([
            play.name.clone(),
            grouped(play.budget as u64),
            grouped(play.steps),
            grouped(play.padding_rows),
            ms(play.mean_first_token_ms),
            ms(play.p99_first_token_ms),
            ms(play.longest_wait_ms),
            grouped(play.tokens_per_second.round() as u64),
            grouped(play.preemptions),
            share(play.unfilled),
            share(play.external),
        ]);
        table.text(&format!("{}.", play.change));
    }
    format!(
        "replay of {}\n\n{}\nfirst token: from a request's arrival; longest wait: from one token of an answer to its \
         next;\nunfilled: slots that are held and empty; external: free, but not side by side; shares of all slots over\n\
         the time of all steps. Times are of a model of a step, not measured.\n",
        subtitle(report),
        table.render()
    )
}

//! `bench`: how fast operators are, or on the virtual GPU how much they move; `bench serve`: what
//! clients of a language model see; `bench quality`: how well it predicts a text; `bench transfer`: copies between host and device.

pub(crate) mod markdown;
#[cfg(feature = "engine")]
mod quality;
#[cfg(feature = "engine")]
mod serve;
mod transfer;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use warpfold_bench::{self as bench, Record};
use warpfold_report::{Kind, Page};

use crate::failure::Failure;
use crate::output::{self, Form, ReportTo};
use crate::progress::Progress;
use crate::table::{Table, grouped};
use crate::{Ending, device_choice, profile};

/// Measures operators at the shapes that peers report.
///
/// On an NVIDIA GPU by events, over inputs that no cache holds; shares are of a copy within the
/// device's memory in the same run. On the virtual GPU by counters, at smaller shapes: sectors
/// moved, of those that had to be. On both, results are compared with a reference on samples; a
/// wrong one is exit code 1.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    other: Option<Other>,
    /// copy, sum, argmax, softmax, norm, scale, cross-entropy, scan, segments, map, gemv,
    /// histogram, matmul, quantized (weights of few bits, beside bf16), conv, attention,
    /// determinism (what a fixed order costs against atomics); without any all of them.
    #[arg(value_name = "FAMILY")]
    families: Vec<String>,
    /// virtual, virtual:h200, virtual:a100 or cuda:N; unless given what WARPFOLD_DEVICE says, or
    /// the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    to: ReportTo,
    #[command(flatten)]
    profile: profile::Options,
    /// Measure nothing; print recorded runs (of --report json) as Markdown tables.
    #[arg(long, value_name = "RUN.json", num_args = 1.., conflicts_with_all = ["families", "device", "report", "output"])]
    markdown: Vec<PathBuf>,
}

/// The family that shares are of.
const COPY: &str = "copy";

/// Benchmarks other than those of operators.
#[derive(Debug, Subcommand)]
enum Other {
    #[cfg(feature = "engine")]
    Quality(quality::Quality),
    #[cfg(feature = "engine")]
    Serve(Box<serve::Serve>),
    Transfer(transfer::Transfer),
}

impl Bench {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        match &self.other {
            #[cfg(feature = "engine")]
            Some(Other::Quality(quality)) => return quality.run(),
            #[cfg(feature = "engine")]
            Some(Other::Serve(serve)) => return serve.run(),
            Some(Other::Transfer(transfer)) => return transfer.run(),
            None => {}
        }
        if !self.markdown.is_empty() {
            let tables = self.markdown.iter().map(|path| markdown::of_file(path)).collect::<Result<Vec<_>, _>>()?;
            output::print(&tables.join("\n"))?;
            return Ok(Ending::Clean);
        }
        self.to.check()?;
        if self.profile.is_printed() && self.to.form == Form::Html {
            return Err(Failure::usage("--profile has no picture: --report table or json, or --profile-json FILE"));
        }
        let device = device_choice::open(self.device.as_deref())?;
        // Shares need the copy of the same run.
        let is_copy_asked = self.families.is_empty() || self.families.iter().any(|family| family == COPY);
        let mut records: Vec<Record> = Vec::new();
        let progress = Progress::new();
        self.profile.start(&device)?;
        let mut measure = |families: &[String]| {
            bench::run(&device, families, |record| {
                records.push(record.clone());
                progress.begin(format!("{} cases measured, the latest {}", records.len(), record.case));
            })
        };
        let copied = match is_copy_asked || device.is_virtual() {
            true => Ok(()),
            false => device.unrecorded(|| measure(&[COPY.to_owned()])),
        };
        let ran = copied.and_then(|()| measure(&self.families));
        progress.end();
        ran?;
        for record in &records {
            if let Some(reason) = &record.no_peer {
                output::note(&format!("{}: no peer: {reason}\n", record.case));
            }
        }
        let recorded = self.profile.finish(&device)?;
        let copy = records.iter().find(|record| record.family == COPY).and_then(Record::gigabytes_per_second);
        let name = device.to_string();
        match self.to.form {
            Form::Table => {
                let profile = recorded.map_or_else(String::new, |recorded| format!("\n{}", profile::tables(&recorded)));
                self.to.write(&(text(&name, &records, copy) + &profile))?;
            }
            Form::Json => {
                let mut report = json(&name, &records, copy);
                if let (Some(recorded), Some(report)) = (recorded, report.as_object_mut()) {
                    report.insert("profile".to_owned(), profile::json(&recorded));
                }
                self.to.write_json(&report)?;
            }
            Form::Html => self.to.write_page(&page(&name, &records, copy))?,
        }
        let is_wrong = records.iter().any(|record| record.wrong().is_some());
        Ok(if is_wrong { Ending::Findings } else { Ending::Clean })
    }
}

fn page(device: &str, records: &[Record], copy: Option<f64>) -> Page {
    let mut page = Page::new(Kind::Bench, "Operators", &json(device, records, copy), &output::about());
    page.subtitle = format!("{} cases on {device}", records.len());
    page.is_ok = records.iter().all(|record| record.wrong().is_none());
    page.verdict = match copy {
        Some(copy) => format!("A copy within the device's memory reaches {copy:.0} GB/s in the same run."),
        None => "The virtual GPU counts what hardware would do; it has no clock, so there are no times.".to_owned(),
    };
    page
}

fn text(device: &str, records: &[Record], copy: Option<f64>) -> String {
    let is_timed = records.iter().any(|record| record.time.is_some());
    let mut table = if is_timed {
        Table::new(["case", "launches", "time", "least", "most", "GB/s", "of copy", "TFLOP/s", "of peer"])
    } else {
        Table::new(["case", "launches", "sectors loaded", "stored", "of ideal", "bank conflicts", "warp instructions"])
    };
    for record in records {
        match (record.time, record.counters) {
            (Some(time), _) => {
                let micros = |time: std::time::Duration| format!("{:.2} us", time.as_secs_f64() * 1e6);
                let speed = record.gigabytes_per_second().unwrap_or_default();
                let share = copy.map_or_else(|| "-".to_owned(), |copy| format!("{:.1} %", 100.0 * speed / copy));
                table.row([
                    record.case.clone(),
                    record.launches.to_string(),
                    micros(time.median),
                    micros(time.least),
                    micros(time.most),
                    format!("{speed:.1}"),
                    share,
                    record.teraflops_per_second().map_or_else(String::new, |speed| format!("{speed:.1}")),
                    record.speed_of_peer().map_or_else(String::new, |times| format!("{times:.3}x")),
                ]);
            }
            (None, counters) => {
                let c = counters.unwrap_or_default();
                table.row([
                    record.case.clone(),
                    record.launches.to_string(),
                    grouped(c.global_load_sectors),
                    grouped(c.global_store_sectors),
                    record.sectors_of_ideal().map_or_else(|| "-".to_owned(), |share| format!("{share:.3}x")),
                    grouped(c.shared_load_bank_conflicts + c.shared_store_bank_conflicts),
                    grouped(c.warp_instructions),
                ]);
            }
        }
    }
    let costs = cost_text(&bench::costs(records));
    let note = match (is_timed, records.is_empty()) {
        (true, _) => "",
        (false, true) => "no case: a copy by the driver moves no sector that the virtual GPU counts\n",
        (false, false) => {
            "shapes are cut to what the virtual GPU counts in minutes at most; a GPU measures the full ones\n"
        }
    };
    format!("on {device}\n{note}\n{}\n{}{costs}", table.render(), checked_text(records))
}

/// Formats the number of compared results, and a line for each wrong case.
fn checked_text(records: &[Record]) -> String {
    let wrong = records.iter().filter_map(|record| Some(format!("wrong: {}: {}\n", record.case, record.wrong()?)));
    let wrong: String = wrong.collect();
    let right = records.iter().filter(|record| record.right().is_some()).count();
    let of = "cases right on samples from the first result to the last, by a reference in double precision";
    format!("results verified: {right} of {} {of}\n{wrong}", records.len())
}

/// A line for each sum whose bits do not depend on timing.
fn cost_text(costs: &[bench::Cost]) -> String {
    let line = |cost: &bench::Cost| match (cost.time, cost.counts) {
        (Some(time), _) => format!("{}: {time:.3}x the time of atomics\n", cost.case),
        (None, Some([sectors, instructions])) => {
            format!("{}: {sectors:.3}x the sectors of atomics, {instructions:.3}x the warp instructions\n", cost.case)
        }
        (None, None) => String::new(),
    };
    let lines: String = costs.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nwhat determinism costs\n{lines}") }
}

fn json(device: &str, records: &[Record], copy: Option<f64>) -> serde_json::Value {
    let cases = records.iter().map(|record| {
        let seconds =
            |pick: fn(&bench::Time) -> std::time::Duration| record.time.as_ref().map(|t| pick(t).as_secs_f64());
        serde_json::json!({
            "family": record.family,
            "case": record.case,
            "checked": record.right(),
            "wrong": record.wrong(),
            "bytes": record.bytes,
            "launches": record.launches,
            "seconds": seconds(|t| t.median),
            "least_seconds": seconds(|t| t.least),
            "most_seconds": seconds(|t| t.most),
            "gigabytes_per_second": record.gigabytes_per_second(),
            "share_of_copy": copy.and_then(|copy| record.gigabytes_per_second().map(|speed| speed / copy)),
            "teraflops_per_second": record.teraflops_per_second(),
            "peer": record.peer.map(|peer| peer.name),
            "peer_seconds": record.peer.map(|peer| peer.time.median.as_secs_f64()),
            "speed_of_peer": record.speed_of_peer(),
            "no_peer": record.no_peer,
            "counters": record.counters.as_ref().map(crate::json::Counters::from),
        })
    });
    let costs = bench::costs(records).into_iter().map(|cost| {
        let [sectors, instructions] = cost.counts.map_or([None; 2], |counts| counts.map(Some));
        serde_json::json!({ "case": cost.case, "time_of_atomics": cost.time, "sectors_of_atomics": sectors, "warp_instructions_of_atomics": instructions })
    });
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|now| now.as_secs());
    serde_json::json!({ "device": device, "unix_seconds": unix_seconds, "copy_gigabytes_per_second": copy, "determinism": costs.collect::<Vec<_>>(), "cases": cases.collect::<Vec<_>>() })
}

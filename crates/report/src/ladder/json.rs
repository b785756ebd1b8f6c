//! A ladder's report as JSON.

use serde::Serialize;
use warpfold_ladders::ladder::{Ladder, LadderReport, RungReport};

use crate::json::{Counters, Finding};

/// A ladder's report as JSON.
#[derive(Debug, Serialize)]
pub struct LadderJson<'a> {
    ladder: &'a str,
    device: &'a str,
    problem: Problem<'a>,
    rungs: Vec<Rung<'a>>,
    /// Only where the device cannot run some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent: Vec<Absent<'a>>,
    /// `null` without a clock.
    copy_gigabytes_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Absent<'a> {
    name: &'a str,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct Problem<'a> {
    size: Size,
    dtype: &'a str,
}

/// Elements, or numbers as `512x512x512`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Size {
    Elements(u64),
    Numbers(String),
}

#[derive(Debug, Serialize)]
struct Rung<'a> {
    name: &'a str,
    /// Hash of its kernels and launches, by which a record knows them again.
    fingerprint: String,
    ok: bool,
    /// `null` where there is no result.
    max_error: Option<f64>,
    /// `null` on the virtual GPU, which has no clock.
    seconds: Option<f64>,
    gigabytes_per_second: Option<f64>,
    /// Only of problems whose operations are counted, on a device with a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    teraflops_per_second: Option<f64>,
    /// `null` on CUDA.
    counters: Option<Counters>,
    findings: Vec<Finding<'a>>,
    /// Why the run failed, where it did.
    failure: Option<&'a str>,
    /// Only of a race by design.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_race: bool,
    blocks: u64,
    sentence: &'a str,
}

impl<'a> LadderJson<'a> {
    /// The report of a ladder.
    #[must_use]
    pub fn new(ladder: &Ladder, report: &'a LadderReport) -> Self {
        let size = ladder.size_text(report.size).map_or(Size::Elements(report.size), Size::Numbers);
        Self {
            ladder: report.ladder,
            device: &report.device,
            problem: Problem { size, dtype: report.dtype.name() },
            rungs: report.rungs.iter().map(|rung| Rung::new(ladder, report, rung)).collect(),
            absent: report.absent.iter().map(|absent| Absent { name: absent.name, reason: &absent.reason }).collect(),
            copy_gigabytes_per_second: report.copy_gigabytes_per_second,
        }
    }
}

impl<'a> Rung<'a> {
    fn new(ladder: &Ladder, report: &LadderReport, rung: &'a RungReport) -> Self {
        let known = ladder.rung(rung.name).expect("a report is of its ladder");
        Self {
            name: rung.name,
            fingerprint: known.fingerprint(report.dtype, report.size),
            ok: rung.ok,
            max_error: Some(rung.max_error).filter(|error| error.is_finite()),
            seconds: rung.seconds,
            gigabytes_per_second: rung.gigabytes_per_second,
            teraflops_per_second: rung.teraflops_per_second,
            counters: rung.counters.as_ref().map(Counters::from),
            findings: rung.findings.iter().map(Finding::from).collect(),
            failure: rung.failure.as_deref(),
            is_race: rung.is_race,
            blocks: rung.blocks,
            sentence: &rung.sentence,
        }
    }
}

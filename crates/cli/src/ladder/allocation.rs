//! `warpfold ladder allocation`: scratch memory by malloc, from a pool, from a workspace.

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::allocation::{Outcome, compare, requests};
use warpfold_ladders::ladder as ladders;

use crate::Ending;
use crate::failure::Failure;
use crate::output::{ReportTo, Rungs};
use crate::progress::Progress;
use crate::table::{Table, grouped, time};

/// The name of the ladder, and its problem.
pub(super) const NAME: &str = "allocation";
pub(super) const PROBLEM: &str = "scratch memory for calls of many sizes";

/// Its rungs.
pub(super) const RUNGS: [&str; 3] = ["malloc", "pool", "workspace"];

const CALLS: usize = 1000;

/// Runs it and prints the report.
pub(super) fn run(device: &Device, size: Option<&str>, to: &ReportTo) -> Result<Ending, Failure> {
    let calls = size.map_or(Some(CALLS), ladders::number).filter(|n| (1..=1_000_000).contains(n));
    let calls = calls.ok_or_else(|| {
        Failure::usage(format!("'{}' is not a number of calls from 1 to 1000000", size.unwrap_or_default()))
    })?;
    let outcomes = Progress::of(device, NAME, || Ok(compare(device, &requests(calls))?))?;
    let record = json!({
        "ladder": NAME,
        "device": device.to_string(),
        "problem": { "calls": calls },
        "rungs": outcomes.iter().map(|outcome| json!({
            "name": outcome.name,
            "ok": outcome.ok,
            "allocations": outcome.allocations,
            "frees": outcome.frees,
            "peak_bytes": outcome.peak_bytes,
            "seconds": outcome.time.map(|time| time.as_secs_f64()),
            "sentence": outcome.changed,
        })).collect::<Vec<_>>(),
    });
    let right = outcomes.iter().filter(|outcome| outcome.ok).count();
    let subtitle = format!("{PROBLEM}: {} calls on {device}", grouped(calls as u64));
    let about = Rungs { ladder: NAME, subtitle, right, all: outcomes.len() };
    to.write_rungs(&text(device, calls, &outcomes), &record, about)?;
    Ok(if outcomes.iter().all(|outcome| outcome.ok) { Ending::Clean } else { Ending::Findings })
}

fn text(device: &Device, calls: usize, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(["rung", "result", "allocations", "frees", "peak bytes", "time in both"]);
    for outcome in outcomes {
        table.row([
            outcome.name.to_owned(),
            if outcome.ok { "right" } else { "WRONG" }.to_owned(),
            grouped(outcome.allocations),
            grouped(outcome.frees),
            grouped(outcome.peak_bytes),
            outcome.time.map_or_else(|| "-".to_owned(), |took| time(took.as_secs_f64())),
        ]);
        table.text(&format!("{}.", outcome.changed));
    }
    let clock = if outcomes.iter().any(|outcome| outcome.time.is_some()) {
        ""
    } else {
        "\nthe virtual GPU counts calls; it has no clock, so there are no times\n"
    };
    format!("{NAME}: {PROBLEM}\n{} calls on {device}\n\n{}{clock}", grouped(calls as u64), table.render())
}

//! `warpfold ladder all_reduce`: a sum on every one of several devices, from naive to shipped.

use std::time::{Duration, Instant};

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::all_reduce::{self, Counts, Instance, NAME, RUNGS, Rung};

use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::ladder::Asked;
use crate::output::Rungs;
use crate::progress::Progress;
use crate::table::{Table, grouped};

/// Elements unless said: on virtual devices few, which count all the same.
const VIRTUAL_SIZE: usize = 4096;
const SIZE: usize = 1 << 22;
/// Runs that are timed; their median counts.
const RUNS: usize = 11;

pub(super) fn run(asked: &Asked<'_>, num_devices: Option<usize>) -> Result<Ending, Failure> {
    let rungs = match asked.rungs {
        [] => RUNGS.iter().collect::<Vec<_>>(),
        names => names.iter().map(|name| all_reduce::rung(name)).collect::<Result<_, _>>()?,
    };
    let size = asked.elements(1 << 28)?;
    let devices = device_choice::open_several(asked.device, num_devices, 4)?;
    let is_virtual = devices[0].is_virtual();
    let size = size.unwrap_or(if is_virtual { VIRTUAL_SIZE } else { SIZE });
    let mut instance = Instance::open(&devices, size)?;
    let mut results: Vec<(&Rung, Option<(Counts, Option<Duration>)>)> = Vec::new();
    let (progress, num_rungs) = (Progress::new(), rungs.len());
    for (rung_idx, rung) in rungs.into_iter().enumerate() {
        progress.begin(format!("{} ({} of {num_rungs})", rung.name, rung_idx + 1));
        if !instance.can_run(rung) {
            results.push((rung, None));
            continue;
        }
        let counts = instance.run(rung)?;
        let time = if is_virtual { None } else { Some(time(&mut instance, rung)?) };
        results.push((rung, Some((counts, time))));
    }
    progress.end();
    let ran: Vec<_> = results.iter().filter_map(|(_, result)| result.as_ref()).collect();
    let (right, all) = (ran.iter().filter(|(counts, _)| counts.is_right).count(), ran.len());
    let subtitle = format!("{} on {}", problem(&devices, size), devices[0]);
    let about = Rungs { ladder: NAME, subtitle, right, all };
    asked.to.write_rungs(&text(&devices, size, &results), &record(&devices, size, &results), about)?;
    Ok(if right == all { Ending::Clean } else { Ending::Findings })
}

fn time(instance: &mut Instance, rung: &Rung) -> Result<Duration, Failure> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        instance.reduce(rung)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[RUNS / 2])
}

type Results<'a> = [(&'a Rung, Option<(Counts, Option<Duration>)>)];

fn text(devices: &[Device], size: usize, results: &Results<'_>) -> String {
    let mut table =
        Table::new(["rung", "result", "steps", "bytes in all", "busiest link", "busiest device in", "bits", "time"]);
    for (rung, result) in results {
        let Some((counts, time)) = result else {
            table.row([rung.name, "-", "-", "-", "-", "-", "-", "-"].map(str::to_owned));
            table.text(&format!("{}. Needs a power of two of devices.", rung.changed));
            continue;
        };
        table.row([
            rung.name.to_owned(),
            if counts.is_right { "ok" } else { "WRONG" }.to_owned(),
            counts.steps.to_string(),
            grouped(counts.total_bytes()),
            grouped(counts.busiest_link()),
            grouped(counts.busiest_device()),
            match (counts.is_in_order, counts.is_same) {
                (true, _) => "rank order",
                (false, true) => "all the same",
                (false, false) => "DIFFERENT",
            }
            .to_owned(),
            time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} us", time.as_secs_f64() * 1e6)),
        ]);
        table.text(&format!("{}.", rung.changed));
    }
    format!("{NAME}: {}, {}\n\n{}", problem(devices, size), devices[0], table.render())
}

fn problem(devices: &[Device], size: usize) -> String {
    format!("the sum of {} f32 on each of {} devices", grouped(size as u64), devices.len())
}

fn record(devices: &[Device], size: usize, results: &Results<'_>) -> serde_json::Value {
    let rung = |(rung, result): &(&Rung, Option<(Counts, Option<Duration>)>)| match result {
        None => json!({ "name": rung.name, "skipped": "needs a power of two of devices" }),
        Some((counts, time)) => json!({
            "name": rung.name,
            "changed": rung.changed,
            "right": counts.is_right,
            "same_bits": counts.is_same,
            "rank_order": counts.is_in_order,
            "steps": counts.steps,
            "bytes": counts.total_bytes(),
            "links": counts.links,
            "seconds": time.map(|time| time.as_secs_f64()),
        }),
    };
    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    json!({ "ladder": NAME, "devices": devices, "size": size, "rungs": results.iter().map(rung).collect::<Vec<_>>() })
}

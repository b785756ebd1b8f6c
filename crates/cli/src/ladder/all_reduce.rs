//! `warpfold ladder all_reduce`: a sum on every one of several devices, from naive to shipped.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::all_reduce::{self, Counts, Instance, NAME, RUNGS, Rung};

use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::host;
use crate::ladder::Asked;
use crate::output::Rungs;
use crate::progress::Progress;
use crate::table::{Table, grouped};

/// Elements unless said: on virtual devices few, which count all the same.
const VIRTUAL_SIZE: usize = 4096;
const SIZE: usize = 1 << 22;
/// Runs that are timed, of all rungs in turns; their median counts.
const RUNS: usize = 11;
/// Bytes that the calls of a run reduce together, where those are from 2 to 200.
const BYTES_OF_RUN: usize = 1 << 30;

pub(super) fn run(asked: &Asked<'_>, num_devices: Option<usize>, nccl: Option<&Path>) -> Result<Ending, Failure> {
    let mut rungs = match asked.rungs {
        [] => RUNGS.iter().collect::<Vec<_>>(),
        names => names.iter().map(|name| all_reduce::rung(name)).collect::<Result<_, _>>()?,
    };
    let size = asked.elements(1 << 28)?;
    let devices = device_choice::open_several(asked.device, num_devices, 4)?;
    let is_virtual = devices[0].is_virtual();
    let size = size.unwrap_or(if is_virtual { VIRTUAL_SIZE } else { SIZE });
    let mut instance = Instance::open(&devices, size)?;
    let version = nccl.map(|place| instance.load_nccl(&[place.to_owned()])).transpose()?;
    rungs.extend(version.iter().map(|_| &all_reduce::NCCL));
    let mut results: Vec<(&Rung, Option<(Counts, Option<Duration>)>)> = Vec::new();
    let (progress, num_rungs) = (Progress::new(), rungs.len());
    for (rung_idx, rung) in rungs.into_iter().enumerate() {
        progress.begin(format!("{} ({} of {num_rungs})", rung.name, rung_idx + 1));
        let counts = if instance.can_run(rung) { Some((instance.run(rung)?, None)) } else { None };
        results.push((rung, counts));
    }
    if !is_virtual {
        progress.begin("times".to_owned());
        time(&mut instance, &mut results, (BYTES_OF_RUN / (4 * size)).clamp(2, 200))?;
    }
    progress.end();
    let ran: Vec<_> = results.iter().filter_map(|(_, result)| result.as_ref()).collect();
    let (right, all) = (ran.iter().filter(|(counts, _)| counts.is_right).count(), ran.len());
    let subtitle = format!("{} on {}", problem(&devices, size), devices[0]);
    let about = Rungs { ladder: NAME, subtitle, right, all };
    let mut record = record(&devices, size, &results);
    record["nccl"] = version.into();
    asked.to.write_rungs(&text(&devices, size, &results), &record, about)?;
    Ok(if right == all { Ending::Clean } else { Ending::Findings })
}

/// Times all rungs in turns: so many calls at a time.
fn time(
    instance: &mut Instance,
    results: &mut [(&Rung, Option<(Counts, Option<Duration>)>)],
    calls: usize,
) -> Result<(), Failure> {
    let mut times = vec![Vec::new(); results.len()];
    // The first turn captures graphs and is not counted.
    for turn in 0..=RUNS {
        for ((rung, _), times) in results.iter().zip(&mut times).filter(|((_, result), _)| result.is_some()) {
            let start = host::Instant::now();
            instance.reduce(rung, calls)?;
            if turn > 0 {
                times.push(start.elapsed() / calls as u32);
            }
        }
    }
    for ((_, result), mut times) in results.iter_mut().zip(times) {
        times.sort_unstable();
        if let Some((_, time)) = result {
            *time = times.get(RUNS / 2).copied();
        }
    }
    Ok(())
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
        // What NCCL does inside is not known.
        let known = |text: String| if counts.steps > 0 { text } else { "-".to_owned() };
        table.row([
            rung.name.to_owned(),
            if counts.is_right { "ok" } else { "WRONG" }.to_owned(),
            known(counts.steps.to_string()),
            known(grouped(counts.total_bytes())),
            known(grouped(counts.busiest_link())),
            known(grouped(counts.busiest_device())),
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
        Some((counts, time)) => {
            let is_known = counts.steps > 0;
            json!({
                "name": rung.name,
                "changed": rung.changed,
                "right": counts.is_right,
                "same_bits": counts.is_same,
                "rank_order": counts.is_in_order,
                "steps": is_known.then_some(counts.steps),
                "bytes": is_known.then(|| counts.total_bytes()),
                "links": is_known.then_some(&counts.links),
                "seconds": time.map(|time| time.as_secs_f64()),
            })
        }
    };
    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    let rungs: Vec<_> = results.iter().map(rung).collect();
    json!({ "ladder": NAME, "devices": devices, "unix_seconds": host::unix_seconds(), "size": size, "rungs": rungs })
}

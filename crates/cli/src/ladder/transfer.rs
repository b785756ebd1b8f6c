//! `warpfold ladder transfer`: copies between host and device, from plain to overlapped.

use serde_json::json;
use warpfold_device::Device;
use warpfold_ladders::transfer::{self, Instance, NAME, RUNGS, Rung, Trace, timeline};
use warpfold_report::{Kind, Page};

use crate::failure::Failure;
use crate::ladder::Asked;
use crate::output::Form;
use crate::progress::Progress;
use crate::table::{Table, grouped};
use crate::{Ending, device_choice, output};

/// Elements unless said.
const VIRTUAL_SIZE: usize = 1 << 14;
const SIZE: usize = 1 << 24;

pub(super) fn run(asked: &Asked<'_>) -> Result<Ending, Failure> {
    let rungs = match asked.rungs {
        [] => RUNGS.iter().collect::<Vec<_>>(),
        names => names.iter().map(|name| transfer::rung(name)).collect::<Result<_, _>>()?,
    };
    let size = asked.elements(1 << 30)?;
    let device = device_choice::open(asked.device)?;
    let size = size.unwrap_or(if device.is_virtual() { VIRTUAL_SIZE } else { SIZE });
    let mut instance = Instance::open(&device, size)?;
    let mut results = Vec::new();
    let (progress, num_rungs) = (Progress::new(), rungs.len());
    for (rung_idx, rung) in rungs.into_iter().enumerate() {
        progress.begin(format!("{} ({} of {num_rungs})", rung.name, rung_idx + 1));
        if !device.is_virtual() {
            instance.run(rung)?; // The first run of a kernel and of a stream takes longer.
        }
        results.push((rung, instance.run(rung)?));
    }
    progress.end();
    match asked.to.form {
        Form::Table => asked.to.write(&text(&device, size, &results))?,
        Form::Json => asked.to.write_json(&record(&device, size, &results))?,
        Form::Html => asked.to.write_page(&page(&device, size, &results))?,
    }
    Ok(if results.iter().all(|(_, trace)| trace.is_right) { Ending::Clean } else { Ending::Findings })
}

fn text(device: &Device, size: usize, results: &[(&Rung, Trace)]) -> String {
    let mut table = Table::new(["rung", "result", "calls", "bytes over the bus", "time", "GB/s", "overlap"]);
    for (rung, trace) in results {
        let seconds = trace.duration().map(|time| time.as_secs_f64());
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            rung.name.to_owned(),
            if trace.is_right { "ok" } else { "WRONG" }.to_owned(),
            trace.events.len().to_string(),
            grouped(trace.bytes()),
            or_none(seconds.map(|s| format!("{:.3} ms", s * 1e3))),
            or_none(seconds.map(|s| format!("{:.1}", trace.bytes() as f64 / s / 1e9))),
            if trace.overlaps() { "yes" } else { "no" }.to_owned(),
        ]);
        table.text(&format!("{}.", rung.changed));
    }
    let lines = results.iter().map(|(rung, trace)| format!("\n{}\n{}", rung.name, timeline(trace)));
    let about = "H to the device, K kernel, D to the host, G graph; the digit is the chunk";
    let columns =
        if device.is_virtual() { "by the step in which each can run if all take equally long" } else { "by time" };
    format!(
        "transfer: {} f32 to the device, through a kernel, and back, on {device}\n\n{}\nTimelines, {columns}:\n{about}.\n{}",
        grouped(size as u64),
        table.render(),
        lines.collect::<String>()
    )
}

fn page(device: &Device, size: usize, results: &[(&Rung, Trace)]) -> Page {
    let mut page = Page::new(Kind::Timeline, NAME, &record(device, size, results), &output::about());
    page.subtitle = format!("{} f32 to the device, through a kernel, and back, on {device}", grouped(size as u64));
    let right = results.iter().filter(|(_, trace)| trace.is_right).count();
    let overlapped = results.iter().filter(|(_, trace)| trace.overlaps()).count();
    page.is_ok = right == results.len();
    page.verdict = format!("{right} of {} rungs right; in {overlapped} a copy overlaps a kernel.", results.len());
    page
}

fn record(device: &Device, size: usize, results: &[(&Rung, Trace)]) -> serde_json::Value {
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let rung = |(rung, trace): &(&Rung, Trace)| {
        let event = |(event, step): (&transfer::Event, usize)| {
            json!({
                "what": format!("{:?}", event.what),
                "stream": event.stream,
                "chunk": event.chunk,
                "bytes": event.bytes,
                "step": step,
                "microseconds": event.time.map(|(start, end)| [micros(start), micros(end)]),
            })
        };
        json!({
            "name": rung.name,
            "changed": rung.changed,
            "right": trace.is_right,
            "bytes": trace.bytes(),
            "seconds": trace.duration().map(|time| time.as_secs_f64()),
            "overlaps": trace.overlaps(),
            "events": trace.events.iter().zip(trace.steps()).map(event).collect::<Vec<_>>(),
        })
    };
    json!({
        "ladder": NAME,
        "device": device.to_string(),
        "size": size,
        "rungs": results.iter().map(rung).collect::<Vec<_>>(),
    })
}

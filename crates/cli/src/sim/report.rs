//! How a run is reported: tables for people, JSON for programs.

use serde::Serialize;
use warpfold_report::{Drawing, Kind, Page, Shape, annotated};
use warpfold_sim::{Counters, Report};

use super::{Check, Sim};
use crate::failure::Failure;
use crate::json;
use crate::output::{self, Form};
use crate::table::{Table, grouped, ratio, wrapped};

/// The report as JSON.
#[derive(Debug, Serialize)]
struct Json<'a> {
    kernel: &'a str,
    /// The virtual GPU has no clock.
    seconds: Option<f64>,
    findings: Vec<json::Finding<'a>>,
    counters: json::Counters,
    /// Whether the run ended at a fault.
    aborted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Vec<json::Instruction<'a>>>,
}

/// Writes the report; `saved` are the arrays written, `text` is the PTX.
pub(super) fn write(sim: &Sim, report: &Report, saved: &[String], text: &str) -> Result<(), Failure> {
    match sim.to.form {
        Form::Table => sim.to.write(&table(sim, report, saved, text)),
        Form::Json => sim.to.write_json(&json(sim, report)),
        Form::Html => sim.to.write_page(&page(sim, report, text)),
    }
}

fn page(sim: &Sim, report: &Report, text: &str) -> Page {
    let shape = Shape { arch: sim.arch, grid: sim.grid, block: sim.block, dynamic_shared: sim.shared };
    let mut data = json(sim, report);
    // The drawing has them.
    data.instructions = None;
    let mut page = Page::new(Kind::Kernel, &sim.entry, &data, &output::about());
    page.subtitle = subtitle(sim);
    page.verdict = findings(report).lines().next().unwrap_or_default().to_owned() + ".";
    page.is_ok = !report.has_errors();
    page.kernels.insert(sim.entry.clone(), vec![Drawing::new(text, &sim.entry, &shape, report)]);
    page
}

fn json<'a>(sim: &'a Sim, report: &'a Report) -> Json<'a> {
    Json {
        kernel: &sim.entry,
        seconds: None,
        findings: report.findings.iter().map(json::Finding::from).collect(),
        counters: (&report.counters).into(),
        aborted: report.aborted,
        instructions: sim.annotate.then(|| report.instructions.iter().map(json::Instruction::from).collect()),
    }
}

/// What ran, in a line.
fn subtitle(sim: &Sim) -> String {
    let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    format!(
        "{} on the virtual GPU ({}): grid {}, block {}, {} checks",
        sim.entry,
        sim.arch,
        size(sim.grid),
        size(sim.block),
        if sim.check == Check::All { "all" } else { "no" },
    )
}

/// The report for people.
fn table(sim: &Sim, report: &Report, saved: &[String], text: &str) -> String {
    let mut page = subtitle(sim) + "\n\n";
    if sim.annotate {
        page.push_str(&annotated(text, &sim.entry, &report.instructions));
        page.push('\n');
    }
    page.push_str(&counters(&report.counters).render());
    page.push('\n');
    page.push_str(&findings(report));
    for array in saved {
        page.push_str(&format!("saved {array}\n"));
    }
    page
}

fn counters(c: &Counters) -> Table {
    let mut table = Table::new(["counter", "total", ""]);
    let mut row = |name: &str, count: u64, note: String| table.row([name.to_owned(), grouped(count), note]);
    let plain = String::new;
    row("warp instructions", c.warp_instructions, plain());
    let note = |part, whole, what: &str| if whole == 0 { plain() } else { format!("{} {what}", ratio(part, whole)) };
    let lanes = note(c.thread_instructions, c.warp_instructions, "of 32 lanes active");
    row("thread instructions", c.thread_instructions, lanes);
    row("branches", c.branches, plain());
    row("divergent branches", c.divergent_branches, plain());
    row("shared load wavefronts", c.shared_load_wavefronts, plain());
    row("shared load bank conflicts", c.shared_load_bank_conflicts, plain());
    row("shared store wavefronts", c.shared_store_wavefronts, plain());
    row("shared store bank conflicts", c.shared_store_bank_conflicts, plain());
    let sectors = |sectors, requests| note(sectors, requests, "a request");
    row("global load requests", c.global_load_requests, plain());
    row("global load sectors", c.global_load_sectors, sectors(c.global_load_sectors, c.global_load_requests));
    row("global store requests", c.global_store_requests, plain());
    row("global store sectors", c.global_store_sectors, sectors(c.global_store_sectors, c.global_store_requests));
    row("local requests", c.local_requests, plain());
    row("global atomics", c.global_atomics, plain());
    row("shared atomics", c.shared_atomics, plain());
    row("distributed shared requests", c.distributed_requests, plain());
    row("barriers", c.barriers, plain());
    row("warp synchronisations", c.warp_syncs, plain());
    table
}

fn findings(report: &Report) -> String {
    let mut text = match report.findings.len() {
        0 => "no findings\n".to_owned(),
        1 => "1 finding\n".to_owned(),
        n => format!("{n} findings\n"),
    };
    for finding in &report.findings {
        text.push_str(wrapped(&finding.to_string(), "  ").as_str());
    }
    if report.aborted {
        text.push_str("the run ended there, as hardware would have ended it\n");
    }
    text
}

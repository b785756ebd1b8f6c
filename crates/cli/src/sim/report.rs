//! How a run is reported: tables for people, JSON for programs.

use serde::Serialize;
use warpfold_sim::{Checks, Counters, Report};

use super::{Check, Sim, annotate};
use crate::failure::Failure;
use crate::json;
use crate::output;
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

/// Prints the report as JSON.
pub(super) fn print_json(sim: &Sim, report: &Report) -> Result<(), Failure> {
    output::print_json(&Json {
        kernel: &sim.entry,
        seconds: None,
        findings: report.findings.iter().map(json::Finding::from).collect(),
        counters: (&report.counters).into(),
        aborted: report.aborted,
        instructions: sim.annotate.then(|| report.instructions.iter().map(json::Instruction::from).collect()),
    })
}

/// Prints the report for people; `saved` are the arrays written, `text` is the PTX.
pub(super) fn print_table(sim: &Sim, report: &Report, saved: &[String], text: &str) -> Result<(), Failure> {
    let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    let mut page = format!(
        "{} on the virtual GPU ({}): grid {}, block {}, {} checks\n\n",
        sim.entry,
        sim.arch,
        size(sim.grid),
        size(sim.block),
        if sim.check == Check::All { "all" } else { "no" },
    );
    if sim.annotate {
        page.push_str(&annotate::annotated(text, &sim.entry, &report.instructions));
        page.push('\n');
    }
    page.push_str(&counters(&report.counters).render());
    page.push('\n');
    page.push_str(&findings(sim.check, report));
    for array in saved {
        page.push_str(&format!("saved {array}\n"));
    }
    output::print(&page)
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

fn findings(check: Check, report: &Report) -> String {
    let mut text = match report.findings.len() {
        0 => wrapped(&format!("no findings; {}", Checks::from(check).examined()), ""),
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

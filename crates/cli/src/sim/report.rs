//! Reports of a run: tables for people, JSON for programs.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;
use warpfold_report::{Drawing, Kind, Page, Shape, WarpSteps, annotated};
use warpfold_sim::predict::Prediction;
use warpfold_sim::{Counters, Group, Report, demangled};

use super::findings::{self, Picked};
use super::{Annotate, Check, Ran, Sim, annotate_source, suppress};
use crate::failure::Failure;
use crate::json;
use crate::output::{self, Form};
use crate::table::{Table, grouped, ratio};

/// Counts up with each change that programs have to know of; new fields are none.
const SCHEMA: u32 = 1;

/// The report as JSON.
#[derive(Debug, Serialize)]
struct Json<'a> {
    schema: u32,
    /// The PTX; `-` for standard input.
    file: String,
    kernel: &'a str,
    /// The kernel's name as its author wrote it.
    demangled: String,
    arch: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    dynamic_shared: u32,
    /// The virtual GPU has no clock.
    seconds: Option<f64>,
    /// What `--predict` asks for: no measured time.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<json::Prediction>,
    findings: Vec<json::Finding<'a>>,
    groups: Vec<json::Group<'a>>,
    /// Groups that `--max-findings` leaves out.
    hidden: usize,
    /// Groups that a suppression file leaves out.
    suppressed: usize,
    /// The last line of the report for people.
    summary: String,
    counters: json::Counters,
    /// The model that L1 hits were counted in.
    #[serde(skip_serializing_if = "Option::is_none")]
    l1_model: Option<String>,
    /// The counters under the names of NVIDIA's profiler.
    metrics: BTreeMap<&'static str, &'static str>,
    /// Set if the run ended at a fault.
    aborted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Vec<json::Instruction<'a>>>,
}

/// Writes the report; `saved` are the arrays written.
pub(super) fn write(
    sim: &Sim,
    run: &Ran<'_>,
    report: &Report,
    predicted: Option<&Prediction>,
    steps: Option<WarpSteps>,
    picked: &Picked,
    saved: &[String],
) -> Result<(), Failure> {
    sim.sarif.write(Some(&run.file), &json(sim, run, report, picked))?;
    match sim.to.form {
        Form::Table => sim.to.write(&table(sim, run, report, predicted, picked, saved)),
        Form::Json => sim
            .to
            .write_json(&Json { predicted: predicted.map(json::Prediction::from), ..json(sim, run, report, picked) }),
        Form::Html => {
            let mut page = page(sim, run, report, picked);
            page.steps = steps;
            sim.to.write_page(&page)
        }
    }
}

fn page(sim: &Sim, run: &Ran<'_>, report: &Report, picked: &Picked) -> Page {
    let shape = Shape { arch: sim.arch, grid: report.grid, block: report.block, dynamic_shared: run.dynamic_shared };
    let mut data = json(sim, run, report, picked);
    // The drawing has them.
    data.instructions = None;
    let name = demangled(&run.kernel.name);
    let mut page = Page::new(Kind::Kernel, &name, &data, &output::about());
    page.subtitle = subtitle(sim, run, report);
    page.verdict = data.summary.trim_end_matches('.').to_owned() + ".";
    page.is_ok = !picked.has_errors();
    let text_of = |file: &str| run.source.with(file, |lines| lines.join("\n"));
    let drawing = Drawing::new(run.text, &run.kernel.name, &shape, report).with_source(report, &text_of);
    page.kernels.insert(name, vec![drawing]);
    page
}

fn json<'a>(sim: &'a Sim, run: &'a Ran<'_>, report: &'a Report, picked: &'a Picked) -> Json<'a> {
    let group = |group: &'_ Group| suppress::rule_of(group, &report.findings[group.findings[0]]);
    Json {
        schema: SCHEMA,
        file: run.file.clone(),
        kernel: &run.kernel.name,
        demangled: demangled(&run.kernel.name),
        arch: sim.arch.to_string(),
        grid: report.grid,
        block: report.block,
        cluster: run.cluster,
        dynamic_shared: run.dynamic_shared,
        seconds: None,
        predicted: None,
        findings: report.findings.iter().map(json::Finding::from).collect(),
        groups: picked
            .groups
            .iter()
            .map(|g| json::Group {
                kind: g.kind.name(),
                severity: g.severity.name(),
                variable: g.variable.as_deref(),
                lines: &g.lines,
                findings: &g.findings,
                count: g.count,
                remedy: g.remedy.as_deref(),
                follows_from: g.follows_from,
                suppression: group(g),
            })
            .collect(),
        hidden: picked.hidden,
        suppressed: picked.suppressed,
        summary: findings::summary(sim, picked).split_whitespace().collect::<Vec<_>>().join(" "),
        counters: (&report.counters).into(),
        l1_model: report.l1.map(|model| model.to_string()),
        metrics: json::metrics(),
        aborted: report.aborted,
        instructions: sim.annotate.map(|_| report.instructions.iter().map(json::Instruction::from).collect()),
    }
}

/// Formats the kernel and its launch as a line.
fn subtitle(sim: &Sim, run: &Ran<'_>, report: &Report) -> String {
    let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    format!(
        "{} on the virtual GPU ({}): grid {}, block {}, {} checks",
        demangled(&run.kernel.name),
        sim.arch,
        size(report.grid),
        size(report.block),
        match (sim.shown.tool, sim.check) {
            (Some(tool), _) => tool.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned()),
            (None, Check::All) => "all".to_owned(),
            (None, Check::None) => "no".to_owned(),
        },
    )
}

/// The report for people.
fn table(
    sim: &Sim,
    run: &Ran<'_>,
    report: &Report,
    predicted: Option<&Prediction>,
    picked: &Picked,
    saved: &[String],
) -> String {
    let mut page = subtitle(sim, run, report) + "\n\n";
    if let Some(annotate) = sim.annotate {
        page.push_str(&match annotate {
            Annotate::Ptx => annotated(run.text, &run.kernel.name, &report.instructions),
            Annotate::Source => annotate_source::annotated(&report.instructions, run.source),
        });
        page.push('\n');
    }
    page.push_str(&counters(&report.counters).render());
    if let Some(model) = &report.l1 {
        page.push_str(&format!("{model}\n"));
    }
    page.push('\n');
    if let Some(predicted) = predicted {
        page.push_str(&format!("{predicted}\n"));
    }
    page.push_str(&findings::page(report, picked, run.source));
    for array in saved {
        page.push_str(&format!("saved {array}\n"));
    }
    page.push_str(&findings::summary(sim, picked));
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
    let sectors = |sectors, requests| note(sectors, requests, "per request");
    row("global load requests", c.global_load_requests, plain());
    row("global load sectors", c.global_load_sectors, sectors(c.global_load_sectors, c.global_load_requests));
    row("global store requests", c.global_store_requests, plain());
    row("global store sectors", c.global_store_sectors, sectors(c.global_store_sectors, c.global_store_requests));
    if let Some(rate) = c.l1_hit_rate() {
        row("L1 sectors looked up", c.l1_sectors, plain());
        row("L1 sectors found", c.l1_hit_sectors, format!("{:.2} % L1 hit rate", rate * 100.0));
    }
    row("local requests", c.local_requests, plain());
    row("global atomics", c.global_atomics, plain());
    row("shared atomics", c.shared_atomics, plain());
    row("distributed shared requests", c.distributed_requests, plain());
    row("barriers", c.barriers, plain());
    row("warp synchronisations", c.warp_syncs, plain());
    table
}

//! A ladder's report for people: a row a rung, and the sentence that explains it.

use warpfold_device::Counters;
use warpfold_kernels::ladder::{Ladder, LadderReport, RungReport};

use super::{Activity, profile};
use crate::failure::Failure;
use crate::output;
use crate::table::{Table, grouped, ratio};

/// Prints the report.
pub(super) fn print(ladder: &Ladder, report: &LadderReport, activities: Option<&[Activity]>) -> Result<(), Failure> {
    let size = grouped(report.size as u64);
    let mut page = format!("{}: {}\n{size} {} on {}\n\n", report.ladder, ladder.problem, report.dtype, report.device);
    let has_times = report.rungs.iter().any(|rung| rung.seconds.is_some());
    let mut table = if has_times { timed_heading() } else { counted_heading() };
    for rung in &report.rungs {
        if has_times {
            table.row(timed(report, rung));
        } else {
            table.row(counted(rung));
        }
        table.text(&rung.sentence);
        rung.failure.iter().for_each(|failure| table.text(failure));
        rung.findings.iter().for_each(|finding| table.text(&finding.to_string()));
    }
    page.push_str(&table.render());
    page.push('\n');
    page.push_str(&match report.copy_gigabytes_per_second {
        Some(bandwidth) => format!("a copy within the device's memory reaches {bandwidth:.1} GB/s\n"),
        None => "the virtual GPU counts what hardware would do; it has no clock, so there are no times\n".to_owned(),
    });
    if let Some(activities) = activities {
        page.push('\n');
        page.push_str(&profile::table(activities).render());
    }
    output::print(&page)
}

fn counted_heading() -> Table {
    let mut table = Table::new(["", "", "", "bank conflicts", "", "sectors a", "request", "lanes", "", "warp"]);
    let heading =
        ["rung", "result", "time", "loads", "stores", "loads", "stores", "at work", "barriers", "instructions"];
    table.row(heading.map(str::to_owned));
    table
}

fn counted(rung: &RungReport) -> [String; 10] {
    let c = rung.counters.unwrap_or_default();
    [
        rung.name.to_owned(),
        result(rung).to_owned(),
        String::new(),
        grouped(c.shared_load_bank_conflicts),
        grouped(c.shared_store_bank_conflicts),
        ratio(c.global_load_sectors, c.global_load_requests),
        ratio(c.global_store_sectors, c.global_store_requests),
        warp_efficiency(&c),
        grouped(c.barriers),
        grouped(c.warp_instructions),
    ]
}

/// Lanes at work, of those that the warps' instructions have.
fn warp_efficiency(c: &Counters) -> String {
    if c.warp_instructions == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * c.thread_instructions as f64 / (32 * c.warp_instructions) as f64)
}

fn timed_heading() -> Table {
    Table::new(["rung", "result", "time", "GB/s", "speed-up", "of copy"])
}

fn timed(report: &LadderReport, rung: &RungReport) -> [String; 6] {
    let cell = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), text);
    [
        rung.name.to_owned(),
        result(rung).to_owned(),
        cell(rung.seconds, profile::time),
        cell(rung.gigabytes_per_second, |bandwidth| format!("{bandwidth:.1}")),
        cell(report.speedup(rung), |times| format!("{times:.2}x")),
        cell(report.share_of_copy(rung), |share| format!("{:.1} %", 100.0 * share)),
    ]
}

fn result(rung: &RungReport) -> &'static str {
    match (&rung.failure, rung.ok) {
        (Some(_), _) => "FAILED",
        (None, true) => "right",
        (None, false) => "WRONG",
    }
}

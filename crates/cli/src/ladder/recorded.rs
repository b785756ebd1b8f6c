//! Times of a ladder that were recorded on a GPU, for a device that has no clock.

use warpfold_ladders::ladder::{Ladder, LadderReport};
use warpfold_report::table::Table;

use crate::bench::markdown::LadderRun;

/// The records that `BENCHMARKS.md` is generated from, too.
const RECORDS: &str = include_str!("../../records/ladders.json");

/// The record of a ladder for the elements of a run: that of the run's size, or else of another,
/// which its text names. Only rungs whose kernels and launches are still those that were timed.
pub(super) fn of(ladder: &Ladder, report: &LadderReport) -> Option<LadderRun> {
    let size = size_of(ladder, report);
    let records = serde_json::Deserializer::from_str(RECORDS).into_iter::<LadderRun>();
    let records = records.map(|record| record.expect("the records are those of --report json"));
    let records = records.filter(|run| run.ladder == ladder.name && run.problem.dtype == report.dtype.name());
    let mut records: Vec<LadderRun> = records.collect();
    let place = records.iter().position(|run| run.problem.size() == size);
    // Of other sizes the last one is the largest; those with options come after it.
    let place = place.or_else(|| records.iter().rposition(|run| !run.problem.size().contains(" with ")))?;
    let mut record = records.swap_remove(place);
    record.drop_others(ladder);
    Some(record).filter(|record| !record.is_empty())
}

/// The size of a run in the form of records.
fn size_of(ladder: &Ladder, report: &LadderReport) -> String {
    ladder.size_text(report.size).unwrap_or_else(|| report.size.to_string())
}

/// The record as a table of the rungs that a report has.
pub(super) fn text(run: &LadderRun, ladder: &Ladder, report: &LadderReport) -> Option<String> {
    let names: Vec<&str> = report.rungs.iter().map(|rung| rung.name).collect();
    let rows = run.cells(Some(&names))?;
    let mut table = Table::default();
    rows.into_iter().for_each(|row| table.row(row));
    let (size, counted) = (run.problem.size(), size_of(ladder, report));
    let other = if size == counted { String::new() } else { format!(" (the counters above are of {counted})") };
    let mut text = format!("Recorded earlier, with --size {size}, on {}{other}:\n\n{}", run.origin(), table.render());
    let missing: Vec<&str> = names.into_iter().filter(|name| !run.has(name)).collect();
    if !missing.is_empty() {
        text += &format!("\nnot recorded since its kernel or launch changed: {}\n", missing.join(", "));
    }
    Some(text)
}

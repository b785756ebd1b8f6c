//! `warpfold ladder --list`, and the source of a rung.

use warpfold_ladders::ladder::{LADDERS, Ladder};
use warpfold_ladders::{all_reduce, rung_helpers, rung_source, transfer};

use super::{allocation, serving};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Prints every ladder with its problem, its element types and its rungs.
pub(super) fn print() -> Result<(), Failure> {
    let mut page = String::new();
    let mut add = |name: &str, problem: &str, rungs: &[&str]| {
        let mut table = Table::default();
        table.row([format!("{name}: {problem}")]);
        table.text(&rungs.join(", "));
        page.push_str(&table.render());
    };
    for ladder in LADDERS {
        let dtypes: Vec<_> = ladder.dtypes.iter().map(|dtype| dtype.name()).collect();
        let rungs: Vec<_> = ladder.rungs.iter().map(|rung| rung.name).collect();
        add(ladder.name, &format!("{} ({})", ladder.problem, dtypes.join(", ")), &rungs);
    }
    add(allocation::NAME, allocation::PROBLEM, &allocation::RUNGS);
    add(transfer::NAME, transfer::PROBLEM, &transfer::RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>());
    add(all_reduce::NAME, all_reduce::PROBLEM, &all_reduce::RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>());
    add(serving::NAME, serving::PROBLEM, &serving::rung_names());
    output::print(&page)
}

/// Prints the files of some rungs, each with what it calls of files that rungs share.
pub(super) fn print_source(ladder: &Ladder, rungs: &[String]) -> Result<(), Failure> {
    let chosen = ladder.rungs.iter().filter(|rung| rungs.iter().any(|name| name == rung.name));
    let source = |name| {
        let measured = format!("Measured: warpfold ladder {}", ladder.name);
        let source = rung_source(ladder.name, name)?.replace("Measured: see `LADDER` (generated).", &measured);
        Some(source + &rung_helpers(ladder.name, name)?)
    };
    let sources: Vec<_> = chosen.filter_map(|rung| source(rung.name)).collect();
    output::print(&sources.join("\n"))
}

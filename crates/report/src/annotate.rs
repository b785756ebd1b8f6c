//! The kernel's text with what each instruction did beside it.

use std::collections::{BTreeMap, BTreeSet};

use warpfold_ptx::{Function, Statement};
use warpfold_sim::InstructionCounters;

use crate::drawing::LOCATION;
use crate::table::grouped;

/// Columns beside the text.
const HEADING: &str = "    executions  lanes   diverged   conflicts     sectors";

/// The kernel and each device function that ran, with executions, active lanes per warp, diverged
/// executions, bank conflicts and sectors beside each instruction.
///
/// # Panics
/// If the text is no PTX: it was run.
#[must_use]
pub fn annotated(text: &str, kernel: &str, instructions: &[InstructionCounters]) -> String {
    let module = warpfold_ptx::parse(text).expect("the simulator has parsed it");
    let ran: BTreeSet<&str> = instructions.iter().filter(|i| i.executions > 0).map(|i| i.function.as_str()).collect();
    let mut by_line: BTreeMap<u32, Vec<&InstructionCounters>> = BTreeMap::new();
    for instruction in instructions {
        by_line.entry(instruction.line).or_default().push(instruction);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut listing = format!("{HEADING}\n");
    let shown = |f: &&Function| f.body.is_some() && (f.name == kernel || ran.contains(f.name.as_str()));
    for function in module.functions().filter(shown) {
        let (first, last) = extent(function, &lines);
        for line in first..=last {
            let text = lines.get(line as usize - 1).copied().unwrap_or_default();
            if text.trim_start().starts_with(LOCATION) {
                continue;
            }
            match by_line.get(&line).map(Vec::as_slice) {
                None => listing.push_str(&row(&HEADING.replace(|c: char| !c.is_whitespace(), " "), text)),
                Some([one]) => listing.push_str(&row(&columns(one), text)),
                Some(several) => {
                    listing.push_str(&row(&" ".repeat(HEADING.len()), text));
                    several.iter().for_each(|i| listing.push_str(&row(&columns(i), &format!("    . {}", i.text))));
                }
            }
        }
    }
    listing
}

fn row(columns: &str, text: &str) -> String {
    let text = text.replace('\t', "    ");
    format!("{}\n", format!("{columns} | {text}").trim_end())
}

fn columns(i: &InstructionCounters) -> String {
    let count = |n: u64, applies: bool| if applies { grouped(n) } else { String::new() };
    let lanes =
        if i.executions == 0 { String::new() } else { format!("{:.1}", i.active_lanes as f64 / i.executions as f64) };
    format!(
        "{:>14} {lanes:>6} {:>10} {:>11} {:>11}",
        grouped(i.executions),
        count(i.divergent, i.divergent > 0),
        count(i.bank_conflicts, i.wavefronts > 0),
        count(i.sectors, i.sectors > 0),
    )
}

/// First and last line of a function: from its name to the brace after its last statement.
pub(crate) fn extent(function: &Function, lines: &[&str]) -> (u32, u32) {
    let first = function.span.line.max(1);
    let last_statement = function.statements().filter_map(line_of).max().unwrap_or(first);
    let rest = lines.iter().skip(last_statement as usize);
    let closing = rest.take_while(|line| line.trim().is_empty() || line.trim_start().starts_with(['}', '/']));
    // Up to the last brace: empty lines and comments after it belong to what follows.
    let closing: Vec<&&str> = closing.collect();
    let braces = closing.iter().rposition(|line| line.trim_start().starts_with('}')).map_or(0, |at| at + 1);
    (first, last_statement + braces as u32)
}

fn line_of(statement: &Statement) -> Option<u32> {
    match statement {
        Statement::Instruction(i) => Some(i.span.line),
        Statement::Variable(v) => Some(v.span.line),
        _ => None,
    }
}

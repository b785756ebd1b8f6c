//! The source file with what each line did beside it: `--annotate=source`.

use std::collections::BTreeMap;

use warpfold_sim::{InstructionCounters, SourceLine};

use super::source_text::SourceText;
use crate::table::grouped;

/// Columns beside the text.
const HEADING: &str = "    executions   inactive   conflicts     sectors";

/// Counts summed over the instructions of a line.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    executions: u64,
    active_lanes: u64,
    wavefronts: u64,
    conflicts: u64,
    sectors: u64,
}

/// Each source file that ran, with executions of instructions by warps, inactive lanes of 32, bank
/// conflicts and sectors beside its lines; an instruction that was inlined counts to the line of
/// its author.
pub(super) fn annotated(instructions: &[InstructionCounters], source: &SourceText) -> String {
    let mut files: BTreeMap<&str, BTreeMap<u32, Sums>> = BTreeMap::new();
    let mut elsewhere = Sums::default();
    for i in instructions {
        let author: Option<&SourceLine> = i.source.as_ref().map(|source| source.author());
        let sums = match author {
            Some(line) => files.entry(&line.file).or_default().entry(line.line).or_default(),
            None => &mut elsewhere,
        };
        sums.executions += i.executions;
        sums.active_lanes += i.active_lanes;
        sums.wavefronts += i.wavefronts;
        sums.conflicts += i.bank_conflicts;
        sums.sectors += i.sectors;
    }
    if files.is_empty() {
        return "the PTX names no source: compile with nvcc -lineinfo, or see --annotate=ptx\n".to_owned();
    }
    let mut listing = String::new();
    for (file, lines) in &files {
        listing.push_str(&format!("{file}\n{HEADING}\n"));
        let shown: Option<String> = source.with(file, |text| {
            let last = lines.keys().next_back().copied().unwrap_or_default();
            let first = lines.keys().next().copied().unwrap_or_default();
            // A few lines around what ran: headers and other kernels say nothing.
            let range = first.saturating_sub(3).max(1)..=last.saturating_add(3).min(text.len() as u32);
            range.map(|n| row(lines.get(&n), n, text.get(n as usize - 1).map_or("", String::as_str))).collect()
        });
        let without =
            || -> String { lines.iter().map(|(n, sums)| row(Some(sums), *n, "(the file is not there)")).collect() };
        listing.push_str(&shown.unwrap_or_else(without));
    }
    if elsewhere.executions > 0 {
        listing.push_str(&format!("{} |       instructions of no line\n", columns(&elsewhere)));
    }
    listing
}

fn row(sums: Option<&Sums>, number: u32, text: &str) -> String {
    let columns = sums.map_or_else(|| " ".repeat(HEADING.len()), columns);
    format!("{}\n", format!("{columns} | {number:>5} {}", text.replace('\t', "    ")).trim_end())
}

fn columns(sums: &Sums) -> String {
    let count = |n: u64, applies: bool| if applies { grouped(n) } else { String::new() };
    let lanes = sums.executions.saturating_mul(32);
    let inactive = match lanes.saturating_sub(sums.active_lanes) {
        _ if lanes == 0 => String::new(),
        n => format!("{:.1}", n as f64 / sums.executions as f64),
    };
    format!(
        "{:>14} {inactive:>10} {:>11} {:>11}",
        grouped(sums.executions),
        count(sums.conflicts, sums.wavefronts > 0),
        count(sums.sectors, sums.sectors > 0),
    )
}

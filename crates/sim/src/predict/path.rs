//! The path of dependent instructions that one warp goes: what a block takes when it is alone.
//!
//! Straight lines of instructions are scheduled by what they depend on, one a cycle, as ptxas moves
//! them within a basic block; lines follow one another. How often a warp goes over a line: as often
//! as all warps did, over their number, but at least once if every block did (a line of one warp
//! holds up the others at the next barrier). What it misses: loops that ptxas unrolls or that load
//! ahead, and lines in which one warp of several loops alone.

use std::collections::HashMap;

use super::cost::{Cost, Pipe, Wait, Words};
use crate::InstructionCounters;

/// A launch's shape, for how often a warp goes over a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Warps {
    pub blocks: f64,
    pub per_block: f64,
}

impl Warps {
    /// Executions by the warp that a block waits for.
    fn of_path(self, executions: u64) -> f64 {
        let by_blocks = executions as f64 / self.blocks;
        (by_blocks / self.per_block).max(by_blocks.min(1.0))
    }
}

/// Cycles of the path through these instructions, each with its cost; a load of global memory takes
/// `global` cycles.
pub(super) fn path(counted: &[(&InstructionCounters, Words<'_>, Cost)], warps: Warps, global: f64) -> f64 {
    let mut path = 0.0;
    let mut start = 0;
    while start < counted.len() {
        let first = counted[start].0;
        let same = |(one, words, _): &(&InstructionCounters, Words<'_>, Cost)| {
            one.executions == first.executions && one.function == first.function && !words.ends_line()
        };
        let mut end = start + counted[start..].iter().take_while(|one| same(one)).count();
        // The instruction that ends a line belongs to it.
        end = (end + usize::from(counted.get(end).is_some_and(|one| one.0.executions == first.executions)))
            .clamp(start + 1, counted.len());
        let times = warps.of_path(first.executions);
        if times > 0.0 {
            path += times * line(&counted[start..end], global);
            // The warps of a block arrive one behind the other.
            let last = counted[end - 1].2;
            path += times * if last.pipe == Pipe::Barrier { last.cycles * warps.per_block } else { 0.0 };
        }
        start = end;
    }
    path
}

/// Cycles from the start of a line until all its results are there.
fn line(line: &[(&InstructionCounters, Words<'_>, Cost)], global: f64) -> f64 {
    let mut ready: HashMap<&str, f64> = HashMap::new();
    let (mut issued, mut unit, mut stored, mut end) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    for (_, words, cost) in line {
        let latency = match cost.wait {
            Wait::Cycles(cycles) => cycles,
            Wait::Global => global,
        };
        let operands = registers(words.operands);
        let (results, sources) = operands.split_at(if words.has_no_result() { 0 } else { results(words.operands) });
        let needed = sources.iter().chain(words.guard.as_ref());
        let begin = needed.map(|name| ready.get(name).copied().unwrap_or(0.0)).fold(0.0, f64::max);
        // A tensor core takes its products in turn; what has branches follows one another, too.
        let begin = if cost.pipe == Pipe::Tensor || words.has_branches() { begin.max(unit) } else { begin };
        if cost.pipe == Pipe::Tensor {
            unit = begin + cost.cycles;
        }
        if words.has_branches() {
            unit = begin + latency;
        }
        // A load stays behind a store that may be of the same place.
        let is_load = words.parts[0] == "ld" && !words.has("nc") && !words.has("param");
        let begin = if is_load { begin.max(stored) } else { begin };
        if words.parts[0] == "st" {
            stored = begin;
        }
        issued += cost.slots;
        let done = begin + latency.max(cost.slots);
        for name in results {
            ready.insert(name, done);
        }
        end = end.max(done);
    }
    end.max(issued).max(unit)
}

/// How many registers the first operand has.
fn results(operands: &str) -> usize {
    let first = match operands.trim_start().strip_prefix('{') {
        Some(rest) => rest.split('}').next().unwrap_or(""),
        None => operands.split(',').next().unwrap_or(""),
    };
    registers(first).len()
}

/// The registers that a text names, in order.
fn registers(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '_' | '$' | '.');
    text.split(|c| !is_name(c)).filter(|word| word.starts_with('%')).collect()
}

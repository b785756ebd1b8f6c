//! Merges the results of a launch's workers into a report.

use super::block::BlockCounts;
use super::code::Code;
use super::described::fault_of;
use super::geometry::Geometry;
use super::machine::Fault;
use super::memory_map::{self, Window};
use super::recording::{OfWarp, Recorded, Recording};
use super::row::LANES;
use super::touched::Sectors;
use crate::check::{Findings, Found, HandedOn, Rule, Side};
use crate::counters::AccessCounters;
use crate::memory::Copied;
use crate::report::{Access, FindingKind, MemorySpace, Place, Severity, WarpAccess};
use crate::{Counters, Error, Finding, InstructionCounters, KernelInfo, Options, Report};

/// The results of one worker.
pub(super) struct Harvest {
    /// Executions by basic block.
    pub counts: BlockCounts,
    /// Memory counters by instruction.
    pub counters: Vec<AccessCounters>,
    /// Accesses by instruction.
    pub recording: Recording,
    /// Broken rules found by the machine.
    pub faults: Vec<(Fault, u64)>,
    /// Broken rules found by the checker.
    pub found: Findings,
    /// Location of the `trap` that ended the run: instruction, block, thread.
    pub trap: Option<(u32, u64, u32)>,
}

/// Makes the report of a launch; `describe` names the object at an address.
pub(super) fn report(
    (code, kernel, geometry): (&Code, &KernelInfo, &Geometry),
    options: &Options,
    harvests: Vec<Harvest>,
    describe: impl Fn(u64) -> String,
    aborted: bool,
) -> Result<(Report, Vec<Copied>, Sectors), Error> {
    let mut counts: BlockCounts = vec![(0, 0); code.blocks.len()];
    let mut counters = vec![AccessCounters::default(); code.instructions.len()];
    let mut faults: Vec<(Fault, u64)> = Vec::new();
    let mut trap = None;
    let mut found = Findings::default();
    let mut recording = Recording::default();
    for harvest in harvests {
        recording.merge(harvest.recording);
        for (all, one) in counts.iter_mut().zip(&harvest.counts) {
            all.0 += one.0;
            all.1 += one.1;
        }
        for (all, one) in counters.iter_mut().zip(&harvest.counters) {
            *all = *all + *one;
        }
        trap = trap.or(harvest.trap);
        found.merge(harvest.found);
        for (fault, n) in harvest.faults {
            add_fault(&mut faults, fault, n);
        }
    }
    let is_asked_for = |rule| rule != Rule::SameValueOfLanes || options.report_same_value;
    for f in found.iter().filter(|f| is_asked_for(f.rule)) {
        let (mut fault, n) = fault_of(f, &describe);
        if fault.severity == Severity::Error && is_first_read(code, f) {
            fault.severity = Severity::Warning;
            fault.rule = FIRST_READ.to_owned();
        }
        add_fault(&mut faults, fault, n);
    }
    if let Some((instruction, block, thread)) = trap {
        return Err(Error::Trap {
            kernel: kernel.name.clone(),
            line: code.instructions[instruction as usize].line,
            at: code.instructions[instruction as usize].source.clone(),
            block: Geometry::coordinates(block, geometry.grid),
            thread: Geometry::coordinates(u64::from(thread), geometry.block),
        });
    }
    faults.sort_by_key(|(f, _)| (f.instruction, f.kind, f.other.map(|o| o.0)));
    let findings = faults.into_iter().map(|(f, n)| finding(code, kernel, geometry, f, n)).collect();
    let copied = found.handed_on().map(|handed_on| copied(code, kernel, geometry, handed_on)).collect();
    let instructions = match options.per_instruction || options.timing {
        true => per_instruction(code, geometry, (&counts, &counters), &recording, &describe),
        false => Vec::new(),
    };
    let (grid, block) = (geometry.grid, geometry.block);
    let counters = totals(code, &counts, &counters);
    let sectors = recording.touched.as_ref().map(|touched| touched.sectors()).unwrap_or_default();
    let steps = recording.steps.map(|steps| steps.into_steps(code, geometry, &describe));
    Ok((
        Report { grid, block, counters, instructions, findings, aborted, l1: None, timing: None, steps },
        copied,
        sectors,
    ))
}

/// Description of a race of such a read.
const FIRST_READ: &str = "the plain first read of a compare-and-swap loop, which another thread's atomic may overtake: \
    the loop makes good for it, but by the letter it is a race; ld.relaxed.gpu would be none";

/// Returns true if a finding is about an atomic, and a plain load whose address a compare-and-swap
/// of the same function has: `old = *p; do { … } while (atomicCAS(p, …) != old)`.
fn is_first_read(code: &Code, found: &Found) -> bool {
    let Some(other) = found.other.filter(|_| matches!(found.rule, Rule::ReadAfterWrite | Rule::WriteAfterRead)) else {
        return false;
    };
    let [this, other] = [found.this.instr, other.instr].map(|i| &code.instructions[i as usize]);
    let (load, atomic) = if found.rule == Rule::ReadAfterWrite { (this, other) } else { (other, this) };
    let mnemonic = |text: &'_ str| text.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or("").to_owned();
    let address =
        |text: &str| text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(at, _)| at.to_owned());
    let (loads, changes) = (mnemonic(&load.text), mnemonic(&atomic.text));
    let is_plain = !["volatile", "relaxed", "acquire", "mmio"].iter().any(|order| loads.contains(order));
    if !loads.starts_with("ld.") || !is_plain || !(changes.starts_with("atom.") || changes.starts_with("red.")) {
        return false;
    }
    code.instructions.iter().filter(|info| info.function == load.function).any(|info| {
        let name = mnemonic(&info.text);
        name.starts_with("atom.") && name.contains(".cas.") && address(&info.text) == address(&load.text)
    })
}

/// Adds a fault; of two examples for the same pair of instructions, keeps that which is told before
/// the other, or that of the lower block and thread.
fn add_fault(faults: &mut Vec<(Fault, u64)>, fault: Fault, n: u64) {
    match faults.iter_mut().find(|(f, _)| f.same_pair(&fault)) {
        Some((f, count)) => {
            *count += n;
            let is_lower = (fault.block, fault.thread) < (f.block, f.thread) && !f.is_told_before(&fault);
            if fault.is_told_before(f) || is_lower {
                *f = fault;
            }
        }
        None => faults.push((fault, n)),
    }
}

fn side(code: &Code, geometry: &Geometry, instruction: u32, block: u64, thread: u32) -> Access {
    let info = &code.instructions[instruction as usize];
    Access {
        line: info.line,
        instruction: info.text.clone(),
        source: info.source.clone(),
        block: Geometry::coordinates(block, geometry.grid),
        thread: Geometry::coordinates(u64::from(thread), geometry.block),
    }
}

fn copied(code: &Code, kernel: &KernelInfo, geometry: &Geometry, handed_on: &HandedOn) -> Copied {
    let HandedOn { range, sides: (store, load) } = handed_on;
    let access = |s: &Side| side(code, geometry, s.instr, s.block.into(), s.warp * 32 + s.lane);
    Copied { range: range.clone(), kernel: kernel.name.clone(), store: access(store), load: access(load) }
}

fn finding(code: &Code, kernel: &KernelInfo, geometry: &Geometry, fault: Fault, count: u64) -> Finding {
    let side = |instruction, block, thread| side(code, geometry, instruction, block, thread);
    // The element is that of the access that names it: a load whose value is used elsewhere.
    let by =
        fault.other.filter(|_| fault.kind == FindingKind::Uninitialized).map_or(fault.instruction, |other| other.0);
    let text = &code.instructions[by as usize].text;
    let place = fault.address.as_ref().and_then(|(_, described)| Place::read(described, text, &code.shapes));
    Finding {
        kind: fault.kind,
        severity: fault.severity,
        kernel: kernel.name.clone(),
        access: side(fault.instruction, fault.block, fault.thread),
        other: fault.other.map(|(i, b, t)| side(i, b, t)),
        place,
        address: fault.address,
        rule: fault.rule,
        count,
    }
}

fn totals(code: &Code, counts: &BlockCounts, counters: &[AccessCounters]) -> Counters {
    let mut t = Counters::default();
    for (block, &(executions, lanes)) in code.blocks.iter().zip(counts) {
        t.warp_instructions += executions * u64::from(block.count);
        t.thread_instructions += lanes * u64::from(block.count);
    }
    let mut off = 0;
    for (info, c) in code.instructions.iter().zip(counters) {
        off += c.guarded_off;
        t.count(info.class, &AccessCounters { executions: counts[info.block as usize].0, ..*c });
    }
    t.predicated_on_thread_instructions = t.thread_instructions - off;
    t
}

fn per_instruction(
    code: &Code,
    geometry: &Geometry,
    (counts, counters): (&BlockCounts, &[AccessCounters]),
    recording: &Recording,
    describe: &impl Fn(u64) -> String,
) -> Vec<InstructionCounters> {
    // The kernel, and whatever device functions ran.
    let ran = |f: u32| {
        f == geometry.kernel || code.instructions.iter().any(|i| i.function == f && counts[i.block as usize].0 != 0)
    };
    let shown: Vec<bool> = (0..code.functions.len()).map(|f| ran(u32::try_from(f).expect("few functions"))).collect();
    code.instructions
        .iter()
        .zip(counters)
        .enumerate()
        .filter(|(_, (info, _))| shown[info.function as usize])
        .map(|(i, (info, c))| InstructionCounters {
            line: info.line,
            text: info.text.clone(),
            source: info.source.clone(),
            function: code.functions[info.function as usize].name.clone(),
            executions: counts[info.block as usize].0,
            active_lanes: counts[info.block as usize].1 - c.guarded_off,
            divergent: c.divergent,
            wavefronts: c.wavefronts,
            bank_conflicts: c.conflicts,
            sectors: c.sectors,
            accesses: accesses(recording.by_instruction.get(i), geometry, describe),
        })
        .collect()
}

/// Recorded accesses of an instruction, with names for their addresses.
fn accesses(kept: Option<&Option<OfWarp>>, geometry: &Geometry, describe: &impl Fn(u64) -> String) -> Vec<WarpAccess> {
    let Some(OfWarp { block, warp, accesses }) = kept.and_then(Option::as_ref) else { return Vec::new() };
    let block = Geometry::coordinates(*block, geometry.grid);
    accesses.iter().map(|access| warp_access(access, block, *warp, describe)).collect()
}

/// An access of a warp, with a name for its lowest address.
pub(super) fn warp_access(
    access: &Recorded,
    block: [u32; 3],
    warp: u32,
    describe: &impl Fn(u64) -> String,
) -> WarpAccess {
    let lanes = (0..LANES).filter(|lane| access.mask >> lane & 1 != 0);
    let lowest = lanes.map(|lane| access.at[lane]).min().unwrap_or_default();
    let (window, _) = memory_map::window(lowest);
    WarpAccess {
        block,
        warp,
        space: if matches!(window, Window::Shared) { MemorySpace::Shared } else { MemorySpace::Global },
        bytes: access.bytes,
        mask: access.mask,
        addresses: access.at,
        place: describe(lowest),
    }
}

//! The points of the checklist, and how a kernel does in each.

use warpfold_sim::InstructionCounters;
use warpfold_sim::occupancy::{Limiter, limits};

use super::instruction::excess_sectors;
use super::next::Work;
use super::subject::Subject;
use crate::table::grouped;

/// A point of the checklist.
#[derive(Debug, PartialEq)]
pub(super) struct Point {
    /// The question: `coalesced`.
    pub name: &'static str,
    pub is_fine: bool,
    /// The measured share or count.
    pub number: f64,
    /// The number in words.
    pub found: String,
    /// The instruction that gives most of it: its line in the PTX, and its text.
    pub line: Option<(u32, String)>,
    /// The remedy, if one is needed.
    pub mend: Option<String>,
}

/// Sectors beyond the ideal that are worth a change, as a share of all.
const EXCESS: f64 = 0.1;
/// Bank conflicts likewise, as a share of wavefronts.
const CONFLICTS: f64 = 0.05;
/// Lanes that are active in an instruction, as a share of 32.
const ACTIVE: f64 = 0.9;
/// Branches that diverge, as a share of all, from which on they and not bounds idle the lanes.
const SPLIT: f64 = 0.05;
/// Atomics of global memory for each load of it that are worth a change.
const ATOMIC: f64 = 0.5;
/// Warps that are resident, as a share of those that could be.
const OCCUPIED: f64 = 0.5;
/// Thread instructions that a multiprocessor issues while memory brings a byte: 128 lanes of 132
/// multiprocessors at 1.98 GHz against 4.8 TB/s of an H200, 108 at 1.41 GHz against 2.0 TB/s of an
/// A100 (NVIDIA's data sheets).
const fn balance(number: u32) -> f64 {
    if number >= 90 { 7.0 } else { 9.7 }
}

/// Every point.
pub(super) fn points(subject: &Subject, num_kernels: usize) -> Vec<Point> {
    vec![
        coalesced(subject),
        vectorised(subject),
        reuse(subject),
        atomics(subject),
        conflicts(subject),
        divergence(subject),
        registers(subject),
        occupancy(subject),
        fusable(subject, num_kernels),
    ]
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The instruction with the most of something, if there is any.
fn worst(subject: &Subject, of: impl Fn(&InstructionCounters) -> u64) -> Option<&InstructionCounters> {
    subject.instructions.iter().filter(|i| of(i) > 0).max_by_key(|i| of(i))
}

fn place(instruction: Option<&InstructionCounters>) -> Option<(u32, String)> {
    instruction.map(|i| (i.line, i.text.clone()))
}

fn coalesced(subject: &Subject) -> Point {
    let c = &subject.counters;
    let sectors = c.global_load_sectors + c.global_store_sectors;
    let requests = c.global_load_requests + c.global_store_requests;
    let excess: u64 = subject.instructions.iter().map(excess_sectors).sum();
    let number = share(excess, sectors);
    let line = worst(subject, excess_sectors).or_else(|| worst(subject, |i| i.sectors));
    let found = match sectors {
        0 => "no access to global memory".to_owned(),
        _ => format!(
            "{} sectors, {:.2} per request; {:.1} % of them beyond what the bytes asked for need",
            grouped(sectors),
            share(sectors, requests),
            100.0 * number
        ),
    };
    let mend = (number > EXCESS).then(|| {
        let line = line
            .map_or(String::new(), |i| format!(" ({:.1} sectors per request here)", share(i.sectors, i.executions)));
        format!(
            "let neighbouring lanes take neighbouring elements: threadIdx.x along the contiguous axis; where both \
             sides of a copy cannot, pass a tile through shared memory{line}"
        )
    });
    Point { name: "coalesced", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

/// Bytes that each lane moves at once, of the 16 that one instruction can.
fn vectorised(subject: &Subject) -> Point {
    let c = &subject.counters;
    let requests = c.global_load_requests + c.global_store_requests;
    let number = share(c.global_load_bytes + c.global_store_bytes, 32 * requests);
    let found = match requests {
        0 => "no access to global memory".to_owned(),
        _ => format!("{number:.1} bytes per lane and request, of 16 at most"),
    };
    let line = worst(subject, |i| if i.text.contains(".global") { i.executions } else { 0 });
    let mend = is_narrow(subject).then(|| {
        "let a lane move 16 bytes at once (get_vec, float4, ld.global.v4), where addresses are multiples of 16: fewer \
         requests for the same bytes"
            .to_owned()
    });
    Point { name: "vectorised", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

/// Returns whether memory is the limit, and lanes load four bytes or fewer at once.
pub(super) fn is_narrow(subject: &Subject) -> bool {
    let c = &subject.counters;
    is_light(subject) && c.global_load_requests > 0 && c.global_load_bytes <= 128 * c.global_load_requests
}

/// Loads by which lanes of a warp read the same words, in a kernel that multiplies and adds.
fn reuse(subject: &Subject) -> Point {
    let work = Work::of(subject);
    let load = work.shared_load();
    let loads = subject.counters.global_load_requests;
    let number = load.map_or(0.0, |load| share(load.executions, loads));
    let mend = load.filter(|_| work.multiplies_what_it_loads()).map(|_| {
        "bring a tile to shared memory once, and let all threads of the block read it there: the same words are loaded \
         again and again"
            .to_owned()
    });
    let found = match load {
        None => "no load by which lanes of a warp read the same words that makes a quarter of all loads".to_owned(),
        Some(load) => format!(
            "{} of {} loads read the same words for lanes of a warp; {} multiply-adds",
            grouped(load.executions),
            grouped(loads),
            grouped(work.multiply_adds)
        ),
    };
    Point { name: "reuse", is_fine: mend.is_none(), number, found, line: place(load), mend }
}

/// Atomic additions to global memory beside the loads.
fn atomics(subject: &Subject) -> Point {
    let c = &subject.counters;
    let number = share(c.global_atomics, c.global_load_requests);
    let found = match c.global_atomics + c.shared_atomics {
        0 => "no atomic".to_owned(),
        _ => format!(
            "{} in global memory ({number:.2} per load), {} in shared memory",
            grouped(c.global_atomics),
            grouped(c.shared_atomics)
        ),
    };
    let is_atomic = |i: &InstructionCounters| i.text.contains("atom.") || i.text.contains("red.");
    let line = worst(subject, |i| if is_atomic(i) { i.executions } else { 0 });
    let mend = (c.global_atomics > 0 && number >= ATOMIC).then(|| {
        "add up in registers or shared memory first, and in global memory once per block: lanes and blocks that add to \
         one word wait for one another in the L2"
            .to_owned()
    });
    Point { name: "atomics", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

fn conflicts(subject: &Subject) -> Point {
    let c = &subject.counters;
    let conflicts = c.shared_load_bank_conflicts + c.shared_store_bank_conflicts;
    let wavefronts = c.shared_load_wavefronts + c.shared_store_wavefronts;
    let number = share(conflicts, wavefronts);
    let found = match wavefronts {
        0 => "no access to shared memory".to_owned(),
        _ => format!(
            "{} bank conflicts in {} wavefronts, {:.1} %",
            grouped(conflicts),
            grouped(wavefronts),
            100.0 * number
        ),
    };
    let line = worst(subject, |i| i.bank_conflicts);
    let mend = (number > CONFLICTS).then(|| {
        "let the lanes of a warp reach 32 different banks: pad the rows of a tile by one element, swizzle its columns \
         by the row, or stride through it with neighbouring lanes side by side"
            .to_owned()
    });
    Point { name: "conflicts", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

fn divergence(subject: &Subject) -> Point {
    let c = &subject.counters;
    let number = share(c.predicated_on_thread_instructions, 32 * c.warp_instructions);
    let efficiency = if c.branches == 0 { 1.0 } else { 1.0 - share(c.divergent_branches, c.branches) };
    let found = format!(
        "{:.1} % of lanes active; {} of {} branches diverge (branch efficiency {:.1} %)",
        100.0 * number,
        grouped(c.divergent_branches),
        grouped(c.branches),
        100.0 * efficiency
    );
    let threads: u32 = subject.block.iter().product();
    let idle = || worst(subject, |i| 32 * i.executions - i.active_lanes);
    let is_split = 1.0 - efficiency > SPLIT;
    let line = worst(subject, |i| i.divergent).filter(|_| is_split || number >= ACTIVE).or_else(idle);
    let mend = (number < ACTIVE).then(|| match () {
        () if !threads.is_multiple_of(32) => {
            format!("make the {threads} threads of a block a multiple of 32: the last warp is not full")
        }
        () if is_split => "let whole warps take the same way: branch on the warp or on neighbouring \
                                           threads (thread < n), not on every other lane; short branches as predicates"
            .to_owned(),
        () => {
            "give idle lanes work: bounds and guards switch them off, and whole warps then take the same way; choose \
             blocks that divide the problem, or several elements per thread and fewer threads"
                .to_owned()
        }
    });
    Point { name: "divergence", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

fn registers(subject: &Subject) -> Point {
    let most = limits(subject.arch).registers_per_thread;
    let local = subject.counters.local_requests;
    let is_local = |i: &InstructionCounters| i.text.contains(".local");
    let line = worst(subject, |i| if is_local(i) { i.executions } else { 0 });
    let limits_blocks = subject.occupancy.limiters.contains(&Limiter::Registers);
    let found = format!(
        "{} live at once (of {most}; an estimate, ptxas decides), {} requests to local memory",
        subject.registers,
        grouped(local)
    );
    let mend = match () {
        () if local > 0 => Some(
            "keep arrays in registers: index them by constants (unroll the loop), or put them in shared memory"
                .to_owned(),
        ),
        () if subject.registers > most => {
            Some("compute fewer results per thread: some registers will be spilled".to_owned())
        }
        () if limits_blocks && subject.occupancy.occupancy < OCCUPIED => {
            Some("compute fewer results per thread, or bound its registers (.maxnreg, __launch_bounds__)".to_owned())
        }
        () => None,
    };
    let number = f64::from(subject.registers);
    Point { name: "registers", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

fn occupancy(subject: &Subject) -> Point {
    let limits = limits(subject.arch);
    let o = &subject.occupancy;
    let blocks: u64 = subject.grid.iter().map(|n| u64::from(*n)).product();
    let room = u64::from(o.blocks_per_sm) * u64::from(limits.multiprocessors);
    let names = o.limiters.iter().map(|limiter| match limiter {
        Limiter::Registers => "registers",
        Limiter::SharedMemory => "shared memory",
        Limiter::Warps => "warps",
        Limiter::Blocks => "blocks",
        _ => "another limit",
    });
    let names: Vec<&str> = names.collect();
    let found = format!(
        "{:.1} %: {} blocks of {} threads per multiprocessor, limited by {}; {} blocks are {:.2} waves",
        100.0 * o.occupancy,
        o.blocks_per_sm,
        subject.block.iter().product::<u32>(),
        names.join(" and "),
        grouped(blocks),
        share(blocks, room)
    );
    let few = u64::from(limits.multiprocessors);
    let mend = match () {
        () if o.blocks_per_sm == 0 => {
            Some("the launch fails: a block asks for more than a multiprocessor has".to_owned())
        }
        () if blocks < few => Some(format!(
            "give every multiprocessor work: {blocks} blocks leave {} of {few} idle; split the longest axis over blocks",
            few - blocks
        )),
        () if o.occupancy >= OCCUPIED => None,
        () if o.limiters.contains(&Limiter::SharedMemory) => Some(format!(
            "ask for less than {} bytes of shared memory per block, or keep more loads of a thread under way",
            grouped(subject.shared_bytes.into())
        )),
        () if o.limiters.contains(&Limiter::Registers) => {
            Some("fewer registers per thread, or more independent work in each: see registers".to_owned())
        }
        () => Some("larger blocks: those that a multiprocessor holds are too few for its warps".to_owned()),
    };
    Point { name: "occupancy", is_fine: mend.is_none(), number: o.occupancy, found, line: None, mend }
}

/// Thread instructions for each byte moved; `None` where none is.
fn intensity(subject: &Subject) -> Option<f64> {
    let sectors = subject.counters.global_load_sectors + subject.counters.global_store_sectors;
    (sectors > 0).then(|| share(subject.counters.thread_instructions, 32 * sectors))
}

/// Returns whether memory bandwidth is the limit rather than issue slots.
pub(super) fn is_light(subject: &Subject) -> bool {
    intensity(subject).is_some_and(|number| number < balance(subject.arch.number))
}

fn fusable(subject: &Subject, num_kernels: usize) -> Point {
    let c = &subject.counters;
    let sectors = c.global_load_sectors + c.global_store_sectors;
    let number = intensity(subject).unwrap_or(0.0);
    let (balance, is_light) = (balance(subject.arch.number), is_light(subject));
    let found = format!(
        "{number:.1} thread instructions per byte moved (memory and issue slots balance at {balance}); {}{}",
        if subject.launches == 1 { "1 launch".to_owned() } else { format!("{} launches", grouped(subject.launches)) },
        if num_kernels > 1 { format!(" of one of {num_kernels} kernels") } else { String::new() }
    );
    let line = worst(subject, |i| if i.text.contains("st.global") { i.sectors } else { 0 });
    let mend = match &subject.before {
        Some((name, shared)) if *shared > 0 && is_light => Some(format!(
            "fuse it with {name} before it: up to {} sectors are stored by one and loaded by the other, {:.1} % of \
             what this one moves",
            grouped(*shared),
            100.0 * share(2 * shared, sectors)
        )),
        _ => None,
    };
    Point { name: "fusable", is_fine: mend.is_none(), number, found, line: place(line), mend }
}

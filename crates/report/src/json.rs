//! Reports as JSON: counters, findings, instructions.

use std::collections::BTreeMap;

use serde::Serialize;
use warpfold_sim as sim;

/// Counters of a launch.
#[derive(Debug, Serialize)]
pub struct Counters {
    warp_instructions: u64,
    thread_instructions: u64,
    branches: u64,
    divergent_branches: u64,
    shared_load_wavefronts: u64,
    shared_load_bank_conflicts: u64,
    shared_store_wavefronts: u64,
    shared_store_bank_conflicts: u64,
    global_load_requests: u64,
    global_load_sectors: u64,
    global_store_requests: u64,
    global_store_sectors: u64,
    atomics: u64,
    barriers: u64,
    predicated_on_thread_instructions: u64,
    shared_load_requests: u64,
    shared_store_requests: u64,
    global_load_bytes: u64,
    global_store_bytes: u64,
    local_requests: u64,
    global_atomics: u64,
    shared_atomics: u64,
    warp_syncs: u64,
    shared_atomic_bank_conflicts: u64,
    distributed_requests: u64,
    /// Sectors looked up in the model of the L1, those that were there, and their share; only where a
    /// run was asked for them.
    #[serde(flatten)]
    l1: Option<L1>,
}

/// What loads and stores found in the model of the L1.
#[derive(Debug, Serialize)]
struct L1 {
    l1_sectors: u64,
    l1_hit_sectors: u64,
    l1_hit_rate: f64,
}

impl From<&sim::Counters> for Counters {
    fn from(c: &sim::Counters) -> Self {
        Self {
            warp_instructions: c.warp_instructions,
            thread_instructions: c.thread_instructions,
            branches: c.branches,
            divergent_branches: c.divergent_branches,
            shared_load_wavefronts: c.shared_load_wavefronts,
            shared_load_bank_conflicts: c.shared_load_bank_conflicts,
            shared_store_wavefronts: c.shared_store_wavefronts,
            shared_store_bank_conflicts: c.shared_store_bank_conflicts,
            global_load_requests: c.global_load_requests,
            global_load_sectors: c.global_load_sectors,
            global_store_requests: c.global_store_requests,
            global_store_sectors: c.global_store_sectors,
            atomics: c.global_atomics + c.shared_atomics,
            barriers: c.barriers,
            predicated_on_thread_instructions: c.predicated_on_thread_instructions,
            shared_load_requests: c.shared_load_requests,
            shared_store_requests: c.shared_store_requests,
            global_load_bytes: c.global_load_bytes,
            global_store_bytes: c.global_store_bytes,
            local_requests: c.local_requests,
            global_atomics: c.global_atomics,
            shared_atomics: c.shared_atomics,
            warp_syncs: c.warp_syncs,
            shared_atomic_bank_conflicts: c.shared_atomic_bank_conflicts,
            distributed_requests: c.distributed_requests,
            l1: c.l1_hit_rate().map(|l1_hit_rate| L1 {
                l1_sectors: c.l1_sectors,
                l1_hit_sectors: c.l1_hit_sectors,
                l1_hit_rate,
            }),
        }
    }
}

/// What a predicted time follows from, beside the counters.
#[derive(Debug, Serialize)]
pub struct TimingFacts {
    registers: u32,
    shared_bytes: u32,
    cluster_blocks: u32,
    sectors_read: u64,
    sectors_written: u64,
    sectors: u64,
    sectors_read_by_waves: u64,
    atomic_sectors: u64,
    atomic_turns: u64,
}

impl From<&sim::TimingFacts> for TimingFacts {
    fn from(facts: &sim::TimingFacts) -> Self {
        Self {
            registers: facts.registers,
            shared_bytes: facts.shared_bytes,
            cluster_blocks: facts.cluster_blocks,
            sectors_read: facts.sectors_read,
            sectors_written: facts.sectors_written,
            sectors: facts.sectors,
            sectors_read_by_waves: facts.sectors_read_by_waves,
            atomic_sectors: facts.atomic_sectors,
            atomic_turns: facts.atomic_turns,
        }
    }
}

/// A predicted time of a launch: a range, and what it is made of.
#[derive(Debug, Serialize)]
pub struct Prediction {
    gpu: &'static str,
    caches: &'static str,
    seconds: f64,
    low_seconds: f64,
    high_seconds: f64,
    binds: &'static str,
    next: Option<&'static str>,
    blocks_per_sm: u32,
    waves: f64,
    dram_bytes: u64,
    /// How far predictions of the class erred that were measured.
    error: PredictionError,
    /// What each unit would take if it were alone; they overlap.
    parts: BTreeMap<&'static str, f64>,
}

/// The measured error of predictions whose launches the same kind of unit binds.
#[derive(Debug, Serialize)]
struct PredictionError {
    class: &'static str,
    launches: u32,
    median: f64,
    low: f64,
    high: f64,
    is_measured_on: &'static str,
}

impl From<&sim::predict::Prediction> for Prediction {
    fn from(p: &sim::predict::Prediction) -> Self {
        Self {
            gpu: p.gpu,
            caches: match p.caches {
                sim::predict::Caches::Warm => "warm",
                sim::predict::Caches::Cold => "cold",
            },
            seconds: p.seconds,
            low_seconds: p.low,
            high_seconds: p.high,
            binds: p.binds(),
            next: p.next(),
            blocks_per_sm: p.blocks_per_sm,
            waves: p.waves,
            dram_bytes: p.dram_bytes,
            error: PredictionError {
                class: p.error.class,
                launches: p.error.launches,
                median: p.error.median,
                low: p.error.low,
                high: p.error.high,
                is_measured_on: sim::predict::MEASURED_ON,
            },
            parts: p.parts.iter().map(|part| (part.name, part.seconds)).collect(),
        }
    }
}

/// The profiler's metric for each counter.
pub fn metrics() -> BTreeMap<&'static str, &'static str> {
    sim::METRICS.iter().copied().collect()
}

/// A line of source.
#[derive(Debug, Serialize)]
pub struct SourceLine<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    /// The inlined function that it belongs to, mangled as the compiler has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
}

/// Where an instruction comes from.
#[derive(Debug, Serialize)]
pub struct Source<'a> {
    /// As reports say it: `k.cu:11`.
    text: String,
    /// The line of the kernel's author.
    author: SourceLine<'a>,
    /// The instruction's own line, then the calls that inlined it.
    lines: Vec<SourceLine<'a>>,
}

impl<'a> From<&'a sim::SourceLine> for SourceLine<'a> {
    fn from(line: &'a sim::SourceLine) -> Self {
        Self { file: &line.file, line: line.line, column: line.column, function: line.function.as_deref() }
    }
}

impl<'a> From<&'a sim::Source> for Source<'a> {
    fn from(source: &'a sim::Source) -> Self {
        Self {
            text: source.to_string(),
            author: source.author().into(),
            lines: source.lines().map(SourceLine::from).collect(),
        }
    }
}

/// Findings of one cause.
#[derive(Debug, Serialize)]
pub struct Group<'a> {
    /// What is wrong.
    pub kind: &'static str,
    /// How bad it is.
    pub severity: &'static str,
    /// The variable or allocation.
    pub variable: Option<&'a str>,
    /// The lines of both sides, as reports say them.
    pub lines: &'a [String],
    /// Positions in the list of findings, the example first.
    pub findings: &'a [usize],
    /// How often it was seen.
    pub count: u64,
    /// What would put it right.
    pub remedy: Option<&'a str>,
    /// The position, in this list, of what it follows from.
    pub follows_from: Option<usize>,
    /// The rule of a suppression file that leaves it out.
    pub suppression: String,
}

/// A broken rule.
#[derive(Debug, Serialize)]
pub struct Finding<'a> {
    kind: &'static str,
    severity: &'static str,
    message: String,
    line: u32,
    instruction: &'a str,
    block: [u32; 3],
    thread: [u32; 3],
    address: Option<String>,
    place: Option<&'a str>,
    other: Option<Access<'a>>,
    rule: &'a str,
    count: u64,
    /// The element at the address, by its indices: `tile[1][0]`.
    element: Option<String>,
    source: Option<Source<'a>>,
}

/// The other side of a race.
#[derive(Debug, Serialize)]
struct Access<'a> {
    line: u32,
    instruction: &'a str,
    block: [u32; 3],
    thread: [u32; 3],
    source: Option<Source<'a>>,
}

impl<'a> From<&'a sim::Finding> for Finding<'a> {
    fn from(finding: &'a sim::Finding) -> Self {
        let sim::Access { line, instruction, source, block, thread } = &finding.access;
        Self {
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            message: finding.to_string(),
            line: *line,
            instruction,
            block: *block,
            thread: *thread,
            address: finding.address.as_ref().map(|(address, _)| format!("{address:#x}")),
            place: finding.address.as_ref().map(|(_, place)| place.as_str()),
            other: finding.other.as_ref().map(|other| Access {
                line: other.line,
                instruction: &other.instruction,
                block: other.block,
                thread: other.thread,
                source: other.source.as_deref().map(Source::from),
            }),
            rule: &finding.rule,
            count: finding.count,
            element: finding.place.as_ref().map(ToString::to_string),
            source: source.as_deref().map(Source::from),
        }
    }
}

/// Counters of one instruction.
#[derive(Debug, Serialize)]
pub struct Instruction<'a> {
    line: u32,
    function: &'a str,
    text: &'a str,
    executions: u64,
    active_lanes: u64,
    divergent: u64,
    wavefronts: u64,
    bank_conflicts: u64,
    sectors: u64,
    source: Option<Source<'a>>,
}

impl<'a> From<&'a sim::InstructionCounters> for Instruction<'a> {
    fn from(i: &'a sim::InstructionCounters) -> Self {
        Self {
            line: i.line,
            function: &i.function,
            text: &i.text,
            executions: i.executions,
            active_lanes: i.active_lanes,
            divergent: i.divergent,
            wavefronts: i.wavefronts,
            bank_conflicts: i.bank_conflicts,
            sectors: i.sectors,
            source: i.source.as_deref().map(Source::from),
        }
    }
}

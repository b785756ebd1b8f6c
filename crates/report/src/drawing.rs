//! One kernel, ready to be drawn: its text with what each line cost, accesses, occupancy.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::Value;
use warpfold_sim::occupancy::{self, Limiter, Usage};
use warpfold_sim::{Arch, Group, InstructionCounters, Memory, MemorySpace, Program, Report, WarpAccess};

use crate::annotate::extent;
use crate::json::Finding;
use crate::origin::{Origin, counts_of};

/// A kernel that was launched, with all that pictures of it show.
#[derive(Debug, Clone, Serialize)]
pub struct Drawing {
    name: String,
    grid: [u32; 3],
    block: [u32; 3],
    /// The kernel and the device functions that ran.
    functions: Vec<Text>,
    /// Whether lines without an access and without a finding are left out, for want of room.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_shortened: bool,
    /// The Rust, CUDA C++ or Python that it comes from, where that was given.
    #[serde(skip_serializing_if = "Origin::is_empty")]
    origin: Origin,
    /// By line.
    accesses: BTreeMap<u32, Vec<Access>>,
    findings: Vec<Value>,
    /// Findings by cause: positions in `findings`, with the remedy.
    groups: Vec<Value>,
    occupancy: Option<Occupancy>,
}

/// What a kernel was launched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The architecture that the virtual GPU stood in for.
    pub arch: Arch,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
}

#[derive(Debug, Clone, Serialize)]
struct Text {
    first: u32,
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) counts: Option<[u64; 6]>,
}

/// As small as can be, because there are many: the text alone, or an array that begins with it.
impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.counts {
            None => self.text.serialize(serializer),
            Some([a, b, c, d, e, f]) => (&self.text, a, b, c, d, e, f).serialize(serializer),
        }
    }
}

/// An access of a warp, as pictures have it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Access {
    block: [u32; 3],
    warp: u32,
    space: &'static str,
    bytes: u32,
    mask: u32,
    /// The address of the first active lane; offsets are from there.
    first: u64,
    /// Bytes from lane to lane, where that is one number.
    #[serde(skip_serializing_if = "Option::is_none")]
    stride: Option<i64>,
    /// Of the active lanes, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    offsets: Option<Vec<i64>>,
    place: String,
}

#[derive(Debug, Clone, Serialize)]
struct Occupancy {
    threads: u32,
    registers: u32,
    shared: u32,
    blocks_per_sm: u32,
    occupancy: f64,
    resources: Vec<Resource>,
    /// Occupancy by threads of a block.
    by_block: Vec<(u32, f64)>,
}

#[derive(Debug, Clone, Serialize)]
struct Resource {
    name: &'static str,
    used: u32,
    limit: u32,
    limits: bool,
}

/// The findings of one cause.
fn group(group: &Group) -> Value {
    serde_json::json!({
        "findings": group.findings,
        "count": group.count,
        "remedy": group.remedy,
        "follows_from": group.follows_from,
    })
}

impl Drawing {
    /// A kernel of a PTX text, and what the report of its launch says. The report has what it was
    /// [asked](warpfold_sim::Options) for: counters per instruction, and accesses.
    #[must_use]
    pub fn new(ptx: &str, kernel: &str, shape: &Shape, report: &Report) -> Self {
        Self {
            name: kernel.to_owned(),
            grid: shape.grid,
            block: shape.block,
            functions: texts(ptx, kernel, &report.instructions),
            is_shortened: false,
            origin: Origin::default(),
            accesses: accesses(&report.instructions),
            findings: report.findings.iter().map(|finding| serde_json::json!(Finding::from(finding))).collect(),
            groups: report.groups().iter().map(group).collect(),
            occupancy: occupancy_of(ptx, kernel, shape),
        }
    }

    /// With the source beside the PTX: `text_of` gives the text of a file by the name that the PTX
    /// has for it. The lines come from the same report.
    #[must_use]
    pub fn with_source(mut self, report: &Report, text_of: &dyn Fn(&str) -> Option<String>) -> Self {
        self.origin = Origin::new(report, text_of);
        self
    }

    /// About how many bytes it takes of a page.
    pub(crate) fn num_bytes(&self) -> usize {
        serde_json::to_string(self).map_or(0, |text| text.len())
    }

    /// Whether there is something to leave out.
    pub(crate) fn can_shrink(&self) -> bool {
        !self.is_shortened && !self.functions.is_empty()
    }

    /// Leaves out what takes most room and has no picture: lines of PTX that neither access memory
    /// nor have a finding.
    pub(crate) fn shrink(&mut self) {
        let found = |line: u32| {
            let is = |value: &Value| value.as_u64() == Some(line.into());
            self.findings.iter().any(|finding| is(&finding["line"]) || is(&finding["other"]["line"]))
        };
        let mut functions: Vec<Text> = Vec::new();
        for text in &self.functions {
            for (number, line) in (text.first..).zip(&text.lines) {
                if !self.accesses.contains_key(&number) && !found(number) {
                    continue;
                }
                match functions.last_mut().filter(|last| last.first + last.lines.len() as u32 == number) {
                    Some(last) => last.lines.push(line.clone()),
                    None => functions.push(Text { first: number, lines: vec![line.clone()] }),
                }
            }
        }
        self.functions = functions;
        self.is_shortened = true;
    }
}

/// What a line of PTX begins with that says where the next ones come from.
pub(crate) const LOCATION: &str = ".loc";

/// The kernel's text, and that of the functions that ran, with counters by line.
fn texts(ptx: &str, kernel: &str, instructions: &[InstructionCounters]) -> Vec<Text> {
    let Ok(module) = warpfold_ptx::parse(ptx) else { return Vec::new() };
    let ran: BTreeSet<&str> = instructions.iter().filter(|i| i.executions > 0).map(|i| i.function.as_str()).collect();
    let mut counts: BTreeMap<u32, [u64; 6]> = BTreeMap::new();
    for i in instructions {
        let sum = counts.entry(i.line).or_default();
        sum.iter_mut().zip(counts_of(i)).for_each(|(sum, more)| *sum += more);
    }
    let lines: Vec<&str> = ptx.lines().collect();
    let shown = module.functions().filter(|f| f.body.is_some() && (f.name == kernel || ran.contains(f.name.as_str())));
    let text = |function| {
        let (first, last) = extent(function, &lines);
        let line = |number: u32| Line {
            text: shown_text(lines.get(number as usize - 1).copied().unwrap_or_default()).to_owned(),
            counts: counts.get(&number).copied(),
        };
        Text { first, lines: (first..=last).map(line).collect() }
    };
    shown.map(text).collect()
}

/// A line without what the page leaves out: where an instruction comes from stands elsewhere.
fn shown_text(line: &str) -> &str {
    if line.trim_start().starts_with(LOCATION) { LOCATION } else { line.trim_end() }
}

fn accesses(instructions: &[InstructionCounters]) -> BTreeMap<u32, Vec<Access>> {
    let recorded = instructions.iter().filter(|i| !i.accesses.is_empty());
    recorded.map(|i| (i.line, i.accesses.iter().map(access).collect())).collect()
}

pub(crate) fn access(access: &WarpAccess) -> Access {
    let lanes: Vec<usize> = (0..32).filter(|lane| access.mask >> lane & 1 != 0).collect();
    let first_lane = lanes.first().copied().unwrap_or_default();
    let first = access.addresses[first_lane];
    let offset = |lane: usize| access.addresses[lane].wrapping_sub(first).cast_signed();
    let stride = lanes.get(1).map_or(0, |&lane| offset(lane) / (lane - first_lane) as i64);
    let is_strided = lanes.iter().all(|&lane| offset(lane) == stride * (lane - first_lane) as i64);
    Access {
        block: access.block,
        warp: access.warp,
        space: match access.space {
            MemorySpace::Global => "global",
            MemorySpace::Shared => "shared",
        },
        bytes: access.bytes,
        mask: access.mask,
        first,
        stride: is_strided.then_some(stride),
        offsets: (!is_strided).then(|| lanes.iter().map(|&lane| offset(lane)).collect()),
        place: access.place.clone(),
    }
}

/// The occupancy of the launch; nothing for a text that the virtual GPU does not take.
fn occupancy_of(ptx: &str, kernel: &str, shape: &Shape) -> Option<Occupancy> {
    // Room for the variables of any kernel.
    let memory = Memory::new(1 << 30);
    let program = Program::load(&memory, ptx, shape.arch).ok()?;
    let info = program.kernel(kernel).ok()?;
    let usage = |threads| Usage {
        threads,
        registers_per_thread: info.registers,
        static_shared: info.static_shared,
        dynamic_shared: shape.dynamic_shared,
    };
    let threads: u32 = shape.block.iter().product();
    let of_launch = occupancy::occupancy(shape.arch, &usage(threads));
    let limits = occupancy::limits(shape.arch);
    let (blocks, shared) = (of_launch.blocks_per_sm, info.static_shared + shape.dynamic_shared);
    let resource = |name, each: u32, limit, limiter| Resource {
        name,
        used: each * blocks,
        limit,
        limits: of_launch.limiters.contains(&limiter),
    };
    let warps = threads.div_ceil(32);
    let resources = vec![
        resource("warps", warps, limits.threads_per_sm / 32, Limiter::Warps),
        resource(
            "registers",
            (info.registers * 32).next_multiple_of(256) * warps,
            limits.registers_per_sm,
            Limiter::Registers,
        ),
        resource("shared memory", shared + limits.shared_reserved, limits.shared_per_sm, Limiter::SharedMemory),
        resource("blocks", 1, limits.blocks_per_sm, Limiter::Blocks),
    ];
    let by_block = (1..=32).map(|warps| (32 * warps, occupancy::occupancy(shape.arch, &usage(32 * warps)).occupancy));
    Some(Occupancy {
        threads,
        registers: info.registers,
        shared,
        blocks_per_sm: blocks,
        occupancy: of_launch.occupancy,
        resources,
        by_block: by_block.collect(),
    })
}

#[cfg(test)]
mod tests {
    use warpfold_sim::{Launch, Options};

    use super::*;

    /// Lane `n` of 20 stores at word `2 n`, and then at word `n * n`.
    const KERNEL: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
    .shared .align 4 .b8 tile[2048];
    .reg .b32 %r<6>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 8, %r2;
    st.shared.u32 [%r3], %r1;
    mul.lo.u32 %r4, %r1, %r1;
    mad.lo.u32 %r5, %r4, 4, %r2;
    st.shared.u32 [%r5], %r1;
    ret;
}
";

    #[test]
    fn a_drawing_has_lines_with_counts_and_the_accesses_of_one_warp() {
        let memory = Memory::new(1 << 20);
        let program = Program::load(&memory, KERNEL, Arch::SM_80).expect("it is PTX");
        let (grid, block) = ([3, 1, 1], [20, 1, 1]);
        let launch = Launch {
            kernel: "k".to_owned(),
            grid,
            block,
            cluster: [1; 3],
            dynamic_shared: 0,
            params: Vec::new(),
            cooperative: false,
            programmatic: false,
        };
        let options = Options { per_instruction: true, record: 4, ..Options::default() };
        let report = program.launch(&memory, &launch, &options).expect("it runs");
        let shape = Shape { arch: Arch::SM_80, grid, block, dynamic_shared: 0 };
        let drawing = serde_json::json!(Drawing::new(KERNEL, "k", &shape, &report));
        let text = &drawing["functions"][0];
        assert_eq!((&text["first"], &text["lines"][1]), (&4.into(), &"{".into()));
        // Three blocks, 20 lanes; stride 2 meets once in four banks.
        assert_eq!(text["lines"][7], serde_json::json!(["    st.shared.u32 [%r3], %r1;", 3, 60, 0, 6, 3, 0]));
        let access = &drawing["accesses"]["11"];
        assert_eq!(access.as_array().map(Vec::len), Some(1), "one block, one warp, one execution");
        assert_eq!(
            (&access[0]["space"], &access[0]["stride"], &access[0]["mask"]),
            (&"shared".into(), &8.into(), &0xf_ffff.into())
        );
        assert_eq!((&access[0]["block"], &access[0]["place"]), (&serde_json::json!([0, 0, 0]), &"tile+0x0".into()));
        let squares: Vec<i64> = (0..20).map(|n| 4 * n * n).collect();
        assert_eq!(drawing["accesses"]["14"][0]["offsets"], serde_json::json!(squares));
        assert_eq!(drawing["occupancy"]["threads"], 20);
        // Without room only lines with accesses are left, with their numbers.
        let mut short = Drawing::new(KERNEL, "k", &shape, &report);
        short.shrink();
        let short = serde_json::json!(short);
        assert_eq!(short["accesses"], drawing["accesses"]);
        let first: Vec<_> = short["functions"].as_array().expect("text").iter().map(|part| &part["first"]).collect();
        assert_eq!((first[0], &short["is_shortened"]), (&11.into(), &true.into()));
        assert_eq!(short["functions"][0]["lines"][0], text["lines"][7]);
        assert_eq!(drawing["occupancy"]["by_block"].as_array().map(Vec::len), Some(32));
    }
}

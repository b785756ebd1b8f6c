//! The change to make first: steps of the ladders, known by what a kernel counts before them.

use warpfold_sim::InstructionCounters;

use super::points::{Point, is_narrow};
use super::subject::Subject;

/// A change to make.
#[derive(Debug, PartialEq)]
pub(super) struct Change {
    /// Short name, such as `width`.
    pub name: &'static str,
    /// The advice itself.
    pub text: String,
    /// Source line if it is known, else the line of the PTX.
    pub place: Option<String>,
}

/// Work of a kernel per warp, and the instructions that do it.
pub(super) struct Work<'a> {
    subject: &'a Subject,
    warps: f64,
    /// Executed FMAs of warps.
    pub multiply_adds: u64,
}

impl<'a> Work<'a> {
    pub(super) fn of(subject: &'a Subject) -> Self {
        let blocks: u64 = subject.grid.iter().map(|n| u64::from(*n)).product();
        let threads: u64 = subject.block.iter().map(|n| u64::from(*n)).product();
        let warps = (blocks * threads.div_ceil(32) * subject.launches) as f64;
        let mut work = Self { subject, warps, multiply_adds: 0 };
        work.multiply_adds = work.all(&["fma."]).map(|i| i.executions).sum();
        work
    }

    /// The executed instructions whose text has every one of these parts.
    fn all(&self, parts: &'static [&'static str]) -> impl Iterator<Item = &'a InstructionCounters> {
        let has = move |i: &&InstructionCounters| i.executions > 0 && parts.iter().all(|part| i.text.contains(part));
        self.subject.instructions.iter().filter(has)
    }

    fn most(&self, parts: &'static [&'static str]) -> Option<&'a InstructionCounters> {
        self.all(parts).max_by_key(|i| i.executions)
    }

    /// Returns whether the kernel multiplies tiles: many FMAs for each global load.
    fn is_product(&self) -> bool {
        self.multiply_adds > 4 * self.subject.counters.global_load_requests
    }

    fn barriers(&self) -> f64 {
        self.subject.counters.barriers as f64 / self.warps
    }

    fn bytes_per_thread(&self) -> f64 {
        self.subject.counters.global_load_bytes as f64 / (32.0 * self.warps)
    }

    /// Returns whether what is loaded is multiplied.
    pub(super) fn multiplies_what_it_loads(&self) -> bool {
        self.is_product() || 2 * self.multiply_adds >= self.subject.counters.global_load_requests
    }

    /// A load by whose lanes one word is read, that many of all loads are.
    pub(super) fn uniform_load(&self) -> Option<&'a InstructionCounters> {
        let is_uniform = |i: &&InstructionCounters| {
            i.active_lanes == 32 * i.executions && i.sectors <= i.executions + i.executions / 64
        };
        let load = self.all(&["ld.global"]).filter(is_uniform).max_by_key(|i| i.executions)?;
        (4 * load.executions >= self.subject.counters.global_load_requests).then_some(load)
    }

    /// A load by whose lanes words are shared, that many of all loads are: of four bytes each they
    /// ask for more than the sectors that come have.
    pub(super) fn shared_load(&self) -> Option<&'a InstructionCounters> {
        let is_word = |i: &&InstructionCounters| i.text.contains("32 ") && !i.text.contains(".v");
        let is_shared = |i: &&InstructionCounters| is_word(i) && 8 * i.sectors < i.active_lanes;
        let load = self.all(&["ld.global"]).filter(is_shared).max_by_key(|i| i.executions);
        let load = load.filter(|load| 4 * load.executions >= self.subject.counters.global_load_requests);
        self.uniform_load().or(load)
    }

    /// An atomic whose result nobody uses, on one word, or as often as every other load.
    fn reduction(&self) -> Option<&'a InstructionCounters> {
        let red = self.most(&["red.", "global"])?;
        let is_single = red.active_lanes == red.executions && red.executions > 1;
        (is_single || 2 * red.executions >= self.subject.counters.global_load_requests).then_some(red)
    }
}

/// The first change that a kernel asks for, after what its points say; nothing where no rule knows
/// one.
pub(super) fn change(subject: &Subject, points: &[Point]) -> Option<Change> {
    let (c, work) = (&subject.counters, Work::of(subject));
    let open = |name: &str| points.iter().find(|point| point.name == name && !point.is_fine);
    for name in ["coalesced", "divergence", "conflicts"] {
        if let Some(point) = open(name) {
            let place = point.line.as_ref().and_then(|(line, _)| subject.instructions.iter().find(|i| i.line == *line));
            return Some(Change { name: point.name, text: point.mend.clone()?, place: place.map(of) });
        }
    }
    let blocks: u64 = subject.grid.iter().map(|n| u64::from(*n)).product();
    let has_tree = !work.is_product() && c.barriers > 0;
    let is_tiled = work.is_product() && 32 * c.shared_load_requests >= work.multiply_adds;
    let (name, text, instruction) = if c.shared_atomic_bank_conflicts > c.shared_atomics {
        let text = "give each lane or warp a copy of the counts, and add the copies up at the end: lanes that add to \
                    one bank take turns";
        ("conflicts", text, work.most(&["shared", "add"]))
    } else if blocks < 8 {
        ("occupancy", "split the work over more blocks: most multiprocessors are idle", None)
    } else if let (true, Some(load)) = (work.multiplies_what_it_loads(), work.uniform_load()) {
        let text = "bring a tile to shared memory once, and let all threads of the block read it there: the same words \
                    are loaded again and again";
        ("reuse", text, Some(load))
    } else if work.is_product() && 2 * c.shared_load_requests > work.multiply_adds {
        let text = "let a thread compute several results from what it has loaded: a load from shared memory for each \
                    multiplication is too much";
        ("tiles", text, work.most(&["ld.shared"]))
    } else if has_tree && work.barriers() >= 4.0 && work.bytes_per_thread() <= 4.0 {
        let text = "let each thread add several elements while it loads: half of the threads only load, and the tree \
                    of barriers is for few elements";
        ("work", text, work.most(&["bar"]))
    } else if has_tree && work.barriers() >= 4.0 {
        (
            "barriers",
            "leave out the block barriers of the last 32 threads: one warp needs sync_warp only",
            work.most(&["bar"]),
        )
    } else if has_tree && c.branches as f64 > 0.12 * c.warp_instructions as f64 {
        ("unroll", "unroll the loop: the block's size is known when the kernel is built", work.most(&["bra"]))
    } else if let (true, Some(sync)) =
        (has_tree && c.shared_load_requests as f64 >= work.warps, work.most(&["bar.warp.sync"]))
    {
        ("shuffles", "exchange values within a warp by shuffles: no shared memory, no barrier", Some(sync))
    } else if is_narrow(subject) {
        (
            "width",
            "load 16 bytes per lane (get_vec, float4): fewer requests for the same bytes",
            work.most(&["ld.global"]),
        )
    } else if let Some(red) = work.reduction() {
        let text = "add up in registers or shared memory first, and let fewer blocks stride over the input; or store a \
                    sum per block, which the last block adds up in a fixed order";
        ("atomics", text, Some(red))
    } else if is_tiled && work.most(&["cp.async"]).is_none() && 4 * c.barriers > 3 * c.global_load_requests {
        let text = "fetch the next tile while this one is multiplied: two buffers, one barrier per tile";
        ("overlap", text, work.most(&["bar"]))
    } else if is_tiled && work.most(&["cp.async"]).is_none() {
        let text = "copy tiles to shared memory in the background (copy_async, cp.async): no registers between";
        ("copies", text, work.most(&["st.shared"]))
    } else {
        return None;
    };
    Some(Change { name, text: text.to_owned(), place: instruction.map(of) })
}

/// The line of an instruction.
fn of(instruction: &InstructionCounters) -> String {
    let ptx = format!("PTX line {}: {}", instruction.line, instruction.text);
    instruction.source.as_ref().map_or_else(|| ptx.clone(), |source| format!("{source}, {ptx}"))
}

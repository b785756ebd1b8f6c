//! Predicted time: a range and its parts, from what a launch counted and a table of a GPU.
//!
//! [`Report::predict`] wants a report of a launch with [`Options::timing`](crate::Options::timing).
//! `cost` says what each instruction takes, `path` how long a block takes alone, [`gpu`] what a
//! GPU does a second, `traffic` what its caches leave for DRAM.
//!
//! The model is that of a roofline with more roofs: every unit would take some time if it were
//! alone ([`Part`]), a block cannot be faster than its path of dependent instructions, and what
//! takes longest binds. Units of a multiprocessor overlap; they do so with caches, memory and waits
//! but for some friction, which is a p-norm of the parts ([`Prediction::seconds`]). A
//! prediction is of the grid that was simulated; nothing is scaled to another. Its range is what
//! launches that were measured say: [`ClassError`].

mod cost;
mod fitted;
pub mod gpu;
mod path;
mod text;
mod traffic;

use std::str::FromStr;

use crate::occupancy::{Usage, active_clusters, occupancy};
use crate::{Arch, InstructionCounters, Report, TimingFacts};
use cost::{Cost, PIPES, Pipe, Words, cost_of};
pub use fitted::MEASURED_ON;
pub use gpu::{Gpu, UnknownGpu};
use path::{Warps, path};
use traffic::{Traffic, traffic};

/// What the L2 holds when a launch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caches {
    /// What the launch before, of the same kernel on the same data, has left.
    #[default]
    Warm,
    /// Nothing of the data.
    Cold,
}

/// A GPU, and what its caches hold: `h200`, `h200:cold`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// The GPU.
    pub gpu: Gpu,
    /// What the L2 holds when a launch begins.
    pub caches: Caches,
}

impl FromStr for Machine {
    type Err = UnknownGpu;

    fn from_str(text: &str) -> Result<Self, UnknownGpu> {
        let (name, caches) = match text.strip_suffix(":cold") {
            Some(name) => (name, Caches::Cold),
            None => (text, Caches::Warm),
        };
        Ok(Self { gpu: name.parse()?, caches })
    }
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPrediction {
    /// The launch did not keep what a prediction needs.
    #[error("the launch kept no facts for a prediction (Options::timing)")]
    NoFacts,
    /// The launch ended early.
    #[error("the launch ended at a fault, so that its time means nothing")]
    Aborted,
    /// The launch was of a kernel that the GPU does not run.
    #[error("the launch was simulated for {arch}, which {gpu} (sm_90a) does not run")]
    Target {
        /// What it was simulated as.
        arch: Arch,
        /// The GPU.
        gpu: &'static str,
    },
    /// No block of the launch fits.
    #[error("no block of the launch fits on a multiprocessor of {gpu}")]
    TooLarge {
        /// The GPU.
        gpu: &'static str,
    },
}

/// How far predictions erred that were measured, where the same kind of unit binds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ClassError {
    /// `DRAM`, `arithmetic` …; `all` where too few were measured of a class.
    pub class: &'static str,
    /// Launches that were measured and that constants were not fitted to.
    pub launches: u32,
    /// Their median relative error.
    pub median: f64,
    /// Times a prediction: what a twentieth of all measured launches of the class, those that
    /// constants were fitted to among them, were below.
    pub low: f64,
    /// What a twentieth of them were above.
    pub high: f64,
}

/// The class of what binds.
fn class_of(part: &str) -> &'static str {
    match part {
        "launch" | "block starts" => "launch",
        "DRAM" => "DRAM",
        "L2" | "L1" => "caches",
        "latency" | "barriers" => "latency",
        "tensor cores" => "tensor cores",
        "shared memory" | "loads and stores" => "shared memory",
        "atomics" => "atomics",
        _ => "arithmetic",
    }
}

/// What a unit, or a wait, would take if it were alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// `DRAM`, `issue`, `latency` …
    pub name: &'static str,
    /// Seconds.
    pub seconds: f64,
}

/// A predicted time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// The GPU.
    pub gpu: &'static str,
    /// What the L2 was taken to hold.
    pub caches: Caches,
    /// Seconds that a launch adds to a stream of launches; the middle of the range.
    pub seconds: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
    /// Parts, the longest first, the launch among them. They overlap.
    pub parts: Vec<Part>,
    /// Blocks resident on a multiprocessor.
    pub blocks_per_sm: u32,
    /// Blocks over those that the GPU keeps resident.
    pub waves: f64,
    /// Bytes read from DRAM, and written.
    pub dram_bytes: u64,
    /// How far such predictions erred.
    pub error: ClassError,
}

impl Prediction {
    /// What binds: the longest part.
    #[must_use]
    pub fn binds(&self) -> &'static str {
        self.parts.first().map_or("launch", |part| part.name)
    }

    /// What would bind next, if what binds took no time.
    #[must_use]
    pub fn next(&self) -> Option<&'static str> {
        self.parts.get(1).map(|part| part.name)
    }
}

/// Parts that are not units of a multiprocessor.
const BEYOND: &[&str] = &["L2", "DRAM", "atomics", "block starts", "latency"];

impl Report {
    /// The time that the launch would take on a GPU.
    ///
    /// ```
    /// use warpfold_sim::{Arch, Launch, Memory, Options, Program, predict::Machine};
    ///
    /// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
    /// let memory = Memory::new(1 << 20);
    /// let program = Program::load(&memory, ptx, Arch::SM_90A)?;
    /// let launch = Launch {
    ///     kernel: "nothing".into(), grid: [1, 1, 1], block: [32, 1, 1], cluster: [1, 1, 1],
    ///     dynamic_shared: 0, params: vec![], cooperative: false, programmatic: false,
    /// };
    /// let report = program.launch(&memory, &launch, &Options { timing: true, ..Options::default() })?;
    /// let predicted = report.predict(&"h200".parse::<Machine>()?)?;
    /// assert!(predicted.low < predicted.seconds && predicted.seconds < predicted.high);
    /// assert_eq!(predicted.binds(), "launch");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoPrediction`].
    pub fn predict(&self, machine: &Machine) -> Result<Prediction, NoPrediction> {
        let Machine { gpu, caches } = machine;
        let facts = self.timing.as_ref().ok_or(NoPrediction::NoFacts)?;
        if self.aborted {
            return Err(NoPrediction::Aborted);
        }
        let is_same = facts.arch.number == 90 || (facts.arch.number < 90 && !facts.arch.specific);
        if !is_same {
            return Err(NoPrediction::Target { arch: facts.arch, gpu: gpu.name });
        }
        let shape = Shape::of(self, facts, gpu).ok_or(NoPrediction::TooLarge { gpu: gpu.name })?;
        let counted: Vec<_> = self
            .instructions
            .iter()
            .map(|one| {
                let words = Words::new(&one.text);
                let cost = cost_of(&words, &gpu.latencies, gpu.tensor);
                (one, words, cost)
            })
            .collect();
        let traffic = traffic(self, facts, gpu, *caches, &counted);
        Ok(shape.join(gpu, *caches, self.parts(gpu, &shape, &traffic, &counted), &traffic))
    }

    /// What each unit takes, but for the launch itself.
    fn parts(&self, gpu: &Gpu, shape: &Shape, traffic: &Traffic, counted: &[Counted<'_>]) -> Vec<Part> {
        let sum = |value: &dyn Fn(&Counted<'_>) -> f64| {
            counted.iter().map(|one| one.0.executions as f64 * value(one)).sum::<f64>()
        };
        let seconds = |cycles: f64| cycles * shape.busiest / gpu.clock;
        let part = |name, seconds| Part { name, seconds };
        let mut parts = vec![part("issue", seconds(sum(&|one| one.2.slots) / shape.quarters))];
        for (pipe, name) in PIPES {
            let cycles = sum(&|one| if one.2.pipe == pipe { one.2.cycles } else { 0.0 });
            let units = if matches!(pipe, Pipe::LoadStore | Pipe::Barrier) { 1.0 } else { shape.quarters };
            parts.push(part(name, seconds(cycles / units)));
        }
        let c = &self.counters;
        // Counting up by one takes one pass, however many lanes do so at one address.
        let is_shared = |one: &&Counted<'_>| matches!(one.1.parts[0], "atom" | "red") && one.1.has("shared");
        let counts_up = |one: &Counted<'_>| one.1.has("add") && one.1.operands.trim_end_matches(';').ends_with(", 1");
        let conflicts = match counted.iter().filter(is_shared).all(counts_up) {
            true => 0,
            false => c.shared_atomic_bank_conflicts,
        };
        // A wavefront takes the unit of loads and stores.
        let wavefronts = c.shared_load_wavefronts + c.shared_store_wavefronts + conflicts;
        let requests = c.shared_load_requests + c.shared_store_requests;
        if let Some(all) = parts.iter_mut().find(|part| part.name == "loads and stores") {
            all.seconds += seconds(wavefronts.saturating_sub(requests) as f64);
            if 2.0 * seconds(wavefronts as f64) > all.seconds {
                all.name = "shared memory";
            }
        }
        let sectors = c.global_load_sectors + c.global_store_sectors;
        parts.push(part("L1", seconds(sectors as f64 / gpu.l1_sectors)));
        let moved = (traffic.l2_read + traffic.l2_written) / (shape.active * gpu.l2_per_sm * gpu.clock);
        parts.push(part("L2", moved.max(traffic.l2_read / gpu.l2 + traffic.l2_written / gpu.l2_written)));
        parts.push(part("DRAM", traffic.dram_bytes() / gpu.dram));
        parts.push(part("atomics", traffic.atomics));
        let warps = Warps { blocks: shape.blocks, per_block: shape.warps };
        parts.push(part("block starts", shape.blocks / gpu.block_starts));
        let path = path(counted, warps, traffic.latency);
        let waves = f64::midpoint(shape.waves, shape.waves.ceil()).max(1.0);
        parts.push(part("latency", (gpu.block_start + path / gpu.clock) * waves));
        parts
    }
}

/// An instruction with its counts, its words and its cost.
type Counted<'a> = (&'a InstructionCounters, Words<'a>, Cost);

/// How a launch lies on a GPU.
#[derive(Debug, Clone, Copy)]
struct Shape {
    blocks: f64,
    /// Warps of a block.
    warps: f64,
    blocks_per_sm: u32,
    /// Blocks over those resident.
    waves: f64,
    /// Multiprocessors at work.
    active: f64,
    /// The share of all work that the busiest multiprocessor has.
    busiest: f64,
    /// Quarters of it at work.
    quarters: f64,
}

impl Shape {
    fn of(report: &Report, facts: &TimingFacts, gpu: &Gpu) -> Option<Self> {
        let count = |sizes: [u32; 3]| sizes.iter().map(|&n| f64::from(n)).product::<f64>();
        let (blocks, threads) = (count(report.grid).max(1.0), report.block.iter().product::<u32>());
        let usage = Usage {
            threads,
            registers_per_thread: facts.registers,
            static_shared: facts.shared_bytes,
            dynamic_shared: 0,
        };
        let blocks_per_sm = occupancy(Arch::SM_90A, &usage).blocks_per_sm;
        if blocks_per_sm == 0 {
            return None;
        }
        let multiprocessors = f64::from(gpu.multiprocessors);
        let resident = match facts.cluster_blocks {
            0 | 1 => multiprocessors * f64::from(blocks_per_sm),
            n => f64::from(active_clusters(Arch::SM_90A, &usage, n) * n),
        };
        if resident == 0.0 {
            return None;
        }
        let warps = f64::from(threads.div_ceil(32));
        let on_busiest = (blocks / multiprocessors).ceil();
        let at_once = on_busiest.min(f64::from(blocks_per_sm));
        Some(Self {
            blocks,
            warps,
            blocks_per_sm,
            waves: blocks / resident,
            active: blocks.min(multiprocessors),
            busiest: on_busiest / blocks,
            quarters: (warps * at_once).min(4.0),
        })
    }

    /// The whole of parts.
    fn join(&self, gpu: &Gpu, caches: Caches, mut parts: Vec<Part>, traffic: &Traffic) -> Prediction {
        let (own, beyond): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| !BEYOND.contains(&part.name));
        let own = own.into_iter().map(|part| part.seconds).fold(0.0, f64::max);
        let all = beyond.into_iter().map(|part| part.seconds).chain([own]);
        let work = all.map(|seconds| seconds.powf(fitted::NORM)).sum::<f64>().powf(1.0 / fitted::NORM);
        parts.push(Part { name: "launch", seconds: gpu.launch });
        parts.retain(|part| part.seconds > 0.0);
        parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let class = class_of(parts.first().map_or("launch", |part| part.name));
        let error = fitted::CLASSES.iter().find(|error| error.class == class).copied().unwrap_or(fitted::ALL);
        let seconds = gpu.launch + work;
        Prediction {
            gpu: gpu.name,
            caches,
            seconds,
            low: error.low * seconds,
            high: error.high * seconds,
            parts,
            blocks_per_sm: self.blocks_per_sm,
            waves: self.waves,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of bytes")]
            dram_bytes: traffic.dram_bytes() as u64,
            error,
        }
    }
}

//! The kernel under review: its text, its launch and its counters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use warpfold_device::{Device, LaunchReport};
use warpfold_sim::occupancy::{self, Occupancy, Usage};
use warpfold_sim::{Arch, Counters, InstructionCounters, Launch, Memory, Program, Report};

use crate::failure::Failure;

/// A kernel of a run, all its launches together.
#[derive(Debug)]
pub(super) struct Subject {
    pub kernel: String,
    pub launches: u64,
    /// Grid of the first launch.
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub counters: Counters,
    pub instructions: Vec<InstructionCounters>,
    /// 32-bit registers per thread that are live at once: the virtual GPU's estimate.
    pub registers: u32,
    pub shared_bytes: u32,
    pub occupancy: Occupancy,
    pub arch: Arch,
    /// The kernel whose launch came before, and sectors that one may have stored and the other
    /// loaded.
    pub before: Option<(String, u64)>,
}

/// The texts of the kernels that a device was given, by the names of their entries.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts(Arc<Mutex<BTreeMap<String, String>>>);

impl Texts {
    /// Starts to collect the kernels that a device loads.
    pub(super) fn of(device: &Device) -> Self {
        let texts = Self::default();
        let seen = texts.clone();
        device.rewrite_kernels(move |text| {
            let entries = text.lines().filter_map(|line| line.split_once(".entry "));
            for (_, name) in entries {
                let name = name.trim_end_matches(['(', ')', ' ']).to_owned();
                seen.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, text.to_owned());
            }
            text.to_owned()
        });
        texts
    }

    fn get(&self, kernel: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(kernel).cloned()
    }
}

impl Subject {
    /// The kernels of a run, in the order of their first launches.
    pub(super) fn all(reports: Vec<LaunchReport>, texts: &Texts, arch: Arch) -> Result<Vec<Self>, Failure> {
        let mut subjects: Vec<Self> = Vec::new();
        let mut last: Option<(String, u64)> = None;
        for LaunchReport { kernel, config, report, .. } in reports {
            let (loaded, stored) = (report.counters.global_load_sectors, report.counters.global_store_sectors);
            let before = last.replace((kernel.clone(), stored)).map(|(name, stored)| (name, stored.min(loaded)));
            if let Some(subject) = subjects.iter_mut().find(|subject| subject.kernel == kernel) {
                subject.add(report);
                continue;
            }
            let text = texts.get(&kernel).ok_or_else(|| Failure::run(format!("the text of {kernel} is not known")))?;
            let launch = Launch {
                kernel,
                grid: config.grid,
                block: config.block,
                cluster: config.cluster.unwrap_or([1; 3]),
                dynamic_shared: config.dynamic_shared,
                params: Vec::new(),
                cooperative: config.cooperative,
                programmatic: false,
            };
            subjects.push(Self { before, ..Self::of_text(&launch, report, text, arch)? });
        }
        Ok(subjects)
    }

    /// One launch of a kernel of a text.
    pub(super) fn of_text(launch: &Launch, report: Report, text: String, arch: Arch) -> Result<Self, Failure> {
        // Room for the variables of any kernel.
        let program = Program::load(&Memory::new(1 << 30), &text, arch)?;
        let info = program.kernel(&launch.kernel)?;
        let usage = Usage {
            threads: launch.block.iter().product(),
            registers_per_thread: info.registers,
            static_shared: info.static_shared,
            dynamic_shared: launch.dynamic_shared,
        };
        Ok(Self {
            kernel: launch.kernel.clone(),
            launches: 1,
            grid: launch.grid,
            block: launch.block,
            counters: report.counters,
            instructions: report.instructions,
            registers: info.registers,
            shared_bytes: info.static_shared + launch.dynamic_shared,
            occupancy: occupancy::occupancy(arch, &usage),
            arch,
            before: None,
        })
    }

    /// Another launch of the same kernel.
    fn add(&mut self, report: Report) {
        self.launches += 1;
        self.counters = self.counters + report.counters;
        for (mine, other) in self.instructions.iter_mut().zip(report.instructions) {
            mine.executions += other.executions;
            mine.active_lanes += other.active_lanes;
            mine.divergent += other.divergent;
            mine.wavefronts += other.wavefronts;
            mine.bank_conflicts += other.bank_conflicts;
            mine.sectors += other.sectors;
        }
    }
}

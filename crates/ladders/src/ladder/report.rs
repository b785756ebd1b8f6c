//! Report of a ladder's run.

use warpfold_device::{Counters, Finding, LaunchReport, Severity};
use warpfold_kernels::Dtype;

use super::{Measured, Memory, Rung};

/// A ladder, run on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct LadderReport {
    /// The ladder's name.
    pub ladder: &'static str,
    /// The device, as `virtual:h200 (virtual GPU as H200)`.
    pub device: String,
    /// Elements, or numbers that are packed into one: see [`Sizes`](super::Sizes).
    pub size: u64,
    /// Their type.
    pub dtype: Dtype,
    /// Bandwidth of a copy within the device's memory, reads and writes counted; `None` without a
    /// clock.
    pub copy_gigabytes_per_second: Option<f64>,
    /// The rungs that were run, in the ladder's order.
    pub rungs: Vec<RungReport>,
    /// The rungs that the device has not the instructions for.
    pub absent: Vec<Absent>,
}

/// A rung that a device cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The rung's name.
    pub name: &'static str,
    /// The missing requirement.
    pub reason: String,
}

/// One rung, run on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct RungReport {
    /// The rung's name.
    pub name: &'static str,
    /// The result is right and nothing outside it was touched.
    pub ok: bool,
    /// The largest absolute difference from the reference; infinite where the run failed.
    pub max_error: f64,
    /// The median of the device times of the kernel; `None` on the virtual GPU, which has no clock.
    pub seconds: Option<f64>,
    /// Bytes that any solution has to move.
    pub bytes: u64,
    /// `bytes` over `seconds`.
    pub gigabytes_per_second: Option<f64>,
    /// Floating-point operations, for problems that they are counted for.
    pub flops: Option<u64>,
    /// Floating-point operations over `seconds`.
    pub teraflops_per_second: Option<f64>,
    /// Counters of one run, all its launches together; `None` on CUDA.
    pub counters: Option<Counters>,
    /// Counters of each launch, instruction by instruction; empty unless
    /// [`RunOptions::record`](super::RunOptions::record) or
    /// [`RunOptions::timing`](super::RunOptions::timing) asks for it, and on CUDA.
    pub launches: Vec<LaunchReport>,
    /// Broken rules that the checks found.
    pub findings: Vec<Finding>,
    /// Why the run failed, where it did.
    pub failure: Option<String>,
    /// The rung is a race by design ([`Finish::Race`](super::Finish::Race)), which only the checks
    /// judge.
    pub is_race: bool,
    /// Blocks of the launches.
    pub blocks: u64,
    /// Operations from input to result: launches, clearing memory, adding on the host.
    pub steps: u64,
    /// Memory beside inputs and result.
    pub memory: Memory,
    /// The change from the previous rung, and its gain in this run.
    pub sentence: String,
}

impl LadderReport {
    /// Returns the speedup of a rung over the first rung that was run.
    #[must_use]
    pub fn speedup(&self, rung: &RungReport) -> Option<f64> {
        Some(self.rungs.first()?.seconds? / rung.seconds?)
    }

    /// Returns the bandwidth of a rung as a share of the copy bandwidth.
    #[must_use]
    pub fn share_of_copy(&self, rung: &RungReport) -> Option<f64> {
        Some(rung.gigabytes_per_second? / self.copy_gigabytes_per_second?)
    }

    /// Returns whether every rung is right and no check found an error.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.rungs.iter().all(RungReport::is_ok)
    }
}

impl RungReport {
    /// Returns whether the rung is right and no check found an error. A race by design is never
    /// wrong, as it is shown for what it is.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.is_race || (self.ok && self.findings.iter().all(|finding| finding.severity != Severity::Error))
    }

    /// Returns the measurements that claims refer to; `None` on CUDA.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        let Self { counters, blocks, steps, memory, .. } = *self;
        Some(Measured { counters: counters?, blocks, steps, memory })
    }

    /// The sentence, given the reports of the rungs that were run before, and which of them is of
    /// the rung before this one.
    pub(super) fn explain(&self, rung: &Rung, reports: &[Self], before: Option<&Self>) -> String {
        let mut bought = Vec::new();
        for claim in rung.claims {
            let other = match claim.against {
                Some(name) => reports.iter().find(|report| report.name == name),
                None => before,
            };
            let runs = other.and_then(Self::measured).zip(self.measured());
            // What goes the other way at this size is not claimed.
            let changed = runs.filter(|(before, after)| claim.points_the_right_way(before, after));
            bought.extend(changed.map(|(before, after)| claim.describe(&before, &after)));
        }
        if let (Some(before), Some(after)) = (before.and_then(|before| before.seconds), self.seconds) {
            bought.push(format!("{:.2}x the speed", before / after));
        }
        match bought.as_slice() {
            [] => format!("{}.", rung.changed),
            bought => format!("{}: {}.", rung.changed, bought.join(", ")),
        }
    }
}

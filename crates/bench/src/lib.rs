//! Measures operators: device time on an NVIDIA GPU, what is moved on the virtual one.
//!
//! A [`Case`] is an operator at a shape; [`run`] measures families of them. On a GPU each case has
//! as many copies of its inputs and outputs as fill the L2 several times, and goes round them; a
//! kernel that only waits is enqueued first, so that the launches behind it stand in line and the
//! time between two events is theirs alone. The record says the median of several rounds and their
//! spread, the bytes that any solution has to move, and the share of what a copy within the
//! device's memory reaches in the same run. The virtual GPU has no clock: there each case runs
//! once, smaller, and the record says which sectors it moved and how many it had to. On both,
//! samples of what was measured are compared with a reference ([`Checked`]).

pub mod attention;
mod cases;
mod check;
mod convolutions;
mod data;
mod determinism;
mod measure;
mod products;
mod quantized;
mod references;
pub mod vendor;

use std::time::Duration;

use warpfold_device::{Counters, Device};
use warpfold_kernels::{Error, ErrorKind};

pub use cases::{Case, FAMILIES};
pub use check::Checked;
pub use determinism::{Cost, costs};

/// Measurements of a case.
#[derive(Debug, Clone)]
pub struct Record {
    /// The family: `softmax`.
    pub family: &'static str,
    /// Operator, element type and shape: `softmax bf16 32768x1024`.
    pub case: String,
    /// Bytes that any solution has to move: each input read once, each output written once.
    pub bytes: u64,
    /// Launches of one run of the operator.
    pub launches: u64,
    /// Result of comparing samples with a reference; `None` in records that predate the check.
    pub checked: Option<Checked>,
    /// Floating-point (or integer) operations, where they are what takes time.
    pub flops: Option<u64>,
    /// Device time of one run; none on the virtual GPU.
    pub time: Option<Time>,
    /// Time of the vendor's library for the same case, interleaved with ours; `None` where it is
    /// not installed, or does not support it.
    pub peer: Option<Peer>,
    /// Why it was not timed, where it is installed: what it says.
    pub no_peer: Option<String>,
    /// Counters of one run; on the virtual GPU only.
    pub counters: Option<Counters>,
}

/// Another implementation, measured on the same data in the same run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// Its time.
    pub time: Time,
}

/// Device time of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The middle one of all rounds.
    pub median: Duration,
    /// The fastest round.
    pub least: Duration,
    /// The slowest round.
    pub most: Duration,
}

impl Record {
    /// A case that is not measured yet.
    fn new(family: &'static str, case: String, [bytes, launches]: [u64; 2], flops: Option<u64>) -> Self {
        let (checked, time, peer, no_peer, counters) = (None, None, None, None, None);
        Self { family, case, bytes, launches, checked, flops, time, peer, no_peer, counters }
    }

    /// Returns the description of the comparison, if all results were right.
    #[must_use]
    pub fn right(&self) -> Option<&str> {
        match &self.checked {
            Some(Checked::Right(what)) => Some(what),
            Some(Checked::Wrong(_)) | None => None,
        }
    }

    /// The result that is wrong, if any is.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        match &self.checked {
            Some(Checked::Wrong(what)) => Some(what),
            Some(Checked::Right(_)) | None => None,
        }
    }

    /// Bytes that have to be moved, by the median time.
    #[must_use]
    pub fn gigabytes_per_second(&self) -> Option<f64> {
        self.time.map(|time| self.bytes as f64 / time.median.as_secs_f64() / 1e9)
    }

    /// Operations by the median time.
    #[must_use]
    pub fn teraflops_per_second(&self) -> Option<f64> {
        Some(self.flops? as f64 / self.time?.median.as_secs_f64() / 1e12)
    }

    /// Returns the speed relative to the peer.
    #[must_use]
    pub fn speed_of_peer(&self) -> Option<f64> {
        Some(self.peer?.time.median.as_secs_f64() / self.time?.median.as_secs_f64())
    }

    /// Sectors that were moved, by those that had to be.
    #[must_use]
    pub fn sectors_of_ideal(&self) -> Option<f64> {
        let counters = self.counters?;
        let moved = counters.global_load_sectors + counters.global_store_sectors;
        Some(moved as f64 * 32.0 / self.bytes.max(1) as f64)
    }
}

/// Measures every case of these families (of all without any), calling `each` with each record. A
/// recording of the device's activity has what the operators do, not what measuring them takes:
/// inputs, events, what empties caches.
///
/// # Errors
/// [`ErrorKind::UnknownOperation`] for a family that does not exist, and what the device says.
pub fn run(device: &Device, families: &[String], each: impl FnMut(&Record)) -> Result<(), Error> {
    device.unrecorded(|| measure_all(device, families, each))
}

fn measure_all(device: &Device, families: &[String], mut each: impl FnMut(&Record)) -> Result<(), Error> {
    if let Some(unknown) = families.iter().find(|name| !FAMILIES.contains(&name.as_str())) {
        return Err(ErrorKind::UnknownOperation(unknown.clone()).into());
    }
    for case in cases::all(device.is_virtual()) {
        if families.is_empty() || families.iter().any(|name| name == case.family) {
            each(&measure::measure(device, &case)?);
        }
    }
    let is_asked = |family: &str| families.is_empty() || families.iter().any(|name| name == family);
    if is_asked("matmul") {
        for product in products::all(device.is_virtual()) {
            each(&products::measure(device, product)?);
        }
    }
    if is_asked("quantized") {
        for product in quantized::all(device.is_virtual()) {
            each(&quantized::measure(device, product)?);
        }
    }
    if is_asked("attention") {
        for case in attention::all(device.is_virtual()) {
            each(&attention::measure(device, case)?);
        }
    }
    if is_asked("conv") {
        for problem in convolutions::all(device.is_virtual()) {
            each(&convolutions::measure(device, &problem)?);
        }
    }
    Ok(())
}

//! Constants that fixtures/timing/fit.py fits, and the errors that it found: written by it.

use super::ClassError;

/// Where the launches were timed.
pub const MEASURED_ON: &str = "H100 80GB HBM3";

pub(super) const LAUNCH: f64 = 1.883e-06;
pub(super) const BLOCK_START: f64 = 8.857e-08;
pub(super) const BLOCK_STARTS: f64 = 1.653e+09;
pub(super) const DRAM: f64 = 3.36e+12;
pub(super) const L2_READ: f64 = 7.865e+12;
pub(super) const L2_WRITTEN: f64 = 4.484e+12;
/// Sharpness of the norm that parts are joined by: with 1 they follow one another, with infinity
/// they overlap wholly.
pub(super) const NORM: f64 = 2.509;

/// By class, where enough launches were measured.
pub(super) const CLASSES: &[ClassError] = &[
    ClassError { class: "DRAM", launches: 26, median: 0.197, low: 0.851, high: 2.014 },
    ClassError { class: "arithmetic", launches: 25, median: 0.157, low: 0.837, high: 1.478 },
    ClassError { class: "atomics", launches: 11, median: 0.111, low: 0.413, high: 2.810 },
    ClassError { class: "caches", launches: 64, median: 0.198, low: 0.722, high: 5.617 },
    ClassError { class: "latency", launches: 37, median: 0.186, low: 0.785, high: 1.623 },
    ClassError { class: "launch", launches: 109, median: 0.079, low: 0.909, high: 1.531 },
    ClassError { class: "shared memory", launches: 8, median: 0.146, low: 0.822, high: 1.645 },
];
/// Of all launches.
pub(super) const ALL: ClassError = ClassError { class: "all", launches: 280, median: 0.120, low: 0.812, high: 2.277 };

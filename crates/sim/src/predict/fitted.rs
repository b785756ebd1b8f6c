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
pub(super) const CLASSES: &[ClassError] = &[];
/// Of all launches.
pub(super) const ALL: ClassError = ClassError { class: "all", launches: 0, median: 0.0, low: 0.7, high: 1.4 };

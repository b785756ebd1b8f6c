//! Small kernels whose values or counters tell plausible models of the hardware apart.
//!
//! Start with [`Case`] and [`CASES`]; [`values`] and [`accesses`] hold them, [`measure()`] runs one
//! on a device, and [`table`] prints what `CALIBRATION.md` keeps. A value is the same kind of thing
//! on both devices. An access is counted by the virtual GPU and timed on hardware, against two
//! patterns on which all models agree.

pub mod accesses;
mod case;
mod measure;
pub mod table;
pub mod values;

pub use case::{Case, Model, Observed, Probe, Rule, find, say};
pub use measure::{Failure, measure, ptx};

/// Every case: values first, then accesses to shared and to global memory.
pub const CASES: [&[Case]; 3] = [values::CASES, accesses::SHARED, accesses::GLOBAL];

/// Every case, one after the other.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.into_iter().flatten()
}

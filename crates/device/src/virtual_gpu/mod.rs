//! The virtual GPU as a device: what a driver would be asked to do, this does at once, in the order
//! of the calls.
//!
//! [`machine`] is the device, [`stream`] takes work and captures graphs, and [`reports`] has what
//! each launch counted and found.

mod machine;
mod reports;
mod stream;

pub(crate) use machine::{Machine, VirtualGpu};
pub use reports::LaunchReport;

//! The virtual GPU as a device: what a driver would be asked to do, this does at once, in the order of the calls.
//!
//! [`machine`] is the device; [`stream`] takes work; [`reports`] has what only the virtual GPU can be asked: options of a launch, and what
//! each launch counted and found; [`profile`] the GPUs that it stands in for.

mod machine;
mod profile;
mod reports;
mod stream;

pub(crate) use machine::VirtualGpu;
pub use profile::Profile;
pub use reports::LaunchReport;

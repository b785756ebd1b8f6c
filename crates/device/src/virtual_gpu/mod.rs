//! The virtual GPU backend. Calls execute synchronously, in call order.
//!
//! [`machine`] is the device, [`stream`] takes work and captures graphs, and [`reports`] has what
//! each launch counted and found. [`together`] has launches over several of them.

mod machine;
mod reports;
mod stream;
mod together;

pub(crate) use machine::{Machine, VirtualGpu};
pub use reports::LaunchReport;
pub(crate) use stream::VirtualStream;
pub(crate) use together::Together;

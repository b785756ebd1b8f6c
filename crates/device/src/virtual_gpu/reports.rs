//! What a launch on the virtual GPU counted and found.

use warpfold_sim as sim;

use crate::backend::LaunchConfig;

/// What one launch on the virtual GPU did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchReport {
    /// How many launches the device had run before, so that a gap shows where reports were dropped.
    pub number: u64,
    /// The kernel's name.
    pub kernel: String,
    /// The launch.
    pub config: LaunchConfig,
    /// Counters and findings.
    pub report: sim::Report,
}

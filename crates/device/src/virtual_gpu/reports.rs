//! Counters and findings of a launch on the virtual GPU.

use std::fmt;

use warpfold_sim as sim;

use crate::backend::LaunchConfig;

/// Report of one launch on the virtual GPU; or, under checks, of a copy to the host that is wrong:
/// its `kernel` is `copy to the host`, and it has no blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchReport {
    /// Number of launches that the device had run before, so that a gap shows dropped reports.
    pub number: u64,
    /// The kernel's name.
    pub kernel: String,
    /// The launch.
    pub config: LaunchConfig,
    /// Counters and findings.
    pub report: sim::Report,
}

impl fmt::Display for LaunchReport {
    /// Prints the launch, the counters that are not zero, and the findings.
    ///
    /// ```
    /// use warpfold_device::{Device, LaunchConfig, Profile};
    /// use warpfold_lang::{Global, kernel, thread_idx};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let fill = kernel("fill", |out: Global<u32>| out.at(thread_idx().x).set(7));
    /// device.launch(&fill, LaunchConfig::new(1, 64), (&mut device.alloc::<u32>(64)?,))?;
    /// let report = device.last_report().expect("something was launched").to_string();
    /// assert!(report.starts_with("fill: grid 1x1x1, block 64x1x1\n"), "{report}");
    /// assert!(report.ends_with("no findings\n"), "{report}");
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let Self { kernel, config, report, .. } = self;
        match config.grid {
            [0, 0, 0] => writeln!(f, "{kernel}")?,
            _ => writeln!(f, "{kernel}: grid {}, block {}", size(config.grid), size(config.block))?,
        }
        write!(f, "{report}")
    }
}

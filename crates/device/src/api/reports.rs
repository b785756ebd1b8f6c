//! What only the virtual GPU has: options of a launch, and what each launch counted and found.

use warpfold_sim as sim;

use crate::api::device::Device;
use crate::virtual_gpu::{LaunchReport, Machine, VirtualGpu};
use crate::{Error, ErrorKind};

/// What only the virtual GPU can do.
impl Device {
    /// Chooses the checks that later launches run under.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKindOfDevice`] on CUDA: hardware does not check.
    pub fn set_checks(&self, checks: sim::Checks) -> Result<(), Error> {
        self.configure(|options| options.checks = checks)
    }

    /// Changes how later launches run: checks, host threads, counters per instruction, where
    /// `printf` writes.
    ///
    /// ```
    /// # use warpfold_device::{Checks, Device, Profile};
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.configure(|options| {
    ///     options.checks = Checks::All;
    ///     options.workers = Some(1);
    ///     options.per_instruction = true;
    /// })?;
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WrongKindOfDevice`] on CUDA.
    pub fn configure(&self, change: impl FnOnce(&mut sim::Options)) -> Result<(), Error> {
        change(&mut self.machine("changing how launches run")?.options());
        Ok(())
    }

    /// What the latest launch did, a failed one included; `None` on CUDA, and before the first
    /// launch.
    #[must_use]
    pub fn last_report(&self) -> Option<LaunchReport> {
        self.machine("reading reports").ok()?.reports().last()
    }

    /// What each launch did since the last time, in order. At most the latest 1,024 are kept; empty
    /// on CUDA. A device that goes away with errors that nobody has read says so on standard error.
    #[must_use]
    pub fn take_reports(&self) -> Vec<LaunchReport> {
        match self.machine("reading reports") {
            Ok(machine) => machine.reports().take(),
            Err(_) => Vec::new(),
        }
    }

    fn machine(&self, what: &'static str) -> Result<&Machine, Error> {
        let needed = "the virtual GPU";
        let gpu = self.backend_as::<VirtualGpu>();
        let gpu = gpu.ok_or_else(|| ErrorKind::WrongKindOfDevice { what, needed, device: self.to_string() })?;
        Ok(gpu.machine())
    }
}

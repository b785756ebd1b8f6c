//! Interface of the virtual GPU alone: launch options, and counters and findings per launch.

use warpfold_sim as sim;

use crate::api::device::Device;
use crate::virtual_gpu::{LaunchReport, Machine, VirtualGpu};
use crate::{Error, ErrorKind};

/// Methods for the virtual GPU alone.
impl Device {
    /// Sets the checks for later launches and copies to the host.
    ///
    /// A checked launch keeps to the views that it is given: it reports stores through those that
    /// were passed to be read, and accesses inside a buffer but outside all of its parts.
    /// ```
    /// # use warpfold_device::{Checks, Device, LaunchConfig, Profile};
    /// # use warpfold_lang::{Global, kernel, thread_idx};
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.set_checks(Checks::All)?;
    /// let fill = kernel("fill", |data: Global<u32>| data.at(thread_idx().x).set(1_u32));
    /// let mut data = device.alloc_zeroed::<u32>(64)?;
    /// device.launch(&fill, LaunchConfig::new(1, 32), (data.view_mut(..31)?,))?;
    /// let findings = device.last_report().expect("it ran").report.findings;
    /// assert_eq!(findings[0].rule, "leaves the parts of a buffer that the launch was given");
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// Nor may the host read what nothing has written: that is a report of its own, and with
    /// [`Checks::Deny`](sim::Checks::Deny) an error.
    /// ```
    /// # use warpfold_device::{Checks, Device, Profile};
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.set_checks(Checks::All)?;
    /// let data = device.alloc::<u32>(64)?;
    /// data.download()?;
    /// let report = device.last_report().expect("it has a finding").to_string();
    /// assert!(report.contains("the host reads 256 of 256 bytes"), "{report}");
    /// device.set_checks(Checks::Deny)?;
    /// assert!(data.download().is_err());
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WrongKindOfDevice`] on CUDA: hardware does not check.
    pub fn set_checks(&self, checks: sim::Checks) -> Result<(), Error> {
        self.configure(|options| options.checks = checks)
    }

    /// Changes the options of later launches: checks, host threads, counters per instruction, the
    /// sink of `printf`.
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

    /// Report of the latest launch, including failed ones; `None` on CUDA, and before the first
    /// launch.
    #[must_use]
    pub fn last_report(&self) -> Option<LaunchReport> {
        self.machine("reading reports").ok()?.reports().last()
    }

    /// Reports of all launches since the last call, in order, and findings about copies to the
    /// host; empty on CUDA. At most 1,024 are kept: the oldest one without findings is dropped
    /// first, or the oldest one if all have findings. Dropping a device with unread errors prints a
    /// warning.
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

#[cfg(test)]
mod tests {
    use warpfold_lang::{Global, kernel, thread_idx};

    use super::*;
    use crate::{LaunchConfig, Profile};

    #[test]
    fn reports_with_findings_outlive_those_without() {
        let device = Device::virtual_gpu(Profile::H200);
        device.set_checks(sim::Checks::All).unwrap();
        let reports = || device.machine("testing").unwrap().reports();
        reports().room = 3;
        let fill = kernel("fill", |data: Global<u32>| data.at(thread_idx().x).set(1_u32));
        let mut data = device.alloc_zeroed::<u32>(64).unwrap();
        let mut launch = |len: usize| device.launch(&fill, LaunchConfig::new(1, 32), (data.view_mut(..len).unwrap(),));
        let taken = |reports: Vec<LaunchReport>| reports.iter().map(|report| report.number).collect::<Vec<_>>();
        // The first one leaves its part of the buffer.
        for len in [31, 32, 32, 32, 32, 32] {
            launch(len).unwrap();
        }
        assert_eq!(taken(device.take_reports()), [0, 4, 5]);
        assert_eq!(reports().last_words(), None);
        for _ in 0..5 {
            launch(31).unwrap();
        }
        assert_eq!(taken(device.take_reports()), [8, 9, 10]);
        let words = reports().last_words().unwrap();
        assert!(words.starts_with("warning: 2 launches on a virtual GPU found errors"), "{words}");
        reports().lost = None;
    }
}

//! Devices of tensors.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpfold::Queue;
use warpfold::dlpack::abi;
use warpfold_device::DeviceKind;
use warpfold_sim as sim;

use crate::errors::{of_tensors, raise};
use crate::report;

/// A GPU: one that the NVIDIA driver drives, or the virtual one.
#[pyclass(frozen, module = "warpfold._native")]
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) device: warpfold::Device,
    /// Ends what runs on the virtual GPU.
    pub(crate) interrupt: Arc<AtomicBool>,
}

#[pymethods]
impl Device {
    /// `virtual`, `virtual:a100`, `cuda:1`; without a name the one that the environment's
    /// WARPFOLD_DEVICE names, or else the best there is.
    #[new]
    #[pyo3(signature = (name=None))]
    fn new(py: Python<'_>, name: Option<&str>) -> PyResult<Self> {
        let device = match name {
            Some(name) => warpfold::Device::parse(name),
            None => warpfold::Device::from_env(),
        };
        let device = device.map_err(|error| of_tensors(py, &error.into()))?;
        let interrupt = Arc::new(AtomicBool::new(false));
        if device.is_virtual() {
            let change = |options: &mut sim::Options| options.stop = Some(Arc::clone(&interrupt));
            device.configure(change).map_err(|error| of_tensors(py, &error.into()))?;
        }
        Ok(Self { device, interrupt })
    }

    /// Returns the name: `NVIDIA H200`.
    #[getter]
    fn name(&self) -> &str {
        self.device.name()
    }

    /// Returns whether it is the virtual GPU.
    #[getter]
    fn is_virtual(&self) -> bool {
        self.device.is_virtual()
    }

    /// Why the virtual GPU stands in for a CUDA GPU, where nobody asked for it.
    #[getter]
    fn fallback_reason(&self) -> Option<String> {
        self.device.fallback_reason().map(ToString::to_string)
    }

    /// Type and number of its memory, as DLPack has them: the virtual GPU's is the host's.
    #[getter]
    fn dlpack_device(&self) -> (i32, i32) {
        match self.device.kind() {
            DeviceKind::Cuda { ordinal } => (abi::CUDA, ordinal as i32),
            _ => (abi::CPU, 0),
        }
    }

    /// The stream that its tensors are used on, as DLPack numbers CUDA's streams (1 is the default
    /// one); none on the virtual GPU.
    #[getter]
    fn dlpack_stream(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let raw = Queue::of(&self.device).stream().with_raw_stream(&[], &[], |raw| raw.addr().max(1));
        raw.map_err(|error| of_tensors(py, &error.into()))
    }

    /// Bytes that tensors and others hold of its memory.
    #[getter]
    fn allocated_bytes(&self) -> u64 {
        self.device.allocated_bytes()
    }

    /// Waits for everything that was enqueued.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.device.synchronize()).map_err(|error| of_tensors(py, &error.into()))
    }

    /// The seed of random tensors to come.
    fn manual_seed(&self, seed: u64) {
        Queue::of(&self.device).set_seed(seed);
    }

    /// Chooses the checks of later launches: 'all' or 'none'.
    fn set_checks(&self, py: Python<'_>, check: &str) -> PyResult<()> {
        let checks = match check {
            "none" => sim::Checks::None,
            "all" => sim::Checks::All,
            _ => return Err(raise(py, "ArgumentError", &format!("check is 'all' or 'none', not '{check}'"))),
        };
        self.device.set_checks(checks).map_err(|error| of_tensors(py, &error.into()))
    }

    /// Returns the reports of launches since the last call: kernel, grid, block, counters,
    /// findings.
    fn take_reports<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let reports = self.device.take_reports();
        let of = |launch: &warpfold_device::LaunchReport| {
            let into = PyDict::new(py);
            into.set_item("kernel", &launch.kernel)?;
            into.set_item("grid", launch.config.grid)?;
            into.set_item("block", launch.config.block)?;
            into.set_item("counters", report::counters(py, &launch.report.counters)?)?;
            into.set_item("findings", report::findings(py, &launch.report.findings)?)?;
            into.set_item("aborted", launch.report.aborted)?;
            Ok(into)
        };
        reports.iter().map(of).collect()
    }

    fn __str__(&self) -> String {
        self.device.kind().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Device('{}')", self.device.kind())
    }
}

//! The virtual GPU for PTX of others: memory, programs, launches.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warpfold_ptx::ScalarType;
use warpfold_sim as sim;

use crate::errors::{of_simulator, raise};
use crate::report;
use crate::wait::interruptible;

/// Global memory of a virtual GPU.
#[pyclass(frozen, module = "warpfold._native")]
#[derive(Debug)]
pub(crate) struct Memory {
    memory: Arc<sim::Memory>,
}

#[pymethods]
impl Memory {
    #[new]
    fn new(capacity: u64) -> Self {
        Self { memory: Arc::new(sim::Memory::far_apart(capacity, 0)) }
    }

    /// Allocates bytes that count as not initialised, far from all others; the name shows in findings.
    fn allocate(&self, py: Python<'_>, num_bytes: u64, name: &str) -> PyResult<u64> {
        self.memory.allocate(num_bytes, name).map_err(|error| of_simulator(py, &error))
    }

    /// Frees what `allocate` gave.
    fn free(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        self.memory.free(address).map_err(|error| of_simulator(py, &error))
    }

    /// Copies the bytes of a buffer to the device.
    fn write(&self, py: Python<'_>, address: u64, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = PyBuffer::<u8>::get(bytes)?.to_vec(py)?;
        py.detach(|| self.memory.write(address, &bytes)).map_err(|error| of_simulator(py, &error))
    }

    /// Copies from the device into a buffer that can be written.
    fn read(&self, py: Python<'_>, address: u64, into: &Bound<'_, PyAny>) -> PyResult<()> {
        let into = PyBuffer::<u8>::get(into)?;
        let mut bytes = vec![0; into.item_count()];
        py.detach(|| self.memory.read(address, &mut bytes)).map_err(|error| of_simulator(py, &error))?;
        into.copy_from_slice(py, &bytes)
    }

    /// The runs of so many bytes that nothing has written, by the offsets of their first byte and
    /// the one behind their last.
    fn unwritten(&self, py: Python<'_>, address: u64, num_bytes: u64) -> PyResult<Vec<(u64, u64)>> {
        let runs = self.memory.unwritten(address, num_bytes).map_err(|error| of_simulator(py, &error))?;
        Ok(runs.into_iter().map(|run| (run.start - address, run.end - address)).collect())
    }

    /// Returns the findings of a copy of `num_bytes` to the host: a list of one, or none.
    fn host_read<'py>(&self, py: Python<'py>, address: u64, num_bytes: u64) -> PyResult<Bound<'py, PyList>> {
        let found = self.memory.host_read(address, num_bytes).map_err(|error| of_simulator(py, &error))?;
        report::findings(py, found.as_slice())
    }
}

/// PTX text, loaded into a memory.
#[pyclass(frozen, module = "warpfold._native")]
#[derive(Debug)]
pub(crate) struct Program {
    memory: Arc<sim::Memory>,
    program: sim::Program,
    /// Types of each kernel's scalar parameters.
    types: Vec<(String, Vec<Option<ScalarType>>)>,
}

#[pymethods]
impl Program {
    #[new]
    fn new(py: Python<'_>, memory: &Memory, ptx: &str, arch: &str) -> PyResult<Self> {
        let arch: sim::Arch =
            arch.parse().map_err(|error: sim::UnknownArch| raise(py, "ArgumentError", &error.to_string()))?;
        let memory = Arc::clone(&memory.memory);
        let program = py.detach(|| sim::Program::load(&memory, ptx, arch)).map_err(|error| of_simulator(py, &error))?;
        Ok(Self { memory, program, types: parameter_types(ptx) })
    }

    /// Returns the declarations of each kernel, as dictionaries in text order.
    fn kernels<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.program.kernels().iter().map(|kernel| self.describe(py, kernel)).collect()
    }

    /// Runs a kernel: counters, findings, instructions, whether a fault ended the run, and what
    /// the kernel printed.
    #[pyo3(signature = (entry, grid, block, cluster, shared, params, check, *, cooperative, seed, workers, limit,
        per_instruction, predict))]
    #[allow(clippy::too_many_arguments, reason = "each has a name in Python")]
    fn launch<'py>(
        &self,
        py: Python<'py>,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        cluster: [u32; 3],
        shared: u32,
        params: Vec<u8>,
        check: &str,
        cooperative: bool,
        seed: u64,
        workers: Option<usize>,
        limit: Option<u64>,
        per_instruction: bool,
        predict: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let checks = match check {
            "none" => sim::Checks::None,
            "all" => sim::Checks::All,
            _ => return Err(raise(py, "ArgumentError", &format!("check is 'all' or 'none', not '{check}'"))),
        };
        let predict = predict.map(str::parse::<sim::predict::Machine>).transpose();
        let predict = predict.map_err(|error| raise(py, "ArgumentError", &format!("predict: {error}")))?;
        let launch = sim::Launch {
            kernel: entry.to_owned(),
            grid,
            block,
            cluster,
            dynamic_shared: shared,
            params,
            cooperative,
            programmatic: false,
        };
        let (printed, interrupt) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
        let output = Arc::clone(&printed);
        let mut options = sim::Options {
            checks,
            workers,
            per_instruction,
            timing: predict.is_some(),
            seed,
            output: Some(Arc::new(move |text: &str| {
                output.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
            })),
            stop: Some(Arc::clone(&interrupt)),
            ..sim::Options::default()
        };
        options.limit = limit.unwrap_or(options.limit);
        let report = interruptible(py, &interrupt, || self.program.launch(&self.memory, &launch, &options))?
            .map_err(|error| of_simulator(py, &error))?;
        let into = PyDict::new(py);
        into.set_item("counters", report::counters(py, &report.counters)?)?;
        into.set_item("findings", report::findings(py, &report.findings)?)?;
        into.set_item("instructions", report::instructions(py, &report.instructions)?)?;
        into.set_item("aborted", report.aborted)?;
        if let Some(machine) = predict.filter(|_| !report.aborted) {
            let predicted = report.predict(&machine);
            let predicted = predicted.map_err(|error| raise(py, "ArgumentError", &format!("predict: {error}")))?;
            into.set_item("prediction", report::prediction(py, &predicted)?)?;
        }
        into.set_item("printed", printed.lock().unwrap_or_else(PoisonError::into_inner).as_str())?;
        Ok(into)
    }
}

impl Program {
    fn describe<'py>(&self, py: Python<'py>, kernel: &sim::KernelInfo) -> PyResult<Bound<'py, PyDict>> {
        let none = Vec::new();
        let types = self.types.iter().find(|(name, _)| *name == kernel.name).map_or(&none, |(_, types)| types);
        let params = kernel.params.iter().enumerate().map(|(i, param)| {
            let ty = types.get(i).copied().flatten().map(|ty| ty.to_string());
            (param.name.clone(), param.offset, param.bytes, ty)
        });
        let into = PyDict::new(py);
        into.set_item("name", &kernel.name)?;
        into.set_item("params", params.collect::<Vec<_>>())?;
        into.set_item("param_bytes", kernel.param_bytes)?;
        into.set_item("static_shared", kernel.static_shared)?;
        into.set_item("required_block", kernel.required_block)?;
        into.set_item("required_cluster", kernel.required_cluster)?;
        into.set_item("max_threads", kernel.max_threads)?;
        into.set_item("registers", kernel.registers)?;
        Ok(into)
    }
}

/// The types of the parameters that are single elements, by kernel.
fn parameter_types(ptx: &str) -> Vec<(String, Vec<Option<ScalarType>>)> {
    let Ok(module) = warpfold_ptx::parse(ptx) else { return Vec::new() };
    let of = |function: &warpfold_ptx::Function| {
        let types = function.params.iter().map(|p| (p.dims.is_empty() && p.vector == 1).then_some(p.ty)).collect();
        (function.name.to_string(), types)
    };
    module.functions().map(of).collect()
}

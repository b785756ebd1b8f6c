//! Errors of Rust as exceptions of Python, with the same sentences.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpfold_kernels::ErrorKind;
use warpfold_sim as sim;

/// An exception of the class of this name in `warpfold.errors`.
pub(crate) fn raise(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py.import("warpfold.errors").and_then(|errors| errors.getattr(class)?.call1((message,)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Converts an error of the simulator about a program or a launch.
pub(crate) fn of_simulator(py: Python<'_>, error: &sim::Error) -> PyErr {
    let class = match error {
        sim::Error::Syntax(_) | sim::Error::Unsupported { .. } | sim::Error::Invalid { .. } => "PtxError",
        sim::Error::UnknownKernel { .. } | sim::Error::InvalidLaunch { .. } => "LaunchError",
        sim::Error::OutOfMemory { .. } | sim::Error::OutOfHostMemory { .. } => "OutOfMemoryError",
        sim::Error::Trap { .. } => "TrapError",
        _ => "Error",
    };
    raise(py, class, &error.to_string())
}

/// Converts an error of a tensor or an operator.
pub(crate) fn of_tensors(py: Python<'_>, error: &warpfold::Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Device(_) => "DeviceError",
        ErrorKind::UnknownDtype(_) | ErrorKind::DtypeMismatch { .. } | ErrorKind::Unsupported { .. } => "DtypeError",
        ErrorKind::AxisOutOfRange { .. } | ErrorKind::IndexOutOfRange { .. } => "AxisError",
        _ => "ArgumentError",
    };
    raise(py, class, &error.to_string())
}

/// Refuses what a dictionary of options holds beyond those that are known.
pub(crate) fn refuse_unknown(py: Python<'_>, options: &Bound<'_, PyDict>, known: &[&str]) -> PyResult<()> {
    for key in options.keys() {
        let key: String = key.extract()?;
        if !known.contains(&key.as_str()) {
            return Err(raise(py, "ArgumentError", &format!("no operator has an option '{key}'")));
        }
    }
    Ok(())
}

//! Reports as plain Python values; the classes that users see are made of them in Python.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warpfold_sim as sim;
use warpfold_sim::predict::Prediction;

/// Writes every counter into a dictionary; a counter that is missing here does not compile.
macro_rules! counters {
    ($counters:expr, $into:ident; $($name:ident)*) => {
        let sim::Counters { $($name),* } = $counters;
        $($into.set_item(stringify!($name), $name)?;)*
    };
}

/// Totals of a launch by name.
pub(crate) fn counters<'py>(py: Python<'py>, counters: &sim::Counters) -> PyResult<Bound<'py, PyDict>> {
    let into = PyDict::new(py);
    counters! {
        *counters, into;
        warp_instructions thread_instructions predicated_on_thread_instructions branches divergent_branches
        shared_load_requests shared_load_wavefronts shared_load_bank_conflicts
        shared_store_requests shared_store_wavefronts shared_store_bank_conflicts
        global_load_requests global_load_sectors global_load_bytes
        global_store_requests global_store_sectors global_store_bytes
        l1_sectors l1_hit_sectors
        local_requests global_atomics shared_atomics shared_atomic_bank_conflicts distributed_requests
        barriers warp_syncs
    }
    Ok(into)
}

/// Returns the source frames of an instruction, innermost call first: file, line, column of each.
fn frames(source: Option<&sim::Source>) -> Vec<(&str, u32, u32)> {
    let lines = source.into_iter().flat_map(sim::Source::lines);
    lines.map(|line| (line.file.as_str(), line.line, line.column)).collect()
}

fn access<'py>(py: Python<'py>, access: &sim::Access) -> PyResult<Bound<'py, PyDict>> {
    let into = PyDict::new(py);
    into.set_item("ptx_line", access.line)?;
    into.set_item("frames", frames(access.source.as_deref()))?;
    into.set_item("instruction", &access.instruction)?;
    into.set_item("block", access.block)?;
    into.set_item("thread", access.thread)?;
    Ok(into)
}

/// Findings, each a dictionary.
pub(crate) fn findings<'py>(py: Python<'py>, findings: &[sim::Finding]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for finding in findings {
        let into = PyDict::new(py);
        into.set_item("kind", finding.kind.name())?;
        into.set_item("severity", finding.severity.name())?;
        into.set_item("kernel", &finding.kernel)?;
        into.set_item("rule", &finding.rule)?;
        into.set_item("count", finding.count)?;
        into.set_item("access", access(py, &finding.access)?)?;
        into.set_item("other", finding.other.as_ref().map(|other| access(py, other)).transpose()?)?;
        into.set_item("address", finding.address.as_ref().map(|(address, _)| address))?;
        into.set_item("place", finding.address.as_ref().map(|(_, place)| place))?;
        list.append(into)?;
    }
    Ok(list)
}

/// Returns the counters of each instruction as a dictionary.
pub(crate) fn instructions<'py>(
    py: Python<'py>,
    instructions: &[sim::InstructionCounters],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for instruction in instructions {
        let into = PyDict::new(py);
        into.set_item("function", &instruction.function)?;
        into.set_item("ptx_line", instruction.line)?;
        into.set_item("frames", frames(instruction.source.as_deref()))?;
        into.set_item("instruction", &instruction.text)?;
        into.set_item("executions", instruction.executions)?;
        into.set_item("active_lanes", instruction.active_lanes)?;
        into.set_item("divergent", instruction.divergent)?;
        into.set_item("wavefronts", instruction.wavefronts)?;
        into.set_item("bank_conflicts", instruction.bank_conflicts)?;
        into.set_item("sectors", instruction.sectors)?;
        list.append(into)?;
    }
    Ok(list)
}

/// Returns a predicted time as a dictionary.
pub(crate) fn prediction<'py>(py: Python<'py>, predicted: &Prediction) -> PyResult<Bound<'py, PyDict>> {
    let into = PyDict::new(py);
    into.set_item("gpu", predicted.gpu)?;
    into.set_item("seconds", predicted.seconds)?;
    into.set_item("low", predicted.low)?;
    into.set_item("high", predicted.high)?;
    into.set_item("binds", predicted.binds())?;
    into.set_item("next", predicted.next())?;
    into.set_item("waves", predicted.waves)?;
    into.set_item("blocks_per_sm", predicted.blocks_per_sm)?;
    into.set_item("dram_bytes", predicted.dram_bytes)?;
    into.set_item("median_error", predicted.error.median)?;
    let parts = PyDict::new(py);
    predicted.parts.iter().try_for_each(|part| parts.set_item(part.name, part.seconds))?;
    into.set_item("parts", parts)?;
    into.set_item("text", predicted.to_string())?;
    Ok(into)
}

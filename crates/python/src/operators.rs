//! Every operator by its name, with its options as a dictionary.

use std::sync::Arc;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpfold::by_name::{self, Choice, Options};

use crate::errors::{of_tensors, raise, refuse_unknown};
use crate::tensor::{Tensor, dtype};
use crate::wait::interruptible;

/// Every operator: name, summary, least and most inputs, outputs, names of its options.
#[pyfunction]
pub(crate) fn operators() -> Vec<(&'static str, &'static str, usize, usize, usize, Vec<&'static str>)> {
    by_name::operators()
        .map(|operator| {
            let options = operator.options.iter().map(|choice: &Choice| choice.name()).collect();
            (operator.name, operator.summary, operator.inputs.0, operator.inputs.1, operator.outputs, options)
        })
        .collect()
}

/// Runs the operator of a name on tensors of one device.
#[pyfunction]
pub(crate) fn operate(
    py: Python<'_>,
    name: &str,
    inputs: Vec<Py<Tensor>>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Vec<Tensor>> {
    let options = options_of(py, options)?;
    let Some(first) = inputs.first() else {
        return Err(raise(py, "ArgumentError", &format!("{name} takes tensors; none is given")));
    };
    let device = first.get().device.clone_ref(py);
    let interrupt = Arc::clone(&device.get().interrupt);
    let tensors: Vec<_> = inputs.iter().map(|input| input.get().tensor.clone()).collect();
    let results = interruptible(py, &interrupt, || by_name::run(name, &tensors, &options))?;
    let results = results.map_err(|error| of_tensors(py, &error))?;
    Ok(results.into_iter().map(|tensor| Tensor { tensor, device: device.clone_ref(py) }).collect())
}

/// Takes a value from a dictionary; `None` where there is none.
fn take<T: for<'py> FromPyObjectOwned<'py>>(options: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<T>> {
    match options.get_item(name)? {
        Some(value) if !value.is_none() => Ok(Some(value.extract().map_err(Into::into)?)),
        _ => Ok(None),
    }
}

/// Reads options by the names of their fields; a field that is missing here does not compile.
macro_rules! read {
    ($py:ident, $options:ident; $($field:ident)*) => {{
        refuse_unknown($py, $options, &["dtype" $(, stringify!($field))*])?;
        let dtype = take::<String>($options, "dtype")?.map(|name| dtype($py, &name)).transpose()?;
        Options { dtype, $($field: take($options, stringify!($field))?,)* }
    }};
}

fn options_of(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Options> {
    Ok(read! {
        py, options;
        axes keepdims eps last k exclusive reverse ignore_nan ddof two_pass bins threshold ignore_index transpose alpha
        beta transpose_a transpose_b scale_a scale_b scale_result bias activation stride padding dilation groups causal
        scale softcap window window_left window_right page_layout interleaved rotary_dim num_heads products scale_q scale_k scale_v layout
        batch_invariant initial offsets kernel output_size scale_factor ceil_mode count_include_pad p indices unsorted
        descending reduce exclude_self mode align_corners
    })
}

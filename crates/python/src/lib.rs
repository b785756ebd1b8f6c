//! The compiled half of the Python package: what crosses the border, and nothing else.
//!
//! Start with `machine`: a memory, a program and a launch of the virtual GPU; `tensor_map` makes the
//! descriptors of its kernels. `tensor` and `operators` are the tensors of `warpfold`, `dlpack` is
//! how others share them, `wait` is how a long run releases the interpreter and is interrupted,
//! `report` and `errors` turn results into Python's. What users see is written in Python, in
//! `python/warpfold/`; it is tested there, in `tests/`.

mod device;
mod dlpack;
mod errors;
mod machine;
mod operators;
mod report;
mod tensor;
mod tensor_map;
mod wait;

use pyo3::prelude::*;

/// The module `warpfold._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<machine::Memory>()?;
    module.add_class::<machine::Program>()?;
    module.add_class::<device::Device>()?;
    module.add_class::<tensor::Tensor>()?;
    module.add_function(wrap_pyfunction!(operators::operators, module)?)?;
    module.add_function(wrap_pyfunction!(operators::operate, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::to_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(dlpack::from_dlpack, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_map::encode_tensor_map, module)?)?;
    Ok(())
}

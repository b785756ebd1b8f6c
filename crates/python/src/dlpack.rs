//! DLPack capsules: ours for other libraries, and theirs as tensors of ours.
//!
//! The protocol is the array API standard's ("Data interchange mechanisms"): a producer gives a
//! capsule named after its structure, who takes it renames it to `used_…` and owns it from then on,
//! and a capsule that nobody took gives its structure back itself.
#![allow(unsafe_code, reason = "capsules hold pointers to C structures")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use warpfold::Queue;
use warpfold::dlpack::Exported;
use warpfold::dlpack::abi::{self, Form};

use crate::device::Device;
use crate::errors::{of_tensors, raise};
use crate::tensor::Tensor;
use crate::wait::interruptible;

/// A structure in capsules: its names before and after somebody took it.
trait InCapsule: Form {
    const NAME: &'static CStr;
    const USED: &'static CStr;
}

impl InCapsule for abi::Managed {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";
}

impl InCapsule for abi::ManagedVersioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";
}

/// Puts a structure into a capsule.
fn into_capsule<F: InCapsule>(py: Python<'_>, exported: Exported<F>) -> PyResult<Bound<'_, PyCapsule>> {
    let managed = exported.into_raw();
    // SAFETY: the structure stays until its deleter is called: by the destructor if nobody takes
    // it, else by who took it. The deleter may be called on any thread.
    let made = unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed.cast(), F::NAME, Some(not_taken::<F>)) };
    if made.is_err() {
        // SAFETY: no capsule was made, so that the structure is still ours alone.
        drop(unsafe { Exported::from_raw(managed) });
    }
    made
}

/// The destructor of our capsules.
unsafe extern "C" fn not_taken<F: InCapsule>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with a capsule that nobody uses any more; a capsule of another name
    // was taken.
    let managed = unsafe {
        match ffi::PyCapsule_IsValid(capsule, F::NAME.as_ptr()) {
            1 => NonNull::new(ffi::PyCapsule_GetPointer(capsule, F::NAME.as_ptr()).cast::<F>()),
            _ => None,
        }
    };
    if let Some(managed) = managed {
        // SAFETY: `into_capsule` put it there, and nobody took it.
        drop(unsafe { Exported::from_raw(managed) });
    }
}

/// Takes a structure out of a capsule; `None` if it holds another.
fn taken<F: InCapsule>(capsule: &Bound<'_, PyCapsule>) -> PyResult<Option<Exported<F>>> {
    if !capsule.is_valid_checked(Some(F::NAME)) {
        return Ok(None);
    }
    let managed: NonNull<c_void> = capsule.pointer_checked(Some(F::NAME))?;
    // SAFETY: the capsule is alive, and the name is a constant.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), F::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    // SAFETY: by its name the capsule holds such a structure, which is ours after the renaming; its
    // producer keeps what DLPack asks of it.
    Ok(Some(unsafe { Exported::from_raw(managed.cast()) }))
}

/// A capsule with a tensor's memory, in place: with a version and these flags, or of the form
/// before versions.
#[pyfunction]
pub(crate) fn to_dlpack<'py>(py: Python<'py>, tensor: &Tensor, flags: Option<u64>) -> PyResult<Bound<'py, PyCapsule>> {
    let interrupt = Arc::clone(&tensor.device.get().interrupt);
    match flags {
        Some(flags) => {
            let exported = interruptible(py, &interrupt, || tensor.tensor.to_dlpack::<abi::ManagedVersioned>())?;
            into_capsule(py, exported.map_err(|error| of_tensors(py, &error))?.with_flags(flags))
        }
        None => {
            let exported = interruptible(py, &interrupt, || tensor.tensor.to_dlpack::<abi::Managed>())?;
            into_capsule(py, exported.map_err(|error| of_tensors(py, &error))?)
        }
    }
}

/// A tensor of a capsule: its memory in place if it is the device's, else a copy.
#[pyfunction]
pub(crate) fn from_dlpack(py: Python<'_>, device: Py<Device>, capsule: &Bound<'_, PyCapsule>) -> PyResult<Tensor> {
    let queue = Queue::of(&device.get().device);
    // Under the interpreter's lock, so that no other thread of Python writes what is copied.
    let made = if let Some(theirs) = taken::<abi::ManagedVersioned>(capsule)? {
        warpfold::Tensor::from_dlpack(theirs, &queue)
    } else if let Some(theirs) = taken::<abi::Managed>(capsule)? {
        warpfold::Tensor::from_dlpack(theirs, &queue)
    } else {
        let message = "the capsule holds no DLPack tensor, or somebody took it already";
        return Err(raise(py, "ArgumentError", message));
    };
    Ok(Tensor { tensor: made.map_err(|error| of_tensors(py, &error))?, device })
}

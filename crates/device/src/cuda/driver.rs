//! The driver library: its presence, its version, and its error codes.

use std::ffi::CStr;
use std::sync::OnceLock;

use cudarc::driver::{DriverError, result, sys};
use libloading::Library;

use crate::backend::DriverVersion;
use crate::{Error, ErrorKind};

/// The oldest driver with every function used here (`cuLaunchKernelEx`).
const OLDEST: DriverVersion = DriverVersion { major: 12, minor: 0 };

/// The driver's version; loads and initialises the library if necessary.
pub(super) fn version() -> Result<DriverVersion, Error> {
    static VERSION: OnceLock<Result<DriverVersion, Error>> = OnceLock::new();
    VERSION.get_or_init(start).clone()
}

/// Number of GPUs that the driver reports.
pub(crate) fn device_count() -> Result<usize, Error> {
    version()?;
    match result::device::get_count() {
        Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(e) => Err(error("counting devices", e)),
    }
}

fn start() -> Result<DriverVersion, Error> {
    let absent = |reason: String| ErrorKind::NoDriver { reason };
    // NOTE: every other function of cudarc panics where the library is missing, so this comes
    // first.
    if library().is_none() {
        return Err(absent("its library (libcuda.so, nvcuda.dll) does not load".to_owned()).into());
    }
    let mut number = 0;
    // SAFETY: the library is loaded, and `number` is valid for a write.
    unsafe { sys::cuDriverGetVersion(&raw mut number) }.result().map_err(|e| absent(text(e)))?;
    let number = u32::try_from(number).unwrap_or(0);
    let version = DriverVersion { major: number / 1000, minor: number % 1000 / 10 };
    if version < OLDEST {
        return Err(ErrorKind::DriverTooOld { found: version.to_string(), needed: "12.0" }.into());
    }
    match result::init() {
        Ok(()) | Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(version),
        Err(e) => Err(absent(text(e)).into()),
    }
}

/// The newest PTX `.version` that a driver's compiler accepts (PTX ISA, "Release Notes").
pub(super) fn ptx_version(driver: DriverVersion) -> (u32, u32) {
    match (driver.major, driver.minor) {
        (..12, _) => (7, 8),
        (12, minor @ 0..=5) => (8, minor),
        (12, 6) => (8, 5),
        (12, 7) => (8, 6),
        (12, 8) => (8, 7),
        (12, _) => (8, 8),
        (13, 0) => (9, 0),
        // Later drivers accept what earlier ones accepted.
        _ => (9, 1),
    }
}

/// The driver's library, by the first name that loads; cudarc, which tries these among others or is
/// linked to it, uses the same one.
fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let names: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so", "libcuda.so.1"] };
    // SAFETY: loading the driver's library runs its initialisers, which have no requirements.
    let load = |name: &&str| unsafe { Library::new(*name) }.ok();
    LIBRARY.get_or_init(|| names.iter().find_map(load)).as_ref()
}

/// A function of the library; `None` if the driver is too old for it.
///
/// # Safety
/// `F` is the type of the function.
pub(super) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: the caller knows the type, and the library is never unloaded.
    library().and_then(|library| unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok()).map(|function| *function)
}

/// Returns true if the library has a function that older drivers lack.
pub(super) fn has(name: &CStr) -> bool {
    // SAFETY: the function is not called.
    unsafe { function::<unsafe extern "C" fn()>(name) }.is_some()
}

/// The error of a failed call without a kind of its own.
pub(super) fn error(call: &'static str, e: DriverError) -> Error {
    ErrorKind::Driver { call, code: code(e), message: message(e) }.into()
}

/// The driver's name and description of an error.
pub(super) fn text(e: DriverError) -> String {
    format!("{} ({})", code(e), message(e))
}

fn code(e: DriverError) -> String {
    e.error_name().map_or_else(|_| format!("CUresult {}", e.0 as u32), |name| name.to_string_lossy().into_owned())
}

fn message(e: DriverError) -> String {
    e.error_string().map_or_else(|_| "no message".to_owned(), |text| text.to_string_lossy().into_owned())
}

/// Returns true for an error of a running kernel, which the driver reports at some later call.
pub(super) fn is_of_kernel(e: DriverError) -> bool {
    use sys::CUresult as R;
    matches!(
        e.0,
        R::CUDA_ERROR_ILLEGAL_ADDRESS
            | R::CUDA_ERROR_LAUNCH_TIMEOUT
            | R::CUDA_ERROR_ASSERT
            | R::CUDA_ERROR_HARDWARE_STACK_ERROR
            | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | R::CUDA_ERROR_MISALIGNED_ADDRESS
            | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | R::CUDA_ERROR_INVALID_PC
            | R::CUDA_ERROR_LAUNCH_FAILED
            | R::CUDA_ERROR_ECC_UNCORRECTABLE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_version_is_never_newer_than_the_driver_takes() {
        let of = |major, minor| ptx_version(DriverVersion { major, minor });
        assert_eq!([of(12, 0), of(12, 3), of(12, 5), of(12, 6)], [(8, 0), (8, 3), (8, 5), (8, 5)]);
        assert_eq!([of(12, 7), of(12, 8), of(12, 9)], [(8, 6), (8, 7), (8, 8)]);
        assert_eq!([of(13, 0), of(13, 1), of(13, 2), of(14, 0)], [(9, 0), (9, 1), (9, 1), (9, 1)]);
    }
}

//! A ladder's problem on a device: its data, its outputs, and the judgement of a result.

use warpfold_device::Arguments;

use super::Rung;
use crate::Error;

/// Detection of out-of-bounds accesses and of uninitialised reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guards {
    /// Poison around the data and in the outputs, looked at behind each run. Works on every device.
    Bands,
    /// The checks of the virtual GPU: buffers stand alone, outputs are not initialised.
    Checker,
}

/// Verdict on a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The result is within its bound, and nothing outside it was touched.
    pub ok: bool,
    /// The largest absolute difference from the reference.
    pub max_error: f64,
}

/// Memory of the device that a rung needs beside inputs and result, where a ladder is about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Scores of attention: a rung that is given no room for them stores none.
    pub score_bytes: u64,
    /// Caches of keys and values, room that is not in use included.
    pub cache_bytes: u64,
}

/// The problem of a ladder, with its data on a device. One rung at a time:
/// [`reset`](Instance::reset), each launch with its [`arguments`](Instance::arguments),
/// [`verdict`](Instance::verdict).
pub trait Instance {
    /// Readies inputs and outputs for the rung.
    ///
    /// # Errors
    /// If the device has no memory for them.
    fn reset(&mut self, rung: &Rung) -> Result<(), Error>;

    /// Returns the arguments of one of the rung's launches, after [`reset`](Instance::reset) for
    /// this rung.
    ///
    /// # Errors
    /// What the device says.
    fn arguments(&mut self, rung: &Rung, launch_idx: usize) -> Result<Arguments<'_>, Error>;

    /// Compares with the reference.
    ///
    /// # Errors
    /// What the device says.
    fn verdict(&self, rung: &Rung) -> Result<Verdict, Error>;

    /// Bytes that any solution has to move: each input read and each output written once.
    fn bytes(&self) -> u64;

    /// Floating-point operations of the problem, where they and not bytes are what takes time.
    fn flops(&self) -> Option<u64> {
        None
    }

    /// Returns the memory that the rung of the last [`reset`](Instance::reset) used in addition to
    /// inputs and result.
    fn memory(&self) -> Memory {
        Memory::default()
    }
}

//! NCCL, which moves bytes between GPUs of one host and of many; loaded at run time.
//!
//! Ran on two, three and four H100s, a process a GPU (2026-11-27); not on several hosts.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api::buffer::{View, ViewMut};
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::memory::Access;
use crate::api::stream::Stream;
pub use crate::cuda::nccl::NcclPatience;
use crate::cuda::nccl::{Ends, Functions, Operation, type_of};
use crate::{Error, ErrorKind};

/// The NCCL library.
#[derive(Clone)]
pub struct Nccl {
    functions: Arc<Functions>,
}

/// Unique id of a communicator: one rank creates it and passes it to the others.
pub type NcclId = [u8; 128];

impl Nccl {
    /// Loads the library: from these places first, then by its names (`libnccl.so.2`, `libnccl.so`)
    /// through the loader.
    ///
    /// # Errors
    /// [`ErrorKind::NoNccl`] names every place.
    pub fn load(places: &[PathBuf]) -> Result<Self, Error> {
        let names = ["libnccl.so.2", "libnccl.so"].map(PathBuf::from);
        let places: Vec<PathBuf> = places.iter().cloned().chain(names).collect();
        Ok(Self { functions: Arc::new(Functions::load(&places)?) })
    }

    /// The library's version, such as `2.27.3`.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn version(&self) -> Result<String, Error> {
        let number = self.functions.version()?;
        Ok(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
    }

    /// Creates a unique id.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn new_id(&self) -> Result<NcclId, Error> {
        self.functions.unique_id()
    }

    /// Joins a communicator as one of `size` ranks with a device; returns when all ranks have
    /// joined. With a `patience`, this call and those of the communicator wait for NCCL as long as
    /// it returns true; without one, as long as NCCL tries, which is minutes where a rank is gone.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKindOfDevice`] on a virtual GPU; [`ErrorKind::Nccl`].
    pub fn join(
        &self,
        device: &Device,
        id: &NcclId,
        rank: usize,
        size: usize,
        patience: Option<NcclPatience>,
    ) -> Result<NcclCommunicator, Error> {
        let context = device.cudarc_context().ok_or_else(|| not_cuda(device))?;
        let bound = context.bind_to_thread();
        bound.map_err(|e| ErrorKind::Nccl { call: "binding the context", message: format!("{e}") })?;
        let ends = Mutex::new(Ends::join(self.functions.clone(), *id, rank, size, patience)?);
        Ok(NcclCommunicator { ends, device: device.clone(), rank, size })
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").finish_non_exhaustive()
    }
}

/// A rank's end of an NCCL communicator. Its work is enqueued on streams, and can be captured.
pub struct NcclCommunicator {
    ends: Mutex<Ends>,
    device: Device,
    rank: usize,
    size: usize,
}

impl NcclCommunicator {
    /// The number of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// All-gather: concatenates the inputs of all ranks.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::Nccl`].
    pub fn all_gather(&self, stream: &Stream, input: &View<'_, u8>, output: &ViewMut<'_, u8>) -> Result<(), Error> {
        same_len("all-gather", output.len(), input.len() * self.size)?;
        self.run(stream, Operation::AllGather, (Some(input), Some(output)), input.len())
    }

    /// All-reduce sum in NCCL's own order, which depends on its version and the machine.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`]; [`ErrorKind::Nccl`], also for a type that NCCL does not have.
    pub fn all_reduce_sum<T: Element>(
        &self,
        stream: &Stream,
        input: &View<'_, T>,
        output: ViewMut<'_, T>,
    ) -> Result<(), Error> {
        same_len("all-reduce", output.len(), input.len())?;
        let unknown =
            || ErrorKind::Nccl { call: "ncclAllReduce", message: format!("NCCL does not add up {}", T::NAME) };
        let dtype = type_of(T::NAME).ok_or_else(unknown)?;
        let (count, input, output) = (input.len(), input.clone().bytes(), output.bytes());
        self.run(stream, Operation::AllReduceSum(dtype), (Some(&input), Some(&output)), count)
    }

    /// Broadcast: copies the root's `data` to every rank.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn broadcast(&self, stream: &Stream, root: usize, data: &ViewMut<'_, u8>) -> Result<(), Error> {
        self.run(stream, Operation::Broadcast(root), (Some(&data.as_view()), Some(data)), data.len())
    }

    /// Sends data to a rank, which receives the same amount.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn send(&self, stream: &Stream, to: usize, data: &View<'_, u8>) -> Result<(), Error> {
        self.run(stream, Operation::Send(to), (Some(data), None), data.len())
    }

    /// Receives data from a rank.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn receive(&self, stream: &Stream, from: usize, data: &ViewMut<'_, u8>) -> Result<(), Error> {
        self.run(stream, Operation::Receive(from), (None, Some(data)), data.len())
    }

    /// All-to-all: sends a part of `input` to each rank, and concatenates the parts received.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::Nccl`].
    pub fn exchange(&self, stream: &Stream, input: &View<'_, u8>, output: &ViewMut<'_, u8>) -> Result<(), Error> {
        same_len("exchange", output.len(), input.len())?;
        let part = input.len() / self.size;
        let raw = self.prepare(stream, Some(input), Some(output))?;
        let ends = self.lock();
        ends.grouped(|| {
            (0..self.size).try_for_each(|rank| {
                let at = (rank * part) as u64;
                ends.enqueue(Operation::Send(rank), (input.address() + at, 0), part, raw)?;
                ends.enqueue(Operation::Receive(rank), (0, output.address() + at), part, raw)
            })
        })?;
        ends.settle("a collective")
    }

    /// Checks for asynchronous errors since the last call.
    ///
    /// # Errors
    /// [`ErrorKind::Nccl`].
    pub fn check(&self) -> Result<(), Error> {
        self.lock().settle("a collective")
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(
        &self,
        stream: &Stream,
        operation: Operation,
        (input, output): (Option<&View<'_, u8>>, Option<&ViewMut<'_, u8>>),
        count: usize,
    ) -> Result<(), Error> {
        let raw = self.prepare(stream, input, output)?;
        let addresses = (input.map_or(0, View::address), output.map_or(0, ViewMut::address));
        let ends = self.lock();
        ends.enqueue(operation, addresses, count, raw)?;
        ends.settle("a collective")
    }

    /// Orders the operands on the stream, and returns its raw handle.
    fn prepare(
        &self,
        stream: &Stream,
        input: Option<&View<'_, u8>>,
        output: Option<&ViewMut<'_, u8>>,
    ) -> Result<*mut std::ffi::c_void, Error> {
        self.device.expect_same(stream.device(), || "the stream".to_owned())?;
        input.map_or(Ok(()), |view| stream.order(view.memory(), Access::Read))?;
        output.map_or(Ok(()), |view| stream.order(view.memory(), Access::Write))?;
        stream.with_raw_stream(&[], &[], |raw| raw)?.ok_or_else(|| not_cuda(&self.device))
    }
}

fn not_cuda(device: &Device) -> Error {
    ErrorKind::WrongKindOfDevice { what: "NCCL", needed: "a CUDA GPU", device: device.to_string() }.into()
}

fn same_len(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(ErrorKind::LengthMismatch { what, expected, found }.into()) }
}

impl fmt::Debug for NcclCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclCommunicator(rank {} of {} on {})", self.rank, self.size, self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_names_every_place_that_was_searched() {
        let Err(error) = Nccl::load(&[PathBuf::from("/nowhere/libnccl.so.2")]) else {
            return; // NCCL is installed here.
        };
        let text = error.to_string();
        for place in ["/nowhere/libnccl.so.2", "libnccl.so.2: ", "libnccl.so: "] {
            assert!(text.contains(place), "{text}");
        }
    }
}

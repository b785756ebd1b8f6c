//! NVIDIA GPUs, through nothing but their driver, which is loaded at run time.
//!
//! Start at [`device`]. [`driver`] probes for the library and names its errors; [`stream`] has
//! copies, launches and events, [`module`] the driver's compiler, [`parameters`] the parameter
//! counts that the driver does not report, [`pinned`] host memory, [`graph`] captures,
//! [`in_flight`] the state that captures and waits of one context share, [`tensor_map`] the
//! encoding of tensor maps, [`peer`] peer access, `nccl` the functions of NCCL. [`interop`]
//! shares contexts, streams and memory with other users of cudarc and of the driver.
#![allow(unsafe_code, reason = "the driver's functions take raw handles and pointers")]

mod device;
mod driver;
mod graph;
mod in_flight;
mod interop;
mod module;
#[cfg(feature = "nccl")]
pub(crate) mod nccl;
mod parameters;
mod peer;
mod pinned;
mod stream;
mod tensor_map;

pub(crate) use device::CudaDevice;
pub(crate) use driver::device_count;

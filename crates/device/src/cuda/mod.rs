//! NVIDIA GPUs, through nothing but their driver, which is loaded at run time.
//!
//! Start at [`device`]. [`driver`] probes for the library and names its errors; [`stream`] has
//! copies, launches and events; [`module`] the compiler in the driver, [`parameters`] what it does
//! not tell; [`pinned`] host memory; [`graph`] captures work, and [`in_flight`] is what captures
//! and waits of one context know of each other; [`tensor_map`] encodes tensor maps; [`interop`]
//! shares contexts, streams and memory with other users of cudarc and of the driver. Peer access is
//! absent.
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

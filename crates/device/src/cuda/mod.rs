//! NVIDIA GPUs, through nothing but their driver, which is loaded at run time.
//!
//! Start at [`device`]. [`driver`] probes for the library and names its errors; [`stream`] has copies, launches and
//! events; [`module`] the compiler in the driver; [`pinned`] host memory; [`interop`] wraps contexts, streams and
//! memory of other users of cudarc; [`tensor_map`] encodes tensor maps. Graphs and peer access are absent.
#![allow(unsafe_code, reason = "the driver's functions take raw handles and pointers")]

mod cublas;
mod cublas_lt;
mod cudnn;
mod device;
mod driver;
mod interop;
mod module;
mod pinned;
mod stream;
mod tensor_map;

pub use cublas::{Cublas, CublasProduct, CublasTypes};
pub use cublas_lt::CublasLt;
pub use cudnn::{Cudnn, CudnnConvolution, CudnnTypes};
pub(crate) use device::CudaDevice;
pub(crate) use driver::device_count;

//! Devices, buffers, streams and typed launches: an NVIDIA GPU through its driver, or the virtual GPU, behind one
//! interface.
//!
//! ```
//! use warpfold_device::{Device, LaunchConfig, Profile};
//! use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};
//!
//! /// `data[i] *= factor`
//! fn scale() -> Kernel<(Global<f32>, f32, u32)> {
//!     kernel("scale", |data: Global<f32>, factor: Val<f32>, len: Val<u32>| {
//!         let i = block_idx().x * block_dim().x + thread_idx().x;
//!         when(i.lt(len), || data.at(i).set(data.at(i).get() * factor));
//!     })
//! }
//!
//! let device = Device::virtual_gpu(Profile::H200); // or Device::best(), Device::cuda(0)?, Device::parse("cuda:1")?
//! let mut data = device.upload(&[1.0_f32, 2.0, 3.0])?;
//! device.launch(&scale(), LaunchConfig::for_elements(3, 256), (&mut data, 10.0, 3))?;
//! assert_eq!(data.download()?, [10.0, 20.0, 30.0]);
//!
//! let report = device.last_report().expect("the virtual GPU reports each launch");
//! assert_eq!(report.report.counters.global_load_requests, 1);
//! # Ok::<(), warpfold_device::Error>(())
//! ```
//!
//! Start with [`Device`], then [`Buffer`], [`Device::launch`] and [`Stream`]. PTX that was not written here goes through
//! [`Device::load`] and [`Stream::launch_raw`]. Inside, `backend` is the interface that `cuda` and `virtual_gpu`
//! implement; what both have in common (lengths, limits, the order between streams, the kernel cache, the table of
//! activities) is written once, in front of it. The driver is loaded at run time: the crate builds and runs where there
//! is none. Only [`Device::from_env`] reads the environment.
//!
//! Device code is outside of what Rust guarantees: a kernel that writes outside of its buffers on a GPU damages memory
//! of the GPU. The virtual GPU finds such kernels.

mod activity;
mod arguments;
mod backend;
mod buffer;
mod cuda;
mod device;
mod element;
mod error;
mod event;
mod graph;
mod host_buffer;
mod kernel_cache;
mod launch;
mod limits;
mod memory;
mod module;
mod select;
mod stream;
mod tensor_map;
mod typed;
mod virtual_gpu;

pub use activity::{Activity, ActivityKind, ActivityTime};
pub use arguments::Arguments;
pub use buffer::{Buffer, View, ViewMut};
pub use cuda::{Cublas, CublasLt, CublasProduct, CublasTypes, Cudnn, CudnnConvolution, CudnnTypes};
pub use device::{Device, DeviceKind, DriverVersion};
pub use element::Element;
pub use error::{Error, ErrorKind};
pub use event::Event;
pub use graph::Graph;
pub use host_buffer::HostBuffer;
pub use kernel_cache::KernelCounts;
pub use launch::{Dim3, LaunchConfig, LaunchSite};
pub use limits::Limits;
pub use module::{Function, FunctionInfo, Module, Param};
pub use stream::Stream;
pub use tensor_map::{TensorLayout, TensorMap};
pub use typed::Packet;
pub use virtual_gpu::{LaunchReport, Profile};
pub use warpfold_sim::{
    Access, Arch, Checks, Counters, Fill, Finding, FindingKind, InstructionCounters, Interleave, L2Promotion, MapMode,
    MapSwizzle, Report, Severity, TensorMapError,
};

/// The driver's bindings, for those who share contexts and streams with other users of them.
pub use cudarc;

//! Devices, buffers, streams and typed launches: an NVIDIA GPU through its driver, or the virtual
//! GPU, behind one interface.
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
//! Start with [`Device`], then [`Buffer`], [`Device::launch`] and [`Stream`]. PTX that was not
//! written here goes through [`Device::load`] and [`Stream::launch_raw`]. Copies that overlap with
//! kernels use a [`HostBuffer`], [`Event`]s order streams, and [`Stream::capture`] makes a
//! [`Graph`].
//!
//! Inside, `api` has these types, `backend` the traits and plain data that `cuda` and `virtual_gpu`
//! implement; the arrows go `api → backend ← cuda, virtual_gpu`. What both kinds of device have in
//! common (lengths, limits, the order between streams, the kernel cache, the table of activities)
//! is written once, in `api`. The driver is loaded at run time: the crate builds and runs where
//! there is none. Only [`Device::from_env`] and [`Device::best`] read the environment.
//!
//! Device code is outside of what Rust guarantees: a kernel that writes outside of its buffers on a
//! GPU damages memory of the GPU. The virtual GPU finds such kernels.

#![cfg_attr(not(feature = "virtual-gpu"), allow(dead_code, reason = "groups of devices need the virtual GPU's types"))]
#![cfg_attr(target_family = "wasm", allow(dead_code, reason = "parts of the interface are the driver's alone"))]

mod api;
mod backend;
#[cfg(not(target_family = "wasm"))]
mod cuda;
#[cfg(target_family = "wasm")]
#[path = "no_driver.rs"]
mod cuda;
mod error;
#[cfg(feature = "virtual-gpu")]
mod virtual_gpu;

pub use api::activity::{Activity, ActivityKind, ActivityTime, ApiCall, Interval, Recorded};
pub use api::arguments::Arguments;
pub use api::buffer::{Buffer, View, ViewMut};
pub use api::device::Device;
pub use api::draws::Draws;
pub use api::element::Element;
pub use api::event::Event;
pub use api::graph::Graph;
pub use api::host_buffer::{HostBuffer, HostView, HostViewMut};
#[cfg(feature = "virtual-gpu")]
pub use api::inspect::{Inspect, Inspection};
pub use api::kernel_cache::KernelCounts;
pub use api::mapped::MappedBuffer;
pub use api::module::{Function, Module};
#[cfg(all(feature = "nccl", not(target_family = "wasm")))]
pub use api::nccl::{Nccl, NcclCommunicator, NcclId, NcclPatience};
#[cfg(feature = "virtual-gpu")]
pub use api::peers::PeerGroup;
pub use api::stream::Stream;
pub use api::tensor_map::{TensorLayout, TensorMap};
pub use api::typed::Packet;
pub use backend::{
    ComputeCapability, DeviceKind, Dim3, DriverVersion, FunctionInfo, LaunchConfig, LaunchSite, Limits, Link, Param,
    Profile,
};
#[cfg(all(feature = "nccl", target_family = "wasm"))]
pub use cuda::nccl::{Nccl, NcclCommunicator, NcclId, NcclPatience};
pub use error::{Error, ErrorKind};
#[cfg(feature = "virtual-gpu")]
pub use virtual_gpu::LaunchReport;
#[cfg(feature = "virtual-gpu")]
pub use warpfold_sim::{Access, Checks, Counters, Finding, FindingKind, InstructionCounters, Report, Severity};
pub use warpfold_sim::{Arch, Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMapError};

/// The driver's bindings, for sharing contexts and streams with other users of them.
#[cfg(not(target_family = "wasm"))]
pub use cudarc;

//! Devices, buffers, streams and typed launches: an NVIDIA GPU through its driver, or the virtual GPU, behind one
//! interface.

mod activity;
mod arguments;
mod backend;
mod buffer;
mod cuda;
mod device;
mod element;
mod error;
mod event;
mod host_buffer;
mod kernel_cache;
mod launch;
mod limits;
mod memory;
mod module;
mod select;
mod stream;
mod typed;
mod virtual_gpu;

pub use activity::{Activity, ActivityKind, ActivityTime};
pub use arguments::Arguments;
pub use buffer::{Buffer, View, ViewMut};
pub use device::{Device, DeviceKind, DriverVersion};
pub use element::Element;
pub use error::{Error, ErrorKind};
pub use event::Event;
pub use host_buffer::HostBuffer;
pub use kernel_cache::KernelCounts;
pub use launch::{Dim3, LaunchConfig, LaunchSite};
pub use limits::Limits;
pub use module::{Function, FunctionInfo, Module, Param};
pub use stream::Stream;
pub use typed::Packet;
pub use virtual_gpu::Profile;
pub use warpfold_sim::Arch;

/// The driver's bindings, for those who share contexts and streams with other users of them.
pub use cudarc;

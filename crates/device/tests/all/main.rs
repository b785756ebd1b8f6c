//! Devices as their users see them.

mod cuda;
mod every_device;
mod granted;
mod graph;
mod host_buffer;
mod support;
mod typed;
mod virtual_gpu;

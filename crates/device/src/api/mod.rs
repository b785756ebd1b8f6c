//! The public interface, the same for both kinds of device.
//!
//! Start with [`device`] and [`stream`]. A device is found in [`select`]; memory is in [`buffer`]
//! (of the types in [`element`]) and [`host_buffer`] (pinned) and [`mapped`]; kernels come from [`module`], or
//! from the language through [`kernel_cache`]; launches are [`typed`], or take [`arguments`] whose
//! types the compiler does not know, [`tensor_map`]s among them. [`event`] marks points in a
//! stream, [`graph`] captures work. [`activity`] is the table of a profiler, [`reports`] what only
//! the virtual GPU tells. [`draws`] counts random numbers. [`peers`] are devices that
//! use one another's memory, [`nccl`] a library that moves bytes between others.
//!
//! What both kinds of device have in common is written here once, in front of the traits in
//! `backend`: lengths, limits, and in [`memory`] the order between streams.

pub(crate) mod activity;
pub(crate) mod arguments;
pub(crate) mod buffer;
pub(crate) mod device;
pub(crate) mod draws;
pub(crate) mod element;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod host_buffer;
#[cfg(feature = "virtual-gpu")]
pub(crate) mod inspect;
pub(crate) mod kernel_cache;
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod module;
#[cfg(all(feature = "nccl", not(target_family = "wasm")))]
pub(crate) mod nccl;
#[cfg(feature = "virtual-gpu")]
pub(crate) mod peers;
#[cfg(feature = "virtual-gpu")]
pub(crate) mod reports;
pub(crate) mod select;
pub(crate) mod stream;
pub(crate) mod tensor_map;
pub(crate) mod typed;

//! The async proxy: copies in flight, and the fences between it and plain accesses.
//!
//! - [`flight`]: which bytes of shared memory asynchronous copies still write or read.
//! - [`global_fences`]: bulk copies of global memory that plain accesses touched before.
//! - [`maps`]: tensor maps that kernels change.
//!
//! Proxy fences over shared memory are in [`phases`](super::order::phases).

pub(super) mod flight;
pub(super) mod global_fences;
pub(super) mod maps;

//! DLPack: tensors of other libraries as ours and ours as theirs, without a copy.
//!
//! The structures are those of DLPack 1.1 (<https://dmlc.github.io/dlpack>), in both forms that
//! are passed around: [`abi::Managed`] ("dltensor") and [`abi::ManagedVersioned`]
//! ("dltensor_versioned"). PyTorch, JAX, CuPy and NumPy speak both through `__dlpack__`.
//!
//! | | from us | to us |
//! |---|---|---|
//! | a GPU | its memory, as CUDA memory; our stream is waited for | its memory; nothing is copied |
//! | the virtual GPU | its memory, as memory of the CPU | memory of the CPU is copied |
//!
//! What is taken from others is kept until no tensor, view or graph has it any more, and then given
//! back by the function that came with it. Who is given memory of ours may write to it
//! unless a flag of the structure says no ([`abi::READ_ONLY`]): every tensor that shares it then
//! has other elements.
//!
//! ```
//! use warpfold::dlpack::{Exported, abi};
//! use warpfold::{Device, Profile, Queue, Tensor};
//!
//! let device = Device::virtual_gpu(Profile::H200);
//! let x = Tensor::new(&[[1.0_f32, 2.0], [3.0, 4.0]], &device)?;
//! let exported: Exported<abi::Managed> = x.t()?.to_dlpack()?;
//! // `into_raw` gives the pointer for a capsule; here we take it back ourselves.
//! assert_eq!(exported.shape(), [2, 2]);
//! assert_eq!(Tensor::from_dlpack(exported, &Queue::of(&device))?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
//! # Ok::<(), warpfold::Error>(())
//! ```
#![allow(unsafe_code, reason = "other libraries hand over pointers to C structures")]

pub mod abi;
mod export;
mod import;

pub use export::Exported;

//! Tensors on an NVIDIA GPU or on the virtual GPU, and their operators.
//!
//! ```
//! use warpfold::{Device, Profile, Tensor};
//!
//! let device = Device::virtual_gpu(Profile::H200); // or Device::best()
//! let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3], &device)?;
//! let rows = x.sum(-1)?;
//! assert_eq!(rows.to_vec::<f32>()?, [6.0, 15.0]);
//! let columns = x.t()?.sum(1)?; // a view: nothing is copied
//! assert_eq!(columns.to_vec::<f32>()?, [5.0, 7.0, 9.0]);
//! assert_eq!((&x * 2.0 + &x)?.max_all()?.to_scalar::<f32>()?, 18.0);
//! # Ok::<(), warpfold::Error>(())
//! ```
//!
//! Start with [`Tensor`]. A tensor is device memory with a [`Layout`] and a [`Dtype`]; views
//! (slice, permute, reshape, broadcast) copy nothing; operators are methods that give new tensors.
//! [`Queue`] is the stream that they run on, with its workspace: that of the device unless another
//! is asked for. [`by_name`] has every operator as the program names it. Kernels and their plans
//! are in `warpfold-kernels`; deliberately absent here: kernels and PTX.
//!
//! This is the one crate to depend on: [`lang`] (the kernel language), [`device`] and [`kernels`]
//! are the crates below it, and [`prelude`] has the names that most programs use. Features:
//!
//! - `virtual-gpu` (on): the virtual GPU. Without it a program needs a GPU, and the simulator is
//!   not built.
//! - `ndarray`: tensors from and to arrays of that crate.
//! - `candle`: operations of candle that warpfold computes; with `candle-cuda`, which takes CUDA's
//!   nvcc as candle's kernels do, on candle's CUDA streams.
//!
//! The driver's bindings are in the interface ([`device::cudarc`]), at version 0.19.10 or a later
//! 0.19: a program that shares contexts with another user of cudarc needs that there, too. Where
//! that user links the driver, as candle does, it is linked; else it is loaded at run time.

mod activations;
mod adapters;
mod arena;
mod arithmetic;
mod arrange;
mod assign;
mod attention;
mod axes;
mod boxes;
pub mod by_name;
#[cfg(feature = "candle")]
pub mod candle;
mod conv;
mod create;
mod delta;
mod digest;
mod display;
#[cfg(not(target_family = "wasm"))]
pub mod dlpack;
mod einsum;
mod element;
mod experts;
mod factors;
mod heads;
mod in_place;
mod index;
mod interpolate;
mod join;
mod loss;
mod map;
mod masks;
mod matmul;
mod matrices;
#[cfg(feature = "ndarray")]
mod ndarray;
pub mod nn;
mod norms;
pub mod npy;
mod packed;
mod padding;
mod paged_cache;
mod pooling;
mod products;
mod queue;
mod random;
mod read;
mod reduce;
mod rotary;
mod rowwise;
pub mod safetensors;
mod sampling;
mod scan;
mod scatter;
mod segments;
mod shape;
mod softmax_v;
mod sort;
mod special;
mod tensor;
mod unary;
mod unique;
mod view;

pub use warpfold_device as device;
pub use warpfold_kernels as kernels;
pub use warpfold_lang as lang;

/// Common items of all crates: `use warpfold::prelude::*`.
pub mod prelude {
    pub use warpfold_device::{Buffer, Device, LaunchConfig, Profile, Stream};
    pub use warpfold_lang::{
        Global, Kernel, Val, block_dim, block_idx, grid_dim, kernel, range, sync_threads, thread_idx, var, when,
    };

    pub use crate::{Attention, Axes, Conv2d, Dtype, Matmul, NormInputs, Queue, Tensor};
}

pub use adapters::Adapters;
pub use arena::Arena;
pub use arithmetic::Operand;
pub use attention::{Attended, Attention, HeadLayout, PageLayout, PagedKeys};
pub use axes::{Axes, AxisList, D};
pub use conv::Conv2d;
pub use create::Nested;
pub use delta::{DeltaRows, DeltaState, DeltaWeights};
pub use element::TensorElement;
pub use experts::{ExpertMatrices, ExpertSlots, Experts, Mxfp4, PackedExperts};
pub use heads::NewHeads;
pub use in_place::NormedInPlace;
pub use index::{Index, Indices};
pub use interpolate::Interpolation;
pub use join::PartSizes;
pub use matmul::Matmul;
pub use packed::PackedWeights;
pub use paged_cache::{CacheRotary, CacheShape, NewTokens, PagedCache};
pub use pooling::{Pool, PoolIndices};
pub use queue::Queue;
pub use rotary::RotaryOptions;
pub use rowwise::{LayerNormed, NormInputs, RmsNormInputs, RmsNormed};
pub use shape::{NewShape, Shape};
pub use tensor::Tensor;
pub use unique::Unique;
pub use warpfold_device::{Device, Profile};
pub use warpfold_kernels::attention::{Score, ScoreAt};
pub use warpfold_kernels::conv::Layout as ImageLayout;
pub use warpfold_kernels::delta::DeltaHeads;
pub use warpfold_kernels::experts::{Gating as ExpertGating, Weights as ExpertWeights};
pub use warpfold_kernels::fold::{Cumulative, Direction, Prefix, ScanOrder};
pub use warpfold_kernels::generate::Distribution;
pub use warpfold_kernels::heads::Pairs;
pub use warpfold_kernels::layout::Layout;
pub use warpfold_kernels::matmul::quantized::Scheme;
pub use warpfold_kernels::matmul::{Activation, Epilogue, OutputCoord};
pub use warpfold_kernels::reductions;
pub use warpfold_kernels::sampling::{Draw, Rows as DrawRows};
pub use warpfold_kernels::{Dtype, Dtype as DType, Error, ErrorKind};

/// A `Result` whose error defaults to [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

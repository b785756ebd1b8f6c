//! Tensors on an NVIDIA GPU or on the virtual GPU, and their operators.
//!
//! ```
//! use warpfold::{Device, Profile, Tensor};
//!
//! let device = Device::virtual_gpu(Profile::H200); // or Device::best()
//! let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
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

mod arena;
mod arithmetic;
mod attention;
mod axes;
mod boxes;
pub mod by_name;
mod conv;
mod create;
mod display;
pub mod dlpack;
mod element;
mod experts;
mod heads;
mod in_place;
mod index;
mod join;
mod loss;
mod map;
mod matmul;
mod matrices;
mod paged_cache;
mod products;
mod queue;
mod read;
mod reduce;
mod rotary;
mod rowwise;
mod sampling;
mod scan;
mod segments;
mod shape;
mod softmax_v;
mod tensor;
mod unary;
mod unique;
mod view;

pub use arena::Arena;
pub use arithmetic::Operand;
pub use attention::{Attended, Attention, HeadLayout, PageLayout, PagedKeys};
pub use axes::{Axes, AxisList};
pub use conv::Conv2d;
pub use create::Nested;
pub use element::TensorElement;
pub use experts::Experts;
pub use heads::NewHeads;
pub use in_place::NormedInPlace;
pub use index::{Index, Indices};
pub use matmul::Matmul;
pub use paged_cache::{CacheRotary, CacheShape, NewTokens, PagedCache};
pub use queue::Queue;
pub use rotary::RotaryOptions;
pub use rowwise::{LayerNormed, NormInputs, RmsNormed};
pub use shape::{NewShape, Shape};
pub use tensor::Tensor;
pub use warpfold_device::{Device, Profile};
pub use warpfold_kernels::attention::{Score, ScoreAt};
pub use warpfold_kernels::conv::Layout as ImageLayout;
pub use warpfold_kernels::experts::Weights as ExpertWeights;
pub use warpfold_kernels::fold::{Cumulative, Direction, Prefix, ScanOrder};
pub use warpfold_kernels::generate::Distribution;
pub use warpfold_kernels::layout::Layout;
pub use warpfold_kernels::matmul::{Activation, Epilogue, OutputCoord};
pub use warpfold_kernels::reductions;
pub use warpfold_kernels::rotary::Pairs;
pub use warpfold_kernels::sampling::{Draw, Rows as DrawRows};
pub use warpfold_kernels::{Dtype, Error, ErrorKind};

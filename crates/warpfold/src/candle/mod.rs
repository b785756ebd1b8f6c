//! Operations of candle that warpfold computes: its operators, or kernels of yours.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use warpfold::candle::Op;
//!
//! let softmax = Op::new("softmax", |[x]| x.softmax(-1));
//! let x = Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], &Device::Cpu)?;
//! let rows = softmax.apply([&x])?.sum(1)?.to_vec1::<f32>()?;
//! assert!(rows.iter().all(|sum| (sum - 1.0).abs() < 1e-6));
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! An [`Op`] is one of candle's custom operations (`CustomOp1` to `CustomOp3`), so it takes part in
//! candle's graph, and in its gradients once it knows its own ([`Op::backward`]). Where it runs
//! follows its operands:
//!
//! - Tensors of the CPU are copied to a device and back: a virtual GPU, on which tests run without
//!   a GPU, or another one ([`Op::for_cpu`]).
//! - CUDA tensors are used where they are, with their strides, on candle's own stream: nothing
//!   waits, and the result is copied once on the device. A tensor that the closure keeps sees what
//!   candle writes to that memory later. With the feature `candle-cuda`, which turns on candle's
//!   `cuda`: that builds candle's kernels by CUDA's nvcc, and links the driver.
//!
//! [`Tensor::from_candle`] and [`Tensor::to_candle`] copy elements.

mod cpu;
#[cfg(feature = "candle-cuda")]
mod cuda;
mod custom_op;
mod dtype;

use std::fmt;
use std::sync::Arc;

use candle_core::bail;
use warpfold_kernels::{Error, ErrorKind};

use crate::{Queue, Tensor};

/// The function of an operation with `N` operands.
type Forward<const N: usize> = dyn Fn([&Tensor; N]) -> Result<Tensor, Error> + Send + Sync;

/// The gradients of the operands, of the operands, the result and its gradient.
type Backward<const N: usize> =
    dyn Fn([&candle_core::Tensor; N], &candle_core::Tensor, &candle_core::Tensor) -> Gradients<N> + Send + Sync;

/// One gradient an operand, where it has one.
type Gradients<const N: usize> = candle_core::Result<[Option<candle_core::Tensor>; N]>;

/// An operation on one to three tensors of candle. Cheap to clone; see the [module](self).
#[derive(Clone)]
pub struct Op<const N: usize> {
    name: &'static str,
    forward: Arc<Forward<N>>,
    backward: Option<Arc<Backward<N>>>,
    for_cpu: Option<Queue>,
}

impl<const N: usize> Op<N> {
    /// An operation by the name that candle reports. What it is given has the shapes, strides and
    /// types of candle's tensors.
    pub fn new(
        name: &'static str,
        forward: impl Fn([&Tensor; N]) -> Result<Tensor, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name, forward: Arc::new(forward), backward: None, for_cpu: None }
    }

    /// The same with gradients: of the operands, the result and the result's gradient, all tensors
    /// of candle.
    ///
    /// ```
    /// use candle_core::{Device, Var};
    /// use warpfold::candle::Op;
    ///
    /// let square = Op::new("square", |[x]| x.sqr()).backward(|[x], _square, grad| Ok([Some((x * 2.0)?.mul(grad)?)]));
    /// let x = Var::new(&[1_f32, -3.], &Device::Cpu)?;
    /// let gradients = square.apply([&x])?.sum_all()?.backward()?;
    /// assert_eq!(gradients.get(&x).expect("x takes part").to_vec1::<f32>()?, [2.0, -6.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    #[must_use]
    pub fn backward(
        self,
        backward: impl Fn([&candle_core::Tensor; N], &candle_core::Tensor, &candle_core::Tensor) -> Gradients<N>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { backward: Some(Arc::new(backward)), ..self }
    }

    /// The same, with tensors of the CPU computed by this device or queue instead of a virtual GPU.
    #[must_use]
    pub fn for_cpu(self, at: impl Into<Queue>) -> Self {
        Self { for_cpu: Some(at.into()), ..self }
    }

    /// Applies the closure to operands that are ours.
    fn run(&self, operands: &[Tensor; N]) -> candle_core::Result<Tensor> {
        let result = (self.forward)(operands.each_ref()).map_err(candle_core::Error::wrap)?;
        let expected = operands[0].device();
        if result.device() != expected {
            bail!("{}: the result is on {}, the operands are on {expected}", self.name, result.device());
        }
        Ok(result)
    }

    fn gradients(
        &self,
        operands: [&candle_core::Tensor; N],
        result: &candle_core::Tensor,
        gradient: &candle_core::Tensor,
    ) -> Gradients<N> {
        match &self.backward {
            Some(backward) => backward(operands, result, gradient),
            None => Err(candle_core::Error::BackwardNotSupported { op: self.name }),
        }
    }
}

impl<const N: usize> fmt::Debug for Op<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Op<{N}>({})", self.name)
    }
}

/// Copies of candle's elements, and for candle.
impl Tensor {
    /// A copy of a tensor of candle, wherever it is.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let theirs = candle_core::Tensor::new(&[[1_f32, 2.], [3., 4.]], &candle_core::Device::Cpu)?;
    /// let ours = Tensor::from_candle(&theirs.t()?, &Device::virtual_gpu(Profile::H200))?;
    /// assert_eq!(ours.to_vec2::<f32>()?, [[1., 3.], [2., 4.]]);
    /// assert_eq!((ours * 2.0)?.to_candle(&candle_core::Device::Cpu)?.to_vec2::<f32>()?, [[2., 6.], [4., 8.]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for an element type that we do not have, or with candle's words;
    /// [`ErrorKind::TooManyDimensions`], and what the device says.
    pub fn from_candle(tensor: &candle_core::Tensor, at: impl Into<Queue>) -> Result<Self, Error> {
        let refused = |e: candle_core::Error| refuse("from_candle", e);
        let tensor = tensor.to_device(&candle_core::Device::Cpu).map_err(refused)?;
        let (storage, layout) = tensor.storage_and_layout();
        match &*storage {
            candle_core::Storage::Cpu(storage) => cpu::tensor_of(storage, layout, &at.into()).map_err(refused),
            candle_core::Storage::Cuda(_) | candle_core::Storage::Metal(_) => unreachable!("it was brought to the CPU"),
        }
    }

    /// A copy for candle, on a device of candle's.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for an element type that candle does not have, or with candle's
    /// words; what the device says.
    pub fn to_candle(&self, device: &candle_core::Device) -> Result<candle_core::Tensor, Error> {
        let refused = |e: candle_core::Error| refuse("to_candle", e);
        let storage = candle_core::Storage::Cpu(cpu::storage_of(self).map_err(refused)?);
        let tensor =
            candle_core::Tensor::from_storage(storage, self.shape(), candle_core::op::BackpropOp::none(), false);
        tensor.to_device(device).map_err(refused)
    }
}

fn refuse(operator: &'static str, e: candle_core::Error) -> Error {
    ErrorKind::Operand { operator, reason: e.to_string() }.into()
}

//! Layers by the names of candle's `candle_nn`, for weights that are there already.
//!
//! Start with [`VarBuilder`], which gives layers their weights by name, and [`Module`], what a
//! layer is; [`ops`] and [`loss`] are functions. Deliberately absent: gradients, and so variables, optimizers and
//! initial values; recurrent layers.
//!
//! ```
//! use warpfold::nn::Linear;
//! use warpfold::{Device, Profile, Tensor};
//!
//! let device = Device::virtual_gpu(Profile::H200);
//! let hidden = Linear::new(Tensor::new(&[[1_f32, 0.0], [1.0, -1.0]], &device)?, None);
//! let output = Linear::new(Tensor::new(&[[1_f32, 1.0]], &device)?, Some(Tensor::new(&[0.5_f32], &device)?));
//! let x = Tensor::new(&[[2_f32, 3.0]], &device)?;
//! let y = x.apply(&hidden)?.relu()?.apply(&output)?;
//! assert_eq!(y.to_vec2::<f32>()?, [[2.5]]);
//! # Ok::<(), warpfold::Error>(())
//! ```

pub mod encoding;
mod layers;
pub mod loss;
pub mod ops;
mod weights;

pub use layers::{Embedding, LayerNorm, Linear, RmsNorm, embedding, layer_norm, linear, linear_no_bias, rms_norm};
pub use weights::VarBuilder;

pub use crate::Activation;
use crate::{Error, Tensor};

/// A map from tensor to tensor: a layer, or a closure.
pub trait Module {
    /// Computes.
    ///
    /// # Errors
    /// Those of the operators that it consists of.
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error>;
}

impl<F: Fn(&Tensor) -> Result<Tensor, Error>> Module for F {
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        self(x)
    }
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        match self {
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu_erf(),
            Self::GeluTanh => x.gelu(),
            Self::Silu => x.silu(),
            Self::Sigmoid => x.sigmoid(),
            Self::Tanh => x.tanh(),
        }
    }
}

impl Tensor {
    /// Applies a layer or a closure to this tensor.
    ///
    /// # Errors
    /// Those of the layer.
    pub fn apply(&self, module: &impl Module) -> Result<Self, Error> {
        module.forward(self)
    }

    /// The tensor itself: there are no gradients to leave out.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.clone()
    }
}

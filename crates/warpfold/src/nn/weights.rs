//! Weights by name, with the part of the name that a layer's own weights have in common.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::{Dtype, Error, ErrorKind, Queue, Shape, Tensor, safetensors};

/// Named tensors, of which layers take theirs: `weights.pp("layers").pp(0).get((2, 3), "weight")`
/// is the tensor `layers.0.weight`. Cheap to clone.
///
/// ```
/// use warpfold::nn::{Module, VarBuilder, linear};
/// use warpfold::{Device, Dtype, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let tensors = [
///     ("head.weight".to_owned(), Tensor::new(&[[2_f32, 1.0]], &device)?),
///     ("head.bias".to_owned(), Tensor::new(&[1_f32], &device)?),
/// ];
/// let weights = VarBuilder::from_tensors(tensors, Dtype::F32, &device);
/// let head = linear(2, 1, weights.pp("head"))?;
/// assert_eq!(head.forward(&Tensor::new(&[[3_f32, 4.0]], &device)?)?.to_vec2::<f32>()?, [[11.0]]);
/// assert_eq!(weights.get(3, "tail").unwrap_err().to_string(), "weights: there is no tensor 'tail'");
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct VarBuilder {
    tensors: Arc<BTreeMap<String, Tensor>>,
    prefix: String,
    dtype: Dtype,
    queue: Queue,
}

impl VarBuilder {
    /// The weights of these tensors, to be given in an element type, at a place.
    pub fn from_tensors(
        tensors: impl IntoIterator<Item = (String, Tensor)>,
        dtype: Dtype,
        at: impl Into<Queue>,
    ) -> Self {
        Self { tensors: Arc::new(tensors.into_iter().collect()), prefix: String::new(), dtype, queue: at.into() }
    }

    /// The weights of safetensors files.
    ///
    /// # Errors
    /// Those of [`safetensors::load`].
    pub fn from_safetensors<P: AsRef<Path>>(paths: &[P], dtype: Dtype, at: impl Into<Queue>) -> Result<Self, Error> {
        let (mut tensors, queue) = (BTreeMap::new(), at.into());
        for path in paths {
            tensors.extend(safetensors::load(path, &queue)?);
        }
        Ok(Self::from_tensors(tensors, dtype, queue))
    }

    /// The weights whose names go on with this part and a dot.
    #[must_use]
    pub fn pp(&self, part: impl ToString) -> Self {
        Self { prefix: self.full_name(&part.to_string()), ..self.clone() }
    }

    /// The element type that weights are given in.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns whether there is a tensor of this name.
    #[must_use]
    pub fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(&self.full_name(name))
    }

    /// The tensor of this name, which has this shape.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] if there is none, or of another shape; what the device says.
    pub fn get(&self, shape: impl Into<Shape>, name: &str) -> Result<Tensor, Error> {
        let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "weights", reason });
        let (name, shape) = (self.full_name(name), shape.into());
        let tensor = self.tensors.get(&name).ok_or_else(|| refused(format!("there is no tensor '{name}'")))?;
        if tensor.shape() != shape.sizes() {
            return Err(refused(format!("'{name}' is {:?}, not {:?}", tensor.shape(), shape.sizes())));
        }
        tensor.to_dtype(self.dtype)?.to_device(self.queue.device())
    }

    fn full_name(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

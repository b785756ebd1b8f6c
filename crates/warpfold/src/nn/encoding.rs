//! Encodings by the names of `candle_nn::encoding`.

use warpfold_kernels::operations::Number;

use crate::{Error, Tensor, TensorElement};

/// For each class number a row of `off` with `on` at its position.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor, nn};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let classes = Tensor::new(&[1_u32, 0], &device)?;
/// let rows = nn::encoding::one_hot(classes, 2, 0.9_f32, 0.1)?;
/// assert_eq!(rows.to_vec2::<f32>()?, [[0.1, 0.9], [0.9, 0.1]]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::one_hot`].
pub fn one_hot<T: TensorElement + Into<Number>>(classes: Tensor, depth: usize, on: T, off: T) -> Result<Tensor, Error> {
    let is_on = classes.one_hot(depth)?.ne(0)?;
    let [on, off] = [on, off].map(|value| Tensor::full(value, (), classes.queue()));
    is_on.where_cond(&on?, &off?)
}

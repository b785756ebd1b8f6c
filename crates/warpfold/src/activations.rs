//! Activations, and other functions that are composed of element-wise operations: each step rounds
//! to the elements' type.

use warpfold_kernels::Error;

use crate::{Axes, Tensor};

/// Functions that [`Tensor::elementwise`] has no operation for.
impl Tensor {
    /// `x` between 0 and 6.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.relu6()?.to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::clamp`].
    pub fn relu6(&self) -> Result<Self, Error> {
        self.clamp(0, 6)
    }

    /// `x` between two numbers, as [`Tensor::clamp`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.hardtanh(-1.0, 1.0)?.to_vec::<f32>()?, [-1.0, 0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::clamp`].
    pub fn hardtanh(&self, low: f64, high: f64) -> Result<Self, Error> {
        self.clamp(low, high)
    }

    /// `relu6(x + 3) / 6`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.affine(3.0, 0.0)?.hardsigmoid()?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::relu`].
    pub fn hardsigmoid(&self) -> Result<Self, Error> {
        (self + 3.0)?.relu6()? / 6.0
    }

    /// Alias of [`Tensor::hardsigmoid`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[-3_f32, 0.0, 3.0], &device)?;
    /// assert_eq!(x.hard_sigmoid()?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::relu`].
    pub fn hard_sigmoid(&self) -> Result<Self, Error> {
        self.hardsigmoid()
    }

    /// `x * relu6(x + 3) / 6`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.affine(3.0, 0.0)?.hardswish()?.to_vec::<f32>()?, [0.0, 0.0, 6.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::relu`].
    pub fn hardswish(&self) -> Result<Self, Error> {
        self * self.hardsigmoid()?
    }

    /// `ln(1 + e^x)`, which no `x` overflows.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert!((z.softplus()?.i(1)?.to_scalar::<f32>()? - 2_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::exp`].
    pub fn softplus(&self) -> Result<Self, Error> {
        self.relu()? + self.abs()?.neg()?.exp()?.log1p()?
    }

    /// `ln(sigmoid(x))`, which no `x` overflows.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert!((z.log_sigmoid()?.i(1)?.to_scalar::<f32>()? - 0.5_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::exp`].
    pub fn log_sigmoid(&self) -> Result<Self, Error> {
        self.neg()?.softplus()?.neg()
    }

    /// `x / (1 + |x|)`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert!((z.softsign()?.i(2)?.to_scalar::<f32>()? - 2.0 / 3.0).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::abs`].
    pub fn softsign(&self) -> Result<Self, Error> {
        self / (self.abs()? + 1.0)?
    }

    /// `x * tanh(softplus(x))`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.mish()?.i(1)?.to_scalar::<f32>()?, 0.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::exp`].
    pub fn mish(&self) -> Result<Self, Error> {
        self * self.softplus()?.tanh()?
    }

    /// The scaled exponential linear unit (Klambauer et al., 2017).
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.selu()?.i(1)?.to_scalar::<f32>()?, 0.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::elu`].
    pub fn selu(&self) -> Result<Self, Error> {
        self.elu(1.673_263_242_354_377_2)? * 1.050_700_987_355_480_5
    }

    /// The hyperbolic sine.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.sinh()?.i(1)?.to_scalar::<f32>()?, 0.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::expm1`].
    pub fn sinh(&self) -> Result<Self, Error> {
        (self.expm1()? - self.neg()?.expm1()?)? * 0.5
    }

    /// The hyperbolic cosine.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.cosh()?.i(1)?.to_scalar::<f32>()?, 1.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::exp`].
    pub fn cosh(&self) -> Result<Self, Error> {
        (self.exp()? + self.neg()?.exp()?)? * 0.5
    }

    /// The fractional part, with the sign of `x`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.affine(0.5, 0.0)?.frac()?.to_vec::<f32>()?, [0.5, 0.5, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::trunc`].
    pub fn frac(&self) -> Result<Self, Error> {
        self - self.trunc()?
    }

    /// The nearest number of so many decimals, ties to even; before the decimal point with a
    /// negative number.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.affine(0.123, 0.0)?.round_to(1)?.to_vec::<f32>()?, [0.4, 0.1, 0.2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::round`].
    pub fn round_to(&self, decimals: i32) -> Result<Self, Error> {
        let scale = 10_f64.powi(decimals);
        (self * scale)?.round()? / scale
    }

    /// The softmax of `-x`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert!((v.softmin(0)?.sum_all()?.to_scalar::<f32>()? - 1.0).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::softmax`].
    pub fn softmin<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        self.neg()?.softmax(axes)
    }

    /// Divided by the Euclidean norm over some axes, but not by less than `1e-12`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[3_f32, 4.0], &device)?.normalize(0)?.to_vec::<f32>()?, [0.6, 0.8]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::l2_norm`].
    pub fn normalize<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        self / self.l2_norm_keepdim(axes)?.maximum(1e-12)?
    }

    /// The cosine of the angle between two tensors along an axis; each norm is at least `1e-8`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert!((v.cosine_similarity(&v, 0)?.to_scalar::<f32>()? - 1.0).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::l2_norm`] and [`Tensor::mul`].
    pub fn cosine_similarity(&self, other: &Self, axis: isize) -> Result<Self, Error> {
        let norms = (self.l2_norm(axis)?.maximum(1e-8)? * other.l2_norm(axis)?.maximum(1e-8)?)?;
        (self * other)?.sum(axis)? / norms
    }

    /// The mean of squared differences.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.mse_loss(&v.affine(1.0, 2.0)?)?.to_scalar::<f32>()?, 4.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn mse_loss(&self, target: &Self) -> Result<Self, Error> {
        self.sub(target)?.sqr()?.mean_all()
    }

    /// The mean of magnitudes of differences.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.l1_loss(&v.affine(1.0, 2.0)?)?.to_scalar::<f32>()?, 2.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn l1_loss(&self, target: &Self) -> Result<Self, Error> {
        self.sub(target)?.abs()?.mean_all()
    }

    /// Squares of small differences and magnitudes of others, `delta` being where they meet: the
    /// mean, as PyTorch's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.huber_loss(&v.affine(1.0, 2.0)?, 1.0)?.to_scalar::<f32>()?, 1.5);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn huber_loss(&self, target: &Self, delta: f64) -> Result<Self, Error> {
        let far = self.sub(target)?.abs()?;
        let square = (far.sqr()? * 0.5)?;
        far.le(delta)?.where_cond(&square, &((&far - 0.5 * delta)? * delta)?)?.mean_all()
    }

    /// The mean of `ln(1 + e^-|x|) + max(x, 0) - x * target`: cross-entropy of logits against
    /// probabilities.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert!((z.zeros_like()?.binary_cross_entropy_with_logits(&z.ones_like()?)?.to_scalar::<f32>()? - 2_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn binary_cross_entropy_with_logits(&self, target: &Self) -> Result<Self, Error> {
        (self.softplus()? - self.mul(target)?)?.mean_all()
    }

    /// `max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.celu(1.0)?.i(1..)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for the element type.
    pub fn celu(&self, alpha: f64) -> Result<Self, Error> {
        let below = ((self.minimum(0)? / alpha)?.expm1()? * alpha)?;
        self.maximum(0)? + below
    }

    /// `x`, or `weight * x` below 0.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.prelu(&Tensor::new(&[0.5_f32], &device)?)?.to_vec::<f32>()?, [-0.5, 0.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::mul`].
    pub fn prelu(&self, weight: &Self) -> Result<Self, Error> {
        self.gt(0)?.where_cond(self, &self.mul(weight)?)
    }

    /// The first half of an axis times the sigmoid of the second.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[4_f32, 0.0], &device)?.glu(0)?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for an odd size.
    pub fn glu(&self, axis: isize) -> Result<Self, Error> {
        let half = self.half_of("glu", axis)?;
        self.narrow(axis, 0, half)?.mul(&self.narrow(axis, half, half)?.sigmoid()?)
    }

    pub(crate) fn half_of(&self, operator: &'static str, axis: isize) -> Result<usize, Error> {
        let size = self.dim(axis)?;
        if size % 2 == 0 {
            return Ok(size / 2);
        }
        let reason = format!("axis {axis} has {size} position(s), which have no half");
        Err(warpfold_kernels::ErrorKind::Operand { operator, reason }.into())
    }
}

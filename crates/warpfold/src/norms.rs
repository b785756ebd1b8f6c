//! Norms over groups of channels and over batches.

use warpfold_kernels::{Error, ErrorKind};

use crate::{NormInputs, Tensor};

/// Norms of images `[N, C, …]`, with a scale and a bias per channel, as PyTorch's functions.
impl Tensor {
    /// The norm of each image over groups of its channels.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 3.0, 5.0, 9.0]], &device)?;
    /// let normed = x.group_norm(2, None, None, 0.0)?;
    /// assert_eq!(normed.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless the groups divide the channels; those of
    /// [`Tensor::layer_norm`].
    pub fn group_norm(
        &self,
        groups: usize,
        weight: Option<&Self>,
        bias: Option<&Self>,
        eps: f64,
    ) -> Result<Self, Error> {
        let [images, channels, ..] = *self.shape() else {
            return Err(refused("group-norm", format!("images are [N, C, …], not {:?}", self.shape())));
        };
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(refused("group-norm", format!("{groups} group(s) do not divide {channels} channels")));
        }
        let rows = self.reshape(&[images, groups, self.len() / (images * groups).max(1)])?;
        let normed = rows.layer_norm(-1, NormInputs { eps: Some(eps), ..NormInputs::default() })?.result;
        normed.reshape(self.shape())?.with_channels(weight, bias)
    }

    /// The norm of each channel by means and variances that are known, as in inference.
    ///
    /// # Errors
    /// Those of the operations that it consists of.
    pub fn batch_norm(
        &self,
        mean: &Self,
        variance: &Self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        eps: f64,
    ) -> Result<Self, Error> {
        if self.rank() < 2 {
            return Err(refused("batch-norm", format!("images are [N, C, …], not {:?}", self.shape())));
        }
        let centred = self.sub(&self.per_channel(mean)?)?;
        let rstd = self.per_channel(&variance.add(eps)?.rsqrt()?)?;
        centred.mul(&rstd)?.with_channels(weight, bias)
    }

    fn with_channels(&self, weight: Option<&Self>, bias: Option<&Self>) -> Result<Self, Error> {
        let mut scaled = self.clone();
        if let Some(weight) = weight {
            scaled = scaled.mul(&self.per_channel(weight)?)?;
        }
        match bias {
            Some(bias) => scaled.add(&self.per_channel(bias)?),
            None => Ok(scaled),
        }
    }

    /// One number per channel, to be broadcast to `[N, C, …]`.
    fn per_channel(&self, list: &Self) -> Result<Self, Error> {
        let mut shape = vec![1; self.rank() - 1];
        shape[0] = list.len();
        list.reshape(&shape[..])
    }
}

fn refused(operator: &'static str, reason: String) -> Error {
    ErrorKind::Operand { operator, reason }.into()
}

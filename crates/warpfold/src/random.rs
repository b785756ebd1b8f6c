//! Draws that a tensor of probabilities, or none, decides: Bernoulli, dropout, multinomial.

use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

/// Random draws, from the queue's [seed](crate::Queue::set_seed).
impl Tensor {
    /// 1 with the probability that each element is, else 0, in this tensor's type.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let p = Tensor::new(&[0_f32, 1.0, 1.0], &Device::virtual_gpu(Profile::H200))?;
    /// assert_eq!(p.bernoulli()?.to_vec::<f32>()?, [0.0, 1.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are floats.
    pub fn bernoulli(&self) -> Result<Self, Error> {
        self.uniform()?.lt(&self.to_dtype(Dtype::F32)?)?.to_dtype(self.dtype())
    }

    /// Zeros in the places of a part `p` of the elements, drawn at random, and the rest times
    /// `1 / (1 - p)`: dropout as it is trained with. A model that answers has none.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// device.set_seed(7);
    /// let dropped = Tensor::ones(1000, Dtype::F32, &device)?.dropout(0.25)?.to_vec::<f32>()?;
    /// assert!(dropped.iter().all(|x| *x == 0.0 || *x == 1.0 / 0.75));
    /// assert!((150..350).contains(&dropped.iter().filter(|x| **x == 0.0).count()));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] unless `p` is from 0 up to, but not, 1;
    /// [`ErrorKind::Unsupported`] unless the elements are floats.
    pub fn dropout(&self, p: f64) -> Result<Self, Error> {
        if !(0.0..1.0).contains(&p) {
            let expected = format!("from 0 up to, but not, 1, not {p}");
            return Err(ErrorKind::OptionOutOfRange { op: "dropout".to_owned(), option: "p", expected }.into());
        }
        let scaled = (self * (1.0 / (1.0 - p)))?;
        self.uniform()?.ge(p)?.where_cond(&scaled, &scaled.zeros_like()?)
    }

    /// Positions of the last axis, `samples` per row, drawn with the probabilities (or weights)
    /// that its elements are, as `i64`; each once unless `replacement` is said.
    ///
    /// The key of a position is its weight divided by an exponential number; the largest keys are
    /// drawn (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let weights = Tensor::new(&[[0_f32, 3.0, 0.0], [1.0, 0.0, 0.0]], &device)?;
    /// assert_eq!(weights.multinomial(1, false)?.to_vec2::<i64>()?, [[1], [0]]);
    /// assert_eq!(weights.multinomial(2, true)?.to_vec2::<i64>()?, [[1, 1], [0, 0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for weights that are negative, infinite or NaN, and for rows with
    /// fewer positive weights than samples (one, with replacement). Waits for the device.
    pub fn multinomial(&self, samples: usize, replacement: bool) -> Result<Self, Error> {
        let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "multinomial", reason });
        let classes = self.dim(-1)?;
        if !(self.isfinite()? & self.ge(0)?)?.all_all()?.to_bytes()?.eq(&[1]) {
            return Err(refused("a weight is negative, infinite or NaN".to_owned()));
        }
        let fewest = self.gt(0)?.count_nonzero(-1)?.to_vec::<i64>()?.into_iter().min().unwrap_or(i64::MAX);
        let needed = if replacement { samples.min(1) } else { samples };
        if fewest < i64::try_from(needed).unwrap_or(i64::MAX) {
            return Err(refused(format!("a row has {fewest} positive weight(s) of {classes}, {needed} are needed")));
        }
        let weights = self.to_dtype(Dtype::F32)?;
        if !replacement {
            return Ok(weights.keys()?.top_k(samples, -1)?.1);
        }
        let mut shape = self.shape().to_vec();
        shape.insert(self.rank() - 1, samples);
        weights.unsqueeze(-2)?.broadcast_as(shape)?.keys()?.argmax(-1)
    }

    /// Weights divided by exponential numbers, one an element; nothing for the weight 0.
    fn keys(&self) -> Result<Self, Error> {
        // A uniform number may be 0, and 1 minus it may not.
        let exponential = (1.0 - self.uniform()?)?.log()?.neg()?;
        let keys = self.div(&exponential.maximum(f32::MIN_POSITIVE)?)?;
        self.gt(0)?.where_cond(&keys, &keys.full_like(-1)?)
    }

    /// Uniform numbers of `f32`, one an element.
    fn uniform(&self) -> Result<Self, Error> {
        if !self.dtype().is_float() {
            return Err(ErrorKind::Unsupported { op: "random draws".to_owned(), dtype: self.dtype() }.into());
        }
        Self::rand(0_f32, 1.0, self.shape(), self.queue())
    }
}

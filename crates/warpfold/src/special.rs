//! Functions of elements and of vectors that are composed of others: each step rounds to the
//! elements' type.

use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::{Operand, Tensor};

/// Functions of elements that [`Tensor::elementwise`] has no operation for.
impl Tensor {
    /// `sqrt(self² + other²)`, which overflows only where the result does.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[3_f32], &device)?.hypot(&Tensor::new(&[4_f32], &device)?)?.sum_all()?.to_scalar::<f32>()?, 5.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn hypot(&self, other: &Self) -> Result<Self, Error> {
        let (x, y) = (self.abs()?, other.abs()?);
        let (large, small) = (x.maximum(&y)?, x.minimum(&y)?);
        // Of two zeros the ratio has no meaning, and neither has that of two infinities.
        let ratio = small.eq(&large)?.where_cond(&large.ones_like()?, &small.div(&large)?)?;
        large.mul(&(ratio.sqr()? + 1.0)?.sqrt()?)
    }

    /// `self * ln(other)`; 0 where `self` is 0 and `other` is not NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[0_f32, 2.0], &device)?;
    /// let y = Tensor::new(&[0_f32, 1.0], &device)?;
    /// assert_eq!(x.xlogy(&y)?.to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::mul`].
    pub fn xlogy(&self, other: &Self) -> Result<Self, Error> {
        let product = self.mul(&other.log()?)?;
        let is_zero = (self.eq(0)? & other.isnan()?.logical_not()?)?;
        is_zero.where_cond(&product.zeros_like()?, &product)
    }

    /// 0 below 0, 1 above it and `at_zero` at it.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
    /// assert_eq!(z.heaviside(0.5)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::add`].
    pub fn heaviside<'b>(&self, at_zero: impl Into<Operand<'b>>) -> Result<Self, Error> {
        let step = self.gt(0)?.to_dtype(self.dtype())?;
        let at_zero = self.zeros_like()?.add(at_zero)?;
        let known = self.eq(0)?.where_cond(&at_zero, &step)?;
        if !self.dtype().is_float() { Ok(known) } else { self.isnan()?.where_cond(self, &known) }
    }

    /// The elements, but 0 for NaN and the largest numbers of the type for infinities.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[f32::NAN, 1.0], &device)?.nan_to_num()?.to_vec::<f32>()?, [0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for the element type.
    pub fn nan_to_num(&self) -> Result<Self, Error> {
        let known = self.masked_fill(&self.isnan()?, 0)?;
        let largest = match self.dtype() {
            Dtype::F16 => f64::from(half::f16::MAX),
            Dtype::Bf16 => f64::from(half::bf16::MAX),
            Dtype::F64 => f64::MAX,
            _ => f64::from(f32::MAX),
        };
        known.clamp(-largest, largest)
    }

    /// The numbers of boundaries, which are in order, that are below each element, as `i64`:
    /// PyTorch's `bucketize`. Each element is compared with each boundary.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[0.5_f32, 1.5, 9.0], &device)?;
    /// let boundaries = Tensor::new(&[1_f32, 2.0], &device)?;
    /// assert_eq!(x.bucketize(&boundaries)?.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::TooManyDimensions`].
    pub fn bucketize(&self, boundaries: &Self) -> Result<Self, Error> {
        self.unsqueeze(-1)?.gt(boundaries)?.count_nonzero(-1)
    }

    /// The value below which a part of an axis lies, 0 to 1, between two elements in proportion:
    /// PyTorch's `quantile`. NaN counts as the largest element.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.quantile(0.5, 0)?.to_scalar::<f32>()?, 2.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OptionOutOfRange`] for another part, [`ErrorKind::Empty`],
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn quantile(&self, part: f64, axis: isize) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&part) {
            let expected = format!("from 0 to 1, not {part}");
            return Err(ErrorKind::OptionOutOfRange { op: "quantile".to_owned(), option: "part", expected }.into());
        }
        let size = self.dim(axis)?;
        if size == 0 {
            return Err(ErrorKind::Empty("quantile".to_owned()).into());
        }
        let (sorted, place) = (self.sort(axis)?.0, part * (size - 1) as f64);
        let at = |place: f64| sorted.get_on_dim(axis, place as usize);
        at(place.floor())?.lerp(&at(place.ceil())?, place.fract())
    }
}

/// Functions of vectors and matrices.
impl Tensor {
    /// The cross product along an axis of three.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_f32, 0.0, 0.0], &device)?;
    /// let y = Tensor::new(&[0_f32, 1.0, 0.0], &device)?;
    /// assert_eq!(x.cross(&y, 0)?.to_vec::<f32>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless the axis has three positions.
    pub fn cross(&self, other: &Self, axis: isize) -> Result<Self, Error> {
        if (self.dim(axis)?, other.dim(axis)?) != (3, 3) {
            let reason = format!("axis {axis} has {} and {} position(s), not 3", self.dim(axis)?, other.dim(axis)?);
            return Err(ErrorKind::Operand { operator: "cross", reason }.into());
        }
        let turned = |x: &Self, by| x.roll(by, axis);
        (turned(self, -1)? * turned(other, -2)?)? - (turned(self, -2)? * turned(other, -1)?)?
    }

    /// The Euclidean distance of each row to each row of another matrix: of `[…, n, d]` and
    /// `[…, m, d]` it is `[…, n, m]`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[0_f32, 0.0]], &device)?;
    /// let y = Tensor::new(&[[3_f32, 4.0], [0.0, 1.0]], &device)?;
    /// assert_eq!(x.cdist(&y)?.to_vec::<f32>()?, [5.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn cdist(&self, other: &Self) -> Result<Self, Error> {
        self.unsqueeze(-2)?.sub(&other.unsqueeze(-3)?)?.l2_norm(-1)
    }

    /// The Kronecker product: each element of this matrix times the whole other one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.kron(&Tensor::new(&[[2_f32]], &device)?)?.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless both have two axes.
    pub fn kron(&self, other: &Self) -> Result<Self, Error> {
        let (&[a, b], &[c, d]) = (self.shape(), other.shape()) else {
            let reason = format!("two matrices are expected, not {:?} and {:?}", self.shape(), other.shape());
            return Err(ErrorKind::Operand { operator: "kron", reason }.into());
        };
        self.reshape((a, 1, b, 1))?.mul(&other.reshape((1, c, 1, d))?)?.reshape((a * c, b * d))
    }

    /// The product over the last `axes` axes of this tensor and the first of another one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let y = Tensor::new(&[5_f32, 6.0], &device)?;
    /// assert_eq!(x.tensordot(&y, 1)?.to_vec::<f32>()?, [17.0, 39.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless these axes have the same sizes; those of [`Tensor::matmul`].
    pub fn tensordot(&self, other: &Self, axes: usize) -> Result<Self, Error> {
        let kept = self.rank().checked_sub(axes);
        let (Some(kept), true) = (kept, axes <= other.rank()) else {
            let reason = format!("{axes} axes are not in both {:?} and {:?}", self.shape(), other.shape());
            return Err(ErrorKind::Operand { operator: "tensordot", reason }.into());
        };
        let ((rows, folded), (common, columns)) = (self.shape().split_at(kept), other.shape().split_at(axes));
        if folded != common {
            let reason = format!("the last axes {folded:?} and the first axes {common:?} differ");
            return Err(ErrorKind::Operand { operator: "tensordot", reason }.into());
        }
        let len = |sizes: &[usize]| sizes.iter().product::<usize>();
        let left = self.reshape((len(rows), len(folded)))?;
        let product = left.matmul(&other.reshape((len(common), len(columns)))?)?;
        product.reshape([rows, columns].concat())
    }

    /// A quarter turn of two axes, `times` times, from the first to the second.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.rot90(1, (0, 1))?.to_vec::<f32>()?, [2.0, 4.0, 1.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::RepeatedAxis`].
    pub fn rot90(&self, times: i64, (first, second): (isize, isize)) -> Result<Self, Error> {
        let (first, second) = (self.axis(first)? as isize, self.axis(second)? as isize);
        if first == second {
            return Err(ErrorKind::RepeatedAxis(first).into());
        }
        match times.rem_euclid(4) {
            0 => Ok(self.clone()),
            1 => self.flip(second)?.transpose(first, second),
            2 => self.flip([first, second]),
            _ => self.flip(first)?.transpose(first, second),
        }
    }

    /// The channels of `factor²` images as one image of `factor` times its height and width:
    /// `[N, C * factor², H, W]` becomes `[N, C, H * factor, W * factor]`.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((1, 4, 3, 3), Dtype::F32, &device)?;
    /// assert_eq!(x.pixel_shuffle(2)?.shape(), [1, 1, 6, 6]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless there are four axes and so many channels.
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Self, Error> {
        let (&[n, c, h, w], area) = (self.pixels("pixel_shuffle")?, factor * factor);
        if area == 0 || c % area != 0 {
            let reason = format!("{c} channel(s) are no multiple of {factor} * {factor}");
            return Err(ErrorKind::Operand { operator: "pixel_shuffle", reason }.into());
        }
        let parts = self.reshape((n, c / area, factor, factor, h, w))?.permute([0, 1, 4, 2, 5, 3])?;
        parts.reshape((n, c / area, h * factor, w * factor))
    }

    /// The inverse of [`Tensor::pixel_shuffle`].
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((1, 1, 6, 6), Dtype::F32, &device)?;
    /// assert_eq!(x.pixel_unshuffle(2)?.shape(), [1, 4, 3, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless there are four axes, and `factor` divides the last two.
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Self, Error> {
        let &[n, c, h, w] = self.pixels("pixel_unshuffle")?;
        if factor == 0 || h % factor != 0 || w % factor != 0 {
            let reason = format!("{h} and {w} pixels are no multiples of {factor}");
            return Err(ErrorKind::Operand { operator: "pixel_unshuffle", reason }.into());
        }
        let parts = self.reshape((n, c, h / factor, factor, w / factor, factor))?.permute([0, 1, 3, 5, 2, 4])?;
        parts.reshape((n, c * factor * factor, h / factor, w / factor))
    }

    fn pixels(&self, operator: &'static str) -> Result<&[usize; 4], Error> {
        self.shape().try_into().map_err(|_| {
            let reason = format!("images are [N, C, H, W], not {:?}", self.shape());
            ErrorKind::Operand { operator, reason }.into()
        })
    }
}

//! Images of other sizes.

use warpfold_kernels::Error;
use warpfold_kernels::pooling::Kind;

use crate::pooling::refused;
use crate::{ImageLayout, Pool, Tensor};

/// Interpolation modes for elements between those of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interpolation {
    /// The nearest element, of any type: that at `⌊i·size/n⌋`.
    #[default]
    Nearest,
    /// The nearest to the middle, at `⌊(i + 1/2)·size/n⌋`: PyTorch's `nearest-exact`.
    NearestExact,
    /// A mixture of the two neighbours along each axis; of floats of 16 to 64 bits.
    Linear {
        /// Aligns the centres of the corner elements instead of their outer edges.
        align_corners: bool,
    },
    /// A mixture of the four neighbours along each axis by cubic convolution, as PyTorch's
    /// `bicubic`; of floats of 16 to 64 bits.
    Cubic {
        /// Likewise.
        align_corners: bool,
    },
}

impl Interpolation {
    const fn kind(self) -> Kind {
        match self {
            Self::Nearest => Kind::Nearest { exact: false },
            Self::NearestExact => Kind::Nearest { exact: true },
            Self::Linear { align_corners } => Kind::Linear { align_corners },
            Self::Cubic { align_corners } => Kind::Cubic { align_corners },
        }
    }

    /// Returns whether the exact factor matters beyond the output size that it gives.
    const fn heeds_factors(self) -> bool {
        !matches!(self, Self::Linear { align_corners: true } | Self::Cubic { align_corners: true })
    }
}

/// Interpolation: images `[N, C, …]` with other sizes of their last one to three axes.
impl Tensor {
    /// Images of these sizes, one for each axis after `N` and `C`, or one for all.
    ///
    /// ```
    /// use warpfold::{Device, Interpolation, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let image = Tensor::new(&[[[1_f32, 2.0, 3.0]]], &device)?;
    /// let nearest = image.interpolate(&[6], Interpolation::Nearest)?;
    /// assert_eq!(nearest.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    /// let linear = image.interpolate(&[6], Interpolation::Linear { align_corners: false })?;
    /// assert_eq!(linear.to_vec::<f32>()?, [1.0, 1.25, 1.75, 2.25, 2.75, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for tensors of other ranks, other numbers of sizes
    /// and images without elements; [`Unsupported`](crate::ErrorKind::Unsupported) for mixtures of
    /// anything but floats of 16 to 64 bits.
    pub fn interpolate(&self, sizes: &[usize], mode: Interpolation) -> Result<Self, Error> {
        self.interpolate_in(sizes, mode, ImageLayout::Nchw)
    }

    /// Variant of [`Tensor::interpolate`] with a choice of memory layout.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate_in(&self, sizes: &[usize], mode: Interpolation, layout: ImageLayout) -> Result<Self, Error> {
        Pool::interpolation(mode.kind(), sizes, &[None]).layout(layout).run(self)
    }

    /// Images whose axes after `N` and `C` are so many times as long, rounded down: a factor per
    /// axis, or one for all. A factor that gives no whole size is also what places are computed by
    /// (PyTorch's `scale_factor` without `recompute_scale_factor`).
    ///
    /// ```
    /// use warpfold::{Device, Interpolation, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let image = Tensor::new(&[[[1_f32, 2.0, 3.0]]], &device)?;
    /// let longer = image.interpolate_by(&[1.5], Interpolation::Nearest)?;
    /// assert_eq!(longer.to_vec::<f32>()?, [1.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`], and [`Operand`](crate::ErrorKind::Operand) for factors
    /// that are not positive numbers or leave nothing of an axis.
    pub fn interpolate_by(&self, factors: &[f64], mode: Interpolation) -> Result<Self, Error> {
        self.interpolate_by_in(factors, mode, ImageLayout::Nchw)
    }

    /// Variant of [`Tensor::interpolate_by`] with a choice of memory layout.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate_by`].
    pub fn interpolate_by_in(&self, factors: &[f64], mode: Interpolation, layout: ImageLayout) -> Result<Self, Error> {
        let first = if layout == ImageLayout::Nchw { 2 } else { 1 };
        let axes = self.rank().saturating_sub(2);
        if axes > 0 && factors.len() != 1 && factors.len() != axes {
            return Err(refused(format!("{axes} axes need {axes} factors or one, not {}", factors.len())));
        }
        let (mut sizes, mut ratios) = (vec![], vec![]);
        for (axis, size) in self.shape().iter().enumerate().skip(first).take(axes) {
            let factor = if factors.len() == 1 { factors[0] } else { factors[axis - first] };
            let scaled = *size as f64 * factor;
            if !(factor > 0.0 && scaled < f64::from(u32::MAX)) {
                return Err(refused(format!("a factor is a positive number and not too large, not {factor}")));
            }
            let new = scaled as usize;
            if new == 0 && *size > 0 {
                return Err(refused(format!(
                    "a factor of {factor} leaves nothing of {size} element(s) in axis {axis}"
                )));
            }
            // PyTorch makes two of each element where the result is twice as long.
            let is_twice = mode == Interpolation::Nearest && new == 2 * size;
            let is_whole = scaled == new as f64 || is_twice;
            sizes.push(new);
            ratios.push((mode.heeds_factors() && !is_whole).then(|| factor.recip().to_bits()));
        }
        Pool::interpolation(mode.kind(), &sizes, &ratios).layout(layout).run(self)
    }

    /// Signals `[N, C, L]` of another length, by the nearest element.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.reshape((1, 1, 3))?.upsample_nearest1d(6)?.to_vec::<f32>()?, [3.0, 3.0, 1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_nearest1d(&self, len: usize) -> Result<Self, Error> {
        self.interpolate(&[len], Interpolation::Nearest)
    }

    /// Alias of [`Tensor::upsample_nearest1d`], as candle calls it.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate1d(&self, len: usize) -> Result<Self, Error> {
        self.upsample_nearest1d(len)
    }

    /// Images `[N, C, H, W]` of another size, by the nearest element.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.upsample_nearest2d(4, 4)?.dims(), [1, 1, 4, 4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_nearest2d(&self, height: usize, width: usize) -> Result<Self, Error> {
        self.interpolate(&[height, width], Interpolation::Nearest)
    }

    /// Alias of [`Tensor::upsample_nearest2d`], as candle calls it.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate2d(&self, height: usize, width: usize) -> Result<Self, Error> {
        self.upsample_nearest2d(height, width)
    }

    /// Images `[N, C, H, W]` of another size, mixed from four neighbours.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.upsample_bilinear2d(4, 4, false)?.dims(), [1, 1, 4, 4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_bilinear2d(&self, height: usize, width: usize, align_corners: bool) -> Result<Self, Error> {
        self.interpolate(&[height, width], Interpolation::Linear { align_corners })
    }

    /// Images `[N, C, H, W]` of another size, mixed from sixteen neighbours.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_bicubic2d(&self, height: usize, width: usize, align_corners: bool) -> Result<Self, Error> {
        self.interpolate(&[height, width], Interpolation::Cubic { align_corners })
    }
}

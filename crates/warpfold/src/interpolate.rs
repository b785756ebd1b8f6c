//! Images of other sizes.

use warpfold_kernels::Error;
use warpfold_kernels::pooling::Kind;

use crate::{ImageLayout, Pool, Tensor};

/// How elements between those of an image are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Interpolation {
    /// The nearest element, of any type: that at `⌊i·size/n⌋`.
    #[default]
    Nearest,
    /// A mixture of the two neighbours along each axis; of floats of 16 to 64 bits.
    Linear {
        /// Whether the centres of the first and last elements stay where they are, not the edges.
        align_corners: bool,
    },
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

    /// As [`Tensor::interpolate`], with channels where the layout says.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate_in(&self, sizes: &[usize], mode: Interpolation, layout: ImageLayout) -> Result<Self, Error> {
        let kind = match mode {
            Interpolation::Nearest => Kind::Nearest,
            Interpolation::Linear { align_corners } => Kind::Linear { align_corners },
        };
        Pool::interpolation(kind, sizes).layout(layout).run(self)
    }

    /// Signals `[N, C, L]` of another length, by the nearest element.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_nearest1d(&self, len: usize) -> Result<Self, Error> {
        self.interpolate(&[len], Interpolation::Nearest)
    }

    /// As [`Tensor::upsample_nearest1d`], as candle's.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate1d(&self, len: usize) -> Result<Self, Error> {
        self.upsample_nearest1d(len)
    }

    /// Images `[N, C, H, W]` of another size, by the nearest element.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_nearest2d(&self, height: usize, width: usize) -> Result<Self, Error> {
        self.interpolate(&[height, width], Interpolation::Nearest)
    }

    /// As [`Tensor::upsample_nearest2d`], as candle's.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn interpolate2d(&self, height: usize, width: usize) -> Result<Self, Error> {
        self.upsample_nearest2d(height, width)
    }

    /// Images `[N, C, H, W]` of another size, mixed from four neighbours.
    ///
    /// # Errors
    /// Those of [`Tensor::interpolate`].
    pub fn upsample_bilinear2d(&self, height: usize, width: usize, align_corners: bool) -> Result<Self, Error> {
        self.interpolate(&[height, width], Interpolation::Linear { align_corners })
    }
}

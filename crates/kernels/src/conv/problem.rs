//! A convolution as a value: types, sizes, layout, window, epilogue.

use std::fmt;

use crate::matmul::{Epilogue, F32Math, Matrix, Problem as Product};
use crate::{Dtype, Error, ErrorKind};

/// Where the channels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// Before the pixels: images `[N, C, H, W]`, filters `[K, C, R, S]`.
    #[default]
    Nchw,
    /// Behind the pixels: images `[N, H, W, C]`, filters `[K, R, S, C]`.
    Nhwc,
}

impl Layout {
    /// Elements from one channel, row and column to the next.
    pub(super) const fn steps(self, channels: u64, [height, width]: [u64; 2]) -> [u64; 3] {
        match self {
            Self::Nchw => [height * width, width, 1],
            Self::Nhwc => [1, width * channels, channels],
        }
    }
}

/// How a filter walks over an image: down and across.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// Pixels from one position of the filter to the next.
    pub stride: [u32; 2],
    /// Zeros on either side of the image.
    pub padding: [u32; 2],
    /// Pixels from one element of the filter to the next.
    pub dilation: [u32; 2],
}

impl Default for Window {
    fn default() -> Self {
        Self { stride: [1, 1], padding: [0, 0], dilation: [1, 1] }
    }
}

/// A convolution of tensors without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The element type of images and filters.
    pub dtype: Dtype,
    /// The element type of the result, and of the epilogue's inputs.
    pub result: Dtype,
    /// Where the channels lie.
    pub layout: Layout,
    /// Images.
    pub images: u64,
    /// Channels of an image.
    pub channels: u64,
    /// Height and width of an image.
    pub size: [u64; 2],
    /// Filters: channels of the result.
    pub filters: u64,
    /// Height and width of a filter.
    pub filter: [u64; 2],
    /// Groups of channels, each with its filters.
    pub groups: u64,
    /// How the filters walk.
    pub window: Window,
    /// How exactly images and filters of `f32` are taken.
    pub f32_math: F32Math,
    /// What is done to the sums. Its first input is a bias, a number for each filter; a second one
    /// is as large as the result.
    pub epilogue: Epilogue,
}

impl Problem {
    /// Height and width of the result; none where the filter does not fit.
    #[must_use]
    pub fn result_size(&self) -> [u64; 2] {
        [0, 1].map(|i| {
            let Window { stride, dilation, .. } = self.window;
            let reach = (self.filter[i].max(1) - 1).saturating_mul(dilation[i].into()).saturating_add(1);
            let room = self.padded(i).checked_sub(reach);
            room.map_or(0, |room| room / u64::from(stride[i]) + 1)
        })
    }

    /// Height or width of an image with its padding.
    fn padded(&self, i: usize) -> u64 {
        self.size[i].saturating_add(2 * u64::from(self.window.padding[i]))
    }

    /// Multiply-adds of a result.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.channels / self.groups * self.filter[0] * self.filter[1]
    }

    /// Elements of the result.
    #[must_use]
    pub fn num_results(&self) -> u64 {
        self.images * self.filters * self.num_pixels()
    }

    /// Pixels of a channel of the result.
    pub(super) fn num_pixels(&self) -> u64 {
        self.result_size().iter().product()
    }

    /// Multiplications and additions.
    #[must_use]
    pub fn flops(&self) -> u64 {
        2 * self.num_results() * self.depth()
    }

    /// Refuses what has no result, whatever the device.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for element types without kernels, [`ErrorKind::Operand`] for
    /// sizes that do not fit each other or the kernels.
    pub fn check(&self) -> Result<(), Error> {
        let Window { stride, dilation, .. } = self.window;
        if !matches!(self.dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64) {
            return Err(ErrorKind::Unsupported { op: "conv2d".to_owned(), dtype: self.dtype }.into());
        }
        if stride.contains(&0) || dilation.contains(&0) {
            return Err(refused("strides and dilations are 1 at least".to_owned()));
        }
        if self.groups == 0 || !self.channels.is_multiple_of(self.groups) || !self.filters.is_multiple_of(self.groups) {
            let Self { groups, channels, filters, .. } = self;
            return Err(refused(format!("{groups} groups do not divide {channels} channels and {filters} filters")));
        }
        if self.filter.contains(&0) || self.size.contains(&0) {
            return Err(refused("an image and a filter have a pixel at least".to_owned()));
        }
        if self.result_size().contains(&0) {
            let ([h, w], [r, s]) = (self.size, self.filter);
            return Err(refused(format!("a filter of {r} x {s} does not fit an image of {h} x {w}, padded")));
        }
        if !self.is_counted() {
            return Err(refused("an image has more elements than the kernels count".to_owned()));
        }
        let (epilogue, found) = (&self.epilogue, self.epilogue.num_inputs());
        if found > 2 {
            return Err(refused(format!("the epilogue ({epilogue}) takes {found} inputs; at most 2 are possible")));
        }
        if epilogue.gate_activation().is_some() {
            return Err(refused("a convolution has no gate".to_owned()));
        }
        epilogue.check(self.accumulator())
    }

    /// The type that products are added up in.
    pub(super) const fn accumulator(&self) -> Dtype {
        if matches!(self.dtype, Dtype::F64) { Dtype::F64 } else { Dtype::F32 }
    }

    /// Whether 32 bits count what the kernels count in them: the elements of an image and of its
    /// result, places beside the image, the bytes of a filter.
    fn is_counted(&self) -> bool {
        let Self { dtype, images, channels, size: [h, w], filters, filter: [r, s], groups, .. } = *self;
        let [p, q] = self.result_size();
        let fits = |factors: &[u64], most: u64| {
            let product = factors.iter().try_fold(1_u64, |product, factor| product.checked_mul(*factor));
            product.is_some_and(|product| product <= most)
        };
        let signed =
            [&[h, w, channels][..], &[p, q, filters], &[self.padded(0)], &[self.padded(1)], &[images], &[filters]];
        signed.into_iter().all(|factors| fits(factors, i32::MAX as u64))
            && fits(&[r, s, channels / groups, dtype.bytes()], u32::MAX.into())
    }

    /// The product of matrices that it is: filters times pixels where the channels lie before the
    /// pixels, else pixels times filters, so that neighbours in a row of the result lie side by
    /// side. `groups` groups, each with its part of the filters.
    pub(super) fn product(&self, groups: u64) -> Product {
        let (pixels, filters, all) = (self.num_pixels(), self.filters / groups.max(1), self.filters);
        let image = (pixels * all) as i64;
        let dtype = self.result;
        let strides = |filter: u64, pixel: u64, image: i64| {
            let (filter, pixel) = (filter as i64, pixel as i64);
            let group = filters as i64 * filter;
            let (row_stride, column_stride) = match self.layout {
                Layout::Nchw => (filter, pixel),
                Layout::Nhwc => (pixel, filter),
            };
            Matrix { row_stride, column_stride, ..Matrix::rows(dtype, 0) }.in_batch([group, image, 0])
        };
        let whole = match self.layout {
            Layout::Nchw => strides(pixels, 1, image),
            Layout::Nhwc => strides(1, all, image),
        };
        let (m, n) = match self.layout {
            Layout::Nchw => (filters, pixels),
            Layout::Nhwc => (pixels, filters),
        };
        self.product_of([m, n, self.depth()], whole, strides(1, 0, 0)).in_batch([groups, self.images, 1])
    }

    /// A product with the epilogue, given where the result and the bias lie.
    pub(super) fn product_of(&self, [m, n, k]: [u64; 3], whole: Matrix, bias: Matrix) -> Product {
        let inputs = [bias, whole][..self.epilogue.num_inputs()].to_vec();
        Product { c: whole, inputs, epilogue: self.epilogue.clone(), ..Product::new(self.dtype, m, n, k) }
    }
}

pub(super) fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "conv2d", reason }.into()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { images, channels, size: [h, w], filters, filter: [r, s], .. } = self;
        let is_tf32 = self.dtype == Dtype::F32 && self.f32_math == F32Math::Tf32;
        let dtype = if is_tf32 { "tf32".to_owned() } else { self.dtype.to_string() };
        match self.layout {
            Layout::Nchw => write!(f, "{dtype} [{images}, {channels}, {h}, {w}]")?,
            Layout::Nhwc => write!(f, "{dtype} [{images}, {h}, {w}, {channels}]")?,
        }
        write!(f, " with {filters} filters of {r} x {s}")?;
        if self.groups > 1 {
            write!(f, " in {} groups", self.groups)?;
        }
        Ok(())
    }
}

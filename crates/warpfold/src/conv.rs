//! Convolution of images.

use warpfold_kernels::conv::{Conv, Layout, Problem, Window};
use warpfold_kernels::matmul::{Activation, Epilogue, F32Math};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

/// Convolutions with the arguments that candle's functions of these names take, the same in every
/// direction; [`Conv2d`] has all the rest: two of each, layouts, a bias, an epilogue.
impl Tensor {
    /// The convolution of images `[N, C, H, W]` with filters `[K, C / groups, R, S]`.
    ///
    /// ```
    /// use warpfold::{Device, Dtype, Profile, Tensor};
    ///
    /// let image = Tensor::ones((1, 1, 4, 4), Dtype::F32, &Device::virtual_gpu(Profile::H200))?;
    /// let filter = image.narrow(2, 0, 3)?.narrow(3, 0, 3)?;
    /// let [padding, stride, dilation, groups] = [1, 2, 1, 1];
    /// let sums = image.conv2d(&filter, padding, stride, dilation, groups)?;
    /// assert_eq!(sums.to_vec::<f32>()?, [4.0, 6.0, 6.0, 9.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Conv2d::run`].
    pub fn conv2d(
        &self,
        filters: &Self,
        padding: usize,
        stride: usize,
        dilation: usize,
        groups: usize,
    ) -> Result<Self, Error> {
        let [padding, stride, dilation] = words("conv2d", [padding, stride, dilation])?;
        let conv = Conv2d::new().padding([padding; 2]).stride([stride; 2]).dilation([dilation; 2]);
        conv.groups(groups).run(self, filters)
    }

    /// The convolution of signals `[N, C, L]` with filters `[K, C / groups, S]`.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// let filter = Tensor::ones((1, 1, 3), DType::F32, &device)?;
    /// assert_eq!(v.reshape((1, 1, 3))?.conv1d(&filter, 0, 1, 1, 1)?.to_vec::<f32>()?, [6.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Conv2d::run`].
    pub fn conv1d(
        &self,
        filters: &Self,
        padding: usize,
        stride: usize,
        dilation: usize,
        groups: usize,
    ) -> Result<Self, Error> {
        let [padding, stride, dilation] = words("conv1d", [padding, stride, dilation])?;
        let conv = Conv2d::new().padding([0, padding]).stride([1, stride]).dilation([1, dilation]);
        conv.groups(groups).run(&self.unsqueeze(2)?, &filters.unsqueeze(2)?)?.squeeze(2)
    }

    /// The transposed convolution of images `[N, C, H, W]` with filters `[C, K, R, S]`: what a
    /// convolution of the same arguments has as its gradient. Zeros go between the pixels, and a
    /// convolution follows.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.conv_transpose2d(&Tensor::ones((1, 1, 1, 1), DType::F32, &device)?, 0, 0, 1, 1)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Conv2d::run`].
    pub fn conv_transpose2d(
        &self,
        filters: &Self,
        padding: usize,
        output_padding: usize,
        stride: usize,
        dilation: usize,
    ) -> Result<Self, Error> {
        let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "conv_transpose2d", reason });
        let (&[_, _, height, width], &[_, _, r, s]) = (self.shape(), filters.shape()) else {
            let (images, filters) = (self.shape(), filters.shape());
            return Err(refused(format!("images and filters have 4 axes, not {images:?} and {filters:?}")));
        };
        if stride == 0 || output_padding >= stride.max(dilation) {
            return Err(refused(format!("a stride of {stride} and an output padding of {output_padding}")));
        }
        let (mut tensor, flipped) = (self.clone(), filters.flip([2, 3])?.transpose(0, 1)?.contiguous()?);
        for axis in [2, 3] {
            let gapped = tensor.unsqueeze(axis + 1)?.pad_with_zeros(axis + 1, 0, stride - 1)?;
            let len = (tensor.dim(axis)? * stride).saturating_sub(stride - 1);
            tensor = gapped.flatten(axis, axis + 1)?.narrow(axis, 0, len)?;
        }
        // Every place that a filter reaches; the padding is then cut off.
        for (axis, filter) in [(2, r), (3, s)] {
            let around = dilation * filter.saturating_sub(1);
            tensor = tensor.pad_with_zeros(axis, around, around + output_padding)?;
        }
        let full = tensor.conv2d(&flipped, 0, 1, dilation, 1)?;
        let cut = |tensor: Self, axis, size: usize, filter: usize| {
            let reach = size.saturating_sub(1) * stride + dilation * filter.saturating_sub(1) + 1 + output_padding;
            let len = reach.checked_sub(2 * padding).ok_or_else(|| refused(format!("a padding of {padding}")))?;
            tensor.narrow(axis, padding, len)
        };
        cut(cut(full, 2, height, r)?, 3, width, s)
    }
}

/// Numbers as a [`Window`] has them.
fn words<const N: usize>(operator: &'static str, numbers: [usize; N]) -> Result<[u32; N], Error> {
    let mut words = [0; N];
    for (word, number) in words.iter_mut().zip(numbers) {
        *word = u32::try_from(number)
            .map_err(|_| Error::from(ErrorKind::Operand { operator, reason: format!("{number} pixels") }))?;
    }
    Ok(words)
}

/// A convolution (in fact a correlation, as in every such library) with an epilogue, in one launch:
/// `activation(images * filters + bias) + residual`.
///
/// ```
/// use warpfold::{Conv2d, Device, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let image = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2], &device)?;
/// let ones = Tensor::from_slice(&[1.0_f32; 9], &[1, 1, 3, 3], &device)?;
/// let sums = Conv2d::new().padding([1, 1]).run(&image, &ones)?;
/// assert_eq!(sums.to_vec::<f32>()?, [10.0; 4]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Conv2d {
    window: Window,
    groups: Option<usize>,
    layout: Layout,
    bias: Option<Tensor>,
    activation: Option<Activation>,
    residual: Option<Tensor>,
    dtype: Option<Dtype>,
    f32_math: F32Math,
}

impl Conv2d {
    /// One group, every pixel, no padding, channels before the pixels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pixels from one position of the filter to the next, down and across.
    #[must_use]
    pub const fn stride(mut self, stride: [u32; 2]) -> Self {
        self.window.stride = stride;
        self
    }

    /// Zeros above and below, left and right.
    #[must_use]
    pub const fn padding(mut self, padding: [u32; 2]) -> Self {
        self.window.padding = padding;
        self
    }

    /// Pixels from one element of the filter to the next, down and across.
    #[must_use]
    pub const fn dilation(mut self, dilation: [u32; 2]) -> Self {
        self.window.dilation = dilation;
        self
    }

    /// Groups of channels, each with its filters: as many as channels for a depthwise convolution.
    #[must_use]
    pub const fn groups(mut self, groups: usize) -> Self {
        self.groups = Some(groups);
        self
    }

    /// Sets the memory layout: with [`Layout::Nhwc`] images are `[N, H, W, C]`, filters
    /// `[K, R, S, C]`.
    #[must_use]
    pub const fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Adds a number for each filter before the activation: `[K]`.
    #[must_use]
    pub fn bias(mut self, bias: &Tensor) -> Self {
        self.bias = Some(bias.clone());
        self
    }

    /// Sets the activation of the epilogue.
    #[must_use]
    pub const fn activation(mut self, activation: Activation) -> Self {
        self.activation = Some(activation);
        self
    }

    /// Adds a tensor of the result's shape after the activation. It needs a bias.
    #[must_use]
    pub fn residual(mut self, residual: &Tensor) -> Self {
        self.residual = Some(residual.clone());
        self
    }

    /// The element type of the result: that of the images unless said. Bias and residual have it as
    /// well.
    #[must_use]
    pub const fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = Some(dtype);
        self
    }

    /// Images and filters of `f32` may go to tensor cores without their low 13 bits (tf32), where
    /// the device has them and the plan finds it worth what it takes to lay them so: with their
    /// channels last.
    #[must_use]
    pub const fn tf32(mut self) -> Self {
        self.f32_math = F32Math::Tf32;
        self
    }

    /// Convolves.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors that do not fit each other,
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`] unless they are floats of 16 to 64
    /// bits, [`ErrorKind::Operand`] for filters that fit nowhere and groups that divide nothing;
    /// what the device says.
    pub fn run(&self, images: &Tensor, filters: &Tensor) -> Result<Tensor, Error> {
        let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "conv2d", reason });
        filters.expect_dtype("the filters", images.dtype())?;
        let (&[n, i, j, l], &[k, r, s, t]) = (images.shape(), filters.shape()) else {
            let (images, filters) = (images.shape(), filters.shape());
            return Err(refused(format!("images and filters have 4 axes, not {images:?} and {filters:?}")));
        };
        let ([channels, height, width], [of_group, down, across]) = match self.layout {
            Layout::Nchw => ([i, j, l], [r, s, t]),
            Layout::Nhwc => ([l, i, j], [t, r, s]),
        };
        let groups = self.groups.unwrap_or(1);
        if of_group.checked_mul(groups) != Some(channels) {
            let (images, filters) = (images.shape(), filters.shape());
            return Err(refused(format!(
                "{channels} channel(s) of images, and {groups} group(s) of {of_group} of filters: the images are \
                 {images:?}, the filters {filters:?}"
            )));
        }
        if self.residual.is_some() && self.bias.is_none() {
            return Err(refused("a residual needs a bias before it".to_owned()));
        }
        let inputs: Vec<&Tensor> = self.bias.iter().chain(&self.residual).collect();
        let result = self.dtype.unwrap_or(images.dtype());
        let problem = Problem {
            dtype: images.dtype(),
            result,
            layout: self.layout,
            images: n as u64,
            channels: channels as u64,
            size: [height as u64, width as u64],
            filters: k as u64,
            filter: [down as u64, across as u64],
            groups: groups as u64,
            window: self.window,
            f32_math: self.f32_math,
            epilogue: self.epilogue(),
        };
        problem.check()?;
        let [p, q] = problem.result_size().map(|size| size as usize);
        let shape = match self.layout {
            Layout::Nchw => [n, k, p, q],
            Layout::Nhwc => [n, p, q, k],
        };
        for (input, (name, expected)) in inputs.iter().zip([("the bias", &[k][..]), ("the residual", &shape)]) {
            input.expect_dtype(name, result)?;
            if input.shape() != expected {
                return Err(refused(format!("{name} is {:?}, not {expected:?}", input.shape())));
            }
        }
        let [images, filters] = [aligned(images)?, aligned(filters)?];
        let inputs: Vec<Tensor> = inputs.into_iter().map(aligned).collect::<Result<_, _>>()?;
        let mut output = Allocated::new(images.queue(), result, &shape)?;
        let tensors = [&images, &filters].into_iter().chain(&inputs);
        let views = tensors.map(|tensor| tensor.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
        images.queue().run(&Conv, problem, &views, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    fn epilogue(&self) -> Epilogue {
        let mut epilogue = Epilogue::new();
        if self.bias.is_some() {
            epilogue = epilogue.add();
        }
        if let Some(activation) = self.activation {
            epilogue = epilogue.activate(activation);
        }
        if self.residual.is_some() { epilogue.add() } else { epilogue }
    }
}

/// A tensor without gaps at a multiple of 16 bytes: itself, or a copy.
fn aligned(tensor: &Tensor) -> Result<Tensor, Error> {
    let is_fine = tensor.layout().is_contiguous() && tensor.address().is_multiple_of(16);
    if is_fine { Ok(tensor.clone()) } else { tensor.copy() }
}

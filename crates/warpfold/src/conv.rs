//! Convolution of images.

use warpfold_kernels::conv::{Conv, Layout, Problem, Window};
use warpfold_kernels::matmul::{Activation, Epilogue, F32Math};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// The convolution of images `[N, C, H, W]` with filters `[K, C, R, S]`, every pixel and no
    /// padding: see [`Conv2d`].
    ///
    /// # Errors
    /// Those of [`Conv2d::run`].
    pub fn conv2d(&self, filters: &Self) -> Result<Self, Error> {
        Conv2d::new().run(self, filters)
    }

    /// The convolution of signals `[N, C, L]` with filters `[K, C, S]`, every element and no
    /// padding; for others [`Conv2d`] with an axis of size 1.
    ///
    /// # Errors
    /// Those of [`Conv2d::run`].
    pub fn conv1d(&self, filters: &Self) -> Result<Self, Error> {
        self.unsqueeze(2)?.conv2d(&filters.unsqueeze(2)?)?.squeeze(2)
    }
}

/// A convolution (in fact a correlation, as in every such library) with an epilogue, in one launch:
/// `activation(images * filters + bias) + residual`.
///
/// ```
/// use warpfold::{Conv2d, Device, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let image = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
/// let ones = Tensor::from_slice(&device, &[1.0_f32; 9], &[1, 1, 3, 3])?;
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

    /// Where the channels lie: with [`Layout::Nhwc`] images are `[N, H, W, C]`, filters
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

    /// What is done to the sums.
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

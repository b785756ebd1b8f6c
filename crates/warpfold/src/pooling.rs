//! Pooling of signals, images and volumes.

use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::pooling::{Kind, Pooling, Problem};
use warpfold_kernels::reductions::{Options, Reduction};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{Axes, ImageLayout, Shape, Tensor};

/// Meaning of the positions that a pooling returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PoolIndices {
    /// The elements of the whole tensor in C order, as ONNX's `MaxPool` has it.
    #[default]
    Tensor,
    /// The same, but that rows and columns of a channel change places (ONNX's `storage_order` 1).
    ColumnMajor,
    /// The elements of a channel of an image, as PyTorch has it.
    Channel,
}

/// The windows of a pooling.
#[derive(Debug, Clone)]
enum Windows {
    Of(Vec<usize>),
    Adaptive(Vec<usize>),
}

/// Pooling over the last one to three axes of `[N, C, …]`, or with [`ImageLayout::Nhwc`] over those
/// between `N` and `C`: windows of a size, or as many as the result shall have (adaptive).
///
/// Lists have one number for all axes, or one per axis; a padding also one before and one after for
/// each axis, all those before first. Unless said otherwise a window moves by 1 (as in ONNX;
/// PyTorch moves it by its size), without padding and dilation. Semantics and the values of windows
/// without elements: [`pooling`](warpfold_kernels::pooling).
///
/// ```
/// use warpfold::{Device, Pool, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let pixels: Vec<f32> = (0..16).map(|i| i as f32).collect();
/// let image = Tensor::from_slice(&pixels, &[1, 1, 4, 4], &device)?;
/// let (largest, at) = Pool::max(&[2]).stride(&[2]).run_with_indices(&image)?;
/// assert_eq!(largest.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
/// assert_eq!(at.to_vec::<i64>()?, [5, 7, 13, 15]);
/// assert_eq!(Pool::adaptive_mean(&[1, 2]).run(&image)?.to_vec::<f32>()?, [6.5, 8.5]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    kind: Kind,
    windows: Windows,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    ceil: bool,
    ratios: Vec<Option<u64>>,
    layout: ImageLayout,
    indices: PoolIndices,
}

impl Pool {
    fn new(kind: Kind, windows: Windows) -> Self {
        let (indices, layout) = (PoolIndices::default(), ImageLayout::default());
        let (stride, padding, dilation, ratios) = (vec![1], vec![0], vec![1], vec![None]);
        Self { kind, windows, stride, padding, dilation, ceil: false, ratios, layout, indices }
    }

    /// The largest element of each window.
    #[must_use]
    pub fn max(window: &[usize]) -> Self {
        Self::new(Kind::Max, Windows::Of(window.to_vec()))
    }

    /// The mean of each window.
    #[must_use]
    pub fn mean(window: &[usize]) -> Self {
        Self::new(Kind::Mean { include_padding: false }, Windows::Of(window.to_vec()))
    }

    /// `(Σ |x|^p)^(1/p)` of each window.
    #[must_use]
    pub fn norm(p: u32, window: &[usize]) -> Self {
        Self::new(Kind::Norm { p }, Windows::Of(window.to_vec()))
    }

    /// The largest element of each of so many windows, which share the axes evenly.
    #[must_use]
    pub fn adaptive_max(windows: &[usize]) -> Self {
        Self::new(Kind::Max, Windows::Adaptive(windows.to_vec()))
    }

    /// The mean of each of so many windows.
    #[must_use]
    pub fn adaptive_mean(windows: &[usize]) -> Self {
        Self::new(Kind::Mean { include_padding: false }, Windows::Adaptive(windows.to_vec()))
    }

    /// Interpolation to these sizes, and by these ratios where they are not the sizes'.
    pub(crate) fn interpolation(kind: Kind, sizes: &[usize], ratios: &[Option<u64>]) -> Self {
        Self { ratios: ratios.to_vec(), ..Self::new(kind, Windows::Adaptive(sizes.to_vec())) }
    }

    /// Elements from one window to the next.
    #[must_use]
    pub fn stride(mut self, stride: &[usize]) -> Self {
        self.stride = stride.to_vec();
        self
    }

    /// Elements around the image that a window may cover.
    #[must_use]
    pub fn padding(mut self, padding: &[usize]) -> Self {
        self.padding = padding.to_vec();
        self
    }

    /// Elements from one of a window to the next.
    #[must_use]
    pub fn dilation(mut self, dilation: &[usize]) -> Self {
        self.dilation = dilation.to_vec();
        self
    }

    /// A last window may leave the padded image, if it begins before the padding at its end.
    #[must_use]
    pub const fn ceil(mut self) -> Self {
        self.ceil = true;
        self
    }

    /// A mean counts padding as zeros.
    #[must_use]
    pub const fn count_padding(mut self) -> Self {
        if matches!(self.kind, Kind::Mean { .. }) {
            self.kind = Kind::Mean { include_padding: true };
        }
        self
    }

    /// Sets the memory layout.
    #[must_use]
    pub const fn layout(mut self, layout: ImageLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the meaning of the positions.
    #[must_use]
    pub const fn indices(mut self, indices: PoolIndices) -> Self {
        self.indices = indices;
        self
    }

    /// Pools.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors of other ranks, lists of other lengths, windows that fit
    /// nowhere, and a padding that is not less than the window; [`ErrorKind::Unsupported`] for
    /// means and norms of anything but floats of 16 to 64 bits.
    pub fn run(&self, images: &Tensor) -> Result<Tensor, Error> {
        // One window is a reduction, which blocks share.
        if let Windows::Adaptive(windows) = &self.windows
            && windows.iter().all(|windows| *windows == 1)
            && matches!(self.kind, Kind::Max | Kind::Mean { .. })
            && !images.is_empty()
        {
            self.check(images, false)?;
            let reduction = if self.kind == Kind::Max { Reduction::Max } else { Reduction::Mean };
            let first = if self.layout == ImageLayout::Nchw { 2 } else { 1 };
            let axes: Vec<isize> = (first..first + images.rank() as isize - 2).collect();
            let results = images.reduce(reduction, Axes::Of(&axes), Options::default())?;
            return results[0].keep_axes(Axes::Of(&axes), images.rank());
        }
        Ok(self.pooled(images, false)?.0)
    }

    /// The largest elements and their positions, as `i64`.
    ///
    /// # Errors
    /// Those of [`Pool::run`]; [`ErrorKind::Operand`] for means and norms.
    pub fn run_with_indices(&self, images: &Tensor) -> Result<(Tensor, Tensor), Error> {
        if self.kind != Kind::Max {
            return Err(refused("only the largest element of a window has a position".to_owned()));
        }
        let (results, positions) = self.pooled(images, true)?;
        Ok((results, positions.expect("positions were asked for")))
    }

    /// Checks the images; returns a problem over `[N, C, D, H, W]`, and the shape of the results.
    fn check(&self, images: &Tensor, has_positions: bool) -> Result<(Problem, Vec<usize>), Error> {
        let rank = images.rank();
        let axes = rank.wrapping_sub(2);
        if !(1..=3).contains(&axes) {
            return Err(refused(format!(
                "images have one to three axes beside N and C, not the shape {:?}",
                images.shape()
            )));
        }
        let order = order(rank, self.layout);
        let five = |list: &[usize], missing: usize| {
            let mut all = [missing; 5];
            order.iter().enumerate().for_each(|(axis, place)| all[*place] = list[axis]);
            all
        };
        let sizes = five(images.shape(), 1);
        let is_adaptive = matches!(self.windows, Windows::Adaptive(_));
        let (window, windows) = match &self.windows {
            Windows::Of(window) => (spread("windows", window, axes, 1)?, None),
            Windows::Adaptive(windows) => ([1; 3], Some(spread("windows", windows, axes, 1)?)),
        };
        let (stride, dilation) =
            (spread("strides", &self.stride, axes, 1)?, spread("dilations", &self.dilation, axes, 1)?);
        let (before, after) = match self.padding.len() {
            both if both == 2 * axes => {
                let (before, after) = self.padding.split_at(axes);
                (spread("paddings", before, axes, 0)?, spread("paddings", after, axes, 0)?)
            }
            _ => {
                let padding = spread("paddings", &self.padding, axes, 0)?;
                (padding, padding)
            }
        };
        let mut counts = [sizes[0], sizes[1], 1, 1, 1];
        for axis in 3 - axes..3 {
            let size = sizes[2 + axis] as u64;
            let window = [window[axis], stride[axis], dilation[axis], before[axis], after[axis]];
            counts[2 + axis] = match windows {
                Some(windows) => windows[axis] as usize,
                None => Problem::windows(size, window, self.ceil).ok_or_else(|| {
                    refused(format!(
                        "a window of {} (dilation {}, stride {}) does not fit {size} elements, padded",
                        window[0], window[2], window[1]
                    ))
                })? as usize,
            };
        }
        let shape: Vec<usize> = order.iter().map(|place| counts[*place]).collect();
        let spec = |dtype, strides: &[isize], sizes: [usize; 5], address| {
            let mut all = [0; 5];
            order.iter().enumerate().for_each(|(axis, place)| all[*place] = strides[axis]);
            Ok::<_, Error>(TensorSpec::new(dtype, Layout::new(sizes.to_vec(), all.to_vec())?, address))
        };
        let mut ratios = [None; 3];
        if let [ratio] = self.ratios[..] {
            ratios[3 - axes..].fill(ratio);
        } else {
            ratios[3 - axes..].copy_from_slice(&self.ratios);
        }
        let problem = Problem {
            kind: self.kind,
            images: spec(images.dtype(), images.layout().strides(), sizes, images.address())?,
            results: spec(images.dtype(), Layout::contiguous(&shape)?.strides(), counts, 0)?,
            positions: has_positions.then(|| self.positions(images, &order, sizes)),
            is_adaptive,
            ratios,
            window,
            stride,
            dilation,
            before,
            after,
        };
        Ok((problem, shape))
    }

    /// From one image, channel, depth, row, column to the next in what positions count.
    fn positions(&self, images: &Tensor, order: &[usize], sizes: [usize; 5]) -> [i64; 5] {
        let [_, channels, depth, height, width] = sizes.map(|size| size as i64);
        let volume = depth * height * width;
        match self.indices {
            PoolIndices::Channel => [0, 0, height * width, width, 1],
            PoolIndices::ColumnMajor => [channels * volume, volume, 1, depth, depth * height],
            PoolIndices::Tensor => {
                let mut strides = [0; 5];
                let mut stride = 1;
                for (place, size) in order.iter().zip(images.shape()).rev() {
                    strides[*place] = stride;
                    stride *= *size as i64;
                }
                strides
            }
        }
    }

    fn pooled(&self, images: &Tensor, has_positions: bool) -> Result<(Tensor, Option<Tensor>), Error> {
        let (problem, shape) = self.check(images, has_positions)?;
        let queue = images.queue();
        let mut results = Allocated::new(queue, images.dtype(), &shape)?;
        let mut positions = if has_positions { Some(Allocated::new(queue, Dtype::I64, &shape)?) } else { None };
        let mut outputs = vec![results.buffer.as_view_mut()];
        outputs.extend(positions.iter_mut().map(|positions| positions.buffer.as_view_mut()));
        queue.run(&Pooling, problem, &[Some(images.memory_view()?)], &mut outputs)?;
        Ok((results.finish(), positions.map(Allocated::finish)))
    }
}

/// Returns the position in `[N, C, D, H, W]` of each axis of a tensor.
fn order(rank: usize, layout: ImageLayout) -> Vec<usize> {
    let spatial = 5 - (rank - 2)..5;
    match layout {
        ImageLayout::Nchw => [0, 1].into_iter().chain(spatial).collect(),
        ImageLayout::Nhwc => [0].into_iter().chain(spatial).chain([1]).collect(),
    }
}

/// One number an axis, of axes that are not there `missing`.
fn spread(what: &str, list: &[usize], axes: usize, missing: u32) -> Result<[u32; 3], Error> {
    let mut all = [missing; 3];
    if list.len() != 1 && list.len() != axes {
        return Err(refused(format!("{axes} axes need {axes} {what} or one, not {}", list.len())));
    }
    for axis in 0..axes {
        let number = list[if list.len() == 1 { 0 } else { axis }];
        all[3 - axes + axis] =
            u32::try_from(number).map_err(|_| refused(format!("{what} of {number} are more than kernels count")))?;
    }
    Ok(all)
}

pub(crate) fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "pooling", reason }.into()
}

/// Poolings of images `[N, C, H, W]` by their usual names: a window is one number or a pair, and
/// the windows lie side by side unless a stride is said; [`Pool`] has all the rest.
impl Tensor {
    /// The largest element of each window.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let image = Tensor::arange(0_f32, 16.0, &Device::virtual_gpu(Profile::H200))?.reshape((1, 1, 4, 4))?;
    /// assert_eq!(image.max_pool2d(2)?.to_vec::<f32>()?, [5.0, 7.0, 13.0, 15.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn max_pool2d(&self, window: impl Into<Shape>) -> Result<Self, Error> {
        let window = window.into();
        self.max_pool2d_with_stride(&window, &window)
    }

    /// The largest element of each window.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.max_pool2d_with_stride(2, 1)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn max_pool2d_with_stride(&self, window: impl Into<Shape>, stride: impl Into<Shape>) -> Result<Self, Error> {
        Pool::max(window.into().sizes()).stride(stride.into().sizes()).run(self)
    }

    /// The mean of each window.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.avg_pool2d(2)?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn avg_pool2d(&self, window: impl Into<Shape>) -> Result<Self, Error> {
        let window = window.into();
        self.avg_pool2d_with_stride(&window, &window)
    }

    /// The mean of each window.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.avg_pool2d_with_stride(2, 1)?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn avg_pool2d_with_stride(&self, window: impl Into<Shape>, stride: impl Into<Shape>) -> Result<Self, Error> {
        Pool::mean(window.into().sizes()).stride(stride.into().sizes()).run(self)
    }

    /// The largest element of each window of signals `[N, C, L]`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.reshape((1, 1, 3))?.max_pool1d(3)?.to_vec::<f32>()?, [3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn max_pool1d(&self, window: usize) -> Result<Self, Error> {
        Pool::max(&[window]).stride(&[window]).run(self)
    }

    /// The mean of each window of signals `[N, C, L]`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.reshape((1, 1, 3))?.avg_pool1d(3)?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn avg_pool1d(&self, window: usize) -> Result<Self, Error> {
        Pool::mean(&[window]).stride(&[window]).run(self)
    }

    /// The mean of each of so many windows, which share the axes evenly.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.adaptive_avg_pool2d((1, 1))?.to_vec::<f32>()?, [2.5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn adaptive_avg_pool2d(&self, windows: impl Into<Shape>) -> Result<Self, Error> {
        Pool::adaptive_mean(windows.into().sizes()).run(self)
    }

    /// The largest element of each of so many windows, which share the axes evenly.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.reshape((1, 1, 2, 2))?.adaptive_max_pool2d((1, 1))?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pool::run`].
    pub fn adaptive_max_pool2d(&self, windows: impl Into<Shape>) -> Result<Self, Error> {
        Pool::adaptive_max(windows.into().sizes()).run(self)
    }
}

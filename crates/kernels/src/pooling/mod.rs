//! Pooling: the largest, the mean or the norm of the elements under a window that walks over one to
//! three axes of an image; and interpolation of an image to other sizes.
//!
//! Contract: images `[N, C, D, H, W]`, of fewer axes with sizes of 1 before the height, of any
//! strides; results of the same type, of any strides likewise, so that channels may be last in
//! either. Semantics are those of ONNX's `MaxPool`, `AveragePool` and `LpPool`: padding takes no
//! part in a maximum or a norm, and in a mean only where its count includes it; a window of
//! ceiling mode may leave the padding behind, and no mean counts what is outside of that. A NaN
//! under a window is its maximum. Positions are those of the first of equals (of NaN the first);
//! under a window without an element the maximum is -∞ or the smallest integer at -1, the mean
//! NaN. Adaptive windows are those of PyTorch: from `⌊i·size/n⌋` to before `⌈(i+1)·size/n⌉`.
//!
//! Interpolation is PyTorch's, too. The nearest element is the one at `⌊i·size/n⌋`, exactly
//! (PyTorch multiplies by a rounded `f32` quotient, which may give the one before); `exact` (as
//! PyTorch's `nearest-exact`) at `⌊(i + 1/2)·size/n⌋`. Linear interpolation looks at
//! `(i + 1/2)·size/n - 1/2`, not below 0, or with aligned corners at `i·(size-1)/(n-1)`, and mixes
//! its two neighbours along each axis; cubic interpolation mixes four, by cubic convolution with
//! `a = -3/4`, the elements at the edge going on outside of the image. A factor that makes no whole
//! size stands in for `n/size`, as it does there.
//!
//! A thread computes the results of one place, of several neighbouring channels where channels are
//! last. Windows are known when a kernel is built: those of few elements are unrolled, and places
//! are checked only along axes where a window can leave the image. Everything is computed in `f32`
//! at least, in the order of the image. Start with [`Pooling`].

mod kernel;

use warpfold_device::LaunchConfig;

use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, TensorSpec, grid_size, within_limit};
use crate::{Dtype, Error, ErrorKind, Shipped};

use kernel::{BLOCK, PoolArgs, PoolConfig, Ratio, Steps};

/// The family of poolings. The input is the image, outputs are the results and, where positions are
/// asked for, these, as `i64`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pooling;

/// What is made of the elements under a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The largest.
    Max,
    /// The mean.
    Mean {
        /// Whether padding counts.
        include_padding: bool,
    },
    /// `(Σ |x|^p)^(1/p)`.
    Norm {
        /// The exponent, from 1 to 64.
        p: u32,
    },
    /// Interpolation: the element that is nearest, of any type. Windows are adaptive.
    Nearest {
        /// Whether from the middle of an element of the result, not from its edge.
        exact: bool,
    },
    /// Interpolation: a mixture of the neighbours. Windows are adaptive.
    Linear {
        /// Whether the centres of the first and last elements stay where they are.
        align_corners: bool,
    },
    /// Interpolation: a mixture of four neighbours along each axis. Windows are adaptive.
    Cubic {
        /// Likewise.
        align_corners: bool,
    },
}

impl Kind {
    /// How an axis is walked along that interpolation makes larger or smaller.
    const fn interpolation(self, ratio: Ratio) -> Option<Steps> {
        match self {
            Self::Nearest { exact } => Some(Steps::Nearest { exact, ratio }),
            Self::Linear { align_corners } => Some(Steps::Linear { align_corners, ratio }),
            Self::Cubic { align_corners } => Some(Steps::Cubic { align_corners, ratio }),
            Self::Max | Self::Mean { .. } | Self::Norm { .. } => None,
        }
    }
}

/// Images and the windows that walk over their last three axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// What is made of a window.
    pub kind: Kind,
    /// `[N, C, D, H, W]`.
    pub images: TensorSpec,
    /// The same for the results, whose sizes say how many windows there are.
    pub results: TensorSpec,
    /// From one image, channel, depth, row, column to the next in what positions count; `None` if
    /// nobody asks for positions. They have the strides of the results.
    pub positions: Option<[i64; 5]>,
    /// The windows follow from the sizes of images and results; the fields below say nothing.
    pub is_adaptive: bool,
    /// Elements of the image per element of an interpolated result, as the bits of an `f64`; `None`
    /// for the quotient of their sizes.
    pub ratios: [Option<u64>; 3],
    /// Elements of a window.
    pub window: [u32; 3],
    /// From one window to the next.
    pub stride: [u32; 3],
    /// From one element of a window to the next.
    pub dilation: [u32; 3],
    /// Padding before the image.
    pub before: [u32; 3],
    /// Padding after it.
    pub after: [u32; 3],
}

impl Problem {
    /// How many windows there are along an axis of `size` elements: as many as fit the padded axis,
    /// or with `ceil` as begin in it and before the padding at its end; `None` if the window fits
    /// nowhere.
    #[must_use]
    pub fn windows(size: u64, [window, stride, dilation, before, after]: [u32; 5], ceil: bool) -> Option<u64> {
        let [stride, before] = [stride, before].map(u64::from);
        let extent = u64::from(dilation) * (u64::from(window).checked_sub(1)?) + 1;
        let free = (size + before + u64::from(after)).checked_sub(extent)?;
        if !ceil {
            return Some(free.checked_div(stride)? + 1);
        }
        let windows = if stride == 0 { return None } else { free.div_ceil(stride) + 1 };
        Some(if (windows - 1) * stride >= size + before { windows - 1 } else { windows })
    }

    /// Refuses what has no result.
    fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "pooling", reason }.into());
        let dtype = self.images.dtype;
        let is_taken = match self.kind {
            Kind::Max => dtype != Dtype::Bool,
            Kind::Nearest { .. } => true,
            Kind::Mean { .. } | Kind::Norm { .. } | Kind::Linear { .. } | Kind::Cubic { .. } => {
                dtype.is_float() && dtype.bytes() > 1
            }
        };
        if !is_taken {
            return Err(ErrorKind::Unsupported { op: "pooling".to_owned(), dtype }.into());
        }
        if matches!(self.kind, Kind::Norm { p } if !(1..=64).contains(&p)) {
            return refused("the exponent of a norm is from 1 to 64".to_owned());
        }
        if self.kind.interpolation(None).is_some() && !self.is_adaptive {
            return refused("interpolation has no windows of a size".to_owned());
        }
        let ([.., d, h, w], [.., od, oh, ow]) = (self.images.layout.shape(), self.results.layout.shape()) else {
            return refused("images and results have five axes".to_owned());
        };
        for (axis, (size, windows)) in [(*d, *od), (*h, *oh), (*w, *ow)].into_iter().enumerate() {
            if size == 0 || size > i32::MAX as usize / 4 || windows > i32::MAX as usize / 4 {
                return refused(format!("{size} elements along an axis are none, or more than the kernels count"));
            }
            let [window, stride, dilation] = [self.window, self.stride, self.dilation].map(|of| of[axis]);
            if self.is_adaptive {
                continue;
            }
            if window == 0 || stride == 0 || dilation == 0 {
                return refused("windows, strides and dilations are 1 at least".to_owned());
            }
            let extent = (u64::from(window) - 1) * u64::from(dilation) + 1;
            let most = u64::from(self.before[axis].max(self.after[axis]));
            if extent > i32::MAX as u64 / 4 || most >= extent {
                return refused(format!("a padding of {most} is not less than the window, which covers {extent}"));
            }
        }
        Ok(())
    }

    /// What the kernel is built for.
    fn config(&self) -> Result<(PoolConfig, u64), Error> {
        let bytes = self.images.dtype.bytes();
        let (sizes, results) = (self.images.layout.shape(), self.results.layout.shape());
        let [from, to] = [&self.images, &self.results].map(|spec| spec.layout.strides());
        let channels = sizes[1] as u64;
        let is_last = channels > 1 && to[1] == 1 && to[4] != 1;
        let divides = |width: u64| {
            let strides = from.iter().chain(to).enumerate().filter(|(i, _)| i % 5 != 1);
            let is_even = strides.into_iter().all(|(_, stride)| (stride.unsigned_abs() as u64).is_multiple_of(width));
            let is_aligned = [&self.images, &self.results].iter().all(|spec| spec.alignment() >= width * bytes);
            is_even && is_aligned && channels.is_multiple_of(width)
        };
        let is_vector = is_last && from[1] == 1 && self.positions.is_none();
        // Neighbouring channels of a thread.
        let widest = if is_vector { 16 / bytes } else { 1 };
        let width = [8, 4, 2].into_iter().find(|width| *width <= widest && divides(*width)).unwrap_or(1);
        let steps = [0, 1, 2].map(|axis| {
            let (size, windows) = (sizes[2 + axis] as u64, results[2 + axis] as u64);
            // Where the size stays, elements do, too; but PyTorch's cubic convolution heeds a
            // factor.
            let heeds_ratio = matches!(self.kind, Kind::Cubic { .. }) && self.ratios[axis].is_some();
            let is_resized = size != windows || heeds_ratio;
            if let Some(steps) = self.kind.interpolation(self.ratios[axis]).filter(|_| is_resized) {
                return steps;
            }
            if self.is_adaptive && !size.is_multiple_of(windows.max(1)) {
                return Steps::Adaptive;
            }
            if self.is_adaptive {
                let each = (size / windows.max(1)) as u32;
                let (window, stride, dilation, before, after) = (each, each, 1, 0, 0);
                return Steps::Regular { window, stride, dilation, before, after, leaves: false };
            }
            let of = |list: [u32; 3]| list[axis];
            let (window, stride, dilation) = (of(self.window), of(self.stride), of(self.dilation));
            let (before, after) = (of(self.before), of(self.after));
            let reach = (windows.max(1) - 1) * u64::from(stride) + u64::from(window - 1) * u64::from(dilation);
            let leaves = before > 0 || reach >= size;
            Steps::Regular { window, stride, dilation, before, after, leaves }
        });
        // An axis of one element is not there, unless a window of it may miss that element.
        let is_absent = |axis: usize| {
            let is_one = matches!(steps[axis], Steps::Regular { window: 1, leaves: false, .. });
            is_one && sizes[2 + axis] == 1 && results[2 + axis] == 1
        };
        let len: u64 = results.iter().map(|size| *size as u64).product::<u64>() / width;
        let config = PoolConfig {
            kind: self.kind,
            // Of what is moved only the bits count.
            dtype: if matches!(self.kind, Kind::Nearest { .. }) { self.images.dtype.bits() } else { self.images.dtype },
            steps,
            first_axis: (0..2).take_while(|axis| is_absent(*axis)).count(),
            has_positions: self.positions.is_some(),
            channels_last: is_last,
            width: width as u32,
            is_long: len + u64::from(BLOCK) > u64::from(u32::MAX),
        };
        Ok((config, len))
    }
}

impl Family for Pooling {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let (config, len) = problem.config()?;
        let Problem { images, results, positions, .. } = problem;
        let mut plan = Plan::new("pooling").choice(format_args!("{config:?}"));
        let [position_image, position_channel, position_axes @ ..] = positions.unwrap_or_default();
        let args = PoolArgs::<Planned> {
            images: plan.read("the images", images),
            results: plan.write("the results", results),
            positions: positions.map(|_| {
                let bytes = results.bytes() / results.dtype.bytes() * 8;
                plan.add_output(OperandSpec::new("the positions", bytes, 8))
            }),
            position_image,
            position_channel,
            position_axes,
            groups: within_limit("the channels", images.layout.shape()[1] as u64)? / config.width,
            len,
        };
        let blocks = grid_size(len.div_ceil(BLOCK.into()))?;
        if blocks == 0 {
            return Ok(plan);
        }
        let kernel = planner.kernel(config, kernel::kernel_of);
        Ok(plan.step(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?))
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let regular = |window, stride, before| Steps::Regular {
        window,
        stride,
        dilation: 1,
        before,
        after: before,
        leaves: before > 0,
    };
    let of = |kind, dtype, steps: Steps, has_positions, channels_last, width| {
        let config = PoolConfig {
            kind,
            dtype,
            steps: [regular(1, 1, 0), steps, steps],
            first_axis: 1,
            has_positions,
            channels_last,
            width,
            is_long: false,
        };
        kernel::kernel_of(&config)
    };
    let mean = Kind::Mean { include_padding: false };
    let (nearest, linear) = (|exact| Kind::Nearest { exact }, |align_corners| Kind::Linear { align_corners });
    let (cubic, ratio) = (Kind::Cubic { align_corners: false }, Some(0.4_f64.to_bits()));
    Shipped::each([
        of(Kind::Max, Dtype::F32, regular(3, 2, 1), false, false, 1),
        of(Kind::Max, Dtype::F32, regular(3, 2, 1), true, false, 1),
        of(Kind::Max, Dtype::Bf16, regular(2, 2, 0), false, true, 8),
        of(Kind::Max, Dtype::I8, regular(9, 4, 4), false, false, 1),
        of(mean, Dtype::F16, regular(3, 1, 1), false, true, 8),
        of(mean, Dtype::F64, Steps::Adaptive, false, false, 1),
        of(Kind::Norm { p: 3 }, Dtype::F32, regular(2, 2, 0), false, false, 1),
        of(nearest(false), Dtype::U16, Steps::Nearest { exact: false, ratio: None }, false, true, 8),
        of(nearest(true), Dtype::U8, Steps::Nearest { exact: true, ratio }, false, false, 1),
        of(linear(false), Dtype::F32, Steps::Linear { align_corners: false, ratio: None }, false, false, 1),
        of(linear(true), Dtype::F16, Steps::Linear { align_corners: true, ratio: None }, false, true, 8),
        of(cubic, Dtype::F32, Steps::Cubic { align_corners: false, ratio }, false, false, 1),
    ])
}

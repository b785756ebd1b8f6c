//! The kernel of pooling: a thread for each place of the results.

use warpfold_lang::{
    Global, Integer, Kernel, Lazy, Signed, Strided, Val, Var, WideFloat, block_idx, kernel, params, range, thread_idx,
    var, wait_for_dependencies, when,
};

use super::Kind;
use crate::elements::{Compute, load, store};
use crate::{AnyKernel, Dtype};

/// Threads of a block.
pub(super) const BLOCK: u32 = 256;
// THRESHOLD: larger windows are loops; tested by
// crates/warpfold/tests/all/pooling.rs::the_largest_of_each_window_and_its_position
/// Elements of a window that are unrolled at most.
const MAX_UNROLLED: u32 = 32;

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolConfig {
    pub(super) kind: Kind,
    pub(super) dtype: Dtype,
    /// Along depth, rows, columns.
    pub(super) steps: [Steps; 3],
    /// The first axis of them that is there.
    pub(super) first_axis: usize,
    pub(super) has_positions: bool,
    /// Neighbouring threads take neighbouring channels.
    pub(super) channels_last: bool,
    /// Channels of a thread, side by side.
    pub(super) width: u32,
    /// Whether there are more places than 32 bits count.
    pub(super) is_long: bool,
}

/// How windows walk along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Steps {
    /// As sizes of image and result have it.
    Adaptive,
    /// One element: the first of such a window, or the one at its middle.
    Nearest { exact: bool, ratio: Ratio },
    /// A mixture of two neighbours.
    Linear { align_corners: bool, ratio: Ratio },
    /// A mixture of four.
    Cubic { align_corners: bool, ratio: Ratio },
    /// All alike.
    Regular {
        window: u32,
        stride: u32,
        dilation: u32,
        before: u32,
        after: u32,
        /// Whether a window may leave the image.
        leaves: bool,
    },
}

/// Elements of the image per element of the result, as the bits of an `f64`; `None` for the
/// quotient of their sizes.
pub(super) type Ratio = Option<u64>;

impl PoolConfig {
    /// Elements of a window, where all of them are alike.
    fn taps(&self) -> Option<u32> {
        let window = |steps: &Steps| match steps {
            Steps::Adaptive => None,
            Steps::Nearest { .. } => Some(1),
            Steps::Linear { .. } => Some(2),
            Steps::Cubic { .. } => Some(4),
            Steps::Regular { window, .. } => Some(*window),
        };
        self.steps[self.first_axis..].iter().try_fold(1_u32, |taps, steps| taps.checked_mul(window(steps)?))
    }

    fn name(&self) -> String {
        let kind = match self.kind {
            Kind::Max if self.has_positions => "max_at".to_owned(),
            Kind::Max => "max".to_owned(),
            Kind::Mean { include_padding: false } => "mean".to_owned(),
            Kind::Mean { include_padding: true } => "padded_mean".to_owned(),
            Kind::Norm { p } => format!("norm{p}"),
            Kind::Nearest { exact: false } => "nearest".to_owned(),
            Kind::Nearest { exact: true } => "nearest_exact".to_owned(),
            Kind::Linear { align_corners: false } => "linear".to_owned(),
            Kind::Linear { align_corners: true } => "linear_corners".to_owned(),
            Kind::Cubic { align_corners: false } => "cubic".to_owned(),
            Kind::Cubic { align_corners: true } => "cubic_corners".to_owned(),
        };
        let steps = self.steps[self.first_axis..].iter().map(|steps| match steps {
            Steps::Adaptive => "_a".to_owned(),
            Steps::Nearest { ratio, .. } | Steps::Linear { ratio, .. } | Steps::Cubic { ratio, .. } => {
                ratio.map_or_else(|| "_i".to_owned(), |bits| format!("_i{bits:x}"))
            }
            Steps::Regular { window, stride, dilation, before, after, leaves } => {
                let inside = if *leaves { "" } else { "i" };
                format!("_{window}s{stride}d{dilation}p{before}x{after}{inside}")
            }
        });
        let order = if self.channels_last { "last" } else { "first" };
        let long = if self.is_long { "_long" } else { "" };
        format!("pool_{kind}_{}_{order}{}{}{long}", self.dtype, self.width, steps.collect::<String>())
    }
}

/// Calls a generic function for the type that computes with elements of a type.
macro_rules! in_compute_type {
    ($dtype:expr, $function:ident($config:ident)) => {
        match $dtype {
            Dtype::U32 => $function::<u32>($config).into(),
            Dtype::U64 => $function::<u64>($config).into(),
            Dtype::I64 => $function::<i64>($config).into(),
            Dtype::F64 => $function::<f64>($config).into(),
            Dtype::Bool | Dtype::U8 | Dtype::I8 | Dtype::U16 | Dtype::I16 | Dtype::I32 => {
                $function::<i32>($config).into()
            }
            Dtype::F16 | Dtype::Bf16 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F32 => $function::<f32>($config).into(),
        }
    };
}

pub(super) fn kernel_of(config: &PoolConfig) -> AnyKernel {
    match (config.kind, config.dtype) {
        (Kind::Max, dtype) => in_compute_type!(dtype, largest(config)),
        (Kind::Nearest { .. }, dtype) => in_compute_type!(dtype, nearest(config)),
        (Kind::Linear { .. } | Kind::Cubic { .. }, Dtype::F64) => mixture::<f64>(config).into(),
        (Kind::Linear { .. } | Kind::Cubic { .. }, _) => mixture::<f32>(config).into(),
        (_, Dtype::F64) => folded::<f64>(config).into(),
        _ => folded::<f32>(config).into(),
    }
}

params! {
    /// Parameters of the kernel.
    pub(super) struct PoolArgs {
        /// Images, channels, depth, rows, columns.
        images: Strided<5>, results: Strided<5>,
        /// With the strides of the results.
        positions: Option<Global<i64>>,
        /// From one image, channel, and depth, row, column to the next in what positions count.
        position_image: Lazy<i64>, position_channel: Lazy<i64>, position_axes: [i64; 3],
        /// Channels in groups of the width.
        groups: u32,
        /// Places of the results.
        len: u64,
    }
}

type Pool = Kernel<PoolArgs>;

/// The largest element of each window.
fn largest<C: Compute>(config: &PoolConfig) -> Pool {
    let config = *config;
    recorded(config, move |place| {
        let width = config.width as usize;
        let lowest = lowest::<C>(config.dtype);
        let best: Vec<Var<C>> = (0..width).map(|_| var(Val::constant(lowest))).collect();
        let at = config.has_positions.then(|| var::<i64>(-1));
        place.each::<C>(&|values, position, inside| {
            for (best, value) in best.iter().zip(values) {
                match at {
                    None => {
                        let value = inside.map_or(*value, |inside| inside.select(*value, Val::constant(lowest)));
                        best.update(|best| best.max_nan(value));
                    }
                    Some(at) => {
                        let held = best.get();
                        let above = value.gt(held) | at.get().lt(0);
                        // A NaN is the largest, and the first of them.
                        let above = if C::TYPE.is_float() { above | (value.ne(*value) & held.eq(held)) } else { above };
                        let above = inside.map_or(above, |inside| above & inside);
                        best.set(above.select(*value, held));
                        at.set(above.select(position, at.get()));
                    }
                }
            }
        });
        let best: Vec<_> = best.iter().map(|best| best.get()).collect();
        place.store(&best, at.map(|at| at.get()));
    })
}

/// The lowest element of a type, as what computes with it has it.
fn lowest<C: Compute>(dtype: Dtype) -> C {
    match dtype {
        Dtype::I8 => C::from_f64(i8::MIN.into()),
        Dtype::I16 => C::from_f64(i16::MIN.into()),
        Dtype::Bool | Dtype::U8 | Dtype::U16 => C::ZERO,
        _ => C::LOWEST,
    }
}

/// The mean or the norm of each window.
fn folded<C: Compute + WideFloat + Signed>(config: &PoolConfig) -> Pool {
    let config = *config;
    recorded(config, move |place| {
        let sums: Vec<Var<C>> = (0..config.width).map(|_| var(Val::constant(C::ZERO))).collect();
        place.each::<C>(&|values, _, inside| {
            for (sum, value) in sums.iter().zip(values) {
                let value = inside.map_or(*value, |inside| inside.select(*value, Val::constant(C::ZERO)));
                sum.add_assign(match config.kind {
                    Kind::Norm { p } => power(value.abs(), p),
                    _ => value,
                });
            }
        });
        let sums = sums.iter().map(|sum| sum.get());
        let results: Vec<Val<C>> = match config.kind {
            Kind::Norm { p: 1 } => sums.collect(),
            Kind::Norm { p: 2 } => sums.map(Val::sqrt).collect(),
            Kind::Norm { p } => sums.map(|sum| (sum.ln() / C::from_f64(p.into())).exp()).collect(),
            Kind::Mean { include_padding } => {
                let count = place.count(include_padding).cast::<C>();
                sums.map(|sum| sum / count).collect()
            }
            Kind::Max | Kind::Nearest { .. } | Kind::Linear { .. } | Kind::Cubic { .. } => {
                unreachable!("these have kernels of their own")
            }
        };
        place.store(&results, None);
    })
}

/// The nearest element.
fn nearest<C: Compute>(config: &PoolConfig) -> Pool {
    recorded(*config, |place| place.each::<C>(&|values, _, _| place.store(values, None)))
}

/// A mixture of neighbours.
fn mixture<C: Compute + WideFloat + Signed>(config: &PoolConfig) -> Pool {
    let first_axis = config.first_axis;
    recorded(*config, move |place| place.store::<C>(&place.mixed(first_axis, place.from), None))
}

/// The bend of cubic convolution, as PyTorch has it.
const BEND: f64 = -0.75;

/// The weight of cubic convolution of an element at a distance of at most 1.
fn near<C: Compute + WideFloat + Signed>(x: Val<C>) -> Val<C> {
    (x * C::from_f64(BEND + 2.0) - C::from_f64(BEND + 3.0)) * x * x + C::from_f64(1.0)
}

/// The same at a distance from 1 to 2.
fn far<C: Compute + WideFloat + Signed>(x: Val<C>) -> Val<C> {
    let [a, b, c] = [5.0 * BEND, 8.0 * BEND, 4.0 * BEND].map(C::from_f64);
    ((x * C::from_f64(BEND) - a) * x + b) * x - c
}

/// `x^p` by squares.
fn power<C: Compute>(x: Val<C>, p: u32) -> Val<C> {
    match p {
        1 => x,
        _ if p.is_multiple_of(2) => power(x * x, p / 2),
        _ => x * power(x, p - 1),
    }
}

/// The kernel that does something at each place of the results.
fn recorded(config: PoolConfig, body: impl Fn(&Place) + Send + Sync + 'static) -> Pool {
    let record = move |args: PoolArgs| {
        wait_for_dependencies();
        // Contract: a thread for each place, for `width` channels of it.
        let i = block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>();
        when(i.lt(args.len), || {
            let (image, group, at) = if config.is_long {
                places(&config, i, args.groups.cast(), |axis| args.results.size(2 + axis).cast::<u64>())
            } else {
                places(&config, i.cast::<u32>(), args.groups, |axis| args.results.size(2 + axis))
            };
            let channel = (group * config.width).cast::<i64>();
            let spans = std::array::from_fn(|axis| {
                let [size, windows] = [args.images, args.results].map(|tensor| tensor.size(2 + axis));
                (axis >= config.first_axis).then(|| Span::of(config.steps[axis], at[axis], size, windows))
            });
            let from = args.images.offset([image, channel]);
            let to = (config.first_axis..3).fold(args.results.offset([image, channel]), |to, axis| {
                to + at[axis].cast::<i64>() * args.results.stride(2 + axis)
            });
            let position = match config.has_positions {
                true => image * args.position_image.get() + channel * args.position_channel.get(),
                false => Val::constant(0),
            };
            body(&Place { config, args, spans, from, to, position });
        });
    };
    kernel(config.name(), record).required_block(BLOCK)
}

/// The image, the group of channels and the place in it of a position in the results.
fn places<T: Compute + Integer>(
    config: &PoolConfig,
    position: Val<T>,
    groups: Val<T>,
    windows: impl Fn(usize) -> Val<T>,
) -> (Val<i64>, Val<u32>, [Val<u32>; 3]) {
    let mut rest = position;
    let mut split = |size: Val<T>| {
        let quotient = rest / size;
        let remainder = rest - quotient * size;
        rest = quotient;
        remainder.cast::<u32>()
    };
    let group_first = config.channels_last.then(|| split(groups));
    let mut place = [Val::constant(0); 3];
    for axis in (config.first_axis..3).rev() {
        place[axis] = split(windows(axis));
    }
    let group = group_first.unwrap_or_else(|| split(groups));
    (rest.cast::<i64>(), group, place)
}

/// A window along an axis.
#[derive(Clone, Copy)]
struct Span {
    steps: Steps,
    /// Where it begins; may be before the image.
    start: Val<i32>,
    /// The elements of it that are inside: from, and to before.
    inside: [Val<u32>; 2],
    size: Val<u32>,
    /// Which of how many windows it is.
    place: Val<u32>,
    windows: Val<u32>,
}

impl Span {
    fn of(steps: Steps, place: Val<u32>, size: Val<u32>, windows: Val<u32>) -> Self {
        match steps {
            Steps::Adaptive => {
                let count = windows.cast::<u64>();
                let start = (place.mul_wide(size) / count).cast::<u32>();
                let end = ((place.mul_wide(size) + size.cast::<u64>() + count - 1) / count).cast::<u32>();
                Self { steps, start: start.cast(), inside: [Val::constant(0), end - start], size, place, windows }
            }
            Steps::Nearest { exact, ratio } => {
                let start = match (ratio, exact) {
                    (None, false) => (place.mul_wide(size) / windows.cast::<u64>()).cast::<i32>(),
                    (None, true) => ((place * 2 + 1).mul_wide(size) / (windows.cast::<u64>() * 2)).cast::<i32>(),
                    (Some(bits), _) => {
                        let middle = if exact { 0.5 } else { 0.0 };
                        let source = (place.cast::<f32>() + middle) * f64::from_bits(bits) as f32;
                        source.cast::<i32>().min(size.cast::<i32>() - 1)
                    }
                };
                Self { steps, start, inside: [0, 1].map(Val::constant), size, place, windows }
            }
            Steps::Linear { .. } | Steps::Cubic { .. } => {
                Self { steps, start: Val::constant(0), inside: [0, 1].map(Val::constant), size, place, windows }
            }
            Steps::Regular { window, stride, dilation, before, leaves, .. } => {
                let start = (place * stride).cast::<i32>() - before as i32;
                let all = [Val::constant(0), Val::constant(window)];
                // How many elements are before a place that is `ahead` of the start.
                let before = |ahead: Val<i32>| {
                    let ahead = ahead.max(0).cast::<u32>();
                    if dilation == 1 { ahead } else { (ahead + (dilation - 1)) / dilation }.min(window)
                };
                let inside = if leaves { [before(-start), before(size.cast::<i32>() - start)] } else { all };
                Self { steps, start, inside, size, place, windows }
            }
        }
    }

    const fn dilation(&self) -> u32 {
        match self.steps {
            Steps::Adaptive | Steps::Nearest { .. } | Steps::Linear { .. } | Steps::Cubic { .. } => 1,
            Steps::Regular { dilation, .. } => dilation,
        }
    }

    /// The elements that a mean is divided by.
    fn count(&self, include_padding: bool) -> Val<u32> {
        match self.steps {
            Steps::Regular { window, dilation, after, leaves: true, .. } if include_padding => {
                // All but what is beyond the padding at the end.
                let ahead = (self.size + after).cast::<i32>() - self.start;
                ((ahead.max(0).cast::<u32>() + (dilation - 1)) / dilation).min(window)
            }
            Steps::Regular { window, leaves: false, .. } => Val::constant(window),
            _ => self.inside[1] - self.inside[0],
        }
    }

    /// Where interpolation looks, in elements of the image: what PyTorch computes in the same type.
    fn source<C: Compute + WideFloat + Signed>(&self, align_corners: bool, ratio: Ratio) -> Val<C> {
        let (half, one) = (C::from_f64(0.5), C::from_f64(1.0));
        let (place, size, windows) = (self.place.cast::<C>(), self.size.cast::<C>(), self.windows.cast::<C>());
        if align_corners {
            // A single element of the result is the first one.
            let step = (size - one) / (windows - one).max(one);
            return self.windows.gt(1).select(place * step, Val::constant(C::ZERO));
        }
        let ratio = match ratio {
            Some(bits) => Val::constant(C::from_f64(f64::from_bits(bits))),
            None => size / windows,
        };
        (place + half) * ratio - half
    }

    /// The elements that interpolation mixes, and their weights; `None` along an axis that keeps
    /// its elements.
    fn mixture<C: Compute + WideFloat + Signed>(&self) -> Option<Vec<(Val<i32>, Val<C>)>> {
        let last = self.size.cast::<i32>() - 1;
        let one = || Val::constant(C::from_f64(1.0));
        match self.steps {
            Steps::Linear { align_corners, ratio } => {
                let source = self.source::<C>(align_corners, ratio).max(C::ZERO);
                let low = source.cast::<i32>().min(last);
                let weight = source - low.cast::<C>();
                Some(vec![(low, one() - weight), ((low + 1).min(last), weight)])
            }
            Steps::Cubic { align_corners, ratio } => {
                let source = self.source::<C>(align_corners, ratio);
                let floor = source.floor();
                let (low, weight) = (floor.cast::<i32>(), source - floor);
                let weights = [far(weight + one()), near(weight), near(one() - weight), far(one() - weight + one())];
                let taps = weights.into_iter().enumerate();
                Some(taps.map(|(tap, weight)| ((low + (tap as i32 - 1)).max(0).min(last), weight)).collect())
            }
            Steps::Adaptive | Steps::Nearest { .. } | Steps::Regular { .. } => None,
        }
    }

    /// Visits the elements one after the other, unrolled or in a loop over those that are inside.
    fn each(&self, unrolled: bool, visit: &dyn Fn(Val<i32>, Option<Val<bool>>)) {
        match self.steps {
            Steps::Nearest { .. } => visit(self.start, None),
            Steps::Regular { window, dilation, leaves, .. } if unrolled => {
                for tap in 0..window {
                    let at = self.start + (tap * dilation) as i32;
                    // Of a number below 0 the bits are those of a large one.
                    let inside = leaves.then(|| at.cast::<u32>().lt(self.size));
                    // Outside, the first element is loaded instead of none.
                    visit(inside.map_or(at, |inside| inside.select::<i32>(at, 0)), inside);
                }
            }
            _ => range(self.inside[0], self.inside[1], 1_u32, |tap| {
                visit(self.start + (tap * self.dilation()).cast::<i32>(), None);
            }),
        }
    }
}

/// A place of the results, where a thread is.
struct Place {
    config: PoolConfig,
    args: PoolArgs,
    spans: [Option<Span>; 3],
    /// The first element of its channel in the images, of its results, and in what positions count.
    from: Val<i64>,
    to: Val<i64>,
    position: Val<i64>,
}

impl Place {
    /// Visits the elements under the window: those of the thread's channels, the position of the
    /// first, and whether they are inside where that is not known.
    fn each<C: Compute>(&self, visit: &dyn Fn(&[Val<C>], Val<i64>, Option<Val<bool>>)) {
        self.along(self.config.first_axis, self.from, self.position, None, visit);
    }

    fn along<C: Compute>(
        &self,
        axis: usize,
        from: Val<i64>,
        position: Val<i64>,
        inside: Option<Val<bool>>,
        visit: &dyn Fn(&[Val<C>], Val<i64>, Option<Val<bool>>),
    ) {
        let PoolConfig { dtype, width, has_positions, .. } = self.config;
        let Some(span) = self.spans.get(axis).copied().flatten() else {
            let values = load::<C, _>(dtype, self.args.images.base().at(from * dtype.bytes() as i64), width, width > 1);
            return visit(&values, position, inside);
        };
        let unrolled = self.config.taps().is_some_and(|taps| taps <= MAX_UNROLLED);
        span.each(unrolled, &|at, is_inside| {
            let at = at.cast::<i64>();
            let inside = match (inside, is_inside) {
                (Some(a), Some(b)) => Some(a & b),
                (a, b) => a.or(b),
            };
            let position = if has_positions { position + at * self.args.position_axes.at(axis) } else { position };
            self.along(axis + 1, from + at * self.args.images.stride(2 + axis), position, inside, visit);
        });
    }

    /// The mixture of the neighbours from an axis on.
    fn mixed<C: Compute + WideFloat + Signed>(&self, axis: usize, from: Val<i64>) -> Vec<Val<C>> {
        let PoolConfig { dtype, width, .. } = self.config;
        let Some(span) = self.spans.get(axis).copied().flatten() else {
            return load::<C, _>(dtype, self.args.images.base().at(from * dtype.bytes() as i64), width, width > 1);
        };
        let at = |at: Val<i32>| self.mixed::<C>(axis + 1, from + at.cast::<i64>() * self.args.images.stride(2 + axis));
        let Some(mixture) = span.mixture::<C>() else { return at(span.start) };
        let parts = mixture.into_iter().map(|(place, weight)| at(place).into_iter().map(|x| x * weight).collect());
        let sum = |sums: Vec<Val<C>>, part: Vec<Val<C>>| sums.into_iter().zip(part).map(|(a, b)| a + b).collect();
        parts.reduce(sum).unwrap_or_default()
    }

    /// The elements that a mean is divided by.
    fn count(&self, include_padding: bool) -> Val<u32> {
        let spans = self.spans.iter().flatten();
        spans.fold(Val::constant(1), |count, span| count * span.count(include_padding))
    }

    fn store<C: Compute>(&self, values: &[Val<C>], position: Option<Val<i64>>) {
        let PoolConfig { dtype, width, .. } = self.config;
        store(dtype, self.args.results.base().at(self.to * dtype.bytes() as i64), values, width > 1);
        if let Some(position) = position {
            self.args.positions.at(self.to).set(position);
        }
    }
}

//! Tensors made of nothing but numbers: arithmetic sequences, and random numbers from a seed.
//!
//! Random numbers are those of Philox 4x32-10, counted by the position of the element and the
//! number of the draw, keyed by the seed: each depends on these three alone, not on the grid.
//! Uniform floats have 24 random bits (`f64`: 53); normal ones are Box and Muller's. What is
//! narrower than `f32` is rounded from it.

mod kernel;

use warpfold_device::LaunchConfig;

use kernel::{BLOCK, SequenceArgs, SequenceConfig};

use crate::operations::Number;
use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step};
use crate::{Dtype, Error, ErrorKind, Shipped};

// THRESHOLD: blocks walk over what is left; tested by
// crates/kernels/tests/operations/walks.rs::elements_beyond_the_grid_are_generated_by_the_blocks_that_there_are
/// Blocks at most: threads take more elements instead.
const MAX_BLOCKS: u64 = 1 << 14;

/// The family of sequences. It has no input, and one output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Generate;

/// What elements are, by their position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sequence {
    /// `start + position * step`; floats in `f64`, rounded once to the element type.
    Arithmetic {
        /// The first.
        start: Number,
        /// From one to the next.
        step: Number,
    },
    /// Random numbers.
    Random {
        /// How they are distributed.
        distribution: Distribution,
        /// The key.
        seed: u64,
        /// Tensors with the same seed and other numbers here have other elements.
        draw: u64,
    },
}

/// A distribution of random numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// From `low` up to `high`, which rounding alone may give.
    Uniform {
        /// The least.
        low: f64,
        /// The bound.
        high: f64,
    },
    /// With mean and standard deviation.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// Integers from `low` to `high`, which is not among them; one is more likely than another by
    /// at most their number in 2^64.
    Integers {
        /// The least.
        low: i64,
        /// The bound.
        high: i64,
    },
}

/// A tensor that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    config: SequenceConfig,
    len: u64,
    /// Two numbers of the sequence, as bits, the seed and the draw.
    numbers: [u64; 4],
}

/// Which code makes the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Floats,
    Whole,
    Uniform,
    Normal,
    Integers,
}

impl Problem {
    /// `len` elements of a sequence, contiguous.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for integers of a distribution of real numbers, and for `bool`;
    /// [`ErrorKind::OptionOutOfRange`] for an empty range, a negative deviation, and numbers that
    /// are not whole of integers.
    pub fn new(sequence: Sequence, dtype: Dtype, len: u64) -> Result<Self, Error> {
        let float = |x: f64| if dtype == Dtype::F64 { x.to_bits() } else { u64::from((x as f32).to_bits()) };
        let out_of_range = |op: &str, option, expected: &str| -> Error {
            ErrorKind::OptionOutOfRange { op: op.to_owned(), option, expected: expected.to_owned() }.into()
        };
        let (op, kind, a, b) = match sequence {
            Sequence::Arithmetic { start, step } if dtype.is_float() => {
                ("arange", Kind::Floats, start.bits(Dtype::F64), step.bits(Dtype::F64))
            }
            Sequence::Arithmetic { start, step } => {
                start.expect_whole("arange", "start")?;
                step.expect_whole("arange", "step")?;
                ("arange", Kind::Whole, start.bits(Dtype::I64), step.bits(Dtype::I64))
            }
            Sequence::Random { distribution: Distribution::Uniform { low, high }, .. } => {
                if !(low <= high && (high - low).is_finite()) {
                    return Err(out_of_range("rand", "high", "that is not below 'low', and finite as it is"));
                }
                ("rand", Kind::Uniform, float(low), float(high))
            }
            Sequence::Random { distribution: Distribution::Normal { mean, std }, .. } => {
                if std.is_nan() || std < 0.0 {
                    return Err(out_of_range("randn", "std", "of at least 0"));
                }
                ("randn", Kind::Normal, float(mean), float(std))
            }
            Sequence::Random { distribution: Distribution::Integers { low, high }, .. } => {
                if low >= high {
                    return Err(out_of_range("randint", "high", "above 'low'"));
                }
                ("randint", Kind::Integers, low as u64, high.wrapping_sub(low) as u64)
            }
        };
        let takes = match kind {
            Kind::Floats | Kind::Uniform | Kind::Normal => dtype.is_float(),
            Kind::Whole | Kind::Integers => dtype != Dtype::Bool,
        };
        if !takes {
            return Err(ErrorKind::Unsupported { op: op.to_owned(), dtype }.into());
        }
        let [seed, draw] = match sequence {
            Sequence::Arithmetic { .. } => [0, 0],
            Sequence::Random { seed, draw, .. } => [seed, draw],
        };
        Ok(Self { config: SequenceConfig { kind, dtype }, len, numbers: [a, b, seed, draw] })
    }
}

impl Family for Generate {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { config, len, numbers: [a, b, seed, draw] } = *problem;
        let mut plan = Plan::new("generate").choice(format_args!("{config:?}"));
        let output = OperandSpec::new("the output", len * config.dtype.bytes(), config.alignment());
        let args = SequenceArgs::<Planned> { output: plan.add_output(output), len, a, b, seed, draw };
        let blocks = len.div_ceil(u64::from(config.per_thread() * BLOCK)).min(MAX_BLOCKS) as u32;
        if blocks == 0 {
            return Ok(plan);
        }
        let kernel = planner.kernel(config, |config| kernel::kernel_of(*config));
        Ok(plan.step(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?))
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let listed = [
        (Kind::Floats, Dtype::F32),
        (Kind::Whole, Dtype::I64),
        (Kind::Uniform, Dtype::Bf16),
        (Kind::Normal, Dtype::F32),
        (Kind::Normal, Dtype::F64),
        (Kind::Integers, Dtype::U8),
    ];
    Shipped::each(listed.map(|(kind, dtype)| kernel::kernel_of(SequenceConfig { kind, dtype })))
}

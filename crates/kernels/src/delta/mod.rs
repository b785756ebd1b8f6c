//! Gated delta nets: linear attention whose sequences keep a matrix per head instead of keys and
//! values (Yang et al. 2024).
//!
//! A token's row holds queries and keys of each key head, values and gates `z` of each value head,
//! and two numbers `b` and `a` of each value head. Queries, keys and values pass a causal
//! convolution along the sequence of four taps and SiLU; queries and keys are divided by their
//! lengths. Then each value head has, with its matrix `S` of `f32`:
//!
//! ```text
//! S ← exp(−exp(A) · softplus(a + dt)) · S
//! S ← S + k (sigmoid(b) · (v − kᵀ S))ᵀ
//! o = qᵀ S / sqrt(key elements)
//! ```
//!
//! and the result is `o / sqrt(mean of o² + eps) · scale · silu(z)`.
//!
//! **A sequence's answers depend on nothing else.** The rows of a sequence are walked one after the
//! other, with the matrix in registers, and the matrix and the last inputs of the convolution are
//! kept as they are between launches. So the bits of a row depend neither on the other sequences
//! nor on how its own was cut into launches. A sequence whose first row has position 0 starts from
//! zeros, whatever its place held before. Rows of a sequence without a place get zeros.
//!
//! Three launches: `conv`, a thread for a channel of a sequence; `rule`, a few lanes for a column
//! of a matrix; `norm`, a warp for a head of a row.

mod conv;
mod norm;
mod rule;

use warpfold_device::LaunchConfig;

use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{Dtype, Error, ErrorKind, Shipped};

const TAPS: u64 = DeltaHeads::TAPS;

/// Threads of a block of the kernels here.
const BLOCK: u32 = 128;

/// The family of gated delta nets. Inputs: rows `[rows, 2 (key elements + value elements) + 2 value
/// heads]` of all heads' queries, keys, values, `z`, `b` and `a`; taps `[queries, keys and values,
/// TAPS]`, `A` and `dt` of value heads and the scale of the norm, all `f32`; position of each row
/// and place of each sequence, `i32`; the first row of each sequence and the end of the last,
/// unless each has one row. Outputs: `[rows, value heads, value elements]`; the last inputs of the
/// convolution `[places, TAPS - 1, queries, keys and values]` in the rows' type; the matrices
/// `[places, value heads, key elements, value elements]` of `f32`. A sequence whose place is none
/// is left out: its results are zero.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeltaNet;

/// The heads of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeltaHeads {
    /// Heads of queries and of keys.
    pub keys: u64,
    /// Heads of values, a multiple of those of keys: neighbours share a key.
    pub values: u64,
    /// Elements of a query and of a key.
    pub key_dim: u64,
    /// Elements of a value.
    pub value_dim: u64,
}

impl DeltaHeads {
    /// Taps of the convolution.
    pub const TAPS: u64 = 4;

    /// Elements of a row that pass the convolution: queries, keys, values.
    #[must_use]
    pub const fn channels(self) -> u64 {
        2 * self.keys * self.key_dim + self.values()
    }

    /// Elements of a row's values.
    #[must_use]
    pub const fn values(self) -> u64 {
        self.values * self.value_dim
    }

    /// Elements of a row.
    #[must_use]
    pub const fn row_len(self) -> u64 {
        self.channels() + self.values() + 2 * self.values
    }

    /// Elements of a sequence's matrices.
    #[must_use]
    pub const fn matrices(self) -> u64 {
        self.values() * self.key_dim
    }

    /// Compares the sizes with what the kernels can do.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for heads that do not fit each other, [`ErrorKind::TooLarge`].
    pub fn check(self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "delta-net", reason }.into());
        let Self { keys, values, key_dim, value_dim } = self;
        if let Some(size) = [keys, values, value_dim].into_iter().find(|size| *size > MAX_SIZE) {
            return Err(ErrorKind::TooLarge { what: "a delta net", size, limit: MAX_SIZE }.into());
        }
        if !key_dim.is_power_of_two() || !(8..=MAX_KEY).contains(&key_dim) {
            return refused(format!("keys of {key_dim} elements: not a power of two from 8 to {MAX_KEY}"));
        }
        if !value_dim.is_multiple_of(8) || value_dim == 0 {
            return refused(format!("values of {value_dim} elements: not a multiple of 8"));
        }
        if keys == 0 || values == 0 || !values.is_multiple_of(keys) {
            return refused(format!("{values} heads of values do not share {keys} of keys"));
        }
        let size = self.row_len();
        if size > MAX_SIZE {
            return Err(ErrorKind::TooLarge { what: "a row of a delta net", size, limit: MAX_SIZE }.into());
        }
        Ok(())
    }
}

/// Rows of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeltaProblem {
    /// The type of rows: `f32`, `f16` or `bf16`.
    pub dtype: Dtype,
    /// Rows.
    pub rows: u64,
    /// Sequences.
    pub sequences: u64,
    /// Places of sequences.
    pub places: u64,
    /// Heads of a row.
    pub heads: DeltaHeads,
    /// The bits of an `f32` that is added below the root of the norm.
    pub eps_bits: u32,
    /// Each sequence has one row, and no starts are listed.
    pub is_single: bool,
}

// THRESHOLD: longer keys are refused; tested by
// crates/warpfold/tests/all/delta.rs::wrong_sizes_are_refused
/// The most elements of a key: a column of a matrix is in the registers of eight lanes at most.
const MAX_KEY: u64 = 256;
// THRESHOLD: more elements are refused, which threads count in 32 bits; tested by
// crates/warpfold/tests/all/delta.rs::wrong_sizes_are_refused
const MAX_SIZE: u64 = 1 << 20;

impl DeltaProblem {
    fn check(&self) -> Result<(), Error> {
        self.heads.check()?;
        if !matches!(self.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ErrorKind::Unsupported { op: "delta-net".to_owned(), dtype: self.dtype }.into());
        }
        if self.sequences > MAX_SIZE {
            return Err(ErrorKind::TooLarge { what: "sequences", size: self.sequences, limit: MAX_SIZE }.into());
        }
        if self.is_single && self.sequences != self.rows {
            let reason = format!("{} sequences of one row have {} rows", self.sequences, self.rows);
            return Err(ErrorKind::Operand { operator: "delta-net", reason }.into());
        }
        Ok(())
    }
}

impl Family for DeltaNet {
    type Problem = DeltaProblem;

    fn plan(&self, problem: &DeltaProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let DeltaProblem { dtype, rows, sequences, places, heads, eps_bits, is_single } = *problem;
        let DeltaHeads { keys, values, key_dim, value_dim } = heads;
        let (channels, bytes) = (heads.channels(), dtype.bytes());
        let mut plan = Plan::new("delta-net").choice(format_args!("{sequences} sequences, {heads:?}"));
        let mut read =
            |name, elements: u64, bytes: u64| plan.add_input(OperandSpec::new(name, elements * bytes, bytes));
        let x = read("the rows", rows * heads.row_len(), bytes);
        // A thread reads its channel's at once.
        let taps = read("the taps", channels, 4 * TAPS);
        let decays = read("the decays", values, 4);
        let offsets = read("the offsets", values, 4);
        let scale = read("the scale", value_dim, 4);
        let positions = read("the positions", rows, 4);
        let slots = read("the places", sequences, 4);
        let starts = (!is_single).then(|| read("the starts", sequences + 1, 4));
        let results = plan.add_output(OperandSpec::new("the results", rows * heads.values() * bytes, bytes));
        let tails = plan.add_output(OperandSpec::new("the tails", places * (TAPS - 1) * channels * bytes, bytes));
        let matrices = plan.add_output(OperandSpec::new("the matrices", places * heads.matrices() * 4, 4));
        if rows * sequences == 0 {
            return Ok(plan);
        }
        let mixed = plan.add_scratch(rows * channels * bytes);
        let raw = plan.add_scratch(rows * heads.values() * bytes);
        let config = conv::MixConfig { dtype, is_single };
        let args = conv::MixArgs::<Planned> {
            x,
            taps,
            positions,
            slots,
            starts,
            mixed,
            tails,
            channels: channels as u32,
            row_len: heads.row_len() as u32,
            places: places.min(u32::MAX.into()) as u32,
        };
        let blocks = grid_size(sequences * channels.div_ceil(BLOCK.into()))?;
        let launch = |blocks: u32| LaunchConfig::new(blocks, BLOCK);
        plan.steps.push(Step::new(planner.kernel(config, conv::kernel_of), launch(blocks)).with(args)?);
        let config = rule::RuleConfig { dtype, key_dim: key_dim as u32, is_single };
        let args = rule::RuleArgs::<Planned> {
            mixed,
            x,
            decays,
            offsets,
            positions,
            slots,
            starts,
            results: raw,
            matrices,
            keys: keys as u32,
            values: values as u32,
            value_dim: value_dim as u32,
            places: places.min(u32::MAX.into()) as u32,
        };
        let blocks = grid_size(sequences * values * value_dim.div_ceil(config.columns().into()))?;
        plan.steps.push(Step::new(planner.kernel(config, rule::kernel_of), launch(blocks)).with(args)?);
        let config = norm::GateConfig { dtype };
        let args = norm::GateArgs::<Planned> {
            raw,
            x,
            scale,
            results,
            heads: (rows * values).min(u32::MAX.into()) as u32,
            values: values as u32,
            value_dim: value_dim as u32,
            row_len: heads.row_len() as u32,
            gates: channels as u32,
            eps: f32::from_bits(eps_bits),
        };
        let blocks = grid_size((rows * values).div_ceil(u64::from(BLOCK / 32)))?;
        plan.steps.push(Step::new(planner.kernel(config, norm::kernel_of), launch(blocks)).with(args)?);
        Ok(plan)
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    Shipped::of_plans(|planner| {
        let heads = DeltaHeads { keys: 16, values: 32, key_dim: 128, value_dim: 128 };
        let of = |dtype, rows, is_single| DeltaProblem {
            dtype,
            rows,
            sequences: 8,
            places: 8,
            heads,
            eps_bits: 1e-6_f32.to_bits(),
            is_single,
        };
        [of(Dtype::Bf16, 8, true), of(Dtype::Bf16, 100, false), of(Dtype::F32, 100, false)]
            .iter()
            .map(|problem| DeltaNet.plan(problem, planner))
            .collect()
    })
}

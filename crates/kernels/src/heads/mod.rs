//! From the product of queries, keys and values to attention, in one launch: heads of queries and
//! keys are normed where the model has that and turned by their positions; queries go to a tensor,
//! keys and values to their slots of the paged cache.
//!
//! It is [`crate::rowwise`]'s RMS norm, [`crate::rotary`] (halves) and [`crate::kv_cache`] in one:
//! a normed element is rounded to the type of the heads before it is turned. Some lanes of a warp
//! take a head of a token, so that no bit of it depends on the others. Slots and positions are read on the device;
//! a token whose slot is negative or beyond the pool is not written.

mod kernel;

use warpfold_device::LaunchConfig;

use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step, grid_size};
use crate::rotary::{MAX_UNITS, reach, refuse_unless_float, refuse_unless_index};
use crate::{AnyKernel, Dtype, Error, ErrorKind};
use kernel::{Config, MAX_INPUTS, kernel_of};

/// The family. Inputs: the product `[tokens, heads + 2 · kv_heads, head_dim]`, slots, positions,
/// cosines, sines and, with norms, the scales of queries and of keys (`f32`). Outputs: queries
/// `[tokens, heads, head_dim]` without gaps, the pages of keys, those of values.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heads;

/// What is brought where. Strides count elements; the elements of a head lie side by side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the product, of queries and of the cache.
    pub dtype: Dtype,
    /// The type of slots and positions, `i32` or `i64`.
    pub lists: Dtype,
    /// Tokens.
    pub tokens: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys, and of values.
    pub kv_heads: u64,
    /// Elements of a head, an even number.
    pub head_dim: u64,
    /// From one token of the product to the next; heads lie side by side.
    pub stride: i64,
    /// What is added below the root of the norms, an `f32`'s bits; none without norms.
    pub eps_bits: Option<u32>,
    /// Rows of the tables of cosines and sines: positions beyond them count as the last.
    pub rows: u64,
    /// Pages of the pool.
    pub pages: u64,
    /// Tokens of a page.
    pub page: u64,
    /// Of the pages of keys and of values: pages, tokens of a page, heads.
    pub page_strides: [i64; 3],
    /// A power of two that all addresses are multiples of, in bytes.
    pub alignment: u64,
}

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;

impl Problem {
    fn check(&self) -> Result<(), Error> {
        refuse_unless_float("heads", &[self.dtype])?;
        refuse_unless_index("slots and positions", self.lists)?;
        if self.dtype.bytes() == 1 {
            return Err(ErrorKind::Unsupported { op: "heads".to_owned(), dtype: self.dtype }.into());
        }
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "heads", reason }.into());
        if !self.head_dim.is_multiple_of(2) {
            return refused(format!("a head of {} elements has no halves", self.head_dim));
        }
        if self.rows == 0 && self.tokens > 0 {
            return refused("the tables of cosines and sines have no rows".to_owned());
        }
        let slots = self.pages.saturating_mul(self.page);
        let units = self.tokens.saturating_mul(32 * (self.heads + 2 * self.kv_heads));
        match [slots, units].into_iter().find(|size| *size > MAX_UNITS) {
            Some(size) => Err(ErrorKind::TooLarge { what: "heads or slots", size, limit: MAX_UNITS }.into()),
            None => Ok(()),
        }
    }

    /// Neighbours that a lane takes at once.
    fn width(&self) -> u32 {
        let fits = |width: &u64| {
            let strides = self.page_strides.iter().chain([&self.stride]);
            (self.head_dim / 2).is_multiple_of(*width)
                && strides.into_iter().all(|stride| stride % *width as i64 == 0)
                // Tables and scales have 4 bytes an element.
                && self.alignment.is_multiple_of((width * 4).min(16))
        };
        let most = 16 / self.dtype.bytes();
        [8_u64, 4, 2].into_iter().filter(|width| *width <= most).find(fits).unwrap_or(1) as u32
    }

    fn operands(&self) -> Plan {
        let Self { dtype, lists, tokens, heads, kv_heads, head_dim, rows, pages, page, .. } = *self;
        let bytes = dtype.bytes();
        let of_tokens = reach(&[(tokens, self.stride), (heads + 2 * kv_heads, head_dim as i64), (head_dim, 1)]);
        let [first, token, head] = self.page_strides;
        let of_pages = reach(&[(pages, first), (page, token), (kv_heads, head), (head_dim, 1)]) * bytes;
        let table = rows * head_dim / 2 * 4;
        let mut plan = Plan::new("heads")
            .input(OperandSpec::new("the product", of_tokens * bytes, bytes))
            .input(OperandSpec::new("the slots", tokens * lists.bytes(), lists.bytes()))
            .input(OperandSpec::new("the positions", tokens * lists.bytes(), lists.bytes()))
            .input(OperandSpec::new("the cosines", table, 4))
            .input(OperandSpec::new("the sines", table, 4));
        if self.eps_bits.is_some() {
            for name in ["the scales of queries", "the scales of keys"] {
                plan = plan.input(OperandSpec::new(name, head_dim * 4, 4));
            }
        }
        plan.output(OperandSpec::new("the queries", tokens * heads * head_dim * bytes, bytes))
            .output(OperandSpec::new("the pages of keys", of_pages, bytes))
            .output(OperandSpec::new("the pages of values", of_pages, bytes))
    }
}

impl Family for Heads {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let plan = problem.operands();
        let of_token = problem.heads + 2 * problem.kv_heads;
        let all = problem.tokens * of_token;
        if all == 0 || problem.head_dim == 0 {
            return Ok(plan);
        }
        let config = Config {
            dtype: problem.dtype,
            lists: problem.lists,
            head_dim: problem.head_dim as u32,
            width: problem.width(),
            normed: problem.eps_bits.is_some(),
        };
        let plan = plan.choice(format_args!("{} neighbours a lane", config.width));
        let launch = LaunchConfig::new(grid_size(all.div_ceil(config.heads().into()))?, BLOCK);
        let Problem { heads, kv_heads, rows, pages, page, stride, page_strides, .. } = *problem;
        let sizes = [all, of_token, heads, heads + kv_heads, pages * page, page, rows].map(|size| size as u32);
        let inputs: Vec<Operand> = (0..plan.inputs.len()).map(Operand::Input).collect();
        let step = Step::new(planner.kernel(config, kernel_of), launch)
            .arg(Arg::Pointers { operands: inputs, len: MAX_INPUTS })
            .operands([0, 1, 2].map(Operand::Output), 3)
            .words(&sizes)
            .words(&[stride, page_strides[0], page_strides[1], page_strides[2]])
            .arg(Arg::value(f32::from_bits(problem.eps_bits.unwrap_or(0))));
        Ok(plan.step(step))
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let of = |dtype, head_dim, width, normed| Config { dtype, lists: Dtype::I32, head_dim, width, normed };
    [of(Dtype::Bf16, 128, 8, true), of(Dtype::Bf16, 128, 8, false), of(Dtype::F32, 80, 1, true)]
        .iter()
        .map(kernel_of)
        .collect()
}

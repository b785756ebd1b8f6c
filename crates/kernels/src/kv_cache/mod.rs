//! New keys and values to their slots of a paged cache, one launch; keys, and the queries beside
//! them, turned by their positions on the way where that is asked for.
//!
//! A *slot* is a token's place in the pool: `page · tokens of a page + place in the page`. The list
//! of slots is read on the device, so that a captured graph can be launched again with others. A
//! token whose slot is negative or beyond the pool is not written: so batches are padded. A cache
//! of 8-bit floats has scales; elements are divided by them and saturate.
//!
//! **The bits are those of [`crate::rotary`] followed by a write**: what was turned is rounded to
//! the type of the keys before it is converted to that of the cache.

mod kernel;

pub(crate) use kernel::kernels;

use warpfold_device::LaunchConfig;

use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step, grid_size};
use crate::rotary::{BLOCK, Dealing, MAX_UNITS, Pairs, reach, refuse_unless_float, refuse_unless_index, widest};
use crate::{Dtype, Error, ErrorKind};

/// The family of writes to a cache. Inputs: keys, values, slots and, with rotary embedding,
/// positions, cosines and sines. Outputs: the pages of keys, those of values and, where the problem
/// has them, queries, which are turned where they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct CacheWrite;

/// What is written where. Strides count elements; the elements of a head lie side by side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of new keys, values and queries.
    pub dtype: Dtype,
    /// The type of the cache.
    pub cache: Dtype,
    /// The type of the slots, `i32` or `i64`.
    pub slots: Dtype,
    /// New tokens.
    pub tokens: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Elements of a key.
    pub head_dim: u64,
    /// Elements of a value.
    pub value_dim: u64,
    /// Of new keys: tokens, heads.
    pub k_strides: [i64; 2],
    /// Of new values.
    pub v_strides: [i64; 2],
    /// Pages of the pool.
    pub pages: u64,
    /// Tokens of a page.
    pub page: u64,
    /// Of the pages of keys: pages, tokens of a page, heads.
    pub k_pages: [i64; 3],
    /// Of the pages of values.
    pub v_pages: [i64; 3],
    /// What keys and values are divided by, an `f32`'s bits each.
    pub scale_bits: [u32; 2],
    /// How keys are turned, and queries with them.
    pub rotary: Option<Rotary>,
    /// A power of two that all addresses are multiples of, in bytes.
    pub alignment: u64,
}

/// How keys are turned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rotary {
    /// Which elements are pairs.
    pub pairs: Pairs,
    /// How many elements of a head are turned: an even number.
    pub dim: u64,
    /// The type of cosines and sines.
    pub table: Dtype,
    /// The type of the positions, `i32` or `i64`.
    pub positions: Dtype,
    /// Rows of the tables: positions beyond them count as the last.
    pub rows: u64,
    /// From one row to the next, of cosines and of sines.
    pub table_strides: [i64; 2],
    /// Heads of queries, and their strides: tokens, heads.
    pub queries: Option<(u64, [i64; 2])>,
}

impl Problem {
    fn check(&self) -> Result<(), Error> {
        refuse_unless_float("a cache", &[self.dtype, self.cache])?;
        refuse_unless_index("slots", self.slots)?;
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "cache write", reason }.into());
        if self.dtype.bytes() == 1 {
            return Err(ErrorKind::Unsupported { op: "new keys and values".to_owned(), dtype: self.dtype }.into());
        }
        let slots = self.pages.saturating_mul(self.page);
        if slots > MAX_UNITS {
            return Err(ErrorKind::TooLarge { what: "the slots of a cache", size: slots, limit: MAX_UNITS }.into());
        }
        let Some(rotary) = &self.rotary else { return Ok(()) };
        refuse_unless_float("rotary embedding", &[rotary.table])?;
        refuse_unless_index("positions", rotary.positions)?;
        if !rotary.dim.is_multiple_of(2) || rotary.dim > self.head_dim {
            return refused(format!("{} rotary elements are no even part of {}", rotary.dim, self.head_dim));
        }
        if rotary.rows == 0 && self.tokens > 0 {
            return refused("the tables of cosines and sines have no rows".to_owned());
        }
        Ok(())
    }

    fn dealing(&self) -> Dealing {
        let (dim, pairs) = self.rotary.as_ref().map_or((0, Pairs::Halves), |rotary| (rotary.dim, rotary.pairs));
        let mut tensors = vec![
            (self.dtype, &self.k_strides[..], 1),
            (self.dtype, &self.v_strides[..], 1),
            (self.cache, &self.k_pages[..], 1),
            (self.cache, &self.v_pages[..], 1),
        ];
        if let Some(rotary) = &self.rotary {
            tensors.push((rotary.table, &rotary.table_strides[..], 1));
            tensors.extend(rotary.queries.as_ref().map(|(_, strides)| (self.dtype, &strides[..], 1)));
        }
        let width = widest(self.alignment, &tensors, &[dim / 2, self.head_dim - dim, self.value_dim]);
        Dealing { pairs, head_dim: self.head_dim as u32, rotary_dim: dim as u32, width }
    }

    fn operands(&self) -> Plan {
        let Self { dtype, cache, tokens, kv_heads, head_dim, value_dim, pages, page, .. } = *self;
        let of_tokens = |heads: u64, dim: u64, [token, head]: [i64; 2]| {
            reach(&[(tokens, token), (heads, head), (dim, 1)]) * dtype.bytes()
        };
        let of_pages = |dim: u64, [first, token, head]: [i64; 3]| {
            reach(&[(pages, first), (page, token), (kv_heads, head), (dim, 1)]) * cache.bytes()
        };
        let mut plan = Plan::new("cache write")
            .input(OperandSpec::new("the keys", of_tokens(kv_heads, head_dim, self.k_strides), dtype.bytes()))
            .input(OperandSpec::new("the values", of_tokens(kv_heads, value_dim, self.v_strides), dtype.bytes()))
            .input(OperandSpec::new("the slots", tokens * self.slots.bytes(), self.slots.bytes()))
            .output(OperandSpec::new("the pages of keys", of_pages(head_dim, self.k_pages), cache.bytes()))
            .output(OperandSpec::new("the pages of values", of_pages(value_dim, self.v_pages), cache.bytes()));
        if let Some(rotary) = &self.rotary {
            let table = |stride| reach(&[(rotary.rows, stride), (rotary.dim / 2, 1)]) * rotary.table.bytes();
            let [cos, sin] = rotary.table_strides.map(table);
            plan = plan
                .input(OperandSpec::new("the positions", tokens * rotary.positions.bytes(), rotary.positions.bytes()))
                .input(OperandSpec::new("the cosines", cos, rotary.table.bytes()))
                .input(OperandSpec::new("the sines", sin, rotary.table.bytes()));
            if let Some((heads, strides)) = rotary.queries {
                plan = plan.output(OperandSpec::new("the queries", of_tokens(heads, head_dim, strides), dtype.bytes()));
            }
        }
        plan
    }
}

impl Family for CacheWrite {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let dealing = problem.dealing();
        let plan = problem.operands().choice(format_args!("{} elements per thread", dealing.width));
        let width = u64::from(dealing.width);
        let queries = problem.rotary.as_ref().and_then(|rotary| rotary.queries);
        let query_heads = queries.map_or(0, |(heads, _)| heads);
        // Units of a token: keys, then values, then queries.
        let of_keys = problem.kv_heads * u64::from(dealing.units());
        let of_values = problem.kv_heads * (problem.value_dim / width);
        let of_token = of_keys + of_values + query_heads * u64::from(dealing.units());
        let units = problem.tokens * of_token;
        if units == 0 {
            return Ok(plan);
        }
        if units > MAX_UNITS {
            return Err(ErrorKind::TooLarge { what: "a write to a cache", size: units, limit: MAX_UNITS }.into());
        }
        let config = kernel::Config {
            dealing,
            value_dim: problem.value_dim as u32,
            dtype: problem.dtype,
            cache: problem.cache,
            slots: problem.slots,
            scaled: problem.scale_bits.map(|bits| f32::from_bits(bits) != 1.0),
            rotary: problem.rotary.as_ref().map(|rotary| (rotary.table, rotary.positions)),
            queries: queries.is_some(),
        };
        let launch = LaunchConfig::new(grid_size(units.div_ceil(BLOCK.into()))?, BLOCK);
        let rows = problem.rotary.as_ref().map_or(0, |rotary| rotary.rows);
        let sizes = [units, of_token, of_keys, of_keys + of_values, problem.pages * problem.page, problem.page, rows];
        let [cos, sin] = problem.rotary.as_ref().map_or([0; 2], |rotary| rotary.table_strides);
        let query_strides = queries.map_or([0; 2], |(_, strides)| strides);
        let strides = [
            &problem.k_strides[..],
            &problem.v_strides,
            &query_strides,
            &problem.k_pages,
            &problem.v_pages,
            &[cos, sin],
        ]
        .concat();
        let inputs: Vec<Operand> = (0..plan.inputs.len()).map(Operand::Input).collect();
        let of_queries = queries.map_or(Arg::Null, |_| Arg::Pointer(Operand::Output(2)));
        let step = Step::new(planner.kernel(config, kernel::kernel_of), launch)
            .operands(inputs, kernel::MAX_INPUTS)
            .arg(Operand::Output(0))
            .arg(Operand::Output(1))
            .arg(of_queries)
            .words(&sizes.map(|size| size as u32))
            .words(&strides)
            .words(&problem.scale_bits.map(f32::from_bits));
        Ok(plan.step(step))
    }
}

//! Digests of elements by their places: the sum, modulo 2^64, of the bits of each element times a
//! [key](Digest::key) of the place where it stands in some longer list.
//!
//! The order of the elements in memory does not matter, nor how they are split: digests of parts
//! add up to that of the whole. So what a host reads of a file in one order compares with what
//! several devices hold of it in another. A change of one element is always seen, other changes but
//! for one in about 2^64 of them; who can choose elements can choose two lists of one digest, so it
//! protects from faults, not from attackers.
//!
//! [`Digest::of_bytes`] is the same on the host (`host`), `kernel` that of devices.

mod host;
mod kernel;

use warpfold_device::LaunchConfig;

use host::GROUP;
use kernel::{BLOCK, DigestArgs, DigestConfig, WORDS};

use crate::layout::{Dim, Layout, dims};
use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, TensorSpec};
use crate::walk::walk_of;
use crate::{Dtype, Error, Shipped};

// THRESHOLD: blocks walk over what is left; tested by
// crates/kernels/tests/operations/walks.rs::elements_beyond_the_grid_are_digested_by_the_blocks_that_there_are
/// Blocks at most: threads take more elements instead.
const MAX_BLOCKS: u64 = 1 << 11;

/// The family of digests. Its input is a tensor, its output one word of 64 bits, to which the
/// digest is added.
#[derive(Debug, Clone, Copy, Default)]
pub struct Digest;

/// What is digested.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    bytes: u64,
    alignment: u64,
    config: DigestConfig,
    /// Groups, or elements.
    count: u64,
    /// The place of the first.
    first: u64,
    dims: [u64; WORDS],
}

impl Problem {
    /// A tensor whose first element stands at the place `first`, and whose others follow by
    /// `strides`, one a dimension.
    ///
    /// # Errors
    /// Those of [`Layout::new`].
    ///
    /// # Panics
    /// If there is not one stride for each dimension.
    pub fn new(tensor: &TensorSpec, first: u64, strides: &[isize]) -> Result<Self, Error> {
        let places = Layout::new(tensor.layout.shape().to_vec(), strides.to_vec())?;
        let (bits, len) = (tensor.dtype.bits(), tensor.layout.len() as u64);
        let mut dims = dims(&[&tensor.layout, &places], |_| true);
        if dims.is_empty() {
            dims.push(Dim { size: len, strides: vec![1, 1] });
        }
        let is_grouped = first.is_multiple_of(GROUP) && are_groups(&dims, tensor);
        if is_grouped && let Some(inner) = dims.last_mut() {
            *inner = Dim { size: inner.size / GROUP, strides: vec![GROUP as i64; 2] };
        }
        let count = if is_grouped { len / GROUP } else { len };
        let config = DigestConfig { bits, is_grouped, rank: dims.len() };
        let (bytes, alignment) = (tensor.bytes(), tensor.alignment());
        Ok(Self { bytes, alignment, config, count, first, dims: walk_of(&dims) })
    }
}

/// Whether elements lie in whole groups that one access, or several of 16 bytes, can load.
fn are_groups(dims: &[Dim], tensor: &TensorSpec) -> bool {
    let Some((inner, outer)) = dims.split_last() else { return false };
    let is_whole = |n: u64| n.is_multiple_of(GROUP);
    inner.strides == [1, 1]
        && is_whole(inner.size)
        && outer.iter().flat_map(|dim| &dim.strides).all(|stride| is_whole(stride.unsigned_abs()))
        && tensor.alignment() >= (GROUP * tensor.dtype.bytes()).min(16)
}

impl Family for Digest {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { bytes, alignment, config, count, first, dims } = *problem;
        let mut plan = Plan::new("digest").choice(format_args!("{config:?}"));
        let args = DigestArgs::<Planned> {
            from: plan.add_input(OperandSpec::new("the tensor", bytes, alignment)),
            sum: plan.add_output(OperandSpec::new("the sum", 8, 8)),
            count,
            first,
            dims,
        };
        let blocks = count.div_ceil(BLOCK.into()).min(MAX_BLOCKS) as u32;
        if blocks == 0 {
            return Ok(plan);
        }
        let kernel = planner.kernel(config, kernel::kernel_of);
        Ok(plan.step(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?))
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let listed = [(Dtype::U16, true, 1), (Dtype::U16, true, 3), (Dtype::U32, true, 2), (Dtype::U16, false, 2)];
    Shipped::each(listed.map(|(bits, is_grouped, rank)| kernel::kernel_of(&DigestConfig { bits, is_grouped, rank })))
}

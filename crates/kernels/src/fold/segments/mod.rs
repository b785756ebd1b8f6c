//! Folds of segments: a ragged axis, cut by offsets that lie on the device, each segment folded by itself, in one launch.
//!
//! Segment `s` has the items from `offsets[s]` to before `offsets[s + 1]`; offsets ascend. Items before the first and
//! behind the last offset belong to no segment; what an offset says beyond the end is cut off. A segment without items
//! gives the identity. Positions count from the start of the segment.
//!
//! **Who folds.** A plan knows the number of segments and of items, not their sizes, so the kernel sorts segments as it
//! meets them: a few lanes take a short one (as many as the average asks for), a warp one that is longer, the block one
//! longer still. Segments beyond `PART` items are cut into as many parts of one size as there are whole `PART`s in them, for
//! blocks of their own. The whole is cut into ranges of `PART` items; the first items of ranges that a segment holds stand
//! for its parts, so that one search for each range finds them all. The block that comes last folds the parts of a segment.
//!
//! **Order.** Fixed by the plan and the segment's own length: not by timing, nor by the sizes of other segments or where it
//! begins.

mod kernel;
mod plan;

use warpfold_device::{Stream, View, ViewMut};

pub use kernel::Segments;
pub use plan::SegmentsPlan;

use super::launch::{Operands, check_room, launch};
use super::{Fold, Monoid};
use crate::layout::Layout;
use crate::reductions::{self, Options, Reduction};
use crate::{AnyKernel, Dtype, Error, Workspace};

impl<M: Monoid> Fold<M> {
    /// Plans the fold of `num_segments` segments of tensors of one dimension and one size. Offsets are of type `offsets`,
    /// [`Dtype::I32`] or [`Dtype::I64`], one more than there are segments.
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for a tensor of another rank or other offsets,
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn plan_segments(
        &self,
        layouts: &[&Layout],
        offsets: Dtype,
        num_segments: usize,
    ) -> Result<SegmentsPlan, Error> {
        plan::plan(self.monoid, layouts, offsets, num_segments as u64)
    }

    /// The kernel of a plan; built once.
    #[must_use]
    pub fn segments_kernel(&self, plan: &SegmentsPlan) -> AnyKernel {
        self.segments_kernels.get(&plan.shape, || kernel::kernel_of(self, &plan.shape))
    }

    /// Enqueues the fold: one launch. Results lie side by side in the order of the segments.
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for an output that is too short; what the device says.
    ///
    /// # Panics
    /// If there is not one view for each input and output.
    pub fn launch_segments<'a>(
        &self,
        stream: &Stream,
        plan: &SegmentsPlan,
        inputs: Vec<View<'a, u8>>,
        offsets: View<'a, u8>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        assert_eq!(inputs.len(), self.source.dtypes().len(), "one view for each input");
        check_room(&self.sink, &outputs, plan.words()[0])?;
        let Some(config) = plan.launch_on(stream.device().limits()) else { return Ok(()) };
        let (words, tickets) = workspace.get(stream.device(), plan.workspace_words, plan.tickets)?;
        let operands = Operands { inputs, outputs, words, tickets: Some(tickets), offsets: Some(offsets) };
        launch(stream, &self.segments_kernel(plan), config, operands, &plan.words())
    }
}

/// Kernels of every kind, each of another type, for the list of all kernels; with the threads of their blocks.
pub(crate) fn kernels() -> Vec<(AnyKernel, u32)> {
    let cases = [
        (Reduction::Sum, Dtype::F32, Dtype::I32, 1 << 20, 1 << 19),
        (Reduction::Sum, Dtype::I8, Dtype::I64, 1 << 20, 1 << 16),
        (Reduction::ArgMax, Dtype::Bf16, Dtype::I64, 1 << 20, 100),
        (Reduction::LogSumExp, Dtype::F32, Dtype::I32, 1000, 100),
    ];
    let kernel = |(reduction, dtype, offsets, len, num_segments)| {
        let fold = reductions::fold_of(reduction, &[dtype], Options::default()).ok()?;
        let plan = fold.plan_segments(&[&Layout::contiguous(&[len]).ok()?], offsets, num_segments).ok()?;
        Some((fold.segments_kernel(&plan), plan.launch?.block[0]))
    };
    cases.map(kernel).map(|listed| listed.expect("these are planned")).into()
}

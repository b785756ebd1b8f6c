//! A fold whose monoid is forgotten: what a table of operations holds.

use warpfold_device::{Device, Stream, View, ViewMut};

use super::{Fold, Monoid, Plan, SegmentsPlan};
use crate::layout::Layout;
use crate::{AnyKernel, Dtype, Error, Ready, Workspace};

/// A [`Fold`] of any monoid.
pub trait AnyFold: std::fmt::Debug + Send + Sync {
    /// The element types of its inputs.
    fn inputs(&self) -> &[Dtype];

    /// The element types of its outputs.
    fn outputs(&self) -> &[Dtype];

    /// How many elements of each output a result takes, side by side: 1, but for lists.
    fn lens(&self) -> &[u32];

    /// As [`Fold::plan`].
    ///
    /// # Errors
    /// Those of [`Fold::plan`].
    fn plan(&self, layouts: &[&Layout], addresses: &[u64], axes: &[usize]) -> Result<Plan, Error>;

    /// As [`Fold::kernel`].
    fn kernel(&self, plan: &Plan) -> AnyKernel;

    /// As [`Fold::ready`].
    ///
    /// # Errors
    /// Those of [`Fold::ready`].
    fn ready(&self, device: &Device, plan: &Plan) -> Result<Option<Ready>, Error>;

    /// As [`Fold::launch`].
    ///
    /// # Errors
    /// Those of [`Fold::launch`].
    fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error>;

    /// As [`Fold::plan_segments`].
    ///
    /// # Errors
    /// Those of [`Fold::plan_segments`].
    fn plan_segments(&self, layouts: &[&Layout], offsets: Dtype, num_segments: usize) -> Result<SegmentsPlan, Error>;

    /// As [`Fold::segments_kernel`].
    fn segments_kernel(&self, plan: &SegmentsPlan) -> AnyKernel;

    /// As [`Fold::launch_segments`].
    ///
    /// # Errors
    /// Those of [`Fold::launch_segments`].
    fn launch_segments<'a>(
        &self,
        stream: &Stream,
        plan: &SegmentsPlan,
        inputs: Vec<View<'a, u8>>,
        offsets: View<'a, u8>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error>;
}

impl<M: Monoid> AnyFold for Fold<M> {
    fn inputs(&self) -> &[Dtype] {
        self.source.dtypes()
    }

    fn outputs(&self) -> &[Dtype] {
        self.sink.dtypes()
    }

    fn lens(&self) -> &[u32] {
        self.sink.lens()
    }

    fn plan(&self, layouts: &[&Layout], addresses: &[u64], axes: &[usize]) -> Result<Plan, Error> {
        Self::plan(self, layouts, addresses, axes)
    }

    fn kernel(&self, plan: &Plan) -> AnyKernel {
        Self::kernel(self, plan)
    }

    fn ready(&self, device: &Device, plan: &Plan) -> Result<Option<Ready>, Error> {
        Self::ready(self, device, plan)
    }

    fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        Self::launch(self, stream, plan, inputs, outputs, workspace)
    }

    fn plan_segments(&self, layouts: &[&Layout], offsets: Dtype, num_segments: usize) -> Result<SegmentsPlan, Error> {
        Self::plan_segments(self, layouts, offsets, num_segments)
    }

    fn segments_kernel(&self, plan: &SegmentsPlan) -> AnyKernel {
        Self::segments_kernel(self, plan)
    }

    fn launch_segments<'a>(
        &self,
        stream: &Stream,
        plan: &SegmentsPlan,
        inputs: Vec<View<'a, u8>>,
        offsets: View<'a, u8>,
        outputs: Vec<ViewMut<'a, u8>>,
        workspace: &'a mut Workspace,
    ) -> Result<(), Error> {
        Self::launch_segments(self, stream, plan, inputs, offsets, outputs, workspace)
    }
}

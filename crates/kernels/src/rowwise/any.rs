//! A row operator whose type is forgotten: what a table of operators holds.

use warpfold_device::{Stream, View};
use warpfold_lang::Target;

use super::{Outputs, Plan, RowOperator, RowWise};
use crate::layout::Layout;
use crate::{AnyKernel, Dtype, Error, Workspace};

/// A [`RowWise`] of any operator.
pub trait AnyRowWise: std::fmt::Debug + Send + Sync {
    /// As [`RowWise::inputs`].
    fn inputs(&self) -> &[Dtype];

    /// As [`RowWise::columns`].
    fn columns(&self) -> &[Dtype];

    /// As [`RowWise::results`].
    fn results(&self) -> &[Dtype];

    /// As [`RowWise::stats`].
    fn stats(&self) -> &[Dtype];

    /// As [`RowWise::plan`].
    ///
    /// # Errors
    /// Those of [`RowWise::plan`].
    fn plan(
        &self,
        layouts: &[&Layout],
        addresses: &[u64],
        column_addresses: &[u64],
        first_axis: usize,
        target: &Target,
    ) -> Result<Plan, Error>;

    /// As [`RowWise::kernel`].
    fn kernel(&self, plan: &Plan) -> AnyKernel;

    /// As [`RowWise::launch_in_place`].
    ///
    /// # Errors
    /// Those of [`RowWise::launch_in_place`].
    fn launch_in_place(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: &[Option<View<'_, u8>>],
        columns: &[View<'_, u8>],
        outputs: Outputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), Error>;
}

impl<O: RowOperator> AnyRowWise for RowWise<O> {
    fn inputs(&self) -> &[Dtype] {
        Self::inputs(self)
    }

    fn columns(&self) -> &[Dtype] {
        Self::columns(self)
    }

    fn results(&self) -> &[Dtype] {
        Self::results(self)
    }

    fn stats(&self) -> &[Dtype] {
        Self::stats(self)
    }

    fn plan(
        &self,
        layouts: &[&Layout],
        addresses: &[u64],
        column_addresses: &[u64],
        first_axis: usize,
        target: &Target,
    ) -> Result<Plan, Error> {
        Self::plan(self, layouts, addresses, column_addresses, first_axis, target)
    }

    fn kernel(&self, plan: &Plan) -> AnyKernel {
        Self::kernel(self, plan)
    }

    fn launch_in_place(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: &[Option<View<'_, u8>>],
        columns: &[View<'_, u8>],
        outputs: Outputs<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        Self::launch_in_place(self, stream, plan, inputs, columns, outputs, workspace)
    }
}

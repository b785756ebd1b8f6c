//! A map whose items are forgotten: what a table of operations holds.

use std::sync::Arc;

use warpfold_device::{Stream, View, ViewMut};

use super::{Map, Plan};
use crate::layout::Layout;
use crate::{AnyKernel, Dtype, Error};

/// A [`Map`] of any items.
pub trait AnyMap: std::fmt::Debug + Send + Sync {
    /// The element types of its inputs.
    fn inputs(&self) -> &[Dtype];

    /// The element types of its outputs.
    fn outputs(&self) -> &[Dtype];

    /// As [`Map::plan`].
    ///
    /// # Errors
    /// Those of [`Map::plan`].
    fn plan(&self, inputs: &[&Layout], outputs: &[&Layout], addresses: &[u64]) -> Result<Plan, Error>;

    /// As [`Map::kernel`].
    fn kernel(&self, plan: &Plan) -> AnyKernel;

    /// As [`Map::launch`].
    ///
    /// # Errors
    /// Those of [`Map::launch`].
    fn launch<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<View<'a, u8>>,
        outputs: Vec<ViewMut<'a, u8>>,
    ) -> Result<(), Error> {
        self.launch_in_place(stream, plan, inputs.into_iter().map(Some).collect(), outputs)
    }

    /// As [`Map::launch_in_place`].
    ///
    /// # Errors
    /// Those of [`Map::launch_in_place`].
    fn launch_in_place<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<Option<View<'a, u8>>>,
        outputs: Vec<ViewMut<'a, u8>>,
    ) -> Result<(), Error>;

    /// As [`Map::scalars`]: it shares the kernels.
    fn with(&self, scalars: [u64; 2]) -> Arc<dyn AnyMap>;
}

impl<I: Copy + 'static, O: Copy + 'static> AnyMap for Map<I, O> {
    fn inputs(&self) -> &[Dtype] {
        self.source.dtypes()
    }

    fn outputs(&self) -> &[Dtype] {
        self.sink.dtypes()
    }

    fn plan(&self, inputs: &[&Layout], outputs: &[&Layout], addresses: &[u64]) -> Result<Plan, Error> {
        Self::plan(self, inputs, outputs, addresses)
    }

    fn kernel(&self, plan: &Plan) -> AnyKernel {
        Self::kernel(self, plan)
    }

    fn launch_in_place<'a>(
        &self,
        stream: &Stream,
        plan: &Plan,
        inputs: Vec<Option<View<'a, u8>>>,
        outputs: Vec<ViewMut<'a, u8>>,
    ) -> Result<(), Error> {
        Self::launch_in_place(self, stream, plan, inputs, outputs)
    }

    fn with(&self, scalars: [u64; 2]) -> Arc<dyn AnyMap> {
        Arc::new(self.clone().scalars(scalars))
    }
}

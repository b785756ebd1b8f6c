//! Copies of a tensor with another one in the place of a part.

use std::sync::Arc;

use warpfold_kernels::map::copy_of;
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::{Error, ErrorKind};

use crate::{Indices, Tensor};

impl Tensor {
    /// A copy with another tensor, broadcast to their shape, in the place of the elements that
    /// [`Tensor::i`] gives for these indices.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_i32, 2, 3], [4, 5, 6]], &device)?;
    /// let zeros = Tensor::new(&[[0_i32], [0]], &device)?;
    /// assert_eq!(x.slice_assign(&[0..2, 1..2], &zeros)?.to_vec2::<i32>()?, [[1, 0, 3], [4, 0, 6]]);
    /// assert_eq!(x.slice_assign((1, ..), &zeros.i((0, ..))?)?.to_vec2::<i32>()?, [[1, 2, 3], [0, 0, 0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::i`], [`ErrorKind::ShapeMismatch`], [`ErrorKind::DtypeMismatch`].
    pub fn slice_assign(&self, indices: impl Into<Indices>, source: &Self) -> Result<Self, Error> {
        source.expect_dtype("the source of slice_assign", self.dtype())?;
        let mut copy = self.copy()?;
        let part = copy.i(indices)?;
        let source = source.broadcast(part.shape())?;
        if part.is_empty() {
            return Ok(copy);
        }
        let (spec, first) = (TensorSpec::new(part.dtype(), part.layout.clone(), part.address()), part.first);
        // Nobody else sees the copy.
        drop(part);
        let (map, queue) = (copy_of(self.dtype()), self.queue());
        let problem = map.problem(vec![source.spec()], vec![spec]);
        let memory = Arc::get_mut(&mut copy.memory).ok_or(ErrorKind::SharedMemory)?;
        let view = memory.view_mut(first * self.dtype().bytes() as usize..)?;
        queue.run(&map, problem, &[Some(source.memory_view()?)], &mut [view])?;
        Ok(copy)
    }
}

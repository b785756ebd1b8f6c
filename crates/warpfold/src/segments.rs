//! Reductions of segments of tensors.

use warpfold_kernels::reductions::{self, Options, Reduction};
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// A reduction of each segment of a tensor of one dimension: segment `s` has the elements from `offsets[s]` to before
    /// `offsets[s + 1]`. Offsets are `i32` or `i64`, ascend, and lie on the device; nothing is read outside of the tensor,
    /// whatever they say. A segment without elements gives what the reduction gives for nothing: 0, 1, the farthest value,
    /// NaN.
    ///
    /// ```
    /// use warpfold::reductions::{Options, Reduction};
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[4])?;
    /// let offsets = Tensor::from_slice(&device, &[0_i32, 3, 3, 4], &[4])?;
    /// let sums = x.segment_reduce(Reduction::Sum, &offsets, Options::default())?;
    /// assert_eq!(sums[0].to_vec::<f32>()?, [6.0, 0.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for tensors of other ranks or offsets of other types; [`ErrorKind::Unsupported`] for the
    /// element type, and what else [`reductions::fold_of`] says.
    pub fn segment_reduce(&self, reduction: Reduction, offsets: &Self, options: Options) -> Result<Vec<Self>, Error> {
        if offsets.rank() != 1 || offsets.is_empty() || !offsets.layout.is_contiguous() {
            let reason = format!("takes offsets side by side in one dimension, at least one, not {offsets:?}");
            return Err(ErrorKind::Operand { operator: "segment-reduce", reason }.into());
        }
        let num_segments = offsets.len() - 1;
        let fold = reductions::fold_of(reduction, &[self.dtype], options)?;
        let plan = fold.plan_segments(&[&self.layout], offsets.dtype, num_segments)?;
        let outputs = fold.outputs().iter().map(|dtype| Allocated::new(&self.queue, *dtype, &[num_segments]));
        let mut outputs: Vec<Allocated> = outputs.collect::<Result<_, _>>()?;
        let written = outputs.iter_mut().map(|output| output.buffer.as_view_mut()).collect();
        let (stream, mut workspace) = (self.queue.stream(), self.queue.workspace());
        fold.launch_segments(stream, &plan, vec![self.view()?], offsets.view()?, written, &mut workspace)?;
        drop(workspace);
        Ok(outputs.into_iter().map(Allocated::finish).collect())
    }
}

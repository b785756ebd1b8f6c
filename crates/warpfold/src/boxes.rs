//! Non-maximum suppression (NMS) of detected boxes.

use warpfold_kernels::nms::{Nms, Problem};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// Non-maximum suppression, on the device: of boxes `[N, 4]` (x1, y1, x2, y2) and scores `[N]`,
    /// both `f32`, the positions of those that are kept, as `i64`, from the highest score down. A
    /// box is suppressed where its overlap with a kept one of a higher score, intersection by union
    /// with corners that count as pixels, is above the threshold. Of equal scores the lower
    /// position comes first, and NaN comes last; with a corner that is NaN nothing overlaps. Waits
    /// for the device, to say how many they are.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let corners = [0.0_f32, 0.0, 9.0, 9.0, 0.0, 1.0, 9.0, 9.0, 20.0, 20.0, 29.0, 29.0];
    /// let boxes = Tensor::from_slice(&corners, &[3, 4], &device)?;
    /// let scores = Tensor::from_slice(&[0.5_f32, 0.9, 0.1], &[3], &device)?;
    /// assert_eq!(boxes.nms(&scores, 0.5)?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for the shapes, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::TooLarge`].
    pub fn nms(&self, scores: &Self, threshold: f32) -> Result<Self, Error> {
        self.expect_dtype("the boxes", Dtype::F32)?;
        scores.expect_dtype("the scores", Dtype::F32)?;
        let num_boxes = match (self.shape(), scores.shape()) {
            ([boxes, 4], [len]) if boxes == len => *len,
            (left, right) => {
                let reason = format!("boxes [n, 4] and scores [n] have {left:?} and {right:?}");
                return Err(ErrorKind::Operand { operator: "nms", reason }.into());
            }
        };
        let (boxes, scores) = (self.contiguous()?, scores.contiguous()?);
        let mut indices = Allocated::new(self.queue(), Dtype::I64, &[num_boxes])?;
        let mut count = Allocated::new(self.queue(), Dtype::I64, &[1])?;
        let problem = Problem::new(num_boxes as u64, threshold);
        let outputs = &mut [indices.buffer.as_view_mut(), count.buffer.as_view_mut()];
        self.queue().run(&Nms, problem, &[Some(boxes.memory_view()?), Some(scores.memory_view()?)], outputs)?;
        let kept = count.finish().to_vec::<i64>()?[0] as usize;
        indices.finish().slice(0, ..kept)
    }
}

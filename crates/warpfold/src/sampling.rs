//! Tokens drawn from logits.

use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::sampling::{Rows, Sample};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// Draws a token of each row of logits (`[rows, vocab]` of `f32`), as `rows` says. `records` is
    /// on the device what [`Rows::words`] gives, as `i32`. Gives words of 32 bits, a row per row:
    /// the token and the bits of its log-probability, then the same of the most likely tokens.
    ///
    /// ```
    /// use warpfold::{Device, Draw, DrawRows, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let logits = Tensor::from_slice(&[0.0_f32, 2.0, 2.0, -1.0], &[1, 4], &device)?;
    /// let (mut rows, mut words) = (DrawRows::default(), Vec::new());
    /// rows.push(&Draw { top: 1, banned: &[1], ..Draw::default() }); // at temperature 0
    /// rows.words(&mut words);
    /// let words: Vec<i32> = words.into_iter().map(u32::cast_signed).collect();
    /// let drawn = logits.sample(&rows, &Tensor::from_slice(&words, &[words.len()], &device)?)?;
    /// let drawn = drawn.to_vec::<i32>()?;
    /// assert_eq!((drawn[0], drawn[2]), (2, 1)); // the best that is not banned; the most likely one
    /// assert_eq!(drawn[1], drawn[3]); // both are as likely
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for another number of rows or words, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Empty`] for an empty vocabulary; what the device says.
    pub fn sample(&self, rows: &Rows, records: &Self) -> Result<Self, Error> {
        self.expect_dtype("the logits", Dtype::F32)?;
        records.expect_dtype("the records", Dtype::I32)?;
        let refused = |reason: String| Error::from(ErrorKind::Operand { operator: "sampling", reason });
        let [num, vocab] = *self.shape() else {
            return Err(refused(format!("logits have 2 axes, not {}", self.rank())));
        };
        if num != rows.len() {
            return Err(refused(format!("{num} rows of logits, and records of {}", rows.len())));
        }
        if records.len() != rows.num_words() {
            return Err(refused(format!("{} words of records, not {}", records.len(), rows.num_words())));
        }
        let (logits, records) = (self.contiguous()?, records.contiguous()?);
        let problem = rows.problem(vocab as u64, alignment_of([logits.address()]));
        let mut output = Allocated::new(self.queue(), Dtype::I32, &[num, problem.stride() as usize])?;
        let inputs = [Some(logits.memory_view()?), Some(records.memory_view()?)];
        self.queue().run(&Sample, problem, &inputs, &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }
}

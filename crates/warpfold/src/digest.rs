//! Digests of tensors: what their elements are, and where.

use warpfold_kernels::digest::{Digest, Problem};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

impl Tensor {
    /// A number that says what the elements are, and in which order; not how they lie in memory.
    /// Waits for the device. [`Digest::of_bytes`](warpfold_kernels::digest::Digest::of_bytes) is
    /// the same of bytes on the host.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &device)?;
    /// assert_eq!(x.digest()?, Tensor::new(&[1_f32, 2.0, 3.0, 4.0, 5.0, 6.0], &device)?.digest()?);
    /// assert_ne!(x.digest()?, x.t()?.digest()?);
    /// assert_eq!(x.t()?.digest()?, x.t()?.contiguous()?.digest()?);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says.
    pub fn digest(&self) -> Result<u64, Error> {
        let mut sums = Self::zeros(1, Dtype::U64, self.queue())?;
        self.digest_into(0, Layout::contiguous(self.shape())?.strides(), &mut sums, 0)?;
        Ok(sums.to_vec::<u64>()?[0])
    }

    /// Adds the digest of elements that stand elsewhere in a longer list than they lie here to the
    /// word `at` of `sums`, a contiguous tensor of `u64`: the first element at the place `first`,
    /// the others by a stride for each axis. Digests of the parts of a tensor add up to that of the
    /// whole, modulo 2^64.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`] unless the sums are `u64`, [`ErrorKind::SharedMemory`] if they
    /// have clones or views; [`ErrorKind::Operand`] unless there is a stride for each axis and such a
    /// word; what the device says.
    pub fn digest_into(&self, first: u64, strides: &[isize], sums: &mut Self, at: usize) -> Result<(), Error> {
        sums.expect_dtype("the sums of digests", Dtype::U64)?;
        if strides.len() != self.rank() || at >= sums.len() || !sums.is_contiguous() {
            let reason =
                format!("{} strides for {} axes, and word {at} of {} words", strides.len(), self.rank(), sums.len());
            return Err(ErrorKind::Operand { operator: "digest", reason }.into());
        }
        let problem = Problem::new(&self.spec(), first, strides)?;
        let outputs = &mut [sums.view_mut()?.slice(8 * at..8 * at + 8)?];
        self.queue().run(&Digest, problem, &[Some(self.memory_view()?)], outputs)
    }
}

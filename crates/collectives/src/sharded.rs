//! A tensor that is split over the ranks by an axis: the last level of a fold, over devices.

use warpfold::{Axes, Dtype, Tensor};
use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::fold::LogSumExp;
use warpfold_kernels::operations::{Number, Operation, Options};
use warpfold_kernels::reductions::{Options as FoldOptions, Reduction};

use crate::{Combine, Communicator, Error, ErrorKind, Reduce};

/// A rank's shard of a tensor whose axis is split over the ranks, in their order; shards may have
/// different lengths.
///
/// Reductions over the axis fold each shard by the kernels of one device, then the results of the
/// shards in the order of ranks. Every rank gets the result. The bits follow from the lengths of
/// the shards alone.
///
/// ```
/// use warpfold::Tensor;
/// use warpfold_collectives::{Error, Group, Sharded};
///
/// let largest = Group::virtual_gpus(2)?.run(|rank| -> Result<Vec<i64>, Error> {
///     let shard = [[3.0_f32, 9.0], [4.0, 1.0]][rank.rank()];
///     let x = Sharded::new(rank, Tensor::from_slice(&shard, &[2], rank.device())?, 0)?;
///     Ok(x.argmax()?.to_vec()?)
/// })?;
/// assert_eq!(largest, [[1], [1]]); // of 3, 9, 4, 1
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Sharded<'a> {
    rank: &'a Communicator,
    local: Tensor,
    axis: isize,
    /// Start of the shard in the whole axis.
    start: usize,
    /// Length of the whole axis.
    len: usize,
}

impl<'a> Sharded<'a> {
    /// Makes the tensor of which `local` is this rank's shard. All ranks call it.
    ///
    /// # Errors
    /// [`ErrorKind::Length`] for an empty shard; those of a rank that failed, and of an axis that
    /// the tensor does not have.
    pub fn new(rank: &'a Communicator, local: Tensor, axis: isize) -> Result<Self, Error> {
        let axis_idx = Axes::Of(&[axis]).resolve(local.rank())?[0];
        let own = local.shape()[axis_idx];
        if own == 0 {
            return Err(ErrorKind::Length { what: "a shard of a tensor", expected: 1, found: 0 }.into());
        }
        let stream = local.queue().stream().clone();
        let mine = rank.device().upload(&[own as u64])?;
        let mut all = rank.device().alloc::<u64>(rank.size())?;
        rank.all_gather(&stream, &mine, &mut all)?;
        let lens = all.download()?;
        let start = lens[..rank.rank()].iter().sum::<u64>() as usize;
        Ok(Self { rank, local, axis, start, len: lens.iter().sum::<u64>() as usize })
    }

    /// This rank's shard.
    #[must_use]
    pub fn local(&self) -> &Tensor {
        &self.local
    }

    /// Elements of the whole axis.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the axis has no elements: never, since no shard is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The sum over the axis; f16 and bf16 are added up in f32 and rounded once.
    ///
    /// # Errors
    /// Those of [`Tensor::sum`], and of a rank that failed.
    pub fn sum(&self) -> Result<Tensor, Error> {
        self.narrowed(self.folded(Reduction::Sum, Reduce::Sum)?)
    }

    /// The product over the axis; f16 and bf16 are multiplied in f32 and rounded once.
    ///
    /// # Errors
    /// As [`Sharded::sum`].
    pub fn product(&self) -> Result<Tensor, Error> {
        self.narrowed(self.folded(Reduction::Product, Reduce::Product)?)
    }

    /// The mean over the axis: the sum of all shards over the length of the whole, in f32 for f16
    /// and bf16, and rounded once.
    ///
    /// # Errors
    /// As [`Sharded::sum`]; [`ErrorKind::Unsupported`] for integers: cast them to the float that
    /// the mean is to have.
    pub fn mean(&self) -> Result<Tensor, Error> {
        if !self.local.dtype().is_float() {
            return Err(ErrorKind::Unsupported { what: "a mean", transport: "of integers" }.into());
        }
        let sum = self.folded(Reduction::Sum, Reduce::Sum)?;
        let len = Tensor::filled(sum.queue(), sum.dtype(), self.len as f64, &[1])?;
        self.narrowed(sum.elementwise(Operation::Div, &[&len], &Options::default())?)
    }

    /// Folds each shard, then the shards, in a type that is wide enough.
    fn folded(&self, reduction: Reduction, reduce: Reduce) -> Result<Tensor, Error> {
        let dtype = self.local.dtype();
        let wide = if dtype.is_float() && dtype.bytes() < 4 { Dtype::F32 } else { dtype };
        let options = FoldOptions { dtype: Some(wide), ..FoldOptions::default() };
        let own = self.local.reduce(reduction, Axes::Of(&[self.axis]), options)?.remove(0);
        self.across(&Combine::of(reduce, wide), own)
    }

    fn narrowed(&self, wide: Tensor) -> Result<Tensor, Error> {
        let dtype = self.local.dtype();
        if wide.dtype() == dtype { Ok(wide) } else { Ok(wide.cast(dtype)?) }
    }

    /// The maximum over the axis; NaN if any value is NaN.
    ///
    /// # Errors
    /// As [`Sharded::sum`].
    pub fn max(&self) -> Result<Tensor, Error> {
        let own = self.local.max(Axes::Of(&[self.axis]))?;
        self.across(&Combine::of(Reduce::Max, own.dtype()), own)
    }

    /// The position of the maximum in the whole axis: the first among equals, or the first NaN.
    ///
    /// # Errors
    /// As [`Sharded::sum`].
    pub fn argmax(&self) -> Result<Tensor, Error> {
        let own = self.local.max(Axes::Of(&[self.axis]))?;
        let of_all = self.across(&Combine::of(Reduce::Max, own.dtype()), own.copy()?)?;
        let options = Options { beta: Number::Integer(self.start as i128), ..Options::default() };
        let at = self.local.argmax(Axes::Of(&[self.axis]))?.elementwise(Operation::Scale, &[], &options)?;
        // A shard without the largest has no position to offer.
        let none = Tensor::filled(at.queue(), Dtype::I64, Number::Integer(i64::MAX.into()), at.shape())?;
        let plain = Options::default();
        let is_equal = own.elementwise(Operation::Eq, &[&of_all], &plain)?;
        let has_largest = if own.dtype().is_float() {
            let is_nan = own.elementwise(Operation::IsNan, &[], &plain)?;
            is_equal.elementwise(Operation::Or, &[&is_nan], &plain)?
        } else {
            is_equal
        };
        let offered = has_largest.elementwise(Operation::Where, &[&at, &none], &plain)?;
        self.across(&Combine::of(Reduce::Min, Dtype::I64), offered)
    }

    /// The log-sum-exp over the axis, in f32 (in f64 for f64).
    ///
    /// # Errors
    /// As [`Sharded::sum`].
    pub fn log_sum_exp(&self) -> Result<Tensor, Error> {
        let dtype = if self.local.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let options = FoldOptions { dtype: Some(dtype), ..FoldOptions::default() };
        let own = self.local.reduce(Reduction::LogSumExp, Axes::Of(&[self.axis]), options)?.remove(0);
        let combine = if dtype == Dtype::F64 {
            Combine::new("lse_f64", LogSumExp::<f64>::new(), Source::one::<f64>(dtype), Sink::one::<f64>(dtype))
        } else {
            Combine::new("lse_f32", LogSumExp::<f32>::new(), Source::one::<f32>(dtype), Sink::one::<f32>(dtype))
        };
        self.across(&combine, own)
    }

    /// This rank's shard of the softmax along the axis, in the type of the elements.
    ///
    /// # Errors
    /// As [`Sharded::sum`].
    pub fn softmax(&self) -> Result<Tensor, Error> {
        let lse = self.log_sum_exp()?.unsqueeze(self.axis)?.broadcast(self.local.shape())?;
        let plain = Options::default();
        let wide = self.local.cast(lse.dtype())?;
        let shares = wide.elementwise(Operation::Sub, &[&lse], &plain)?.elementwise(Operation::Exp, &[], &plain)?;
        Ok(shares.cast(self.local.dtype())?)
    }

    /// Combines the results of all shards, in the order of ranks.
    fn across(&self, combine: &Combine, own: Tensor) -> Result<Tensor, Error> {
        let (queue, shape) = (own.queue().clone(), own.shape().to_vec());
        let own = own.contiguous()?.into_buffer().or_else(|shared| -> Result<_, Error> {
            shared.copy()?.into_buffer().map_err(|_| {
                let what = "a view of a part of a tensor";
                ErrorKind::Unsupported { what, transport: "as what a rank brings" }.into()
            })
        })?;
        let (stream, count) = (queue.stream(), shape.iter().product::<usize>());
        macro_rules! typed {
            ($($dtype:ident $rust:ty),*) => {
                match combine.output() {
                    $(Dtype::$dtype => {
                        let mut all = self.rank.device().alloc::<$rust>(count)?;
                        self.rank.all_reduce_with(stream, combine, &own, &mut all)?;
                        Ok(Tensor::from_buffer(&queue, all, &shape)?)
                    })*
                    _ => {
                        let what = "a fold over ranks of this element type";
                        Err(ErrorKind::Unsupported { what, transport: "for a sharded tensor" }.into())
                    }
                }
            };
        }
        typed!(
            U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64, F32 f32, F64 f64
        )
    }
}

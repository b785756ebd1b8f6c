//! Reductions of tensors.

use warpfold_device::ViewMut;
use warpfold_kernels::fold::Fold;
use warpfold_kernels::plan::{Family, TensorSpec};
use warpfold_kernels::reductions::{self, Options, Reduction, Reductions};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::tensor::{Allocated, expect_inputs};
use crate::{Axes, Tensor};

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident $keepdim:ident $all:ident $reduction:ident;)*) => {
        /// Reductions over some axes, without options; [`Tensor::reduce`] has all of them with all
        /// options. `…_keepdim` leaves the axes in the result, of size 1; `…_all` reduces all axes.
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Tensor::reduce`].
            pub fn $method<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
                self.reduce_to_one(Reduction::$reduction, axes.into())
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`], with the axes in the result, of size 1.")]
            ///
            /// # Errors
            /// Those of [`Tensor::reduce`].
            pub fn $keepdim<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
                let axes = axes.into();
                self.reduce_to_one(Reduction::$reduction, axes)?.keep_axes(axes, self.rank())
            }

            #[doc = concat!("As [`Tensor::", stringify!($method), "`], over all axes.")]
            ///
            /// # Errors
            /// Those of [`Tensor::reduce`].
            pub fn $all(&self) -> Result<Self, Error> {
                self.reduce_to_one(Reduction::$reduction, Axes::All)
            }
        )*}
    };
}

methods! {
    /// The sum. Of integers it has 64 bits.
    sum sum_keepdim sum_all Sum;
    /// The product. Of integers it has 64 bits.
    product product_keepdim product_all Product;
    /// Alias of [`Tensor::product`].
    prod prod_keepdim prod_all Product;
    /// The mean; of nothing NaN.
    mean mean_keepdim mean_all Mean;
    /// The smallest element; NaN if there is one.
    min min_keepdim min_all Min;
    /// The largest element; NaN if there is one.
    max max_keepdim max_all Max;
    /// Alias of [`Tensor::min`].
    amin amin_keepdim amin_all Min;
    /// Alias of [`Tensor::max`].
    amax amax_keepdim amax_all Max;
    /// Tests if any element is not zero.
    any any_keepdim any_all Any;
    /// Tests if no element is zero.
    all all_keepdim all_all All;
    /// The number of elements that are not zero.
    count_nonzero count_nonzero_keepdim count_nonzero_all CountNonzero;
    /// The position of the smallest element in the folded axes: of equals the first, of NaN the
    /// first.
    argmin argmin_keepdim argmin_all ArgMin;
    /// The position of the largest element in the folded axes: of equals the first, of NaN the
    /// first.
    argmax argmax_keepdim argmax_all ArgMax;
    /// The sum of magnitudes.
    l1_norm l1_norm_keepdim l1_norm_all L1;
    /// The root of the sum of squares.
    l2_norm l2_norm_keepdim l2_norm_all L2;
    /// The largest magnitude.
    abs_max abs_max_keepdim abs_max_all AbsMax;
    /// The sum of squares.
    sum_squares sum_squares_keepdim sum_squares_all SumSquares;
    /// The logarithm of the sum of exponentials.
    log_sum_exp log_sum_exp_keepdim log_sum_exp_all LogSumExp;
    /// Alias of [`Tensor::log_sum_exp`].
    logsumexp logsumexp_keepdim logsumexp_all LogSumExp;
    /// The mean of squared distances from the mean.
    variance variance_keepdim variance_all Variance;
    /// The root of the variance.
    standard_deviation standard_deviation_keepdim standard_deviation_all StandardDeviation;
}

impl Tensor {
    /// The root of the sum of all squares; [`Tensor::l2_norm`] is that of some axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[3_f32, 4.0], &device)?.norm()?.to_scalar::<f32>()?, 5.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn norm(&self) -> Result<Self, Error> {
        self.l2_norm_all()
    }

    /// A reduction over some axes: its results, without those axes.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for the element type, and those of
    /// [`Axes::resolve`].
    pub fn reduce<'b>(
        &self,
        reduction: Reduction,
        axes: impl Into<Axes<'b>>,
        options: Options,
    ) -> Result<Vec<Self>, Error> {
        fold(&[self], reduction, axes.into(), options)
    }

    /// A variance, a standard deviation, or mean and variance, as [`Tensor::reduce`] gives them, in
    /// two passes: first the mean, then the distances from it. It reads twice what one pass reads
    /// once, and errs by less where a mean is large against the deviations from it.
    ///
    /// ```
    /// use warpfold::reductions::{Options, Reduction};
    /// use warpfold::{Axes, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1e9, 1e9 + 1.0, 1e9 + 2.0], &[3], &device)?;
    /// let variance = &x.reduce_in_two_passes(Reduction::Variance, Axes::All, Options::default())?[0];
    /// assert_eq!(variance.to_vec::<f64>()?, [2.0 / 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OptionNotTaken`](crate::ErrorKind::OptionNotTaken) for another reduction, and those of
    /// [`Tensor::reduce`].
    pub fn reduce_in_two_passes<'b>(
        &self,
        reduction: Reduction,
        axes: impl Into<Axes<'b>>,
        options: Options,
    ) -> Result<Vec<Self>, Error> {
        let axes = axes.into();
        let second = reductions::second_pass(reduction, self.dtype, options)?;
        let of_mean = Options { dtype: Some(Dtype::F64), ..Options::default() };
        let mean = fold(&[self], Reduction::Mean, axes, of_mean)?.remove(0);
        let repeated = mean.keep_axes(axes, self.rank())?.broadcast(self.shape())?;
        let mut results = fold_with(&second, &[self, &repeated], axes)?;
        if reduction == Reduction::MeanVariance {
            results.insert(0, mean.cast(results[0].dtype())?);
        }
        Ok(results)
    }

    /// A custom fold over some axes: its results, without those axes; those of a sink that takes
    /// lists have the axis of the list last. A fold of two inputs goes through
    /// [`Tensor::fold_with`].
    ///
    /// # Errors
    /// [`NumInputs`](crate::ErrorKind::NumInputs) or
    /// [`DtypeMismatch`](crate::ErrorKind::DtypeMismatch) unless the fold takes one input of this
    /// type, and those of [`Axes::resolve`].
    pub fn fold<'b>(&self, fold: &Fold, axes: impl Into<Axes<'b>>) -> Result<Vec<Self>, Error> {
        fold_with(fold, &[self], axes.into())
    }

    /// Variant of [`Tensor::fold`] over this tensor and another one of the same or a broadcastable
    /// shape.
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch), and those of [`Tensor::fold`].
    pub fn fold_with<'b>(&self, other: &Self, fold: &Fold, axes: impl Into<Axes<'b>>) -> Result<Vec<Self>, Error> {
        fold_with(fold, &[self, &other.broadcast(self.shape())?], axes.into())
    }

    /// The variance with `n - 1` in the divisor, as PyTorch's and candle's `var`; of
    /// [`Tensor::variance`] the divisor is `n`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.var(1)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn var<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let options = Options { ddof: Some(1), ..Options::default() };
        Ok(self.reduce(Reduction::Variance, axes, options)?.remove(0))
    }

    /// Variant of [`Tensor::var`] that keeps the axes with size 1.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.var_keepdim(1)?.shape(), [2, 1]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn var_keepdim<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        self.var(axes)?.keep_axes(axes, self.rank())
    }

    /// Variant of [`Tensor::var`] over all axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.var_all()?.to_scalar::<f32>()?, 1.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn var_all(&self) -> Result<Self, Error> {
        self.var(..)
    }

    /// The root of [`Tensor::var`], with `n - 1` in the divisor, as PyTorch's `std`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.std(0)?.to_scalar::<f32>()?, 1.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn std<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let options = Options { ddof: Some(1), ..Options::default() };
        Ok(self.reduce(Reduction::StandardDeviation, axes, options)?.remove(0))
    }

    /// Variant of [`Tensor::std`] that keeps the axes with size 1.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.std_keepdim(0)?.shape(), [1, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn std_keepdim<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        self.std(axes)?.keep_axes(axes, self.rank())
    }

    /// Variant of [`Tensor::std`] over all axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[2_f32, 2.0], [2.0, 2.0]], &device)?;
    /// assert_eq!(x.std_all()?.to_scalar::<f32>()?, 0.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn std_all(&self) -> Result<Self, Error> {
        self.std(..)
    }

    /// The variance as [`Tensor::var`], and the mean, in one pass.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// let (var, mean) = v.var_mean(0)?;
    /// assert_eq!((var.item::<f32>()?, mean.item::<f32>()?), (1.0, 2.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn var_mean<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<(Self, Self), Error> {
        let options = Options { ddof: Some(1), ..Options::default() };
        let (mean, variance) = two(self.reduce(Reduction::MeanVariance, axes, options)?);
        Ok((variance, mean))
    }

    /// The smallest and the largest element, in one pass; NaN if there is one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// let (low, high) = v.aminmax(0)?;
    /// assert_eq!((low.item::<f32>()?, high.item::<f32>()?), (1.0, 3.0));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn aminmax<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<(Self, Self), Error> {
        Ok(two(self.reduce(Reduction::MinMax, axes, Options::default())?))
    }

    /// The sum of all that is not NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[1_f32, f32::NAN, 2.0], &device)?.nansum(0)?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn nansum<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        self.masked_fill(&self.isnan()?, 0)?.sum(axes)
    }

    /// The mean of all that is not NaN.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[1_f32, f32::NAN, 2.0], &device)?.nanmean(0)?.to_scalar::<f32>()?, 1.5);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reduce`].
    pub fn nanmean<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        let count = self.isnan()?.logical_not()?.count_nonzero(axes)?;
        self.nansum(axes)?.div(&count.to_dtype(self.dtype())?)
    }

    fn reduce_to_one(&self, reduction: Reduction, axes: Axes<'_>) -> Result<Self, Error> {
        let results = self.reduce(reduction, axes, Options::default())?;
        Ok(results.into_iter().next().expect("a reduction has a result"))
    }

    /// The results of a reduction over `axes` with those axes put back, of size 1.
    ///
    /// # Errors
    /// Those of [`Axes::resolve`].
    pub fn keep_axes<'b>(&self, axes: impl Into<Axes<'b>>, rank: usize) -> Result<Self, Error> {
        axes.into().resolve(rank)?.into_iter().try_fold(self.clone(), |tensor, axis| tensor.unsqueeze(axis as isize))
    }
}

impl Tensor {
    /// The `k` largest elements along an axis, from the largest down (NaN first, the first of
    /// equals first), and their positions as `i64`: the axis has `k` positions in both.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[3.0_f32, 9.0, 1.0, 9.0], &[4], &device)?;
    /// let (values, positions) = x.top_k(2, -1)?;
    /// assert_eq!((values.to_vec::<f32>()?, positions.to_vec::<i64>()?), (vec![9.0, 9.0], vec![1, 3]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`OptionOutOfRange`](crate::ErrorKind::OptionOutOfRange) for a `k` above the size of the
    /// axis, [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange).
    pub fn top_k(&self, k: usize, axis: isize) -> Result<(Self, Self), Error> {
        let axis = self.axis(axis)?;
        let size = self.shape()[axis];
        if k > size {
            let (op, expected) = (Reduction::TopK.to_string(), format!("from 0 to {size}"));
            return Err(ErrorKind::OptionOutOfRange { op, option: "k", expected }.into());
        }
        // No list in registers is as long: then the whole axis is sorted.
        if k == 0 || k > Options::MAX_K {
            let (values, positions) = match k {
                0 => (self.clone(), Self::uninitialized(&self.queue, Dtype::I64, self.shape())?),
                _ => self.sort_descending(axis as isize)?,
            };
            return Ok((values.slice(axis as isize, ..k)?, positions.slice(axis as isize, ..k)?));
        }
        let options = Options { k: Some(k), ..Options::default() };
        // The lists of each result lie side by side: their axis goes back to its place as a view.
        let rank = self.rank() as isize;
        let back: Vec<isize> = (0..rank)
            .map(|position| match position.cmp(&(axis as isize)) {
                std::cmp::Ordering::Less => position,
                std::cmp::Ordering::Equal => rank - 1,
                std::cmp::Ordering::Greater => position - 1,
            })
            .collect();
        let mut results = fold(&[self], Reduction::TopK, Axes::Of(&[axis as isize]), options)?.into_iter();
        let (Some(values), Some(positions)) = (results.next(), results.next()) else {
            unreachable!("top-k has two results");
        };
        Ok((values.permute(&back)?, positions.permute(&back)?))
    }

    /// Alias of [`Tensor::top_k`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// let (values, places) = v.topk(2, 0)?;
    /// assert_eq!((values.to_vec::<f32>()?, places.to_vec::<i64>()?), (vec![3.0, 2.0], vec![0, 2]));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::top_k`].
    pub fn topk(&self, k: usize, axis: isize) -> Result<(Self, Self), Error> {
        self.top_k(k, axis)
    }
}

/// The results of a reduction that has two.
fn two(results: Vec<Tensor>) -> (Tensor, Tensor) {
    let Ok([first, second]) = <[Tensor; 2]>::try_from(results) else { unreachable!("the reduction has two results") };
    (first, second)
}

/// Folds tensors of one shape together by a reduction.
pub(crate) fn fold(
    inputs: &[&Tensor],
    reduction: Reduction,
    axes: Axes<'_>,
    options: Options,
) -> Result<Vec<Tensor>, Error> {
    let first = inputs[0];
    let axes = axes.resolve(first.rank())?;
    let dtypes: Vec<_> = inputs.iter().map(|input| input.dtype).collect();
    let outputs: Vec<_> =
        reductions::outputs(reduction, &dtypes, options)?.into_iter().map(|d| (d, options.k)).collect();
    let kept = kept_shape(first, &axes);
    let problem = reductions::Problem { reduction, options, inputs: specs_of(inputs), axes };
    run(&Reductions, problem, inputs, &kept, &outputs)
}

/// Folds tensors of one shape together.
pub(crate) fn fold_with(fold: &Fold, inputs: &[&Tensor], axes: Axes<'_>) -> Result<Vec<Tensor>, Error> {
    expect_inputs("the fold", inputs.iter().copied(), fold.inputs())?;
    let axes = axes.resolve(inputs[0].rank())?;
    let problem = fold.problem(specs_of(inputs), &axes);
    run(fold, problem, inputs, &kept_shape(inputs[0], &axes), &outputs_of(fold, None))
}

fn specs_of(inputs: &[&Tensor]) -> Vec<TensorSpec> {
    inputs.iter().map(|input| input.spec()).collect()
}

/// The shape without some axes.
fn kept_shape(tensor: &Tensor, axes: &[usize]) -> Vec<usize> {
    tensor.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| *size).collect()
}

/// The element types of a fold's outputs, and the size of the axis that each list is: `list`,
/// unless the sink says it.
pub(crate) fn outputs_of(fold: &Fold, list: Option<usize>) -> Vec<(Dtype, Option<usize>)> {
    let size = |len: u32| list.or((len > 1).then_some(len as usize));
    fold.outputs().iter().zip(fold.lens()).map(|(dtype, len)| (*dtype, size(*len))).collect()
}

/// Allocates outputs of a shape, followed by the axis of a list, and runs a family into them.
pub(crate) fn run<F: Family>(
    family: &F,
    problem: F::Problem,
    inputs: &[&Tensor],
    shape: &[usize],
    outputs: &[(Dtype, Option<usize>)],
) -> Result<Vec<Tensor>, Error> {
    let queue = &inputs[0].queue;
    let mut allocated = Vec::with_capacity(outputs.len());
    for (dtype, list) in outputs {
        let shape: Vec<usize> = shape.iter().copied().chain(*list).collect();
        allocated.push(Allocated::new(queue, *dtype, &shape)?);
    }
    let views = inputs.iter().map(|input| input.memory_view().map(Some)).collect::<Result<Vec<_>, _>>()?;
    let mut written: Vec<ViewMut<'_, u8>> = allocated.iter_mut().map(|output| output.buffer.as_view_mut()).collect();
    queue.run(family, problem, &views, &mut written)?;
    Ok(allocated.into_iter().map(Allocated::finish).collect())
}

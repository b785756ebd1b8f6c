//! Distinct elements: how many there are, and which.

use warpfold_kernels::fold::Direction;
use warpfold_kernels::unique::{Problem, Runs, UniqueTables};
use warpfold_kernels::{Dtype, Error};

use crate::tensor::Allocated;
use crate::{Axes, Tensor};

impl Tensor {
    /// Counts the distinct elements along some axes together, as `i64`. All NaN are one element,
    /// and so are -0 and +0; of nothing there are none. Takes four to eight words of 64 bits per
    /// element while it runs, fewer for elements of 8 and 16 bits.
    ///
    /// ```
    /// use warpfold::{Axes, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, f32::NAN, 1.0, 0.0, -0.0, f32::NAN], &[2, 3], &device)?;
    /// assert_eq!(x.unique_count(Axes::Of(&[-1]))?.to_vec::<i64>()?, [2, 2]);
    /// assert_eq!(x.unique_count(Axes::All)?.to_vec::<i64>()?, [3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge), and those of [`Axes::resolve`].
    pub fn unique_count(&self, axes: Axes<'_>) -> Result<Self, Error> {
        let folded = axes.resolve(self.rank())?;
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !folded.contains(axis)).collect();
        let order: Vec<isize> = kept.iter().chain(&folded).map(|axis| *axis as isize).collect();
        let size_of = |axes: &[usize]| axes.iter().map(|axis| self.shape()[*axis]).collect::<Vec<_>>();
        let (shape, row_shape) = (size_of(&kept), size_of(&folded));
        let num_rows: usize = shape.iter().product();
        let problem =
            Problem { dtype: self.dtype(), rows: num_rows as u64, row_len: row_shape.iter().product::<usize>() as u64 };
        let words = problem.words_per_row()? as usize;
        let rows = self.permute(&order)?.contiguous()?;
        let mut tables = Allocated::new(self.queue(), Dtype::U64, &[num_rows, words])?;
        let outputs = &mut [tables.buffer.as_view_mut()];
        self.queue().run(&UniqueTables, problem, &[Some(rows.memory_view()?)], outputs)?;
        tables.finish().count_nonzero(Axes::Of(&[-1]))?.reshape(&shape)
    }
}

/// The distinct elements of a tensor, or its distinct parts along an axis.
#[derive(Debug, Clone)]
pub struct Unique {
    /// Each of them once.
    pub values: Tensor,
    /// The position of the first of each, as `i64`.
    pub first_indices: Tensor,
    /// For each element (in C order, or along the axis) which of the values it is, as `i64`.
    pub inverse: Tensor,
    /// Number of occurrences of each distinct element, as `i64`.
    pub counts: Tensor,
    axis: Option<usize>,
}

impl Unique {
    /// The same in the order in which the values come first.
    ///
    /// # Errors
    /// What the device says.
    pub fn in_order_of_occurrence(self) -> Result<Self, Error> {
        let (first_indices, order) = self.first_indices.sort(0)?;
        // The inverse of the order: where each value goes.
        let (_, places) = order.sort(0)?;
        let axis = self.axis.unwrap_or(0);
        let values =
            self.values.moved(axis, Direction::Forward)?.gather_rows_known(&order)?.moved(axis, Direction::Reverse)?;
        let (inverse, counts) = (places.gather_rows_known(&self.inverse)?, self.counts.gather_rows_known(&order)?);
        Ok(Self { values, first_indices, inverse, counts, axis: self.axis })
    }
}

/// Distinct elements.
impl Tensor {
    /// The distinct elements, from the smallest up, with the position of the first of each, which
    /// of them each element is, and their counts. All NaN are one element, the last, and so are -0
    /// and +0, of which the first is given. Waits for the device, to say how many there are.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[2.0_f32, 1.0, 1.0, 3.0, 4.0, 3.0], &[6], &device)?;
    /// let unique = x.unique()?;
    /// assert_eq!(unique.values.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(unique.first_indices.to_vec::<i64>()?, [1, 0, 3, 4]);
    /// assert_eq!(unique.inverse.to_vec::<i64>()?, [1, 0, 0, 2, 3, 2]);
    /// assert_eq!(unique.counts.to_vec::<i64>()?, [2, 1, 2, 1]);
    /// let as_they_come = unique.in_order_of_occurrence()?;
    /// assert_eq!(as_they_come.values.to_vec::<f32>()?, [2.0, 1.0, 3.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for more than 2^30 elements, and what the device
    /// says.
    pub fn unique(&self) -> Result<Unique, Error> {
        let elements = self.contiguous()?.reshape(&[self.len()])?;
        let (_, order) = elements.sort(0)?;
        elements.runs(&order, None)
    }

    /// The distinct parts along an axis, in the order of their elements, the first of which counts
    /// most. Sorts once for each element of a part.
    ///
    /// # Errors
    /// [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange), and those of [`Tensor::unique`].
    pub fn unique_along(&self, axis: isize) -> Result<Unique, Error> {
        let axis = self.axis(axis)?;
        let parts = self.moved(axis, Direction::Forward)?.contiguous()?;
        let num_parts = parts.shape()[0];
        let part_len = parts.shape()[1..].iter().product();
        let rows = parts.reshape(&[num_parts, part_len])?;
        // From the last column to the first, each time keeping the order of equals.
        let mut order: Option<Self> = None;
        for column in (0..part_len).rev() {
            let column = rows.slice(1, column..column + 1)?.contiguous()?.reshape(&[num_parts])?;
            order = Some(match order {
                None => column.sort(0)?.1,
                Some(order) => order.gather_rows_known(&column.gather_rows_known(&order)?.sort(0)?.1)?,
            });
        }
        let order = match order {
            Some(order) => order,
            None => Self::filled(self.queue(), Dtype::U8, 0, &[num_parts])?.sort(0)?.1,
        };
        parts.runs(&order, Some(axis))
    }

    /// The runs of equal parts (along the first axis) in an order that sorts them.
    fn runs(&self, order: &Self, axis: Option<usize>) -> Result<Unique, Error> {
        let rows = self.shape()[0];
        let list = || Allocated::new(self.queue(), Dtype::I64, &[rows]);
        let (mut inverse, mut firsts, mut counts) = (list()?, list()?, list()?);
        let mut number = Allocated::new(self.queue(), Dtype::I64, &[1])?;
        let row_len = self.shape()[1..].iter().product::<usize>() as u64;
        let problem = Problem { dtype: self.dtype(), rows: rows as u64, row_len };
        let outputs =
            &mut [&mut inverse, &mut firsts, &mut counts, &mut number].map(|output| output.buffer.as_view_mut());
        self.queue().run(&Runs, problem, &[Some(self.memory_view()?), Some(order.memory_view()?)], outputs)?;
        let number = number.finish().to_vec::<i64>()?[0] as usize;
        let first_indices = firsts.finish().slice(0, ..number)?;
        let values = self.gather_rows_known(&first_indices)?;
        Ok(Unique {
            values: axis.map_or_else(|| Ok(values.clone()), |axis| values.moved(axis, Direction::Reverse))?,
            first_indices,
            inverse: inverse.finish(),
            counts: counts.finish().slice(0, ..number)?,
            axis,
        })
    }

    /// An axis moved to the front, or in reverse the first one to its place.
    fn moved(&self, axis: usize, direction: Direction) -> Result<Self, Error> {
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        match direction {
            Direction::Forward => order[..=axis].rotate_right(1),
            Direction::Reverse => order[..=axis].rotate_left(1),
        }
        self.permute(&order)
    }
}

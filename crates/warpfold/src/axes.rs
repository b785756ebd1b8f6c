//! The axes of a tensor that an operator works along.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use warpfold_kernels::layout::normalize_axes;
use warpfold_kernels::{Error, ErrorKind};

/// Dimensions that a tensor has at most.
const MAX_RANK: usize = 8;

/// Axes of a tensor; negative ones count from the end.
///
/// Operators take whatever becomes axes: a number, an array, a tuple, a slice or a range of them.
///
/// ```
/// use warpfold::{Axes, Device, Profile, Tensor};
///
/// let x = Tensor::new(&[[1_i32, 2, 3], [4, 5, 6]], &Device::virtual_gpu(Profile::H200))?;
/// assert_eq!(x.sum(-1)?.to_vec::<i64>()?, [6, 15]);
/// assert_eq!(x.sum([0, 1])?.to_scalar::<i64>()?, 21);
/// assert_eq!(x.sum(1..)?.to_vec::<i64>()?, x.sum(Axes::Of(&[1]))?.to_vec::<i64>()?);
/// assert_eq!(x.sum(..)?.to_vec::<i64>()?, x.sum(Axes::All)?.to_vec::<i64>()?);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes<'a> {
    /// All of them.
    All,
    /// These.
    Of(&'a [isize]),
    /// This one.
    One(isize),
    /// These, in a list of their own.
    List(AxisList),
    /// A half-open range of axes; `None` is the end.
    Range(isize, Option<isize>),
}

/// The last axes by candle's names: `D::Minus1` is -1, wherever an axis is taken.
///
/// ```
/// use warpfold::{D, Device, Profile, Tensor};
///
/// let x = Tensor::new(&[[1_i32, 2, 3], [4, 5, 6]], &Device::virtual_gpu(Profile::H200))?;
/// assert_eq!(x.sum(D::Minus1)?.to_vec::<i64>()?, [6, 15]);
/// assert_eq!(x.transpose(D::Minus1, D::Minus2)?.dims(), [3, 2]);
/// # Ok::<(), warpfold::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum D {}

#[allow(non_upper_case_globals, reason = "candle's names, of what are variants there")]
impl D {
    /// The last axis.
    pub const Minus1: isize = -1;
    /// The last axis but one.
    pub const Minus2: isize = -2;

    /// The `n`-th axis from the end, which 1 is the last of.
    #[allow(non_snake_case, reason = "candle's name, of what is a variant there")]
    #[must_use]
    pub const fn Minus(n: usize) -> isize {
        -(n as isize)
    }
}

/// A list of axes of no more than a tensor can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisList {
    axes: [isize; MAX_RANK],
    /// Number of axes, including those beyond the capacity.
    len: usize,
}

impl AxisList {
    fn new(axes: impl ExactSizeIterator<Item = isize>) -> Self {
        let mut list = Self { axes: [0; MAX_RANK], len: axes.len() };
        list.axes.iter_mut().zip(axes).for_each(|(place, axis)| *place = axis);
        list
    }
}

impl Axes<'_> {
    /// Returns the axes as sorted positions.
    ///
    /// # Errors
    /// [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange),
    /// [`RepeatedAxis`](crate::ErrorKind::RepeatedAxis),
    /// [`TooManyDimensions`](crate::ErrorKind::TooManyDimensions) for a longer list than any tensor
    /// has axes.
    pub fn resolve(self, rank: usize) -> Result<Vec<usize>, Error> {
        normalize_axes(&self.named(rank)?, rank)
    }

    /// Returns the axes as positions in the order given.
    pub(crate) fn in_order(self, rank: usize) -> Result<Vec<usize>, Error> {
        let named = self.named(rank)?;
        // Ranges and repetitions are looked at together, positions one by one.
        normalize_axes(&named, rank)?;
        Ok(named.iter().map(|axis| if *axis < 0 { axis + rank as isize } else { *axis } as usize).collect())
    }

    /// Returns the axes as given, negative ones included.
    pub(crate) fn named(self, rank: usize) -> Result<Vec<isize>, Error> {
        let ends = rank as isize;
        Ok(match self {
            Self::All => (0..ends).collect(),
            Self::Of(axes) => axes.to_vec(),
            Self::One(axis) => vec![axis],
            Self::List(list) if list.len > MAX_RANK => return Err(ErrorKind::TooManyDimensions(list.len).into()),
            Self::List(list) => list.axes[..list.len].to_vec(),
            Self::Range(start, end) => {
                let bound = |axis: isize| if axis < 0 { axis + ends } else { axis };
                let (low, high) = (bound(start), end.map_or(ends, bound));
                for (named, position) in [(start, low), (end.unwrap_or(ends), high)] {
                    if !(0..=ends).contains(&position) {
                        return Err(ErrorKind::AxisOutOfRange { axis: named, rank }.into());
                    }
                }
                (low..high).collect()
            }
        })
    }
}

impl<'a> From<&'a [isize]> for Axes<'a> {
    fn from(axes: &'a [isize]) -> Self {
        Self::Of(axes)
    }
}

impl<'a> From<&'a Vec<isize>> for Axes<'a> {
    fn from(axes: &'a Vec<isize>) -> Self {
        Self::Of(axes)
    }
}

impl<'a, const N: usize> From<&'a [isize; N]> for Axes<'a> {
    fn from(axes: &'a [isize; N]) -> Self {
        Self::Of(axes)
    }
}

impl From<RangeFull> for Axes<'_> {
    fn from(_: RangeFull) -> Self {
        Self::All
    }
}

macro_rules! of_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Axes<'_> {
            fn from(axis: $number) -> Self {
                Self::One(axis as isize)
            }
        }

        impl<const N: usize> From<[$number; N]> for Axes<'_> {
            fn from(axes: [$number; N]) -> Self {
                Self::List(AxisList::new(axes.into_iter().map(|axis| axis as isize)))
            }
        }

        impl From<($number, $number)> for Axes<'_> {
            fn from((a, b): ($number, $number)) -> Self {
                [a, b].into()
            }
        }

        impl From<($number, $number, $number)> for Axes<'_> {
            fn from((a, b, c): ($number, $number, $number)) -> Self {
                [a, b, c].into()
            }
        }

        impl From<($number, $number, $number, $number)> for Axes<'_> {
            fn from((a, b, c, d): ($number, $number, $number, $number)) -> Self {
                [a, b, c, d].into()
            }
        }

        impl From<Range<$number>> for Axes<'_> {
            fn from(range: Range<$number>) -> Self {
                Self::Range(range.start as isize, Some(range.end as isize))
            }
        }

        impl From<RangeFrom<$number>> for Axes<'_> {
            fn from(range: RangeFrom<$number>) -> Self {
                Self::Range(range.start as isize, None)
            }
        }

        impl From<RangeTo<$number>> for Axes<'_> {
            fn from(range: RangeTo<$number>) -> Self {
                Self::Range(0, Some(range.end as isize))
            }
        }

        impl From<RangeInclusive<$number>> for Axes<'_> {
            fn from(range: RangeInclusive<$number>) -> Self {
                Self::Range(*range.start() as isize, after(*range.end() as isize))
            }
        }

        impl From<RangeToInclusive<$number>> for Axes<'_> {
            fn from(range: RangeToInclusive<$number>) -> Self {
                Self::Range(0, after(range.end as isize))
            }
        }
    )*};
}

of_numbers!(i32, isize, usize);

macro_rules! of_borrowed {
    ($($number:ty),*) => {$(
        impl From<&[$number]> for Axes<'_> {
            fn from(axes: &[$number]) -> Self {
                Self::List(AxisList::new(axes.iter().map(|axis| *axis as isize)))
            }
        }

        impl<const N: usize> From<&[$number; N]> for Axes<'_> {
            fn from(axes: &[$number; N]) -> Self {
                axes[..].into()
            }
        }
    )*};
}

of_borrowed!(i32, usize);

/// The end of a range whose last axis is this one: after -1 it is the end.
fn after(last: isize) -> Option<isize> {
    (last != -1).then(|| last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<'a>(axes: impl Into<Axes<'a>>, expected: &[usize]) {
        assert_eq!(axes.into().resolve(4).expect("axes of four"), expected);
    }

    #[test]
    fn numbers_arrays_slices_and_ranges_are_axes() {
        check(-1, &[3]);
        check(2_usize, &[2]);
        check([0, -1], &[0, 3]);
        check(&[1_usize, 0][..], &[0, 1]);
        check((2, 1), &[1, 2]);
        check(.., &[0, 1, 2, 3]);
        check(1..3, &[1, 2]);
        check(1.., &[1, 2, 3]);
        check(..-1, &[0, 1, 2]);
        check(-2..=-1, &[2, 3]);
        check(..=1, &[0, 1]);
        check(2..2, &[]);
        assert_eq!(Axes::from([2, 0, -3]).in_order(4).expect("axes"), [2, 0, 1]);
    }

    #[test]
    fn axes_that_no_tensor_has_are_refused() {
        for axes in [Axes::from(4), Axes::from(-5), Axes::from(2..5), Axes::from(-5..), Axes::from([0, 4])] {
            assert!(
                matches!(axes.resolve(4).unwrap_err().kind(), ErrorKind::AxisOutOfRange { rank: 4, .. }),
                "{axes:?}"
            );
        }
        assert_eq!(*Axes::from([0; 9]).resolve(4).unwrap_err().kind(), ErrorKind::TooManyDimensions(9));
        assert_eq!(*Axes::from((1, 1)).resolve(4).unwrap_err().kind(), ErrorKind::RepeatedAxis(1));
    }
}

//! A tensor as a kernel parameter: address, strides and sizes.

use crate::params::load_once;
use crate::types::{Integer, Type};
use crate::{Global, Val};

/// A tensor in global memory, a field of a [`params!`](crate::params!) structure: the address of
/// its first element, `RANK` strides in elements, `RANK` sizes. Each stride and size is loaded
/// where it is first asked for, once. A tensor of fewer dimensions is passed as the first ones; the
/// others have the size 1 and the stride 0.
///
/// ```
/// use warpfold_lang::{Arch, Strided, Target, kernel, params, thread_idx, when};
///
/// params! {
///     struct ClearArgs {
///         matrix: Strided<2>,
///     }
/// }
/// let clear = kernel("clear", |args: ClearArgs| {
///     let index @ [row, _] = args.matrix.unravel::<2>(thread_idx().x);
///     when(row.lt(args.matrix.size(0)), || args.matrix.at(4, index).reinterpret::<u32>().set(0));
/// });
/// // An address, two strides, two sizes.
/// assert_eq!(clear.layout().bytes, 8 + 2 * 8 + 2 * 4);
/// assert!(clear.ptx(&Target::new(Arch::SM_80, (8, 0))).is_ok());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Strided<const RANK: usize> {
    base: Global<u8>,
    /// The parameter with its strides and sizes, and their offset there.
    numbers: usize,
    offset: u32,
}

impl<const RANK: usize> Strided<RANK> {
    /// The tensor whose strides and sizes start at byte `first` of a parameter.
    pub(crate) const fn of_param(base: Global<u8>, numbers: usize, offset: u32) -> Self {
        Self { base, numbers, offset }
    }

    /// Address of the first element.
    #[must_use]
    pub const fn base(self) -> Global<u8> {
        self.base
    }

    /// Stride of a dimension, in elements.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[track_caller]
    #[must_use]
    pub fn stride(self, dim: usize) -> Val<i64> {
        assert!(dim < RANK, "the tensor has {RANK} dimensions, there is none at {dim}");
        Val::from_raw(load_once(self.numbers, self.offset + 8 * dim as u32, Type::I64))
    }

    /// Size of a dimension.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[track_caller]
    #[must_use]
    pub fn size(self, dim: usize) -> Val<u32> {
        assert!(dim < RANK, "the tensor has {RANK} dimensions, there is none at {dim}");
        Val::from_raw(load_once(self.numbers, self.offset + 8 * RANK as u32 + 4 * dim as u32, Type::U32))
    }

    /// Offset in elements of the element at an index; missing positions are 0.
    ///
    /// # Panics
    /// If the index has no dimension or more than the tensor.
    #[track_caller]
    #[must_use]
    pub fn offset<I: Integer>(self, index: impl IntoIterator<Item = Val<I>>) -> Val<i64> {
        let terms = index.into_iter().enumerate().map(|(dim, index)| index.cast::<i64>() * self.stride(dim));
        terms.reduce(|sum, term| sum + term).expect("an index has dimensions")
    }

    /// Address of the element at an index, for a given element size: the base plus
    /// [`Self::offset`].
    ///
    /// # Panics
    /// As [`Self::offset`].
    #[track_caller]
    #[must_use]
    pub fn at<I: Integer>(self, element_bytes: u64, index: impl IntoIterator<Item = Val<I>>) -> Global<u8> {
        self.base().at(self.offset(index) * element_bytes as i64)
    }

    /// Index in the first `N` dimensions of the linear position `linear` in C order. Beyond the
    /// last position, the first coordinate exceeds the first size.
    ///
    /// # Panics
    /// If `N` is more than the dimensions of the tensor.
    #[track_caller]
    #[must_use]
    pub fn unravel<const N: usize>(self, linear: Val<u32>) -> [Val<u32>; N] {
        let (mut index, mut rest) = ([linear; N], linear);
        for dim in (0..N).rev() {
            index[dim] = if dim == 0 { rest } else { rest % self.size(dim) };
            if dim > 0 {
                rest = rest / self.size(dim);
            }
        }
        index
    }
}

//! Dimensions that several tensors are walked along together, as kernels take them: one array of
//! sizes and strides.

use warpfold_lang::{Array, Global, Operand, Ordered, Val, Word};

use crate::Dtype;
use crate::layout::{Dim, MAX_RANK};

/// Words of the array for so many tensors.
pub(crate) const fn walk_words(tensors: usize) -> usize {
    MAX_RANK * (1 + tensors)
}

/// The array: sizes, then the strides of each tensor.
pub(crate) fn walk_of<const WORDS: usize>(dims: &[Dim]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (i, dim) in dims.iter().enumerate() {
        words[i] = dim.size;
        for (tensor, stride) in dim.strides.iter().enumerate() {
            words[MAX_RANK * (1 + tensor) + i] = stride.cast_unsigned();
        }
    }
    words
}

/// The first `rank` dimensions inside a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<const WORDS: usize> {
    words: Array<u64, WORDS>,
    rank: usize,
}

impl<const WORDS: usize> Walk<WORDS> {
    pub(crate) const fn new(words: Array<u64, WORDS>, rank: usize) -> Self {
        Self { words, rank }
    }

    pub(crate) fn size(self, dim: usize) -> Val<u64> {
        self.words.at(dim)
    }

    pub(crate) fn stride(self, dim: usize, tensor: usize) -> Val<u64> {
        self.words.at(MAX_RANK * (1 + tensor) + dim)
    }

    /// Offset of the position `index`, counted in C order, in each of so many tensors. `small`
    /// promises that it and every size have 32 bits, which makes dividing cheaper.
    pub(crate) fn offsets(self, index: Val<u64>, tensors: usize, small: bool) -> Vec<Val<u64>> {
        self.offsets_by(index, tensors, |index, dim| divide(index, self.size(dim), small))
    }

    /// The same by another way to divide an index by the size of a dimension.
    pub(crate) fn offsets_by<T: Word + Ordered + Operand<T>>(
        self,
        index: Val<T>,
        tensors: usize,
        divide: impl Fn(Val<T>, usize) -> (Val<T>, Val<T>),
    ) -> Vec<Val<T>> {
        let mut offsets = vec![Val::constant(T::ZERO); tensors];
        let mut rest = index;
        for dim in (0..self.rank).rev() {
            let position = if dim == 0 {
                rest
            } else {
                let (above, position) = divide(rest, dim);
                rest = above;
                position
            };
            for (tensor, offset) in offsets.iter_mut().enumerate() {
                *offset = position.mul_add(self.stride(dim, tensor).cast::<T>(), *offset);
            }
        }
        offsets
    }

    /// Address of the position in each tensor; strides count elements.
    pub(crate) fn places(
        self,
        index: Val<u64>,
        tensors: &[Global<u8>],
        dtypes: &[Dtype],
        small: bool,
    ) -> Vec<Global<u8>> {
        let offsets = self.offsets(index, tensors.len(), small).into_iter();
        let place = |(offset, (tensor, dtype)): (Val<u64>, (&Global<u8>, &Dtype))| tensor.at(offset * dtype.bytes());
        offsets.zip(tensors.iter().zip(dtypes)).map(place).collect()
    }
}

/// Quotient and remainder; `small` promises that both numbers have 32 bits.
pub(crate) fn divide(a: Val<u64>, b: Val<u64>, small: bool) -> (Val<u64>, Val<u64>) {
    if small {
        let (a, b) = (a.cast::<u32>(), b.cast::<u32>());
        let quotient = a / b;
        return (quotient.cast(), (a - quotient * b).cast());
    }
    let quotient = a / b;
    (quotient, a - quotient * b)
}

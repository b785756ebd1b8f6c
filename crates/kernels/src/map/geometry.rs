//! Sizes and strides of a map as a kernel takes them: one array by value, of which each kernel
//! reads what it needs.

use warpfold_lang::{Array, Global, Operand, Ordered, Val, Word};

use crate::Dtype;
use crate::elements::Compute;
use crate::layout::{Dim, MAX_RANK};

use super::reciprocal::reciprocal;

/// Inputs at most.
pub(super) const MAX_INPUTS: usize = 3;
/// Outputs at most.
pub(super) const MAX_OUTPUTS: usize = 2;
/// Numbers that a problem may give to a map.
pub(super) const MAX_SCALARS: usize = 2;
/// Words of the array.
pub(super) const WORDS: usize = STRIDES + TENSORS * MAX_RANK;

const TENSORS: usize = MAX_INPUTS + MAX_OUTPUTS;
const SCALARS: usize = 2;
const BASES: usize = SCALARS + MAX_SCALARS;
const SIZES: usize = BASES + TENSORS;
const DIVISORS: usize = SIZES + MAX_RANK;
const STRIDES: usize = DIVISORS + MAX_RANK;

/// The dimensions of a kernel, of units of neighbouring elements. Strides are in bytes, one for
/// each tensor: the inputs, then the outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Elements.
    pub(super) len: u64,
    /// Units.
    pub(super) units: u64,
    /// Elements of the last unit, if it has fewer than the others.
    pub(super) rest: u64,
    /// From the first element of each tensor to the position 0.
    pub(super) bases: Vec<i64>,
    /// Outermost first.
    pub(super) dims: Vec<Dim>,
}

impl Geometry {
    /// As the kernel takes it.
    pub(super) fn words(&self, scalars: [u64; MAX_SCALARS]) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..2].copy_from_slice(&[self.units, self.rest]);
        words[SCALARS..BASES].copy_from_slice(&scalars);
        for (word, base) in words[BASES..].iter_mut().zip(&self.bases) {
            *word = base.cast_unsigned();
        }
        for (i, dim) in self.dims.iter().enumerate() {
            words[SIZES + i] = dim.size;
            words[DIVISORS + i] = reciprocal(dim.size);
            for (tensor, stride) in dim.strides.iter().enumerate() {
                words[STRIDES + MAX_RANK * tensor + i] = stride.cast_unsigned();
            }
        }
        words
    }
}

/// The array inside a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words(pub(super) Array<u64, WORDS>);

impl Words {
    pub(super) fn units(self) -> Val<u64> {
        self.0.at(0)
    }

    pub(super) fn rest(self) -> Val<u64> {
        self.0.at(1)
    }

    pub(super) fn scalars(self) -> Scalars {
        Scalars(self)
    }

    /// The address of the position 0 of a tensor.
    pub(super) fn base(self, tensor: usize, memory: Global<u8>) -> Global<u8> {
        memory.at(self.0.at(BASES + tensor))
    }

    pub(super) fn size(self, dim: usize) -> Val<u64> {
        self.0.at(SIZES + dim)
    }

    pub(super) fn stride(self, dim: usize, tensor: usize) -> Val<u64> {
        self.0.at(STRIDES + MAX_RANK * tensor + dim)
    }

    /// The offset of the position `index`, counted in C order over the first `rank` dimensions, in
    /// each of these tensors, in bytes from its base.
    pub(super) fn offsets<T: Index>(self, index: Val<T>, rank: usize, tensors: usize) -> Vec<Val<T>> {
        let mut offsets = vec![Val::constant(T::ZERO); tensors];
        let mut rest = index;
        for dim in (0..rank).rev() {
            let position = if dim == 0 {
                rest
            } else {
                let above = T::divide(rest, self, dim);
                let position = rest - above * self.size(dim).cast::<T>();
                rest = above;
                position
            };
            for (tensor, offset) in offsets.iter_mut().enumerate() {
                *offset = position.mul_add(self.stride(dim, tensor).cast::<T>(), *offset);
            }
        }
        offsets
    }
}

/// The type of positions: 32 bits where they and every offset fit in 31, else 64.
pub(super) trait Index: Word + Ordered + Operand<Self> {
    /// The quotient of a position and the size of a dimension.
    fn divide(position: Val<Self>, words: Words, dim: usize) -> Val<Self>;
    /// The address at an offset, which may be negative.
    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8>;
}

impl Index for u32 {
    fn divide(position: Val<Self>, words: Words, dim: usize) -> Val<Self> {
        let divisor = words.0.at(DIVISORS + dim);
        let (factor, shift) = (divisor.cast::<u32>(), (divisor >> 32_u32).cast::<u32>());
        (position.mul_hi(factor) + position) >> shift
    }

    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8> {
        memory.at(offset.bitcast::<i32>())
    }
}

impl Index for u64 {
    fn divide(position: Val<Self>, words: Words, dim: usize) -> Val<Self> {
        position / words.size(dim)
    }

    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8> {
        memory.at(offset)
    }
}

/// The numbers of a problem, inside a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Scalars(Words);

impl Scalars {
    /// The number at this position, whose bits were given as those of a `C`.
    ///
    /// # Panics
    /// Beyond the second.
    #[must_use]
    pub fn get<C: Compute>(self, position: usize) -> Val<C> {
        assert!(position < MAX_SCALARS, "a map has {MAX_SCALARS} scalars, there is none at {position}");
        let bits = self.0.0.at(SCALARS + position);
        let word = || bits.cast::<u32>();
        match C::DTYPE {
            Dtype::F64 => bits.bitcast::<f64>().cast(),
            Dtype::F32 => word().bitcast::<f32>().cast(),
            Dtype::I32 => word().bitcast::<i32>().cast(),
            Dtype::U32 => word().cast(),
            Dtype::I64 => bits.bitcast::<i64>().cast(),
            Dtype::U64
            | Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::I8
            | Dtype::I16
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::F8E4M3
            | Dtype::F8E5M2 => bits.cast(),
        }
    }
}

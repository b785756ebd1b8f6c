//! Sizes and strides of a map, and the parameters of its kernels.

use warpfold_lang::{Array, Global, Operand as LangOperand, Ordered, Val, Word, params};

use super::reciprocal::reciprocal;
use crate::Dtype;
use crate::elements::Compute;
use crate::layout::{Dim, MAX_RANK};
use crate::plan::{Operand, Planned, first_of};
use crate::walk::{Walk, walk_of, walk_words};

/// Inputs at most.
pub(super) const MAX_INPUTS: usize = 3;
/// Outputs at most.
pub(super) const MAX_OUTPUTS: usize = 2;
/// Numbers that a problem may give to a map.
pub(super) const MAX_SCALARS: usize = 2;
const TENSORS: usize = MAX_INPUTS + MAX_OUTPUTS;
/// Words of the dimensions.
const WORDS: usize = walk_words(TENSORS);

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
    /// The launch's arguments.
    pub(super) fn args(
        &self,
        inputs: impl IntoIterator<Item = Operand>,
        outputs: impl IntoIterator<Item = Operand>,
        scalars: [u64; MAX_SCALARS],
    ) -> MapArgs<Planned> {
        let (inputs, outputs) = (first_of(inputs), first_of(outputs));
        let (mut bases, mut divisors) = ([0; TENSORS], [0; MAX_RANK]);
        bases[..self.bases.len()].copy_from_slice(&self.bases);
        divisors.iter_mut().zip(&self.dims).for_each(|(divisor, dim)| *divisor = reciprocal(dim.size));
        let (units, rest, dims) = (self.units, self.rest, walk_of(&self.dims));
        MapArgs { inputs, outputs, units, rest, scalars, bases, divisors, dims }
    }
}

params! {
    /// Parameters of a map.
    pub(super) struct MapArgs {
        inputs: [Global<u8>; MAX_INPUTS], outputs: [Global<u8>; MAX_OUTPUTS],
        /// Units, and elements of the last one if it has fewer than the others.
        units: u64, rest: u64,
        scalars: [u64; MAX_SCALARS],
        /// From the first element of each tensor to the position 0, in bytes.
        bases: [i64; TENSORS],
        /// Reciprocals of the sizes.
        divisors: [u64; MAX_RANK],
        /// Strides are in bytes.
        dims: [u64; WORDS],
    }
}

impl MapArgs {
    /// The first so many inputs, and outputs.
    pub(super) fn tensors(&self, inputs: usize, outputs: usize) -> (Vec<Global<u8>>, Vec<Global<u8>>) {
        (self.inputs[..inputs].to_vec(), self.outputs[..outputs].to_vec())
    }

    pub(super) fn scalars(&self) -> Scalars {
        Scalars(self.scalars)
    }

    /// Address of the position 0 of a tensor.
    pub(super) fn base(&self, tensor: usize, memory: Global<u8>) -> Global<u8> {
        memory.at(self.bases.at(tensor))
    }

    /// The first `rank` dimensions.
    pub(super) const fn dims(&self, rank: usize) -> Walk<WORDS> {
        Walk::new(self.dims, rank)
    }

    /// Offset of the position `index`, counted in C order over the first `rank` dimensions, in each
    /// of so many tensors, in bytes from its base.
    pub(super) fn offsets<T: Index>(&self, index: Val<T>, rank: usize, tensors: usize) -> Vec<Val<T>> {
        let dims = self.dims(rank);
        dims.offsets_by(index, tensors, |index, dim| {
            let above = T::divide(index, self, dim);
            (above, index - above * dims.size(dim).cast::<T>())
        })
    }
}

/// The type of positions: 32 bits where they and every offset fit in 31, else 64.
pub(super) trait Index: Word + Ordered + LangOperand<Self> {
    /// The quotient of a position and the size of a dimension.
    fn divide(position: Val<Self>, args: &MapArgs, dim: usize) -> Val<Self>;
    /// The address at an offset, which may be negative.
    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8>;
}

impl Index for u32 {
    fn divide(position: Val<Self>, args: &MapArgs, dim: usize) -> Val<Self> {
        let divisor = args.divisors.at(dim);
        let (factor, shift) = (divisor.cast::<u32>(), (divisor >> 32_u32).cast::<u32>());
        (position.mul_hi(factor) + position) >> shift
    }

    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8> {
        memory.at(offset.bitcast::<i32>())
    }
}

impl Index for u64 {
    fn divide(position: Val<Self>, args: &MapArgs, dim: usize) -> Val<Self> {
        position / args.dims(dim + 1).size(dim)
    }

    fn of(memory: Global<u8>, offset: Val<Self>) -> Global<u8> {
        memory.at(offset)
    }
}

/// The numbers of a problem, inside a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Scalars(Array<u64, MAX_SCALARS>);

impl Scalars {
    /// The number at this position, whose bits were given as those of a `C`.
    ///
    /// # Panics
    /// Beyond the second.
    #[must_use]
    pub fn get<C: Compute>(self, position: usize) -> Val<C> {
        assert!(position < MAX_SCALARS, "a map has {MAX_SCALARS} scalars, there is none at {position}");
        let bits = self.0.at(position);
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

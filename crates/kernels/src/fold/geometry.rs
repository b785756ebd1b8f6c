//! Sizes and strides of a fold as a kernel takes them: one array parameter, of which each kernel
//! reads what it needs.

use warpfold_lang::{Array, Global, Val};

use crate::Dtype;
use crate::elements::Run;
use crate::layout::{Dim, MAX_RANK};

/// Inputs at most.
pub(crate) const MAX_INPUTS: usize = 2;
/// Outputs at most.
pub(crate) const MAX_OUTPUTS: usize = 2;
/// Words of the array.
pub(crate) const WORDS: usize = 4 + 2 * GROUP;
/// Words of the kept or of the reduced dimensions.
const GROUP: usize = MAX_RANK * (1 + MAX_INPUTS);

/// Results, items a result, items a part, and the dimensions of both kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) results: u64,
    pub(crate) len: u64,
    pub(crate) part_len: u64,
    pub(crate) kept: Vec<Dim>,
    pub(crate) folded: Vec<Dim>,
}

impl Geometry {
    /// As the kernel takes it.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..3].copy_from_slice(&[self.results, self.len, self.part_len]);
        for (dims, first) in [(&self.kept, 4), (&self.folded, 4 + GROUP)] {
            for (i, dim) in dims.iter().enumerate() {
                words[first + i] = dim.size;
                for (input, stride) in dim.strides.iter().enumerate() {
                    words[first + MAX_RANK * (1 + input) + i] = stride.cast_unsigned();
                }
            }
        }
        words
    }
}

/// The array inside a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(pub(crate) Array<u64, WORDS>);

/// Dimensions of one kind inside a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dims {
    words: Array<u64, WORDS>,
    first: usize,
    rank: usize,
}

impl Words {
    pub(crate) fn results(self) -> Val<u64> {
        self.0.at(0)
    }

    pub(crate) fn len(self) -> Val<u64> {
        self.0.at(1)
    }

    pub(crate) fn part_len(self) -> Val<u64> {
        self.0.at(2)
    }

    /// The first `rank` kept dimensions.
    pub(crate) fn kept(self, rank: usize) -> Dims {
        Dims { words: self.0, first: 4, rank }
    }

    /// The first `rank` folded dimensions.
    pub(crate) fn folded(self, rank: usize) -> Dims {
        Dims { words: self.0, first: 4 + GROUP, rank }
    }
}

impl Dims {
    pub(crate) fn size(self, dim: usize) -> Val<u64> {
        self.words.at(self.first + dim)
    }

    pub(crate) fn stride(self, dim: usize, input: usize) -> Val<u64> {
        self.words.at(self.first + MAX_RANK * (1 + input) + dim)
    }

    /// The offset of the position `index`, counted in C order, in each input, in elements. `small`
    /// promises that it and every size have 32 bits, which makes dividing cheaper.
    pub(crate) fn offsets(self, index: Val<u64>, inputs: usize, small: bool) -> Vec<Val<u64>> {
        let mut offsets = vec![Val::constant(0_u64); inputs];
        let mut rest = index;
        for dim in (0..self.rank).rev() {
            let position = if dim == 0 {
                rest
            } else {
                let (above, position) = divide(rest, self.size(dim), small);
                rest = above;
                position
            };
            for (input, offset) in offsets.iter_mut().enumerate() {
                *offset = position.mul_add(self.stride(dim, input), *offset);
            }
        }
        offsets
    }

    /// The same as places in the inputs' memory.
    pub(crate) fn places(
        self,
        index: Val<u64>,
        inputs: &[Global<u8>],
        dtypes: &[Dtype],
        small: bool,
    ) -> Vec<Global<u8>> {
        let offsets = self.offsets(index, inputs.len(), small).into_iter();
        offsets
            .zip(inputs.iter().zip(dtypes))
            .map(|(offset, (input, dtype))| input.at(offset * dtype.bytes()))
            .collect()
    }
}

/// Quotient and remainder.
pub(super) fn divide(a: Val<u64>, b: Val<u64>, small: bool) -> (Val<u64>, Val<u64>) {
    if small {
        let (a, b) = (a.cast::<u32>(), b.cast::<u32>());
        let quotient = a / b;
        return (quotient.cast(), (a - quotient * b).cast());
    }
    let quotient = a / b;
    (quotient, a - quotient * b)
}

/// How an input is loaded along a dimension of this stride.
pub(crate) fn run(stride: i64, wide: bool) -> Run {
    match stride {
        0 => Run::Same,
        _ if wide => Run::Wide,
        _ => Run::Narrow,
    }
}

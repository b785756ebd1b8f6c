//! Sizes and strides of a fold, and the parameters of its kernels.

use warpfold_lang::{Global, params};

use crate::elements::Run;
use crate::layout::Dim;
use crate::walk::{Walk, walk_words};

/// Inputs at most.
pub(crate) const MAX_INPUTS: usize = 2;
/// Outputs at most.
pub(crate) const MAX_OUTPUTS: usize = 2;
/// Words of the kept or of the folded dimensions.
pub(crate) const WORDS: usize = walk_words(MAX_INPUTS);

/// Results, items a result, items a part, and the dimensions of both kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) results: u64,
    pub(crate) len: u64,
    pub(crate) part_len: u64,
    pub(crate) kept: Vec<Dim>,
    pub(crate) folded: Vec<Dim>,
}

params! {
    /// Parameters of a fold.
    pub(crate) struct FoldArgs {
        inputs: [Global<u8>; 2], outputs: [Global<u8>; 2],
        /// Accumulators and tickets of blocks that share results.
        workspace: Option<Global<u64>>, tickets: Option<Global<u32>>,
        /// Results, items of a result, and of a part.
        results: u64, len: u64, part_len: u64,
        /// The dimensions of both kinds.
        kept: [u64; WORDS], folded: [u64; WORDS],
    }
}

impl FoldArgs {
    /// The first `rank` kept dimensions.
    pub(crate) const fn kept(&self, rank: usize) -> Walk<WORDS> {
        Walk::new(self.kept, rank)
    }

    /// The first `rank` folded dimensions.
    pub(crate) const fn folded(&self, rank: usize) -> Walk<WORDS> {
        Walk::new(self.folded, rank)
    }
}

/// How an input is loaded along a dimension of this stride.
pub(crate) fn run(stride: i64, wide: bool) -> Run {
    match stride {
        0 => Run::Same,
        _ if wide => Run::Wide,
        _ => Run::Narrow,
    }
}

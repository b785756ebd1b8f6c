//! What attention kernels are built for, and what they are launched with: common to all of them.

use warpfold_lang::Swizzle;

use super::args::AttentionArgs;
use super::problem::{MaskLayout, Problem, Score};
use super::work::WorkConfig;
use super::{Keys, Queries};
use crate::Dtype;

/// Columns that a head takes in shared memory: whole panels.
pub(super) const fn padded(dim: u32) -> u32 {
    dim.next_multiple_of(32)
}

/// Panels as wide as rows of so many bytes allow.
pub(super) const fn swizzle(row_bytes: u32) -> Swizzle {
    if row_bytes.is_multiple_of(128) {
        Swizzle::Bytes128
    } else if row_bytes.is_multiple_of(64) {
        Swizzle::Bytes64
    } else {
        Swizzle::Bytes32
    }
}

/// What decides on the code of a kernel, whichever it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct AttentionConfig {
    pub(super) work: WorkConfig,
    pub(super) dtype: Dtype,
    pub(super) kv_dtype: Dtype,
    pub(super) output: Dtype,
    pub(super) head_dim: u32,
    pub(super) value_dim: u32,
    /// Whether rows of queries, and of keys and values, lie without gaps and begin at multiples of
    /// what is accessed at once.
    pub(super) wide: [bool; 2],
    /// Whether rows of the results begin at multiples of two elements.
    pub(super) pairs: bool,
    /// Whether they begin at multiples of 16 bytes, have elements of 16 bits, and are many. (A mask
    /// with its addresses leaves no registers for it.)
    pub(super) quads: bool,
    pub(super) paged: bool,
    pub(super) softcap: bool,
    pub(super) mask: Option<Dtype>,
    pub(super) sinks: Option<Dtype>,
    pub(super) lse: bool,
    pub(super) score: Option<Score>,
    /// Whether a block folds several segments, each by itself.
    pub(super) segments: bool,
    /// Whether the last block of a tile of rows combines its parts.
    pub(super) merges: bool,
}

impl AttentionConfig {
    /// For tiles of so many rows; `wide` says how many elements of a type are accessed at once, where
    /// tensors allow it.
    pub(super) fn new(problem: &Problem, rows: u32, wide: fn(Dtype) -> u64, split: bool, segments: bool) -> Self {
        let queries: &[i64] = match &problem.queries {
            Queries::Dense { strides, .. } => strides,
            Queries::Packed { strides, .. } => strides,
        };
        let is_wide = |dtype: Dtype, dim: u64, strides: &[i64]| {
            let wide = wide(dtype);
            let (inner, outer) = strides.split_last().expect("tensors have dimensions");
            *inner == 1
                && dim.is_multiple_of(wide)
                && outer.iter().all(|stride| stride % wide as i64 == 0)
                && problem.alignment.is_multiple_of((wide * dtype.bytes()).min(16))
        };
        let Problem { dtype, kv_dtype, head_dim, value_dim, .. } = *problem;
        let [k_strides, v_strides] = problem.keys.strides();
        let wide = [
            is_wide(dtype, head_dim, queries),
            is_wide(kv_dtype, head_dim, k_strides) && is_wide(kv_dtype, value_dim, v_strides),
        ];
        let begin_at = |elements: u64| {
            value_dim.is_multiple_of(elements)
                && match &problem.queries {
                    Queries::Dense { out_strides, .. } => {
                        out_strides.iter().all(|stride| stride % elements as i64 == 0)
                    }
                    Queries::Packed { .. } => true,
                }
        };
        Self {
            work: WorkConfig::of(problem, rows, split),
            dtype,
            kv_dtype,
            output: problem.output,
            head_dim: head_dim as u32,
            value_dim: value_dim as u32,
            wide,
            pairs: begin_at(2),
            quads: rows > 64
                && problem.mask.is_none()
                && begin_at(8)
                && problem.output.bytes() == 2
                && problem.alignment >= 16,
            paged: matches!(problem.keys, Keys::Paged { .. }),
            softcap: problem.softcap_bits.is_some(),
            mask: problem.mask.map(|MaskLayout { dtype, .. }| dtype),
            sinks: problem.sinks,
            lse: problem.lse,
            score: problem.score.clone(),
            segments,
            merges: false,
        }
    }

    /// Whether a block keeps the states of segments before.
    pub(super) const fn folds(&self) -> bool {
        self.segments && !self.work.split
    }

    /// Words of a partial result for a row.
    pub(super) fn partial_words(&self) -> u32 {
        self.value_dim + 2
    }

    /// The end of a kernel's name.
    pub(super) fn name(&self) -> String {
        let Self { dtype, kv_dtype, head_dim, value_dim, .. } = self;
        let options = [
            ("_packed", self.work.packed),
            ("_paged", self.paged),
            ("_causal", self.work.causal.is_some()),
            ("_left_window", self.work.window_left),
            ("_right_window", self.work.window_right),
            ("_softcap", self.softcap),
            ("_mask", self.mask.is_some()),
            ("_sinks", self.sinks.is_some()),
            ("_score", self.score.is_some()),
            ("_split", self.work.split),
            ("_segments", self.segments),
            ("_merged", self.merges),
        ];
        let options: String = options.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        format!("{dtype}_{kv_dtype}_{head_dim}_{value_dim}{options}")
    }
}

/// A kernel that is being recorded: what it is built for, and what it will be launched with.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) config: &'a AttentionConfig,
    pub(super) args: AttentionArgs,
}

impl Launch<'_> {
    /// Tiles of so many keys that a segment has.
    pub(super) fn tiles_of_segment(&self, keys: u32) -> u32 {
        self.config.work.segment / keys
    }
}

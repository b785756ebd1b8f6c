//! What is to be attended to: shapes, strides, types and options, without addresses.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::Val;

use crate::plan::Key;
use crate::{Dtype, Error, ErrorKind};

/// An attention, as far as its plan needs to know it. Strides count elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the queries, and of the results unless it has eight bits.
    pub dtype: Dtype,
    /// The type of keys and values.
    pub kv_dtype: Dtype,
    /// The type of the results.
    pub output: Dtype,
    /// What tensor cores multiply, if anything else than a type that has every element and more
    /// digits of the weights: 8-bit floats as they are, weights rounded to the same.
    pub products: Option<Dtype>,
    /// Heads of the queries: a multiple of those of the keys.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Elements of a query and of a key: 1 to 256.
    pub head_dim: u64,
    /// Elements of a value: 1 to 256.
    pub value_dim: u64,
    /// Where queries lie, and the results.
    pub queries: Queries,
    /// Where keys and values lie.
    pub keys: Keys,
    /// The factor of scores, an `f32`'s bits.
    pub scale_bits: u32,
    /// The factor of results (of values of eight bits), an `f32`'s bits.
    pub value_scale_bits: u32,
    /// Whether a query sees no later keys.
    pub causal: Option<Causal>,
    /// Keys that a query sees before its own position at most.
    pub window_left: Option<u32>,
    /// Keys that a query sees after its own position at most; with `causal` it sees none.
    pub window_right: Option<u32>,
    /// `c` of `c · tanh(score / c)`, an `f32`'s bits.
    pub softcap_bits: Option<u32>,
    /// A mask that is added, or of truths.
    pub mask: Option<MaskLayout>,
    /// The type of one more logit for each head, which takes part in the sum alone.
    pub sinks: Option<Dtype>,
    /// Whether the log-sum-exp of each row is a second result.
    pub lse: bool,
    /// A function of scores.
    pub score: Option<Score>,
    /// A power of two that the addresses of queries, keys and values are multiples of, in bytes.
    pub alignment: u64,
}

/// How rows of a causal attention meet keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Causal {
    /// The last query sees the last key: what a cache needs.
    BottomRight,
    /// The first query sees the first key.
    TopLeft,
}

/// Where queries and results lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Queries {
    /// A tensor `[batch, heads, len, head_dim]` in any order.
    Dense {
        /// Sequences.
        batch: u64,
        /// Queries of each.
        len: u64,
        /// Of batch, heads, positions, elements.
        strides: [i64; 4],
        /// Of the results: batch, heads, positions; their elements lie side by side.
        out_strides: [i64; 3],
    },
    /// Sequences one after the other, `[total, heads, head_dim]`; where each begins is read on the
    /// device (`cu_seqlens_q`, `batch + 1` numbers of `i32`).
    Packed {
        /// Sequences.
        batch: u64,
        /// Queries of all of them.
        total: u64,
        /// Of positions, heads, elements. Results lie as `[total, heads, value_dim]`.
        strides: [i64; 3],
    },
}

/// Where keys and values lie.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Keys {
    /// Tensors `[batch, kv_heads, len, dim]` in any order.
    Dense {
        /// Keys of each sequence.
        len: u64,
        /// Of the keys: batch, heads, positions, elements.
        k_strides: [i64; 4],
        /// Of the values.
        v_strides: [i64; 4],
    },
    /// The same with sequences of different lengths: how many of its `len` keys each has is read on
    /// the device (`kv_lens`, `[batch]` of `i32`).
    Padded {
        /// Keys of each sequence that there is room for.
        len: u64,
        /// Of the keys: batch, heads, positions, elements.
        k_strides: [i64; 4],
        /// Of the values.
        v_strides: [i64; 4],
    },
    /// Sequences one after the other; where each begins is read on the device (`cu_seqlens_k`).
    Packed {
        /// Keys of all of them.
        total: u64,
        /// Keys of the longest at most.
        max_len: u64,
        /// Of the keys: unused, heads, positions, elements.
        k_strides: [i64; 4],
        /// Of the values.
        v_strides: [i64; 4],
    },
    /// Pages of some tokens; which pages a sequence has (`block_table`, `[batch, width]` of `i32`)
    /// and how many keys (`kv_lens`, `[batch]` of `i32`) is read on the device.
    Paged {
        /// Tokens of a page.
        page: u64,
        /// Pages of the pool.
        pages: u64,
        /// Entries of a row of the block table.
        width: u64,
        /// Of the keys: pages, heads, tokens of a page, elements.
        k_strides: [i64; 4],
        /// Of the values.
        v_strides: [i64; 4],
    },
}

impl Keys {
    /// Of keys and of values: batch or page, heads, positions, elements.
    #[must_use]
    pub const fn strides(&self) -> [&[i64; 4]; 2] {
        match self {
            Self::Dense { k_strides, v_strides, .. }
            | Self::Padded { k_strides, v_strides, .. }
            | Self::Packed { k_strides, v_strides, .. }
            | Self::Paged { k_strides, v_strides, .. } => [k_strides, v_strides],
        }
    }
}

/// A mask of shape `[batch, heads, queries, keys]`, with strides of 0 where it repeats. Keys beyond
/// those that it has are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MaskLayout {
    /// A float's is added to scores; a truth says whether the key is seen.
    pub dtype: Dtype,
    /// Keys that it has.
    pub keys: u64,
    /// In elements.
    pub strides: [i64; 4],
}

/// A function of a score: what [`Problem::score`] applies after the scale.
#[derive(Clone)]
pub struct Score {
    key: Key,
    function: Arc<dyn Fn(Val<f32>, ScoreAt) -> Val<f32> + Send + Sync>,
}

/// Which score it is.
#[derive(Debug, Clone, Copy)]
pub struct ScoreAt {
    /// The sequence.
    pub batch: Val<u32>,
    /// The head of the query.
    pub head: Val<u32>,
    /// The position of the query among the keys: of the last one with `BottomRight` that of the
    /// last key.
    pub query: Val<i32>,
    /// The position of the key.
    pub key: Val<i32>,
}

impl Score {
    /// A function that gives the score instead of the scaled one, as with ALiBi or relative
    /// positions.
    #[must_use]
    pub fn new(function: impl Fn(Val<f32>, ScoreAt) -> Val<f32> + Send + Sync + 'static) -> Self {
        Self { key: Key::unique(), function: Arc::new(function) }
    }

    pub(super) fn apply(&self, score: Val<f32>, at: ScoreAt) -> Val<f32> {
        (self.function)(score, at)
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Score {}

impl std::hash::Hash for Score {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl fmt::Debug for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Score").field(&self.key).finish()
    }
}

// THRESHOLD: more sequences, rows, keys or pages are refused; tested by
// crates/kernels/tests/parts/plans.rs::sizes_that_attention_takes_as_32_bits_are_refused_beyond_them
/// The most keys, rows or pages: distances between positions are numbers of 32 bits.
const LIMIT: u64 = 1 << 29;

// THRESHOLD: larger heads are refused; tested by
// crates/conformance/tests/attention/options.rs::what_cannot_be_attended_to_is_refused
/// The most elements of a head.
pub(super) const MAX_DIM: u64 = 256;

impl Problem {
    /// Queries over keys and values of their type, whose heads have so many elements: every query
    /// sees every key, scores are divided by the square root of the head size, and 8-bit floats
    /// give `f32`. What is to be otherwise is said by name.
    ///
    /// ```
    /// use warpfold_kernels::Dtype;
    /// use warpfold_kernels::attention::{Causal, Keys, Problem, Queries};
    ///
    /// // Two sequences of 300 tokens, `[batch, length, heads, head size]`.
    /// let of = |heads: i64| [300 * heads * 64, 64, heads * 64, 1];
    /// let strides @ [batch, head, position, _] = of(6);
    /// let queries = Queries::Dense { batch: 2, len: 300, strides, out_strides: [batch, head, position] };
    /// let keys = Keys::Dense { len: 300, k_strides: of(2), v_strides: of(2) };
    /// let plain = Problem::new(Dtype::Bf16, [6, 2], [64, 64], queries, keys);
    /// assert_eq!(plain.scale_bits, 0.125_f32.to_bits());
    /// let prefill = Problem { causal: Some(Causal::BottomRight), ..plain };
    /// assert_eq!((prefill.group(), prefill.rows()), (3, 3600));
    /// ```
    #[must_use]
    pub fn new(
        dtype: Dtype,
        [heads, kv_heads]: [u64; 2],
        [head_dim, value_dim]: [u64; 2],
        queries: Queries,
        keys: Keys,
    ) -> Self {
        Self {
            dtype,
            kv_dtype: dtype,
            output: if dtype.bytes() == 1 { Dtype::F32 } else { dtype },
            products: None,
            heads,
            kv_heads,
            head_dim,
            value_dim,
            queries,
            keys,
            scale_bits: ((1.0 / (head_dim.max(1) as f64).sqrt()) as f32).to_bits(),
            value_scale_bits: 1.0_f32.to_bits(),
            causal: None,
            window_left: None,
            window_right: None,
            softcap_bits: None,
            mask: None,
            sinks: None,
            lse: false,
            score: None,
            alignment: 16,
        }
    }

    /// Sequences.
    #[must_use]
    pub const fn batch(&self) -> u64 {
        match self.queries {
            Queries::Dense { batch, .. } | Queries::Packed { batch, .. } => batch,
        }
    }

    /// Keys of the longest sequence at most.
    #[must_use]
    pub const fn max_keys(&self) -> u64 {
        match self.keys {
            Keys::Dense { len, .. } | Keys::Padded { len, .. } => len,
            Keys::Packed { max_len, .. } => max_len,
            Keys::Paged { page, width, .. } => page * width,
        }
    }

    /// Queries times heads: the rows of the result.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        match self.queries {
            Queries::Dense { batch, len, .. } => batch * len * self.heads,
            Queries::Packed { total, .. } => total * self.heads,
        }
    }

    /// Query heads that share a head of keys.
    #[must_use]
    pub const fn group(&self) -> u64 {
        self.heads / self.kv_heads
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "attention", reason }.into());
        for dtype in [self.dtype, self.kv_dtype, self.output] {
            if !dtype.is_float() || dtype == Dtype::F64 {
                return Err(ErrorKind::Unsupported { op: "attention".to_owned(), dtype }.into());
            }
        }
        if let Some(dtype) = self.products {
            if dtype != Dtype::F8E4M3 {
                return Err(ErrorKind::Unsupported { op: "products of attention".to_owned(), dtype }.into());
            }
            if [self.dtype, self.kv_dtype] != [dtype; 2] {
                return refused(format!("products of {dtype} take {dtype}, not {} and {}", self.dtype, self.kv_dtype));
            }
        }
        let Self { heads, kv_heads, head_dim, value_dim, .. } = *self;
        if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refused(format!("{heads} query heads are no multiple of {kv_heads} heads of keys"));
        }
        for (name, dim) in [("a key", head_dim), ("a value", value_dim)] {
            if !(1..=MAX_DIM).contains(&dim) {
                return refused(format!("{name} has {dim} elements, not 1 to {MAX_DIM}"));
            }
        }
        let counts = [
            ("sequences", self.batch()),
            ("rows", self.rows()),
            ("keys", self.max_keys()),
            ("pages", if let Keys::Paged { pages, .. } = self.keys { pages } else { 0 }),
        ];
        match counts.into_iter().find(|(_, count)| *count > LIMIT) {
            Some((what, size)) => Err(ErrorKind::TooLarge { what, size, limit: LIMIT }.into()),
            None => Ok(()),
        }
    }
}

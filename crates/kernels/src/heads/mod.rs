//! Heads of queries, keys and values between their projections and attention, in one launch:
//! rotary position embedding, norms of heads, the write to the paged KV cache.
//!
//! **Rotary embedding** turns each pair of elements of a head by an angle of its position, `(x, y)
//! → (x cos − y sin, x sin + y cos)`, as ONNX's `RotaryEmbedding` has it. Cosines and sines come
//! from tables with a column for each pair; a row for each position, which a list of positions
//! names, or a row for each token as they come. Elements beyond the rotary ones stay as they are.
//! Products and sums are rounded one by one, in `f32`; the result is rounded to its type.
//!
//! **The cache** has a *slot* for each token: `page · tokens of a page + place in the page`. The
//! list of slots is read on the device, so that a captured graph can be launched again with
//! others. A token whose slot is negative or beyond the pool is not written: so batches are
//! padded. A cache of 8-bit floats has scales; elements are divided by them and saturate.
//!
//! **The bits are those of one operator after the other**: what was normed or turned is rounded to
//! the type of the heads before it is turned or converted to the type of the cache.
//!
//! Start with [`Problem`]. Two kernels: `units`, a thread for some elements of a head, and `lanes`,
//! lanes of a warp for a head whose elements are normed together; `turn` is a thread's part of a
//! rotary embedding.

mod family;
mod lanes;
mod turn;
mod units;

pub(crate) use family::kernels;

use crate::plan::TensorSpec;
use crate::{Dtype, Error, ErrorKind};

/// The family. Inputs: the heads ([`Source`]); slots where there is a cache; positions, where they
/// are listed, cosines and sines with rotary embedding; scales of queries and of keys with norms.
/// Outputs: the queries, if there are any; the pages of keys and of values, with a cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heads;

/// Heads of new tokens. The elements of a head in the cache, of keys and values and of a row of the
/// tables are contiguous.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Heads of queries, keys and values.
    pub source: Source,
    /// How queries and keys are turned.
    pub rotary: Option<Rotary>,
    /// Where keys and values go.
    pub cache: Option<Cache>,
}

/// Heads of queries, keys and values, in this order among the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Tensors of tokens, heads, elements; those of queries also of batch, positions, heads,
    /// elements.
    Tensors {
        /// Queries that are turned.
        queries: Option<Queries>,
        /// Keys and values, where there is a cache.
        keys_and_values: Option<[TensorSpec; 2]>,
    },
    /// One product of 16 or 32 bits, contiguous per token, with a cache of its type and rotary
    /// embedding of all elements by halves, from tables of `f32` by a list of positions.
    Product {
        /// Tokens, heads of queries, of keys and of values, elements.
        product: TensorSpec,
        /// The queries as they come out, contiguous.
        queries: TensorSpec,
        /// Norms of each head of queries and of keys before they are turned.
        norms: Option<Norms>,
    },
}

/// Queries before and after.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Queries {
    /// An output that is overwritten.
    InPlace(TensorSpec),
    /// An input and an output.
    Copied(Box<[TensorSpec; 2]>),
}

/// RMS norms of heads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Norms {
    /// Scales of queries and of keys, `f32`.
    pub scales: [TensorSpec; 2],
    /// The bits of an `f32` that is added below the root.
    pub eps_bits: u32,
}

/// A rotary embedding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rotary {
    /// Which elements are pairs.
    pub pairs: Pairs,
    /// How many elements of a head are turned: an even number.
    pub dim: u64,
    /// Cosines and sines: rows and pairs where there are positions, else as the queries', with
    /// pairs for heads and elements. Positions beyond the rows count as the last.
    pub tables: [TensorSpec; 2],
    /// The position of each token, `i32` or `i64`; contiguous unless there is a batch.
    pub positions: Option<TensorSpec>,
}

/// Which elements of a head are a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Pairs {
    /// One of the first half and the one at the same place of the second (NeoX, Llama).
    #[default]
    Halves,
    /// Neighbours (GPT-J).
    Interleaved,
}

/// A write to a paged cache.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cache {
    /// The slot of each token, `i32` or `i64`, contiguous.
    pub slots: TensorSpec,
    /// Keys and values: pages, tokens of a page, heads, elements.
    pub pages: [TensorSpec; 2],
    /// What keys and values are divided by, an `f32`'s bits each.
    pub scale_bits: [u32; 2],
}

// THRESHOLD: more units of work, slots of a cache and rows of a table are refused; tested by
// crates/kernels/tests/parts/choices.rs::units_of_a_rotary_embedding_and_rows_of_its_tables_are_counted_in_32_bits
/// The most units of work: threads count them in 32 bits.
pub(crate) const MAX_UNITS: u64 = 1 << 31;

impl Problem {
    /// Heads that nothing is done with but turning them.
    #[must_use]
    pub fn rotary(queries: Queries, rotary: Rotary) -> Self {
        let source = Source::Tensors { queries: Some(queries), keys_and_values: None };
        Self { source, rotary: Some(rotary), cache: None }
    }

    fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "heads", reason }.into());
        let (dtype, head_dim) = self.heads();
        refuse_unless_float("heads", &[dtype])?;
        if dtype.bytes() == 1 && self.cache.is_some() {
            return Err(ErrorKind::Unsupported { op: "new keys and values".to_owned(), dtype }.into());
        }
        if let Some(Cache { slots, pages, .. }) = &self.cache {
            refuse_unless_float("a cache", &[pages[0].dtype])?;
            refuse_unless_index("slots", slots.dtype)?;
            let slots = self.num_slots();
            if slots > MAX_UNITS {
                return Err(ErrorKind::TooLarge { what: "the slots of a cache", size: slots, limit: MAX_UNITS }.into());
            }
        }
        if let Some(Rotary { dim, tables, positions, .. }) = &self.rotary {
            refuse_unless_float("rotary embedding", &[tables[0].dtype])?;
            if !dim.is_multiple_of(2) || *dim > head_dim {
                return refused(format!("{dim} rotary elements are no even part of {head_dim}"));
            }
            let rows = tables[0].layout.shape()[0] as u64;
            if positions.is_some() && rows > MAX_UNITS {
                return Err(
                    ErrorKind::TooLarge { what: "the tables of an embedding", size: rows, limit: MAX_UNITS }.into()
                );
            }
            if let Some(positions) = positions {
                refuse_unless_index("positions", positions.dtype)?;
                if positions.layout.rank() == 1 && !positions.layout.is_contiguous() {
                    return refused("the positions of tokens are not contiguous".to_owned());
                }
                if tables[0].layout.shape()[0] == 0 && !positions.layout.is_empty() {
                    return refused("the tables of cosines and sines have no rows".to_owned());
                }
            }
        }
        let Source::Product { .. } = &self.source else { return Ok(()) };
        match (&self.rotary, &self.cache) {
            (Some(Rotary { pairs: Pairs::Halves, dim, positions: Some(_), .. }), Some(_)) if *dim == head_dim => Ok(()),
            _ => refused("a product goes to a cache, turned by halves and by a list of positions".to_owned()),
        }
    }

    /// The type of heads, and their elements.
    fn heads(&self) -> (Dtype, u64) {
        let tensor = match &self.source {
            Source::Product { product, .. } => product,
            Source::Tensors { keys_and_values: Some([keys, _]), .. } => keys,
            Source::Tensors { queries: Some(Queries::InPlace(queries)), .. } => queries,
            Source::Tensors { queries: Some(Queries::Copied(queries)), .. } => &queries[0],
            Source::Tensors { queries: None, keys_and_values: None } => return (Dtype::F32, 0),
        };
        (tensor.dtype, tensor.layout.shape().last().map_or(0, |size| *size as u64))
    }

    fn num_slots(&self) -> u64 {
        let pages = self.cache.as_ref().map(|cache| &cache.pages[0].layout.shape()[..2]);
        pages.map_or(0, |sizes| sizes.iter().fold(1, |all, size| u64::saturating_mul(all, *size as u64)))
    }
}

fn refuse_unless_float(op: &str, dtypes: &[Dtype]) -> Result<(), Error> {
    let unfit = dtypes.iter().find(|dtype| !dtype.is_float() || **dtype == Dtype::F64);
    unfit.map_or(Ok(()), |dtype| Err(ErrorKind::Unsupported { op: op.to_owned(), dtype: *dtype }.into()))
}

fn refuse_unless_index(op: &str, dtype: Dtype) -> Result<(), Error> {
    match dtype {
        Dtype::I32 | Dtype::I64 => Ok(()),
        dtype => Err(ErrorKind::Unsupported { op: op.to_owned(), dtype }.into()),
    }
}

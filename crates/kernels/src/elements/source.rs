//! Loads: from memory of any element types to the items of a fold or an operator.

use std::fmt;
use std::sync::Arc;

use warpfold_lang::{Global, Shared, Val};

use super::Compute;
use super::load::{load, of_long, of_word};
use crate::Dtype;

/// Where the next elements of one input are loaded from.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The first of them.
    pub pointer: Global<u8>,
    /// Where those after it are.
    pub run: Run,
}

/// How elements that are loaded together are placed in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// Contiguous, aligned to their size together or to 16 bytes: loaded by the widest accesses.
    Wide,
    /// Contiguous: loaded one by one.
    Narrow,
    /// All at one address: loaded once.
    Same,
}

/// Where the next elements of one input come from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// Global memory.
    Global(Place),
    /// Shared memory, where elements are contiguous; to be loaded by the widest accesses, or one by
    /// one.
    Shared {
        /// The first of them.
        pointer: Shared<u8>,
        /// Whether they are aligned to their size together or to 16 bytes.
        wide: bool,
    },
    /// A register with up to 4 bytes of elements, the first in its low bits.
    Word(Val<u32>),
    /// A register with an element of 8 bytes.
    Long(Val<u64>),
}

pub(super) type Load<I> = dyn Fn(&[Origin], u32) -> Vec<I> + Send + Sync;

/// How items of a kernel come from its inputs: loads, conversions, and fused maps (a prologue).
///
/// ```
/// use warpfold_kernels::Dtype;
/// use warpfold_kernels::elements::Source;
///
/// // The squares of bf16 elements, computed in f32.
/// let squares = Source::one::<f32>(Dtype::Bf16).map(|x| x * x);
/// // The products of two inputs.
/// let products = Source::one::<f32>(Dtype::F32).zip(Source::one::<f32>(Dtype::F16)).map(|(x, y)| x * y);
/// assert_eq!((squares.dtypes().len(), products.dtypes().len()), (1, 2));
/// ```
pub struct Source<I> {
    pub(super) dtypes: Vec<Dtype>,
    pub(super) load: Arc<Load<I>>,
}

impl<C: Compute> Source<Val<C>> {
    /// The elements of one input, of type `dtype` in memory, as the type `C`.
    #[must_use]
    pub fn input(dtype: Dtype) -> Self {
        let load = move |origins: &[Origin], n| match origins[0] {
            Origin::Global(Place { pointer, run: Run::Same }) => vec![load(dtype, pointer, 1, false)[0]; n as usize],
            Origin::Global(Place { pointer, run }) => load(dtype, pointer, n, run == Run::Wide),
            Origin::Shared { pointer, wide } => load(dtype, pointer, n, wide),
            Origin::Word(word) => of_word(dtype, word, n),
            Origin::Long(word) => vec![of_long(dtype, word)],
        };
        Self { dtypes: vec![dtype], load: Arc::new(load) }
    }

    /// The bits of the elements of one input, as a number without sign: to move them as they are,
    /// whatever they mean.
    #[must_use]
    pub fn bits(dtype: Dtype) -> Self {
        Self { dtypes: vec![dtype], ..Self::input(dtype.bits()) }
    }
}

impl Source<()> {
    /// As [`Source::input`], with the type as a parameter.
    #[must_use]
    pub fn one<C: Compute>(dtype: Dtype) -> Source<Val<C>> {
        Source::input(dtype)
    }
}

impl Source<()> {
    /// No input at all.
    #[must_use]
    pub fn nothing() -> Self {
        Self { dtypes: Vec::new(), load: Arc::new(|_: &[Origin], n| vec![(); n as usize]) }
    }
}

impl<I: Copy + 'static> Source<I> {
    /// The element types of its inputs.
    #[must_use]
    pub fn dtypes(&self) -> &[Dtype] {
        &self.dtypes
    }

    /// Fuses a map after the loads.
    #[must_use]
    pub fn map<J: Copy + 'static>(self, map: impl Fn(I) -> J + Send + Sync + 'static) -> Source<J> {
        let load = self.load;
        Source {
            dtypes: self.dtypes,
            load: Arc::new(move |origins: &[Origin], n| load(origins, n).into_iter().map(&map).collect()),
        }
    }

    /// Appends the inputs of another source, and gives both items together.
    #[must_use]
    pub fn zip<J: Copy + 'static>(self, other: Source<J>) -> Source<(I, J)> {
        let (own, left, right) = (self.dtypes.len(), self.load, other.load);
        Source {
            dtypes: self.dtypes.into_iter().chain(other.dtypes).collect(),
            load: Arc::new(move |origins: &[Origin], n| {
                let (ours, theirs) = origins.split_at(own);
                left(ours, n).into_iter().zip(right(theirs, n)).collect()
            }),
        }
    }

    /// The `n` items at these places, one place an input.
    #[must_use]
    pub fn load(&self, places: &[Place], n: u32) -> Vec<I> {
        self.load_from(&places.iter().map(|place| Origin::Global(*place)).collect::<Vec<_>>(), n)
    }

    /// The `n` items from these origins, one an input.
    #[must_use]
    pub fn load_from(&self, origins: &[Origin], n: u32) -> Vec<I> {
        debug_assert_eq!(origins.len(), self.dtypes.len(), "one origin an input");
        (self.load)(origins, n)
    }
}

impl<I> Clone for Source<I> {
    fn clone(&self) -> Self {
        Self { dtypes: self.dtypes.clone(), load: Arc::clone(&self.load) }
    }
}

impl<I> fmt::Debug for Source<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("dtypes", &self.dtypes).finish_non_exhaustive()
    }
}
